// The coverage matrices: states by inputs, messages and faults. Shapes are data. A run hits cells; a tally counts the
// runs that hit each cell.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/result.h"
#include "core/peer/snapshot.h"

namespace lockstep::sim::cover {

enum class Matrix : std::uint8_t {
  kPeerInput,
  kPeerMessage,
  kRoundMessage,
  kRoundEvent,
  kCoordinatorInput,
  kCoordinatorMessage,
  kPeerFault,
  kCoordinatorFault,
};
inline constexpr std::size_t kMatrixCount = 8;

using Cell = std::size_t;  // of all matrices, one after the other

struct Shape {
  std::string_view name;  // one word
  std::string_view what;
  std::span<const std::string_view> rows;
  std::span<const std::string_view> columns;
  Cell first = 0;

  [[nodiscard]] constexpr std::size_t size() const { return rows.size() * columns.size(); }
  [[nodiscard]] constexpr Cell cell(std::size_t row, std::size_t column) const {
    return first + row * columns.size() + column;
  }
};
const std::array<Shape, kMatrixCount>& shapes();
inline const Shape& shape_of(Matrix matrix) { return shapes()[static_cast<std::size_t>(matrix)]; }
std::size_t cell_count();
// "peer-message: waiting x Propose".
std::string name_of(Cell cell);

// Phases of rounds that a peer has: the rows of kRoundEvent.
inline constexpr std::size_t kFirstOpenPhase = static_cast<std::size_t>(peer::RoundPhase::kQueued);
inline constexpr std::size_t kOpenPhaseCount =
    static_cast<std::size_t>(peer::RoundPhase::kEnding) - kFirstOpenPhase + 1;

// The state of a host when a fault begins: one of these, or the phases of its rounds, which follow them.
enum class HostState : std::uint8_t { kDown, kJoining, kIdle, kAdmitting, kFrozen, kLeaving, kOver };
inline constexpr std::size_t kHostStateCount = 7;

// The columns of kRoundMessage and kRoundEvent, by the place of the message or input in its variant.
inline constexpr std::size_t kNoColumn = SIZE_MAX;
std::size_t round_message_column(std::size_t message);
std::size_t round_event_column_of_input(std::size_t input);
std::size_t round_event_column_of_message(std::size_t message);

// The cells that one run has hit.
class Hits {
 public:
  Hits() : words_((cell_count() + 63) / 64) {}
  void hit(Matrix matrix, std::size_t row, std::size_t column) {
    const Cell cell = shape_of(matrix).cell(row, column);
    words_[cell / 64] |= std::uint64_t{1} << (cell % 64);
  }
  [[nodiscard]] bool has(Cell cell) const { return ((words_[cell / 64] >> (cell % 64)) & 1U) != 0; }
  // 16 hexadecimal digits for each 64 cells: how a run tells another process.
  [[nodiscard]] std::string text() const;
  static std::optional<Hits> from_text(std::string_view text);

  bool operator==(const Hits&) const = default;

 private:
  std::vector<std::uint64_t> words_;
};

// In how many runs each cell was hit.
class Tally {
 public:
  Tally() : counts_(cell_count()) {}
  void add(const Hits& hits);
  void add(const Tally& other);
  [[nodiscard]] std::uint64_t of(Cell cell) const { return counts_[cell]; }
  [[nodiscard]] std::uint64_t runs() const { return runs_; }

  bool operator==(const Tally&) const = default;

 private:
  friend Result<Tally> tally_from(const nlohmann::json& json);
  std::uint64_t runs_ = 0;
  std::vector<std::uint64_t> counts_;
};

// As text, by matrix, row and column. Cells that no run hit are left out.
nlohmann::json to_json(const Tally& tally);
Result<Tally> tally_from(const nlohmann::json& json);

}  // namespace lockstep::sim::cover
