// The receiving half of a stream: bytes in, messages and segments out, whatever the cuts. Payload lands straight in its
// place; only headers and control bodies pass through the reader's own buffer. Knows nothing of rounds.
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

// A stream gives its Preamble first; what follows that of a foreign version is not looked at until next() is called
// again.
using ReadEvent = std::variant<Preamble, Received, SegmentBegan, SegmentEnded>;

class LinkReader {
 public:
  // Of a window's tail. A long body is read in pieces, so that memory grows with the bytes that come and not with those
  // that were promised.
  static constexpr std::size_t kMaxTailBytes = 65'536;

  // Bodies larger than the limit are an error; raised once the greeting is over.
  explicit LinkReader(std::uint32_t max_body_bytes = kMaxStrangerBodyBytes);
  void set_max_body_bytes(std::uint32_t bytes) { max_body_bytes_ = bytes; }
  // From now on small segments come whole with one read, for the price of a larger buffer and of their copy.
  void expect_segments() { header_tail_ = kTailForSegment; }

  // Where the next bytes belong: the rest of a payload (if any), then our own buffer. Only when next() gave nothing, no
  // segment waits for its place, and no earlier window is outstanding.
  struct Window {
    BufferRef place;
    std::span<std::byte> tail;
  };
  Window window();

  // The first `bytes` bytes of the window have come; the window is over (also with 0).
  void landed(std::size_t bytes);

  // The next event; nothing: more bytes are needed, or a segment waits for its place. An error is the end of the
  // stream.
  Result<std::optional<ReadEvent>> next();

  // Where the payload that began goes. Returns the part of it that has come already with the header: it is to be put at
  // the start of `into` (io::Place) before anything else lands there. Valid until landed().
  std::span<const std::byte> place(BufferRef into);
  // The payload that began, or what is left of it, goes to kSinkBuffer. Not while a window is outstanding.
  void sink();

  // The segment that has begun and not ended, wherever it goes.
  [[nodiscard]] const std::optional<Segment>& arriving() const { return arriving_; }
  // A segment has begun and neither place() nor sink() was said.
  [[nodiscard]] bool awaits_place() const { return state_ == State::kAwaitPlace; }
  // A segment has its place in named memory and has not ended: it will end there unless sink() is said. (Its payload
  // may be whole already, and only the trailer missing.)
  [[nodiscard]] bool holds_place() const { return arriving_.has_value() && !awaits_place() && !sunk_; }

  // The window that is outstanding, if one is.
  [[nodiscard]] const std::optional<Window>& lent() const { return window_; }
  // Bytes of memory for what comes.
  [[nodiscard]] std::size_t memory() const { return buffer_.size + spare_.size; }
  // What a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void state(Archive& a);

 private:
  // A header is awaited: room for a burst of control messages; or for a segment that is small (ring::kWholeBytes), its
  // header and its trailer.
  static constexpr std::size_t kTailForHeader = 4096;
  static constexpr std::size_t kTailForSegment = (16U << 10U) + 256;

  enum class State : std::uint8_t { kPreamble, kHeader, kBody, kAwaitPlace, kPayload, kTrailer };

  using Step = std::optional<ReadEvent>;

  // What came and is not looked at yet.
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

  // What next() would give; they set error_ when there is one.
  Step next_event();
  Step next_preamble();
  Step next_header();
  Step next_body();
  Step next_trailer();

  std::uint32_t max_body_bytes_;
  std::size_t header_tail_ = kTailForHeader;
  State state_ = State::kPreamble;
  std::optional<Error> error_;  // once said, said for ever

  // Memory whose bytes mean nothing until they have landed.
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;

    static Buffer of(std::size_t size) { return {std::make_unique_for_overwrite<std::byte[]>(size), size}; }
    [[nodiscard]] std::span<std::byte> part(std::size_t at, std::size_t length) const {
      return std::span(bytes.get(), size).subspan(at, length);
    }
  };
  Buffer buffer_;  // [begin_, end_) is pending; a window's tail lies behind
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<Window> window_;  // lent, until landed()
  Buffer spare_;                  // takes turns with buffer_ while early bytes are out
  bool early_out_ = false;

  FrameHeader header_;  // kBody: of the body that is awaited
  std::optional<Segment> arriving_;
  BufferRef into_;
  std::uint64_t payload_done_ = 0;
  bool sunk_ = false;
};

}  // namespace lockstep::wire
