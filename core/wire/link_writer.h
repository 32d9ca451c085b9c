// The sending half of a stream: messages and segments in, gathered writes out. Control messages overtake queued segments,
// never one that has begun. Payload is named, not copied. Knows nothing of rounds beyond the name on a segment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffers/buffer_ref.h"
#include "core/io/stream.h"
#include "core/wire/message.h"

namespace lockstep::wire {

class LinkWriter {
 public:
  // Queues the preamble; the first thing on every stream.
  void preamble();
  void message(const Message& message, Term term);
  // `payload` stays untouched by its owner until the segment is written or forgotten. payload.length == segment.length.
  void segment(const Segment& segment, Term term, BufferRef payload, std::uint64_t checksum);

  // Whether there is something to write and no write is outstanding.
  [[nodiscard]] bool wants_write() const;
  // The next gathered write; lent until written() is called. Only when wants_write().
  io::SliceList begin_write();
  // The outstanding write is over and `bytes` bytes of it were taken (also with 0: revoked).
  void written(std::size_t bytes);

  // Segments queued or begun and not wholly written; a stripe takes more while this is small.
  [[nodiscard]] std::size_t segments_queued() const;
  // Bytes of control messages queued (kMaxQueuedControlBytes is the owner's to enforce).
  [[nodiscard]] std::size_t control_bytes_queued() const;

  // Whether the outstanding write names payload of this attempt of the round: revoke the write before forget().
  [[nodiscard]] bool lends(const RoundKey& key, Generation attempt) const;
  // Drops the attempt's segments; one that has begun is filled up with zeros (kZeroBuffer) and marked as taken back.
  // Only when !lends(key, attempt).
  void forget(const RoundKey& key, Generation attempt);
};

}  // namespace lockstep::wire
