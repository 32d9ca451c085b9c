#include "core/peer/transfer_segments.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/ring/schedule.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// A second-level cache holds several of them.
constexpr std::uint64_t kSegmentBytes = 256U << 10U;
// Segments that are hashed before their departure: enough to keep every stripe busy, few enough to stay in cache.
constexpr std::uint64_t kPreparedAhead = 4;
// As in a round (ring::Operation).
constexpr std::uint8_t kMostCorrupt = 3;
constexpr std::uint32_t kCopyToken = 0xffff'ffff;

bool has_bit(const std::vector<std::uint64_t>& words, std::size_t bit) {
  return bit / 64 < words.size() && ((words[bit / 64] >> (bit % 64)) & 1U) != 0;
}

// No words, or as many as hold these bits, and no bit behind them.
bool is_bit_set(const std::vector<std::uint64_t>& words, std::size_t bits) {
  if (words.empty()) return true;
  if (words.size() != (bits + 63) / 64) return false;
  return bits % 64 == 0 || (words.back() >> (bits % 64)) == 0;
}

}  // namespace

std::uint32_t transfer_segment_bytes(std::uint64_t bytes, std::uint32_t configured) {
  std::uint64_t segment = configured != 0 ? configured : kSegmentBytes;
  segment = std::max(segment, (bytes + kMaxSegments - 1) / kMaxSegments);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(segment, kMaxSegmentBytes));
}

BufferRef CutTensor::segment(std::size_t index) const {
  const std::uint64_t begin = std::uint64_t{index} * segment_bytes;
  LOCKSTEP_ASSERT(begin < memory.length);
  return memory.slice(begin, std::min<std::uint64_t>(segment_bytes, memory.length - begin));
}

// ---- sending ----

OutgoingSegments::OutgoingSegments(BufferRef memory, std::uint32_t segment_bytes) : tensor_{memory, segment_bytes} {}

void OutgoingSegments::prepare(std::vector<KernelJob>& jobs) {
  if (stopped_) return;
  departures_.resize(tensor_.segments());
  for (; !unchecked_.empty(); unchecked_.pop_front()) {
    const std::uint32_t index = unchecked_.front();
    ++running_;
    jobs.push_back({JobToken{index},
                    VerifyJob{.from = tensor_.segment(index), .expected = departures_[index].checksum, .again = true}});
  }
  while (prepared_ < departures_.size() && ahead_ < kPreparedAhead) {
    ++ahead_;
    ++running_;
    jobs.push_back({JobToken{prepared_}, HashJob{tensor_.segment(static_cast<std::size_t>(prepared_))}});
    ++prepared_;
  }
}

bool OutgoingSegments::job_done(JobToken token, const JobResult& result) {
  LOCKSTEP_ASSERT(running_ > 0 && token.value < departures_.size());
  --running_;
  Departure& departure = departures_[token.value];
  if (departure.state == State::kChecking) {
    if (!result.intact) return false;
  } else {
    departure.checksum = result.checksum;
  }
  make_ready(static_cast<std::size_t>(token.value));
  return true;
}

void OutgoingSegments::send_again(std::size_t index) {
  departures_[index].state = State::kChecking;
  departures_[index].again = true;
  unchecked_.push_back(static_cast<std::uint32_t>(index));
}

void OutgoingSegments::make_ready(std::size_t index) {
  departures_[index].state = State::kReady;
  ready_.push_back(static_cast<std::uint32_t>(index));
}

bool OutgoingSegments::grant(const std::vector<std::uint64_t>& have, StripeIndex stripe, StreamId stream) {
  if (!is_bit_set(have, tensor_.segments())) return false;
  granted_ = true;
  if (stopped_ || mutant(Mutant::kTransferNotResent)) return true;
  for (std::size_t i = 0; i < departures_.size(); ++i) {
    Departure& departure = departures_[i];
    if (departure.state != State::kSent || departure.stripe != stripe || departure.on == stream) continue;
    if (has_bit(have, i)) continue;
    send_again(i);
  }
  return true;
}

void OutgoingSegments::send_whole() {
  granted_ = true;
  if (stopped_ || departures_.empty() || departures_.front().state != State::kSent) return;
  send_again(0);
}

