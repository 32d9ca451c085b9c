// A recording of one machine of core: its state at one moment, every input since, and a hash of its answers. A
// recording is sufficient to repeat the run (sim/flight/player.h) on another machine, without a network.
//
// The file: magic, kFormat and the wire's version, u64 length and u64 XXH3-64 of the rest; then the fields of
// Recording. An entry of `records`, as archive.h writes it:
//
//   u8      the index of the input's alternative, and the flags below
//   number  nanoseconds since the previous input
//   ...     the input's fields (fields.h)
//   bytes   kLanded: the bytes that landed in core's own memory, without holes: number of bytes, number of holes, for
//   each
//           hole the bytes before it and in it, and the bytes. A hole is payload, which went to the caller's memory and
//           which core never reads.
//   u32     the lower half of the hash of all effects so far; absent with kSilent (no effects) and with kCut
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/coordinator/coordinator.h"
#include "core/peer/input.h"
#include "core/peer/options.h"

namespace lockstep::flight {

inline constexpr std::uint64_t kMagic = 0x54484749'4c46534cU;  // "LSFLIGHT" in memory order
inline constexpr std::uint32_t kFormat = 1;
// The revision of states and inputs: increment it when a list of fields or of state changes.
inline constexpr std::uint32_t kRevision = 52;
inline constexpr std::size_t kMaxRecordingBytes = std::size_t{1} << 30U;

inline constexpr std::uint8_t kLanded = 0x20;
inline constexpr std::uint8_t kSilent = 0x40;
inline constexpr std::uint8_t kCut = 0x80;  // the machine did not return from this step; last record only
inline constexpr std::uint8_t kAlternative = 0x1f;

using RecordedOptions = std::variant<peer::PeerOptions, coordinator::CoordinatorOptions>;

struct Recording {
  std::uint32_t revision = kRevision;
  std::string version;       // version of Lockstep
  std::string reason;        // why the recording was written
  std::int64_t written = 0;  // nanoseconds since 1970
  std::int64_t clock = 0;    // nanoseconds to add to an Instant to get nanoseconds since 1970
  RecordedOptions options;
  Instant born;
  // Overwritten inputs: their number, the time of the last one, and the hash after it.
  std::uint64_t before = 0;
  Instant last;
  std::uint64_t hash = 0;
  std::vector<std::byte> state;  // empty: the machine was newly constructed
  std::uint64_t inputs = 0;      // number of inputs in `records`
  bool cut = false;              // the machine did not return from the last input
  std::vector<std::byte> records;

  [[nodiscard]] bool of_peer() const { return std::holds_alternative<peer::PeerOptions>(options); }
};

// Whether a file that begins like this is a recording, possibly cut off.
bool is_recording(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const Recording& recording);
// The error says what is wrong: not a recording, another version, cut off, or modified.
Result<Recording> decode(std::span<const std::byte> bytes);

struct Hole {
  std::size_t at = 0;
  std::size_t bytes = 0;
};

template <typename Input>
struct Record {
  Input input;
  Duration since;                 // since the previous input
  std::vector<std::byte> landed;  // zeros in place of the holes
  std::vector<Hole> holes;
  std::optional<std::uint32_t> hash;  // nothing if there were no effects
  bool cut = false;
};

// Removes the first record; an error if it is not valid.
template <typename Input>
Result<Record<Input>> take_record(std::span<const std::byte>& records);

extern template Result<Record<peer::Input>> take_record(std::span<const std::byte>& records);
extern template Result<Record<coordinator::Input>> take_record(std::span<const std::byte>& records);

}  // namespace lockstep::flight
