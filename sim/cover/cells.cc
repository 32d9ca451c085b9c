#include "sim/cover/cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "core/coordinator/coordinator.h"
#include "core/peer/input.h"
#include "core/peer/snapshot.h"
#include "core/wire/message.h"
#include "sim/cover/type_names.h"
#include "sim/plan/plan.h"

namespace lockstep::sim::cover {
namespace {

template <typename... T>
constexpr std::array<std::string_view, sizeof...(T)> names_of_types() {
  return {type_name<T>()...};
}

constexpr std::array<std::string_view, peer::kLifecycleCount> kPeerLifecycles = {
    "new",       "looking",   "dialling", "greeting", "waiting", "invited", "idle",
    "in-rounds", "admitting", "frozen",   "leaving",  "going",   "over"};
constexpr std::array<std::string_view, peer::kRoundPhaseCount> kPhases = {
    "to-come", "queued", "held", "sizes", "starting", "flowing", "stuck", "done", "given-up", "ending", "past"};
constexpr std::array<std::string_view, coordinator::kLifecycleCount> kLifecycles = {
    "empty", "seeing-off", "quiet", "in-rounds", "gathering", "founding", "admitting", "changing", "settling"};
// The phases of an open round: all but the first and the last.
constexpr std::span<const std::string_view> kOpenPhases = std::span(kPhases).subspan(kFirstOpenPhase, kOpenPhaseCount);
constexpr auto kHosts = [] {
  std::array<std::string_view, kHostStateCount + kOpenPhaseCount> names = {"down",   "joining", "idle", "admitting",
                                                                           "frozen", "leaving", "over"};
  std::copy(kOpenPhases.begin(), kOpenPhases.end(), names.begin() + kHostStateCount);
  return names;
}();

constexpr auto kPeerInputs = type_names<peer::Input>();
constexpr auto kCoordinatorInputs = type_names<coordinator::Input>();
constexpr auto kMessages = type_names<wire::Message>();
constexpr auto kRoundMessages =
    names_of_types<wire::Ready, wire::Offer, wire::RankParameter, wire::Segment, wire::Done, wire::Commit,
                   wire::Elected, wire::AskOutline, wire::AskEntry, wire::AskDigests, wire::PieceDigests,
                   wire::AskPieces, wire::HavePieces>();
constexpr auto kRoundInputs =
    names_of_types<peer::Launch, peer::Admit, peer::Leave, peer::Stop, peer::JobDone, io::Closed>();
constexpr auto kDecisions = names_of_types<wire::Pending, wire::Admitting, wire::AdmitEnded, wire::Propose,
                                           wire::Install, wire::Elected, wire::Evicted, wire::Left>();
constexpr auto kRoundEvents = [] {
  std::array<std::string_view, kRoundInputs.size() + kDecisions.size()> names;
  std::copy(kDecisions.begin(), kDecisions.end(), std::copy(kRoundInputs.begin(), kRoundInputs.end(), names.begin()));
  return names;
}();
const std::array<std::string_view, kFaultCount>& faults() {
  static const auto kNames = [] {
    std::array<std::string_view, kFaultCount> all;
    for (std::uint8_t fault = 0; fault < kFaultCount; ++fault) all[fault] = sim::name_of(static_cast<Fault>(fault));
    return all;
  }();
  return kNames;
}

// Where a name is in another list; kNoColumn: it is not.
std::size_t place_of(std::string_view name, std::span<const std::string_view> in) {
  const auto at = std::find(in.begin(), in.end(), name);
  return at == in.end() ? kNoColumn : static_cast<std::size_t>(at - in.begin());
}

template <std::size_t N>
std::array<std::size_t, N> places_of(const std::array<std::string_view, N>& names,
                                     std::span<const std::string_view> in) {
  std::array<std::size_t, N> places{};
  for (std::size_t i = 0; i < N; ++i) places[i] = place_of(names[i], in);
  return places;
}

Error bad(std::string_view what) { return {Status::kInvalidArgument, std::string(what) + " is none of the matrices'"}; }

}  // namespace

const std::array<Shape, kMatrixCount>& shapes() {
  static const auto kAll = [] {
    std::array<Shape, kMatrixCount> list = {{
        {"peer-input", "a peer, and what its driver tells it", kPeerLifecycles, kPeerInputs},
        {"peer-message", "a peer, and messages that come to it", kPeerLifecycles, kMessages},
        {"round-message", "a round, and messages that name it", kPhases, kRoundMessages},
        {"round-event", "a round that a peer has, and what happens to the peer", kOpenPhases, kRoundEvents},
        {"coordinator-input", "the coordinator, and what its driver tells it", kLifecycles, kCoordinatorInputs},
        {"coordinator-message", "the coordinator, and messages that come to it", kLifecycles, kMessages},
        {"peer-fault", "a host or a round on it, and faults that begin there", kHosts, faults()},
        {"coordinator-fault", "the coordinator, and faults that begin on its host", kLifecycles, faults()},
    }};
    Cell first = 0;
    for (Shape& shape : list) {
      shape.first = first;
      first += shape.size();
    }
    return list;
  }();
  return kAll;
}

std::size_t cell_count() { return shapes().back().first + shapes().back().size(); }

std::string name_of(Cell cell) {
  const auto behind = std::find_if(shapes().begin(), shapes().end(), [&](const Shape& s) { return s.first > cell; });
  const Shape& shape = *std::prev(behind);
  const std::size_t in = cell - shape.first;
  return fmt::format("{}: {} x {}", shape.name, shape.rows[in / shape.columns.size()],
                     shape.columns[in % shape.columns.size()]);
}

std::size_t round_message_column(std::size_t message) {
  static const auto kPlaces = places_of(kMessages, kRoundMessages);
  return kPlaces[message];
}

std::size_t round_event_column_of_input(std::size_t input) {
  static const auto kPlaces = places_of(kPeerInputs, kRoundInputs);
  return kPlaces[input];
}

std::size_t round_event_column_of_message(std::size_t message) {
  static const auto kPlaces = places_of(kMessages, kDecisions);
  return kPlaces[message] == kNoColumn ? kNoColumn : kRoundInputs.size() + kPlaces[message];
}

std::string Hits::text() const {
  std::string text;
  for (const std::uint64_t word : words_) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<Hits> Hits::from_text(std::string_view text) {
  Hits hits;
  if (text.size() != hits.words_.size() * 16) return {};
  for (std::size_t i = 0; i < hits.words_.size(); ++i) {
    const std::string_view digits = text.substr(i * 16, 16);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), hits.words_[i], 16);
    if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  }
  return hits;
}