OutgoingSegments::Outgoing OutgoingSegments::next(StripeIndex stripe, StreamId stream) {
  LOCKSTEP_ASSERT(has_next());
  const std::uint32_t index = ready_.front();
  ready_.pop_front();
  Departure& departure = departures_[index];
  LOCKSTEP_ASSERT(departure.state == State::kReady);
  departure.state = State::kSent;
  departure.stripe = stripe;
  departure.on = stream;
  if (!departure.again) --ahead_;
  const BufferRef payload = tensor_.segment(index);
  bytes_sent_ += payload.length;
  return {SegmentIndex{index}, payload, departure.checksum};
}

// ---- receiving ----

IncomingSegments::IncomingSegments(std::uint64_t bytes, std::uint32_t segment_bytes)
    : tensor_{{kSinkBuffer, 0, bytes}, segment_bytes}, missing_(tensor_.segments()) {}

void IncomingSegments::set_place(BufferRef memory) {
  LOCKSTEP_ASSERT(!placed_ && memory.length == tensor_.memory.length);
  placed_ = true;
  sunk_ = false;
  arrivals_.resize(tensor_.segments());  // memory for as many as an offer promises is taken only now
  tensor_.memory = memory;
}

// Rule 10: a segment lands only where memory waits for it; rule 31: once, however often it arrives.
ring::Operation::SegmentPlace IncomingSegments::begin(const wire::Segment& segment, StreamId stream) {
  using Landing = ring::Operation::Landing;
  const std::size_t index = segment.index.value;
  if (index >= tensor_.segments() || segment.length != tensor_.segment(index).length) return {Landing::kNonsense, {}};
  if (!placed_) {
    sunk_ = true;
    return {Landing::kSink, {}};
  }
  Arriving& arriving = arrivals_[index];
  if (stopped_ || arriving.state != State::kExpected) {
    if (arriving.state != State::kHere) sunk_ = true;
    return {Landing::kSink, {}};
  }
  arriving.state = State::kLanding;
  arriving.on = stream;
  return {Landing::kPlace, tensor_.segment(index)};
}

void IncomingSegments::landed(const wire::Segment& segment, bool taken_back, std::uint64_t checksum,
                              std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(segment.index.value < arrivals_.size());
  Arriving& arriving = arrivals_[segment.index.value];
  LOCKSTEP_ASSERT(arriving.state == State::kLanding);
  if (taken_back || stopped_) {
    arriving.state = State::kExpected;
    return;
  }
  arriving.state = State::kWorking;
  ++running_;
  jobs.push_back(
      {JobToken{segment.index.value}, VerifyJob{.from = tensor_.segment(segment.index.value), .expected = checksum}});
}

bool IncomingSegments::stream_closed(StreamId stream) {
  bool lost = false;
  for (Arriving& arriving : arrivals_) {
    if (arriving.state != State::kLanding || arriving.on != stream) continue;
    arriving.state = State::kExpected;
    lost = true;
  }
  return lost;
}

std::vector<std::uint64_t> IncomingSegments::have() const {
  std::vector<std::uint64_t> have;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    if (arrivals_[i].state != State::kWorking && arrivals_[i].state != State::kHere) continue;
    have.resize((arrivals_.size() + 63) / 64);
    have[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  return have;
}

void IncomingSegments::copy_to(BufferRef into, std::vector<KernelJob>& jobs) {
  LOCKSTEP_ASSERT(complete() && into.length == tensor_.memory.length);
  ++running_;
  jobs.push_back({JobToken{kCopyToken}, CopyJob{.into = into, .from = tensor_.memory}});
}

IncomingSegments::Finished IncomingSegments::job_done(JobToken token, const JobResult& result) {
  LOCKSTEP_ASSERT(running_ > 0);
  --running_;
  Finished finished;
  if (token.value == kCopyToken) {
    finished.copied = true;
    return finished;
  }
  Arriving& arriving = arrivals_[token.value];
  LOCKSTEP_ASSERT(arriving.state == State::kWorking);
  if (result.intact || mutant(Mutant::kTransferUnchecked)) {
    arriving.state = State::kHere;
    --missing_;
    return finished;
  }
  arriving.state = State::kExpected;
  finished.corrupt = true;
  finished.stream = arriving.on;
  if (++arriving.corrupt >= kMostCorrupt) finished.faulty = true;
  return finished;
}

}  // namespace lockstep::peer
