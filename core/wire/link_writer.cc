#include "core/wire/link_writer.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::wire {
namespace {

// The most bytes of one gathered write: the queue of a stripe, which is two of the largest segments and some messages.
// Only a large backlog of messages exceeds it. A write is not cut otherwise, because the simulator's tokens represent
// whole payloads.
constexpr std::size_t kMaxWriteBytes = 2 * kMaxSegmentBytes + (64U << 10U);
// The most segments kept for reuse; more than a stripe queues.
constexpr std::size_t kMaxSpare = 16;

}  // namespace

void LinkWriter::preamble() {
  LOCKSTEP_ASSERT(control_.empty() && segments_.empty());
  scratch_.clear();
  encode(Preamble{}, scratch_);
  control_.append(scratch_);
}

void LinkWriter::message(const Message& message, Term term) {
  LOCKSTEP_ASSERT(!std::holds_alternative<Segment>(message));  // use segment(): it has a payload
  scratch_.clear();
  encode(message, term, scratch_);
  control_.append(scratch_);
  if (scratch_.capacity() > kMaxBodyBytes / 16) scratch_ = {};  // grew for a rare long message
}

void LinkWriter::segment(const Segment& segment, Term term, BufferRef payload, std::uint64_t checksum) {
  LOCKSTEP_ASSERT(payload.length == segment.length);
  auto out = blank();
  out->segment = segment;
  out->payload = payload;
  out->header.clear();
  encode(Message(segment), term, out->header);
  encode(Trailer{checksum, false}, out->trailer);
  out->written = 0;
  out->lends_payload = false;
  out->taken_back = false;
  segments_.push_back(std::move(out));
}

// The rest of the segment that has begun, then control messages, then more segments.
io::SliceList LinkWriter::begin_write() {
  LOCKSTEP_ASSERT(wants_write());
  write_outstanding_ = true;
  lent_segments_ = 0;
  Gathering write{{}, kMaxWriteBytes};
  if (!segments_.empty() && segments_.front()->written > 0) gather(*segments_[lent_segments_++], write);
  lent_control_ = control_.list(write.slices, write.room);
  write.room -= lent_control_;
  while (!write.full() && lent_segments_ < segments_.size()) gather(*segments_[lent_segments_++], write);
  return write.slices;
}

void LinkWriter::gather(Outgoing& out, Gathering& into) {
  const auto own = [&into](std::span<const std::byte> bytes) {
    if (into.full() || bytes.empty()) return;
    bytes = bytes.first(std::min(bytes.size(), into.room));
    into.slices.push({.bytes = bytes, .payload = {}});
    into.room -= bytes.size();
  };
  const std::size_t header = std::min<std::size_t>(out.written, out.header.size());
  own(std::span(out.header).subspan(header));
  const std::uint64_t payload = std::min(out.written - header, out.payload.length);
  gather_payload(out, payload, into);
  own(std::span(out.trailer).subspan(out.written - header - payload));
}

void LinkWriter::gather_payload(Outgoing& out, std::uint64_t from, Gathering& into) {
  while (!into.full() && from < out.payload.length) {
    const std::uint64_t rest = std::min<std::uint64_t>(out.payload.length - from, into.room);
    const BufferRef piece = out.taken_back ? BufferRef{kZeroBuffer, 0, std::min(rest, kStandingBufferBytes)}
                                           : out.payload.slice(from, rest);
    into.slices.push({.bytes = {}, .payload = piece});
    out.lends_payload = !out.taken_back;
    into.room -= piece.length;
    from += piece.length;
  }
}

void LinkWriter::written(std::size_t bytes) {
  LOCKSTEP_ASSERT(write_outstanding_);
  write_outstanding_ = false;
  for (std::size_t i = 0; i < lent_segments_; ++i) segments_[i]->lends_payload = false;

  const auto advance = [&bytes](Outgoing& out) {
    const std::uint64_t taken = std::min<std::uint64_t>(bytes, out.size() - out.written);
    out.written += taken;
    bytes -= taken;
  };
  std::size_t next = 0;
  if (lent_segments_ > 0 && segments_.front()->written > 0) advance(*segments_[next++]);
  const std::size_t control = std::min(bytes, lent_control_);
  control_.drop(control);
  bytes -= control;
  while (next < lent_segments_) advance(*segments_[next++]);
  LOCKSTEP_ASSERT(bytes == 0);

  // Recycles segments that are written, and segments that were forgotten and turn out not to have begun.
  for (std::size_t i = lent_segments_; i-- > 0;) {
    const Outgoing& out = *segments_[i];
    if (out.written == out.size() || (out.taken_back && out.written == 0)) recycle(i);
  }
  lent_control_ = 0;
  lent_segments_ = 0;
}

bool LinkWriter::lends(const RoundKey& key, AttemptId attempt) const {
  return std::any_of(segments_.begin(), segments_.end(), [&](const auto& out) {
    return out->lends_payload && out->segment.key == key && out->segment.attempt == attempt;
  });
}

void LinkWriter::forget(const RoundKey& key, AttemptId attempt) {
  LOCKSTEP_ASSERT(!lends(key, attempt));
  for (std::size_t i = segments_.size(); i-- > 0;) {
    Outgoing& out = *segments_[i];
    if (out.segment.key != key || out.segment.attempt != attempt) continue;
    const bool begun = out.written > 0 || i < lent_segments_;  // lent segments may have begun; the answer will tell
    if (!begun) {
      recycle(i);
    } else if (out.payload_rest() > 0) {
      out.taken_back = true;
      encode(Trailer{0, !mutant(Mutant::kTakenBackUnsaid)}, out.trailer);
    }
  }
}

std::uint64_t LinkWriter::Outgoing::payload_rest() const {
  const std::uint64_t after_header = written - std::min<std::uint64_t>(written, header.size());
  return payload.length - std::min(after_header, payload.length);
}

std::unique_ptr<LinkWriter::Outgoing> LinkWriter::blank() {
  if (spare_.empty()) return std::make_unique<Outgoing>();
  auto out = std::move(spare_.back());
  spare_.pop_back();
  return out;
}

void LinkWriter::recycle(std::size_t index) {
  if (spare_.size() < kMaxSpare) spare_.push_back(std::move(segments_[index]));
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace lockstep::wire
