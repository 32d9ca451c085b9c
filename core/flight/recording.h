// A recording of one machine of core: what it was at a moment, every input since, and a hash of what it answered.
// Enough to make it do the same again (sim/flight/player.h), on another machine and without a network.
//
// The file: magic, kFormat and the wire's version, u64 length and u64 XXH3-64 of the rest; then the fields of
// Recording. An entry of `records` is, as archive.h writes it:
//
//   u8      which alternative of the machine's Input, and the flags below
//   number  nanoseconds since the input before
//   ...     the input's fields (fields.h)
//   bytes   kLanded: what came to lie in core's own memory, less its holes: number of bytes, number of holes, for each hole the
//           bytes before it and in it, and the bytes. A hole is payload, which went to the caller's memory; core never looks at it.
//   u32     the lower half of the hash of all effects since birth; not with kSilent (there were none), nor with kCut
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
// Of what machines hold and of what they do: to be raised when a list of fields or of state changes.
inline constexpr std::uint32_t kRevision = 19;
inline constexpr std::size_t kMaxRecordingBytes = std::size_t{1} << 30U;

inline constexpr std::uint8_t kLanded = 0x20;
inline constexpr std::uint8_t kSilent = 0x40;
inline constexpr std::uint8_t kCut = 0x80;  // the machine did not come back from this step; the last record
inline constexpr std::uint8_t kAlternative = 0x1f;

using Options = std::variant<peer::Options, coordinator::Options>;

struct Recording {
  std::uint32_t revision = kRevision;
  std::string version;       // of Lockstep
  std::string reason;        // why it was written
  std::int64_t written = 0;  // nanoseconds since 1970
  std::int64_t clock = 0;    // that is added to an Instant to get there
  Options options;
  Instant born;
  // What was overwritten: so many inputs, the last of them then, and the hash so far.
  std::uint64_t before = 0;
  Instant last;
  std::uint64_t hash = 0;
  std::vector<std::byte> state;  // empty: the machine was new
  std::uint64_t inputs = 0;      // in `records`
  bool cut = false;              // the machine did not come back from the last of them
  std::vector<std::byte> records;

  [[nodiscard]] bool of_peer() const { return std::holds_alternative<peer::Options>(options); }
};

// Whether a file that begins so is meant to be a recording, cut off in its magic at the earliest.
bool is_recording(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const Recording& recording);
// The error says what is wrong: no recording, another version, cut off, changed.
Result<Recording> decode(std::span<const std::byte> bytes);

struct Hole {
  std::size_t at = 0;
  std::size_t bytes = 0;
};

template <typename Input>
struct Record {
  Input input;
  Duration since;                 // the input before
  std::vector<std::byte> landed;  // zeros in the holes
  std::vector<Hole> holes;
  std::optional<std::uint32_t> hash;  // nothing: no effects
  bool cut = false;
};

// Takes the first record off; an error: it is not one.
template <typename Input>
Result<Record<Input>> take_record(std::span<const std::byte>& records);

extern template Result<Record<peer::Input>> take_record(std::span<const std::byte>& records);
extern template Result<Record<coordinator::Input>> take_record(std::span<const std::byte>& records);

}  // namespace lockstep::flight
