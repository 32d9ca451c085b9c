// Streams as the machines see them: what a machine requests from its driver, and how the driver answers. A stream is a
// TCP or TLS connection: ordered bytes, split at any place, closed at any time. Peer and coordinator share these types,
// so one driver serves both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/io/identity.h"

namespace lockstep::io {

// An IPv4 or IPv6 address with a port. An IPv4 address is in the first four bytes.
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

// Why a stream ended, or why it could not be opened.
enum class CloseReason : std::uint8_t {
  kAsked,        // our own Close effect
  kEnd,          // the other side closed the stream in order
  kReset,        // the other side, or a device on the path, reset the stream
  kRefused,      // dialling: nothing listens at the address
  kUnreachable,  // dialling: there is no route, or the network refused
  kTimedOut,     // dialling: the operating system gave up
  kRejected,     // dialling: the listener has not proved the key that was asked for, or the driver may not dial so
  kFailed,       // any other reason; the driver's text describes it
};

// ---- requests of a machine ----

// Opens a stream to `to`. The answer is Opened or Closed. The machine chooses the stream id (see StreamNames).
struct Dial {
  StreamId stream;
  Address to;
  bool to_coordinator = false;  // the driver proves the run token, and accepts only the key that the token names
};

// Reads into `place` first (nothing if its length is 0), then into `tail`. One gathered read returns as many bytes as
// are available, at least one. Both areas are lent to the driver until ReadDone, Revoked or Closed. A stream has one
// pending read at most.
struct Read {
  StreamId stream;
  BufferRef place;
  std::span<std::byte> tail;
};

// One slice of a write: bytes owned by core (a header), or named memory (a payload).
struct Slice {
  std::span<const std::byte> bytes;
  BufferRef payload;  // used when `bytes` is empty
  [[nodiscard]] std::size_t size() const { return bytes.empty() ? payload.length : bytes.size(); }
};

// The slices of one gathered write, in order. Most writes have two slices, so only slices in use are constructed and
// copied.
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

// Writes as many of these bytes as the stream accepts, at least one, as soon as it accepts any. The memory is lent
// until WriteDone, Revoked or Closed. A stream has one pending write at most. The machine requests another write for
// the remaining bytes.
struct Write {
  StreamId stream;
  SliceList slices;
};

// The two loans of a stream.
enum class Direction : std::uint8_t { kRead, kWrite };

// Ends a loan. The answer is Revoked, once the driver can no longer read from or write to the memory. If a ReadDone or
// WriteDone was already on its way, Revoked follows with 0 bytes.
struct Revoke {
  StreamId stream;
  Direction direction = Direction::kRead;
};

// Closes the stream: after all written bytes were sent if `flush_first` is set (an orderly end), else at once. The
// answer is Closed, which also ends both loans.
struct Close {
  StreamId stream;
  bool flush_first = false;
};

// Copies these few bytes, which arrived together with a header, into named memory. Done at once; there is no answer.
struct CopyBytes {
  BufferRef into;
  std::span<const std::byte> bytes;
};

using Effect = std::variant<Dial, Read, Write, Revoke, Close, CopyBytes>;

// ---- answers of a driver ----

// A dialled stream is open.
struct Opened {
  StreamId stream;
  Duration round_trip;  // as the driver measured it while the stream was opened; 0: not known
  Identity identity{};  // what the listener has proved
  Address local{};      // of this end; empty if it is not known
};
// A remote host opened a stream to our listening port. The driver chooses the stream id (see StreamNames).
struct Accepted {
  StreamId stream;
  Address from;
  Duration round_trip;  // as in Opened
  Identity identity{};  // what the dialler has proved
};
struct ReadDone {
  StreamId stream;
  std::size_t bytes = 0;
};
// The bytes that were written to all streams of a driver, so far.
struct Written {
  std::uint64_t acknowledged = 0;  // the other hosts have them
  std::uint64_t outstanding = 0;   // the rest
  std::uint64_t lost = 0;          // packets that were sent again
};
struct WriteDone {
  StreamId stream;
  std::size_t bytes = 0;
  std::optional<Written> written{};  // now and then; these bytes included
};
// A loan ended; `bytes` were transferred since the last answer.
struct Revoked {
  StreamId stream;
  Direction direction = Direction::kRead;
  std::size_t bytes = 0;
};
// The stream is closed and both loans are over. This is the last answer for a stream and comes exactly once.
struct Closed {
  StreamId stream;
  CloseReason reason = CloseReason::kEnd;
  std::string text;  // the operating system's message; may be empty
};

using Input = std::variant<Opened, Accepted, ReadDone, WriteDone, Revoked, Closed>;

// Stream ids. Machines give even ids to the streams that they dial; drivers give odd ids to the streams that they
// accept. A process never reuses an id.
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
  void archive(Archive& a) {
    a.all(next_);
  }

 private:
  explicit StreamNames(std::uint64_t first) : next_(first) {}
  std::uint64_t next_;
};

}  // namespace lockstep::io
