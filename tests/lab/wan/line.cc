#include "tests/lab/wan/line.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/base/rng.h"

namespace lockstep::wan {
namespace {

enum Purpose : std::uint64_t { kLoss = 1, kBurstEnds, kJitter };

}  // namespace

Passage Line::offer(Instant now, std::uint32_t bytes) {
  ++counts_.packets;
  counts_.bytes += bytes;
  if (cuts_ > 0) {
    ++counts_.cut;
    return {Fate::kCut, {}};
  }
  Instant at = now;
  if (options_.rate_bytes_per_s > 0) {
    if (!fits(now, bytes)) {
      ++counts_.queue_full;
      return {Fate::kQueueFull, {}};
    }
    at = departure(now, bytes);
  }
  if (loses()) {
    ++counts_.lost;
    return {Fate::kLost, {}};
  }
  at = at + options_.latency;
  if (options_.jitter.ns > 0) {
    const auto bound = static_cast<std::uint64_t>(options_.jitter.ns) + 1;
    at = at + nanoseconds(static_cast<std::int64_t>(below(draw(seed_, kJitter, counts_.packets), bound)));
  }
  last_arrival_ = std::max(last_arrival_, at);
  return {Fate::kArrives, last_arrival_};
}

bool Line::lets_out() {
  if (cuts_ > 0) ++counts_.cut;
  return cuts_ == 0;
}

bool Line::fits(Instant now, std::uint32_t bytes) {
  while (!queue_.empty() && queue_.front().at <= now) {
    queued_bytes_ -= queue_.front().bytes;
    queue_.pop_front();
  }
  return queue_.empty() || queued_bytes_ + bytes <= options_.queue_bytes;
}

Instant Line::departure(Instant now, std::uint32_t bytes) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t rate = std::max<std::uint64_t>(options_.rate_bytes_per_s / slowness_, 1);
  if (free_at_ < now) {
    free_at_ = now;
    remainder_ = 0;
  }
  const std::uint64_t work = bytes * kSecond + std::min(remainder_, rate - 1);
  free_at_ = free_at_ + nanoseconds(static_cast<std::int64_t>(work / rate));
  remainder_ = work % rate;
  queue_.push_back({free_at_, bytes});
  queued_bytes_ += bytes;
  counts_.longest_queue_bytes = std::max(counts_.longest_queue_bytes, queued_bytes_);
  return free_at_;
}

// In rows: a chain of two states whose stay in the bad one is `burst` packets long on the average, and which is there
// for the share `loss` of all packets (Gilbert 1960).
bool Line::loses() {
  if (options_.loss <= 0) return false;
  if (options_.burst <= 0) return chance(kLoss, options_.loss);
  if (in_burst_) {
    in_burst_ = !chance(kBurstEnds, 1 / options_.burst);
  } else {
    in_burst_ = chance(kLoss, options_.loss / (options_.burst * (1 - options_.loss)));
  }
  return in_burst_;
}

bool Line::chance(std::uint64_t purpose, double share) const {
  return static_cast<double>(draw(seed_, purpose, counts_.packets) >> 11U) * 0x1p-53 < share;
}

}  // namespace lockstep::wan
