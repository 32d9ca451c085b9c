// The sending half of a stream: messages and segments in, gathered writes out. Control messages overtake queued
// segments, but never a segment that has begun. Payload is referenced, not copied. Knows nothing of rounds except their
// keys in segments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/buffers/buffer_ref.h"
#include "core/io/stream.h"
#include "core/wire/byte_queue.h"
#include "core/wire/codec.h"
#include "core/wire/message.h"

namespace lockstep::wire {

class LinkWriter {
 public:
  // Queues the preamble, which must come first on every stream.
  void preamble();
  void message(const Message& message, Term term);
  // The owner must not change `payload` until the segment is written or forgotten. payload.length == segment.length.
  void segment(const Segment& segment, Term term, BufferRef payload, std::uint64_t checksum);

  // Whether a write is outstanding.
  [[nodiscard]] bool is_writing() const { return write_outstanding_; }
  // Whether there is something to write and no write is outstanding.
  [[nodiscard]] bool wants_write() const { return !write_outstanding_ && !(control_.empty() && segments_.empty()); }
  // The next gathered write; lent until written() is called. Allowed only if wants_write().
  io::SliceList begin_write();
  // Ends the outstanding write, of which `bytes` bytes were written (0 if it was revoked).
  void written(std::size_t bytes);

  // Segments that are queued or begun and not completely written. A stripe queues more while this number is small.
  [[nodiscard]] std::size_t segments_queued() const { return segments_.size(); }
  // Of the segment that was queued last, with header and trailer. Allowed only if segments_queued() > 0.
  [[nodiscard]] std::uint64_t newest_segment_bytes() const { return segments_.back()->size(); }
  // Queued bytes of control messages. The owner enforces kMaxQueuedControlBytes.
  [[nodiscard]] std::size_t control_bytes_queued() const { return control_.size(); }

  // Whether the outstanding write references payload of this attempt of the round. If so, revoke the write before
  // forget().
  [[nodiscard]] bool lends(const RoundKey& key, AttemptId attempt) const;
  // Drops the segments of this attempt. A segment that has begun is filled up with zeros (kZeroBuffer) and marked as
  // withdrawn; if its payload is completely written, it ends normally. Allowed only if !lends(key, attempt).
  void forget(const RoundKey& key, AttemptId attempt);

  // Bytes of memory for sending, without the memory of segments_.
  [[nodiscard]] std::size_t memory() const {
    return control_.memory() + scratch_.capacity() + spare_.size() * sizeof(Outgoing);
  }
  // The state that a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void archive(Archive& a);

 private:
  // A segment on its way: header, payload, trailer. Invariant: its address does not change until it is recycled.
  struct Outgoing {
    Segment segment;
    BufferRef payload;
    std::vector<std::byte> header;
    std::array<std::byte, kTrailerBytes> trailer{};
    std::uint64_t written = 0;   // bytes of header, payload and trailer that were written
    bool lends_payload = false;  // the outstanding write references a part of the payload
    bool taken_back = false;

    [[nodiscard]] std::uint64_t size() const { return header.size() + payload.length + kTrailerBytes; }
    [[nodiscard]] std::uint64_t payload_rest() const;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(segment, payload, header, trailer, written, lends_payload, taken_back);
    }
  };

  // A gathered write under construction.
  struct Gathering {
    io::SliceList slices;
    std::size_t room = 0;
    [[nodiscard]] bool full() const { return slices.full() || room == 0; }
  };

  static void gather(Outgoing& out, Gathering& into);
  static void gather_payload(Outgoing& out, std::uint64_t from, Gathering& into);
  std::unique_ptr<Outgoing> blank();
  void recycle(std::size_t index);

  ByteQueue control_;
  std::vector<std::unique_ptr<Outgoing>> segments_;  // in order; only the first one can have begun
  std::vector<std::unique_ptr<Outgoing>> spare_;
  std::vector<std::byte> scratch_;

  bool write_outstanding_ = false;
  std::size_t lent_control_ = 0;   // bytes of control_ in the outstanding write
  std::size_t lent_segments_ = 0;  // number of segments_, from the first, with bytes in the outstanding write
};

}  // namespace lockstep::wire
