#include "sim/flow/lines.h"

#include <algorithm>

#include "sim/flow/stream_limits.h"
#include "sim/flow/wide.h"

namespace lockstep::sim::flow {
namespace {

constexpr std::uint64_t kUnit =
    1'000'000'000;  // of what is left: a billionth of a byte, so that bytes per second count in ns

}  // namespace

Lines::Stream Lines::add(std::uint32_t from, std::uint32_t to) {
  State stream;
  stream.route = topology_.route(from, to);
  stream.from = from;
  stream.to = to;
  if (topology_.options().cold && kFirstWindow < widest(stream)) stream.window = kFirstWindow;
  streams_.push_back(std::move(stream));
  carried_.resize(topology_.capacities().size());
  return static_cast<Stream>(streams_.size() - 1);
}

std::uint64_t Lines::widest(const State& stream) {
  const Wide bytes = Wide{stream.route.cap()} * static_cast<std::uint64_t>(stream.route.round_trip_ns) / kUnit;
  return static_cast<std::uint64_t>(std::min<Wide>(bytes, kMostRate));
}

std::uint64_t Lines::cap_of(const State& stream) {
  const std::uint64_t cap = stream.route.cap();
  return stream.window == 0 ? cap : std::min(cap, window_cap(stream.window, stream.route.round_trip_ns));
}

std::optional<std::int64_t> Lines::push(Stream stream, std::uint64_t bytes, std::int64_t now_ns) {
  State& s = streams_[stream];
  if (!s.busy && bytes <= kPacketBytes && now_ns >= s.idle_since) {
    carry(s, bytes);
    const auto takes = static_cast<std::int64_t>(bytes * kUnit / s.route.goodput(s.route.narrowest));
    s.idle_since = now_ns + takes;
    return takes;
  }
  s.messages.push_back(bytes);
  if (!s.busy) wake(stream, now_ns);
  return {};
}

// The congestion window halves for every retransmission time-out in which nothing is sent (RFC 2861, as Linux does).
void Lines::wake(Stream stream, std::int64_t now_ns) {
  State& s = streams_[stream];
  if (topology_.options().cold) {
    const std::int64_t pauses =
        std::max<std::int64_t>(0, now_ns - s.idle_since) / (s.route.round_trip_ns + kLeastRetransmissionNs);
    const std::uint64_t before = s.window == 0 ? widest(s) : s.window;
    if (pauses > 0 && before > kFirstWindow) {
      s.window = std::max(before >> std::min<std::int64_t>(pauses, 63), kFirstWindow);
    }
    if (s.window != 0) s.grows = now_ns + s.route.round_trip_ns;
  }
  s.busy = true;
  s.rate = 0;
  begin_message(s, now_ns);
  busy_.insert(std::lower_bound(busy_.begin(), busy_.end(), stream), stream);
  changed_ = true;
}

void Lines::begin_message(State& stream, std::int64_t now_ns) {
  stream.left = stream.messages.front() * kUnit;
  stream.since = now_ns;
  set_due(stream, now_ns);
}

void Lines::set_due(State& stream, std::int64_t now_ns) {
  stream.due = kNever;
  if (stream.rate == 0 && stream.left > 0) return;  // not known yet
  const std::uint64_t takes = stream.left == 0 ? 0 : (stream.left - 1) / stream.rate + 1;
  if (takes < static_cast<std::uint64_t>(kNever - now_ns)) stream.due = now_ns + static_cast<std::int64_t>(takes);
}

void Lines::grow(State& stream, std::int64_t now_ns) {
  stream.window *= 2;
  stream.grows = now_ns + stream.route.round_trip_ns;
  if (stream.window >= widest(stream)) {
    stream.window = 0;
    stream.grows = kNever;
  }
  if (stream.held_back) changed_ = true;
}

void Lines::carry(State& stream, std::uint64_t bytes) {
  stream.carried += bytes;
  for (const Resource resource : stream.route.path.all()) carried_[resource] += bytes;
}

void Lines::solve(std::int64_t now_ns) {
  changed_ = false;
  solved_ += 1;
  flows_.clear();
  for (const Stream stream : busy_) {
    const State& s = streams_[stream];
    flows_.push_back({.path = s.route.path, .weight = s.route.weight, .cap = cap_of(s)});
  }
  max_min_.share(topology_.capacities(), flows_);
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    State& s = streams_[busy_[i]];
    s.held_back = flows_[i].bottleneck == kNoResource;
    const std::uint64_t rate = s.route.goodput(flows_[i].rate);
    if (rate == s.rate) continue;
    const Wide sent = Wide{s.rate} * static_cast<std::uint64_t>(now_ns - s.since);
    s.left -= static_cast<std::uint64_t>(std::min<Wide>(sent, s.left));
    s.since = now_ns;
    s.rate = rate;
    set_due(s, now_ns);
  }
}

std::int64_t Lines::next(std::int64_t now_ns) {
  if (changed_) solve(now_ns);
  std::int64_t first = kNever;
  for (const Stream stream : busy_) {
    const State& s = streams_[stream];
    first = std::min({first, s.due, s.grows});
  }
  return std::max(first, now_ns);
}

void Lines::take(std::int64_t now_ns, std::vector<Stream>& left) {
  const auto ends = [&](Stream stream) {
    State& s = streams_[stream];
    while (s.due <= now_ns) {
      left.push_back(stream);
      carry(s, s.messages.front());
      s.messages.pop_front();
      if (s.messages.empty()) {
        s.busy = false;
        s.idle_since = now_ns;
        s.due = s.grows = kNever;
        changed_ = true;
        return true;
      }
      begin_message(s, now_ns);
    }
    if (s.grows <= now_ns) grow(s, now_ns);
    return false;
  };
  std::erase_if(busy_, ends);
}

void Lines::slow_way(std::uint32_t from, std::uint32_t to, std::uint64_t factor) {
  topology_.slow_way(from, to, factor);
  for (State& stream : streams_) {
    if (stream.from == from && stream.to == to) stream.route = topology_.route(from, to);
  }
  carried_.resize(topology_.capacities().size());
  changed_ = true;
}

}  // namespace lockstep::sim::flow
