#include "tests/lab/wan/network.h"

#include <algorithm>
#include <utility>

#include "core/base/rng.h"

namespace lockstep::wan {
namespace {

enum SeedOf : std::uint64_t { kUp = 1, kDown, kWay, kSharedUp, kSharedDown };

}  // namespace

Network::Network(const Topology& topology, Instant start)
    : hosts_(topology.hosts()),
      start_(start),
      changes_(topology.changes),
      pipes_(shared_index(topology.shared.size())) {
  for (std::uint32_t from = 0; from < hosts_; ++from) {
    pipes_[from].line = Line(topology.up[from], draw(topology.seed, kUp, from));
    pipes_[hosts_ + from].line = Line(topology.down[from], draw(topology.seed, kDown, from));
    for (std::uint32_t to = 0; to < hosts_; ++to) {
      way(from, to) = Line(topology.way(from, to), draw(topology.seed, kWay, from, to));
      paths_.push_back(path_of(topology, from, to));
    }
  }
  for (std::size_t n = 0; n < topology.shared.size(); ++n) {
    const SharedLine& line = topology.shared[n];
    pipes_[shared_index(n)].line = Line(line.up, draw(topology.seed, kSharedUp, n));
    pipes_[shared_index(n) + 1].line = Line(line.down, draw(topology.seed, kSharedDown, n));
  }
}

Network::Path Network::path_of(const Topology& topology, std::uint32_t from, std::uint32_t to) const {
  Path path;
  const auto cross = [&](const LineOptions& line, std::size_t index) {
    if (!line.is_free()) path.push_back(static_cast<std::uint32_t>(index));
  };
  cross(topology.up[from], from);
  for (std::size_t n = 0; n < topology.shared.size(); ++n) {
    const SharedLine& line = topology.shared[n];
    if (line.has(from) && !line.has(to)) cross(line.up, shared_index(n));
  }
  path.push_back(static_cast<std::uint32_t>(way_index(from, to)));  // always: it may be cut
  for (std::size_t n = 0; n < topology.shared.size(); ++n) {
    const SharedLine& line = topology.shared[n];
    if (line.has(to) && !line.has(from)) cross(line.down, shared_index(n) + 1);
  }
  cross(topology.down[to], hosts_ + to);
  return path;
}

void Network::offer(Instant now, std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Packet packet) {
  Flight flight;
  flight.bytes = bytes;
  flight.to = to;
  flight.path = &paths_[from * hosts_ + to];
  flight.packet = std::move(packet);
  launch(std::move(flight), now);
}

void Network::launch(Flight flight, Instant now) {
  const std::uint32_t index = (*flight.path)[flight.place];
  Pipe& pipe = pipes_[index];
  const Passage passage = pipe.line.offer(now, flight.bytes);
  if (passage.fate != Fate::kArrives) return;
  flight.at = passage.at;
  if (pipe.flights.empty()) heads_.push({flight.at, index});
  pipe.flights.push(std::move(flight));
}

Instant Network::next() const {
  const Instant change = next_change_ < changes_.size() ? start_ + changes_[next_change_].at : kNever;
  return heads_.empty() ? change : std::min(change, heads_.top().at);
}

std::optional<Network::Arrival> Network::take(Instant now) {
  for (;;) {
    const Instant due = next();
    if (due > now) return std::nullopt;
    if (next_change_ < changes_.size() && start_ + changes_[next_change_].at == due) {
      apply(changes_[next_change_++]);
      continue;
    }
    const std::uint32_t index = heads_.top().pipe;
    heads_.pop();
    Pipe& pipe = pipes_[index];
    Flight flight = pipe.flights.pop();
    if (!pipe.flights.empty()) heads_.push({pipe.flights.front().at, index});
    if (!pipe.line.lets_out()) continue;
    if (++flight.place == flight.path->size()) return Arrival{flight.to, std::move(flight.packet)};
    const Instant at = flight.at;
    launch(std::move(flight), at);
  }
}

std::optional<Change> Network::take_reset() {
  if (resets_.empty()) return std::nullopt;
  const Change reset = resets_.front();
  resets_.pop_front();
  return reset;
}

void Network::apply(const Change& change) {
  Line& line = way(change.from, change.to);
  switch (change.kind) {
    case Change::Kind::kCut: return line.cut();
    case Change::Kind::kHeal: return line.heal();
    case Change::Kind::kSlow: return line.slow(change.factor);
    case Change::Kind::kSpeedUp: return line.speed_up(change.factor);
    case Change::Kind::kReset: return resets_.push_back(change);
  }
}

}  // namespace lockstep::wan
