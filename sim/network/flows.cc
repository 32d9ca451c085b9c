#include "sim/network/flows.h"

#include <utility>

namespace lockstep::sim {

std::optional<std::int64_t> Flows::send(End end, std::uint32_t from, std::uint32_t to, std::uint64_t bytes,
                                        std::int64_t now_ns) {
  if (end >= streams_.size()) streams_.resize(end + 1U, kNoStream);
  flow::Lines::Stream& stream = streams_[end];
  if (stream == kNoStream) {
    stream = lines_.add(from, to);
    ends_.push_back(end);
  }
  return lines_.push(stream, bytes, now_ns);
}

void Flows::slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor) {
  lines_.slow_way(a, b, factor);
  lines_.slow_way(b, a, factor);
}

std::optional<std::uint64_t> Flows::expect_change() {
  if (std::exchange(asked_, true)) return std::nullopt;
  return ++serial_;
}

const std::vector<Flows::End>& Flows::departed(std::int64_t now_ns) {
  asked_ = false;
  left_.clear();
  departed_.clear();
  lines_.take(now_ns, left_);
  for (const flow::Lines::Stream stream : left_) departed_.push_back(ends_[stream]);
  return departed_;
}

}  // namespace lockstep::sim
