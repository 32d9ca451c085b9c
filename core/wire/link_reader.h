// The receiving half of a stream: bytes in, messages and segments out, whatever the cuts. Payload lands straight in its
// place; only headers and control bodies pass through the reader's own buffer. Knows nothing of rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/buffers/buffer_ref.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::wire {

// The other side's first bytes.
struct Preamble {
  std::uint32_t version = 0;
  std::uint64_t features = 0;
};

// A whole control message.
struct Received {
  Term term;
  Message message;
};

// A segment's header; say where its payload goes (place() or sink()) before anything else comes out.
struct SegmentBegan {
  Term term;
  Segment segment;
};

// A segment's payload is whole. `into` is where it was put; nothing when it went to the sink.
struct SegmentEnded {
  Segment segment;
  BufferRef into;
  bool sunk = false;
  bool taken_back = false;     // the sender says: this payload means nothing
  std::uint64_t checksum = 0;  // XXH3-64 that the sender states; checked by the kernel that uses the payload
};

using ReadEvent = std::variant<Preamble, Received, SegmentBegan, SegmentEnded>;

class LinkReader {
 public:
  // Bodies larger than the limit are an error; raised once the greeting is over.
  explicit LinkReader(std::uint32_t max_body_bytes = kMaxStrangerBodyBytes);
  void set_max_body_bytes(std::uint32_t bytes) { max_body_bytes_ = bytes; }

  // Where the next bytes belong: the rest of a payload (if any), then our own buffer. Only when next() gave nothing, no
  // segment waits for its place, and no earlier window is outstanding.
  struct Window {
    BufferRef place;
    std::span<std::byte> tail;
  };
  Window window();

  // The first `bytes` bytes of the window have come; the window is over (also with 0).
  void landed(std::size_t bytes);

  // The next event; nothing: more bytes are needed, or a segment waits for its place. An error is the end of the stream.
  Result<std::optional<ReadEvent>> next();

  // Where the payload that began goes. Returns the part of it that has come already with the header: the caller puts it at
  // the start of `into` at once (io::Place), before the next call.
  std::span<const std::byte> place(BufferRef into);
  // The payload that began, or what is left of it, goes to kSinkBuffer. Not while a window is outstanding.
  void sink();

  // The segment that has begun and not ended, wherever it goes.
  [[nodiscard]] const std::optional<Segment>& arriving() const { return arriving_; }
  // A segment has begun and neither place() nor sink() was said.
  [[nodiscard]] bool awaits_place() const { return state_ == State::kAwaitPlace; }
  // Payload is on its way to named memory (placed, not sunk, not ended).
  [[nodiscard]] bool holds_place() const { return state_ == State::kPayload && !sunk_; }

 private:
  enum class State : std::uint8_t { kPreamble, kHeader, kBody, kAwaitPlace, kPayload, kTrailer };

  std::uint32_t max_body_bytes_;
  State state_ = State::kPreamble;
  std::optional<Segment> arriving_;
  bool sunk_ = false;
};

}  // namespace lockstep::wire
