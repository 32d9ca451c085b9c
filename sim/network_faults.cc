// What the nemesis does to the network, and what is left of a process that died.
#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "sim/network.h"

namespace lockstep::sim {

bool Network::is_cut(std::uint32_t from, std::uint32_t to) const { return way(from, to).cuts > 0; }

void Network::cut(std::uint32_t from, std::uint32_t to) { way(from, to).cuts += 1; }

void Network::heal(std::uint32_t from, std::uint32_t to, Instant now) {
  Way& w = way(from, to);
  if (w.cuts == 0) return;
  w.cuts -= 1;
  if (w.cuts > 0) return;
  for (End end = 0; end < 2 * connections_.size(); ++end) {
    Side& s = side(end);
    Side& o = side(other(end));
    if (s.state == State::kUnborn || o.state == State::kUnborn) continue;
    if (o.host == from && s.host == to) {  // what was held goes on
      for (std::uint32_t i = 0; i < s.in.held; ++i) {
        const std::int64_t at = std::max(now.ns + w.latency + 1, s.in.last_arrival + 1);
        s.in.last_arrival = at;
        events_.push({at}, What::kArrive, kNoProcess, end);
      }
      s.in.held = 0;
    }
    if (s.host == from && o.host == to) credit(end, now);
  }
}

void Network::slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor, Instant now) {
  for (Way* const w : {&way(a, b), &way(b, a)}) {
    w->slow = factor;
    set_window(*w);
  }
  if (flows_ == nullptr) return;
  flows_->lines.slow_way(a, b, factor);
  flows_->lines.slow_way(b, a, factor);
  flows_changed(now);
}

void Network::reset_connection(std::uint32_t index, Instant now) {
  Connection& c = connections_[index];
  c.over = true;
  counts_.resets += 1;
  for (End end = 2 * index; end < 2 * index + 2; ++end) {
    Side& s = side(end);
    if (s.state == State::kUnborn || s.state == State::kGone) continue;
    s.in.flights.clear();
    see_end(end, io::CloseReason::kReset, now);
  }
}

std::size_t Network::reset(std::uint32_t a, std::uint32_t b, Instant now) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < connections_.size(); ++i) {
    Connection& c = connections_[i];
    const bool open = c.sides[0].state == State::kOpen && c.sides[1].state == State::kOpen && !c.over;
    const bool between =
        (c.sides[0].host == a && c.sides[1].host == b) || (c.sides[0].host == b && c.sides[1].host == a);
    if (!open || !between) continue;
    reset_connection(i, now);
    count += 1;
  }
  return count;
}

std::size_t Network::silence(std::uint32_t a, std::uint32_t b) {
  std::size_t count = 0;
  for (Connection& c : connections_) {
    const bool open = c.sides[0].state == State::kOpen && c.sides[1].state == State::kOpen && !c.over;
    const bool between =
        (c.sides[0].host == a && c.sides[1].host == b) || (c.sides[0].host == b && c.sides[1].host == a);
    if (!open || !between) continue;
    c.black = true;
    count += 1;
  }
  return count;
}

void Network::died(std::uint32_t process, Death death, Instant now) {
  Port& port = port_of(process);
  const std::vector<End> ends = port.order;
  port.order.clear();
  for (auto& names : port.ends) std::fill(names.begin(), names.end(), kNoEnd);
  for (const End end : ends) {
    Side& s = side(end);
    s.state = State::kGone;
    s.reading = s.writing = false;
    if (death == Death::kReset && side(other(end)).state != State::kUnborn) send(end, 0, Mark::kReset, now);
  }
  if (death == Death::kSilence) host_silent_[user_.host_of(process)] = true;
}

void Network::host_returned(std::uint32_t host, Instant now) {
  if (!host_silent_[host]) return;
  host_silent_[host] = false;
  for (End end = 0; end < 2 * connections_.size(); ++end) {
    Side& s = side(end);
    Side& o = side(other(end));
    if (s.host != host || s.state != State::kGone || o.state == State::kGone || o.state == State::kUnborn) continue;
    Connection& c = connection(end);
    if (c.over) continue;
    c.black = false;
    o.in.flights.clear();
    o.in.held = 0;
    send(end, 0, Mark::kReset, now);
  }
}

}  // namespace lockstep::sim
