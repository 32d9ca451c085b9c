// The receiving half of a stream: bytes in, messages and segments out, whatever the boundaries of reads. Payload is
// read straight into its place; only headers and control bodies pass through the reader's buffer. Knows nothing of
// rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "core/base/result.h"
#include "core/buffers/buffer_ref.h"
#include "core/wire/codec.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::wire {

// A complete control message.
struct Received {
  Term term;
  Message message;
};

// The header of a segment. The caller must call place() or sink() before the next event.
struct SegmentBegan {
  Term term;
  Segment segment;
};

// A segment's payload is complete. `into` is its place; empty if it went to the sink.
struct SegmentEnded {
  Segment segment;
  BufferRef into;
  bool sunk = false;
  bool taken_back = false;     // the sender withdrew the payload
  std::uint64_t checksum = 0;  // XXH3-64 stated by the sender; the kernel that uses the payload verifies it
};

// The first event of a stream is its Preamble. Bytes after the preamble of a foreign version are not read until next()
// is called again.
using ReadEvent = std::variant<Preamble, Received, SegmentBegan, SegmentEnded>;

class LinkReader {
 public:
  // The largest tail of a window. A long body is read in parts, so that memory grows with the bytes received and not
  // with the bytes announced.
  static constexpr std::size_t kMaxTailBytes = 65'536;

  // A body over the limit is an error. The owner raises the limit after the greeting.
  explicit LinkReader(std::uint32_t max_body_bytes = kMaxStrangerBodyBytes);
  void set_max_body_bytes(std::uint32_t bytes) { max_body_bytes_ = bytes; }
  // From now on, one read receives a whole small segment. This costs a larger buffer and a copy of the segment.
  void expect_segments() { header_tail_ = kTailForSegment; }

  // Where the next bytes go: to the rest of a payload (if any), then to the reader's buffer. Allowed only when next()
  // returned nothing, no segment waits for its place, and no window is outstanding.
  struct Window {
    BufferRef place;
    std::span<std::byte> tail;
  };
  Window window();

  // The first `bytes` bytes of the window have arrived. Ends the window, also with 0 bytes.
  void landed(std::size_t bytes);

  // Returns the next event, or nothing if more bytes are needed or a segment waits for its place. An error is final.
  Result<std::optional<ReadEvent>> next();

  // Sets the place of the payload that began. Returns the part of the payload that arrived with the header; the driver
  // must copy it to the start of `into` (io::CopyBytes) before it reads more bytes there. Valid until landed().
  std::span<const std::byte> place(BufferRef into);
  // Sends the rest of the current payload to kSinkBuffer. Not allowed while a window is outstanding.
  void sink();

  // The segment that has begun and not ended, wherever its payload goes.
  [[nodiscard]] const std::optional<Segment>& arriving() const { return arriving_; }
  // In the payload or the trailer of a segment.
  [[nodiscard]] bool in_segment() const { return state_ == State::kPayload || state_ == State::kTrailer; }
  // A segment has begun, and neither place() nor sink() was called.
  [[nodiscard]] bool awaits_place() const { return state_ == State::kAwaitPlace; }
  // A segment has a place in named memory and has not ended. It ends there unless sink() is called. (Its payload may be
  // complete, with only the trailer missing.)
  [[nodiscard]] bool holds_place() const { return arriving_.has_value() && !awaits_place() && !sunk_; }

  // next() has failed because the other side begins with a TLS handshake.
  [[nodiscard]] bool met_tls() const;

  // Frames that have ended: messages, headers of segments, and segments.
  [[nodiscard]] std::uint64_t frames() const { return frames_; }

  // The outstanding window, if any.
  [[nodiscard]] const std::optional<Window>& lent() const { return window_; }
  // Bytes of memory for receiving.
  [[nodiscard]] std::size_t memory() const { return buffer_.size + spare_.size; }
  // The state that a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void archive(Archive& a);

 private:
  // Room while a header is awaited: for a burst of control messages, or for a small segment (ring::kWholeBytes) with
  // header and trailer.
  static constexpr std::size_t kTailForHeader = 4096;
  static constexpr std::size_t kTailForSegment = (16U << 10U) + 256;

  enum class State : std::uint8_t { kPreamble, kHeader, kBody, kAwaitPlace, kPayload, kTrailer };

  using Step = Result<std::optional<ReadEvent>>;

  // Received bytes that were not read yet.
  [[nodiscard]] std::span<const std::byte> pending() const { return buffer_.part(begin_, end_ - begin_); }
  template <std::size_t Bytes>
  [[nodiscard]] std::span<const std::byte, Bytes> pending_first() const {
    return pending().first<Bytes>();
  }
  [[nodiscard]] std::uint64_t payload_rest() const { return arriving_->length - payload_done_; }
  [[nodiscard]] std::size_t tail_bytes() const;
  void make_room(std::size_t bytes);
  std::span<const std::byte> take_payload();
  void payload_came(std::uint64_t bytes);
  Step fail(Error error);

  // The parts of next(). Each event is built where next() returns it.
  Step next_event();
  Step next_preamble();
  Step next_header();
  Step next_body();
  Step next_trailer();

  std::uint32_t max_body_bytes_;
  std::size_t header_tail_ = kTailForHeader;
  State state_ = State::kPreamble;
  std::optional<Error> error_;  // permanent once set

  // Memory that is uninitialized until bytes have been read into it.
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;

    static Buffer of(std::size_t size) { return {std::make_unique_for_overwrite<std::byte[]>(size), size}; }
    [[nodiscard]] std::span<std::byte> part(std::size_t at, std::size_t length) const {
      return std::span(bytes.get(), size).subspan(at, length);
    }
  };
  Buffer buffer_;  // [begin_, end_) is pending; the tail of a window follows
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<Window> window_;  // lent until landed()
  Buffer spare_;                  // replaces buffer_ while early bytes are in use
  bool early_out_ = false;

  FrameHeader header_;  // kBody: header of the awaited body
  std::optional<Segment> arriving_;
  BufferRef into_;
  std::uint64_t payload_done_ = 0;
  bool sunk_ = false;
  std::uint64_t frames_ = 0;
};

}  // namespace lockstep::wire
