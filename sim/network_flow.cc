// The second fidelity of the network: what streams send is fluid on lines that they share (sim/flow/lines.h). Delay, cuts, resets and
// windows are those of the first one.
#include <algorithm>
#include <utility>

#include "sim/network.h"

namespace lockstep::sim {

void Network::lay_lines() {
  constexpr std::uint64_t kNoLimit = 1'000'000'000'000;
  std::vector<flow::Way> laid;
  for (const Way& w : ways_) laid.push_back({w.latency, w.rate, 0});
  for (const LinkOptions& link : options_.links) {
    if (link.loss_ppm == 0) continue;
    laid[way_index(link.a, link.b)].loss_ppm = laid[way_index(link.b, link.a)].loss_ppm = link.loss_ppm;
  }
  flow::Topology topology(options_.flow, hosts_, options_.window_bytes,
                          [laid = std::move(laid), hosts = hosts_](std::uint32_t from, std::uint32_t to) {
                            return laid[std::size_t{from} * hosts + to];
                          });
  // What a stream may have under way is measured by what its path carries.
  std::vector<std::uint64_t> narrowest;
  for (std::uint32_t from = 0; from < hosts_; ++from) {
    for (std::uint32_t to = 0; to < hosts_; ++to) {
      const flow::Route route = topology.route(from, to);
      narrowest.push_back(std::min({route.narrowest, route.loss_cap, kNoLimit}));
    }
  }
  flows_ = std::make_unique<Flows>(std::move(topology));
  for (std::size_t i = 0; i < narrowest.size(); ++i) ways_[i].rate = narrowest[i];
}

void Network::send_as_flow(End from, std::uint64_t bytes, Instant now) {
  if (from >= flows_->streams.size()) flows_->streams.resize(from + 1U, kNoStream);
  flow::Lines::Stream& stream = flows_->streams[from];
  if (stream == kNoStream) {
    const Side& to = side(other(from));
    const std::uint32_t host = to.state == State::kUnborn ? connection(from).to_host : to.host;
    stream = flows_->lines.add(side(from).host, host);
    flows_->ends.push_back(from);
  }
  if (const auto takes = flows_->lines.push(stream, bytes, now.ns)) {
    fly(from, now.ns + *takes);
    return;
  }
  if (flows_->lines.changed()) flows_changed(now);
}

void Network::fly(End from, std::int64_t left_ns) {
  Pipe& pipe = side(other(from)).in;
  const std::uint64_t jitter =
      dice_.skewed(static_cast<std::uint64_t>(options_.jitter_ns), Purpose::kJitter, other(from), pipe.arrivals++);
  const std::int64_t at = left_ns + way_from(from).latency + static_cast<std::int64_t>(jitter);
  pipe.last_arrival = std::max(at, pipe.last_arrival + 1);
  events_.push({pipe.last_arrival}, What::kArrive, kNoProcess, other(from));
}

// For all that it wants to send, or for an eighth of its window: else what is read in small pieces is sent in small pieces for ever
// (RFC 1122, section 4.2.3.4).
bool Network::has_room(End from) {
  const Side& s = side(from);
  const Pipe& pipe = side(other(from)).in;
  const std::uint64_t most = way_from(from).window;
  const std::uint64_t room = most - std::min(most, pipe.sent - pipe.credited);
  return room >= std::min<std::uint64_t>(s.lent - s.taken, most / 8);
}

// Once for all that happens at this moment.
void Network::flows_changed(Instant now) {
  if (std::exchange(flows_->asked, true)) return;
  events_.push_at_once(now, What::kFlow, kNoProcess, ++flows_->serial);
}

void Network::flow_on(Instant now) {
  flows_->asked = false;
  flows_->left.clear();
  flows_->lines.take(now.ns, flows_->left);
  for (const flow::Lines::Stream stream : flows_->left) fly(flows_->ends[stream], now.ns);
  const std::int64_t next = flows_->lines.next(now.ns);
  if (next != flow::Lines::kNever) events_.push({next}, What::kFlow, kNoProcess, ++flows_->serial);
}

}  // namespace lockstep::sim