void Tally::add(const Hits& hits) {
  runs_ += 1;
  for (Cell cell = 0; cell < counts_.size(); ++cell) counts_[cell] += hits.has(cell) ? 1 : 0;
}

void Tally::add(const Tally& other) {
  runs_ += other.runs_;
  for (Cell cell = 0; cell < counts_.size(); ++cell) counts_[cell] += other.counts_[cell];
}

nlohmann::json to_json(const Tally& tally) {
  nlohmann::json matrices = nlohmann::json::object();
  for (const Shape& shape : shapes()) {
    nlohmann::json& matrix = matrices[shape.name] = nlohmann::json::object();
    for (std::size_t row = 0; row < shape.rows.size(); ++row) {
      for (std::size_t column = 0; column < shape.columns.size(); ++column) {
        const std::uint64_t count = tally.of(shape.cell(row, column));
        if (count != 0) matrix[std::string(shape.rows[row])][std::string(shape.columns[column])] = count;
      }
    }
  }
  return {{"runs", tally.runs()}, {"matrices", std::move(matrices)}};
}

Result<Tally> tally_from(const nlohmann::json& json) {
  Tally tally;
  try {
    tally.runs_ = json.at("runs");
    for (const auto& [name, matrix] : json.at("matrices").items()) {
      const auto shape =
          std::find_if(shapes().begin(), shapes().end(), [&wanted = name](const Shape& s) { return s.name == wanted; });
      if (shape == shapes().end()) return bad(name);
      for (const auto& [row_name, row] : matrix.items()) {
        const std::size_t r = place_of(row_name, shape->rows);
        if (r == kNoColumn) return bad(row_name);
        for (const auto& [column_name, count] : row.items()) {
          const std::size_t c = place_of(column_name, shape->columns);
          if (c == kNoColumn) return bad(column_name);
          tally.counts_[shape->cell(r, c)] = count;
        }
      }
    }
  } catch (const nlohmann::json::exception& error) {
    return Error{Status::kInvalidArgument, error.what()};
  }
  return tally;
}

}  // namespace lockstep::sim::cover
