// The sending half of a stream: messages and segments in, gathered writes out. Control messages overtake queued
// segments, never one that has begun. Payload is named, not copied. Knows nothing of rounds beyond the name on a
// segment.
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
  // Queues the preamble; the first thing on every stream.
  void preamble();
  void message(const Message& message, Term term);
  // `payload` stays untouched by its owner until the segment is written or forgotten. payload.length == segment.length.
  void segment(const Segment& segment, Term term, BufferRef payload, std::uint64_t checksum);

  // Whether there is something to write and no write is outstanding.
  [[nodiscard]] bool wants_write() const { return !write_outstanding_ && !(control_.empty() && segments_.empty()); }
  // The next gathered write; lent until written() is called. Only when wants_write().
  io::SliceList begin_write();
  // The outstanding write is over and `bytes` bytes of it were taken (also with 0: revoked).
  void written(std::size_t bytes);

  // Segments queued or begun and not wholly written; a stripe takes more while this is small.
  [[nodiscard]] std::size_t segments_queued() const { return segments_.size(); }
  // Bytes of control messages queued (kMaxQueuedControlBytes is the owner's to enforce).
  [[nodiscard]] std::size_t control_bytes_queued() const { return control_.size(); }

  // Whether the outstanding write names payload of this attempt of the round: revoke the write before forget().
  [[nodiscard]] bool lends(const RoundKey& key, Generation attempt) const;
  // Drops the attempt's segments; one that has begun is filled up with zeros (kZeroBuffer) and marked as taken back, or
  // ends as it is when all of its payload is written. Only when !lends(key, attempt).
  void forget(const RoundKey& key, Generation attempt);

  // Bytes of memory for what goes, beside what segments_ holds.
  [[nodiscard]] std::size_t memory() const {
    return control_.memory() + scratch_.capacity() + spare_.size() * sizeof(Outgoing);
  }
  // What a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void state(Archive& a);

 private:
  // A segment on its way: header, payload, trailer. Stays where it is in memory until it is recycled.
  struct Outgoing {
    Segment segment;
    BufferRef payload;
    std::vector<std::byte> header;
    std::array<std::byte, kTrailerBytes> trailer{};
    std::uint64_t written = 0;   // bytes of header, payload and trailer together
    bool lends_payload = false;  // the outstanding write names some of it
    bool taken_back = false;

    [[nodiscard]] std::uint64_t size() const { return header.size() + payload.length + kTrailerBytes; }
    [[nodiscard]] std::uint64_t payload_rest() const;
    template <typename Archive>
    void state(Archive& a) {
      a.all(segment, payload, header, trailer, written, lends_payload, taken_back);
    }
  };

  // One gathered write in the making.
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
  std::vector<std::unique_ptr<Outgoing>> segments_;  // in order; only the first can have begun
  std::vector<std::unique_ptr<Outgoing>> spare_;
  std::vector<std::byte> scratch_;

  bool write_outstanding_ = false;
  std::size_t lent_control_ = 0;   // bytes of control_ in the outstanding write
  std::size_t lent_segments_ = 0;  // how many of segments_, from the first, have bytes in it
};

}  // namespace lockstep::wire
