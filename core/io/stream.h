// Streams as both machines see them: what they ask of a driver and what it answers. A stream is what TCP or TLS gives:
// ordered bytes, cut anywhere, closed at any time. Shared by peer and coordinator, so that one driver serves both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"

namespace lockstep::io {

// An IPv4 or IPv6 address with a port. IPv4 lies in the first four bytes.
struct Address {
  enum class Family : std::uint8_t { kNone = 0, kV4 = 4, kV6 = 6 };
  Family family = Family::kNone;
  std::array<std::uint8_t, 16> bytes{};
  std::uint16_t port = 0;

  auto operator<=>(const Address&) const = default;
  [[nodiscard]] bool same_host(const Address& other) const { return family == other.family && bytes == other.bytes; }
  // "127.0.0.1:4000", "[::1]:4000", "none".
  [[nodiscard]] std::string text() const;
};

// Why a stream ended, or was never opened.
enum class CloseReason : std::uint8_t {
  kAsked,        // by our own Close effect
  kEnd,          // the other side closed it in order
  kReset,        // the other side, or something between, reset it
  kRefused,      // dialling: nobody listens there
  kUnreachable,  // dialling: no route, or the network says no
  kTimedOut,     // dialling: the operating system gave up
  kFailed,       // anything else; the driver's text says what
};

// ---- what a machine asks ----

// Open a stream to `to`. Answered by Opened or Closed. The machine names the stream (see StreamNames).
struct Dial {
  StreamId stream;
  Address to;
};

// Read into `place` first (none when its length is 0), then into `tail`: one gathered read, as many bytes as there are,
// at least one. Both are lent to the driver until ReadDone, Revoked or Closed. One read per stream at a time.
struct Read {
  StreamId stream;
  BufferRef place;
  std::span<std::byte> tail;
};

// A piece of a write: core's own bytes (a header), or named memory (a payload).
struct Slice {
  std::span<const std::byte> bytes;
  BufferRef payload;  // used when `bytes` is empty
  [[nodiscard]] std::size_t size() const { return bytes.empty() ? payload.length : bytes.size(); }
};

// The pieces of one gathered write, in order. Most writes have two: only those that are there are made and copied.
class SliceList {
 public:
  static constexpr std::size_t kCapacity = 16;
  SliceList() {}  // NOLINT(modernize-use-equals-default): a union without a first member would delete it
  SliceList(const SliceList& other) : count_(other.count_) { copy(other); }
  SliceList& operator=(const SliceList& other) {
    count_ = other.count_;
    copy(other);
    return *this;
  }
  ~SliceList() = default;
  void push(const Slice& slice) {
    LOCKSTEP_ASSERT(count_ < kCapacity);
    std::construct_at(slices_.data() + count_++, slice);
  }
  [[nodiscard]] bool full() const { return count_ == kCapacity; }
  [[nodiscard]] std::span<const Slice> all() const { return {slices_.data(), count_}; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Slice& slice : all()) sum += slice.size();
    return sum;
  }

 private:
  void copy(const SliceList& other) { std::uninitialized_copy_n(other.slices_.data(), count_, slices_.data()); }

  static_assert(std::is_trivially_copyable_v<Slice>);
  union {
    std::array<Slice, kCapacity> slices_;  // NOLINT(readability-identifier-naming): private
  };
  std::size_t count_ = 0;
};

// Write as many of these bytes as the stream takes, at least one, when it takes some. The memory is lent until
// WriteDone, Revoked or Closed. One write per stream at a time; the machine asks again for what was not taken.
struct Write {
  StreamId stream;
  SliceList slices;
};

// Which of the two loans of a stream.
enum class Direction : std::uint8_t { kRead, kWrite };

// Give a loan back: answered by Revoked (or by ReadDone/WriteDone that was already on its way and then Revoked with 0
// bytes) once no byte can land there, or be taken from there, any more.
struct Revoke {
  StreamId stream;
  Direction direction = Direction::kRead;
};

// End the stream; `flush_first`: in order, after what was written (an orderly end), else at once. Answered by Closed,
// which also gives both loans back.
struct Close {
  StreamId stream;
  bool flush_first = false;
};

// Put these few bytes, which came with a header, into named memory. Done at once; no answer.
struct Place {
  BufferRef into;
  std::span<const std::byte> bytes;
};

using Effect = std::variant<Dial, Read, Write, Revoke, Close, Place>;

// ---- what a driver tells ----

// A dialled stream is open.
struct Opened {
  StreamId stream;
  Duration round_trip;  // there and back, as the driver measured it while it opened; 0: not known
};
// Somebody opened a stream to our listening port; the driver names it (see StreamNames).
struct Accepted {
  StreamId stream;
  Address from;
};
struct ReadDone {
  StreamId stream;
  std::size_t bytes = 0;
};
struct WriteDone {
  StreamId stream;
  std::size_t bytes = 0;
};
// A loan came back; `bytes` moved since the last answer.
struct Revoked {
  StreamId stream;
  Direction direction = Direction::kRead;
  std::size_t bytes = 0;
};
// The stream is no more; both loans are back. Said once per stream, the last thing said about it.
struct Closed {
  StreamId stream;
  CloseReason reason = CloseReason::kEnd;
  std::string text;  // the operating system's words, may be empty
};

using Input = std::variant<Opened, Accepted, ReadDone, WriteDone, Revoked, Closed>;

// Stream ids: machines name the streams they dial with even numbers, drivers name those they accept with odd ones.
// Never reused within a process.
class StreamNames {
 public:
  static StreamNames for_dialling() { return StreamNames(2); }
  static StreamNames for_accepting() { return StreamNames(1); }
  StreamId next() {
    const StreamId id{next_};
    next_ += 2;
    return id;
  }
  template <typename Archive>
  void state(Archive& a) {
    a.all(next_);
  }

 private:
  explicit StreamNames(std::uint64_t first) : next_(first) {}
  std::uint64_t next_;
};

}  // namespace lockstep::io
