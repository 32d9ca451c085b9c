#include "tests/lab/wan/connections.h"

#include <algorithm>
#include <cmath>

#include "tests/lab/wan/topology.h"

namespace lockstep::wan {
namespace {

constexpr Duration kHalfLife = milliseconds(100);  // of what a connection has carried, when the busiest is looked for
// What an end had sent before it was told of the reset is read from its device by then.
constexpr Duration kTold = milliseconds(20);
// More than greetings: data.
constexpr std::uint64_t kDataBytes = 4096;

// Whether `a` comes before `b`: numbers wrap.
bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace

void Connections::End::receives(std::uint32_t begin, std::uint32_t end) {
  if (!known) {
    known = true;
    next = begin;
  }
  if (!before(next, end)) return;
  beyond.emplace_back(begin, end);
  for (bool more = true; more;) {
    more = false;
    for (auto at = beyond.begin(); at != beyond.end();) {
      if (before(next, at->first)) {
        ++at;
        continue;
      }
      if (before(next, at->second)) next = at->second;
      at = beyond.erase(at);
      more = true;
    }
  }
}

void Connections::End::acknowledges(std::uint32_t number) {
  if (known && !before(next, number)) return;
  known = true;
  next = number;
}

void Connections::Connection::fade(Instant now) {
  lately *= std::exp2(-(now - lately_at).seconds() / kHalfLife.seconds());
  lately_at = now;
}

Connections::Key Connections::key_of(const TcpSegment& segment) {
  return segment.from < segment.to ? Key{segment.from, segment.to} : Key{segment.to, segment.from};
}

ResetFor Connections::tell(const Endpoint& whom, const Endpoint& other, std::uint32_t sequence) {
  return {host_of(whom.address), reset_packet(other, whom, sequence)};
}

bool Connections::on_sent(const TcpSegment& segment, Instant now, ResetsFor& out) {
  const Key key = key_of(segment);
  const auto at = connections_.find(key);
  if (segment.syn && !segment.ack) {
    connections_[key] = {};  // also where an older one had the same ports
    return true;
  }
  if (at == connections_.end()) return true;
  Connection& connection = at->second;
  if (connection.reset) {
    if (segment.rst) return false;
    ResetRecord& record = resets_[*connection.reset];
    record.answered_late = record.answered_late || now - record.at > kTold;
    out.push_back(tell(segment.from, segment.to, segment.acknowledged));
    return false;
  }
  End& sender = segment.from == key.first ? connection.low : connection.high;
  if (segment.ack) sender.acknowledges(segment.acknowledged);
  return true;
}

bool Connections::on_arrived(const TcpSegment& segment, Instant now, ResetsFor& out) {
  const Key key = key_of(segment);
  const auto at = connections_.find(key);
  if (at == connections_.end()) return true;
  Connection& connection = at->second;
  if (connection.reset) return false;
  if (segment.rst) {
    connections_.erase(at);
    return true;
  }
  End& receiver = segment.to == key.first ? connection.low : connection.high;
  receiver.receives(segment.sequence, segment.next());
  receiver.ended = receiver.ended || segment.fin;
  if (connection.low.ended && connection.high.ended) {
    connections_.erase(at);
    return true;
  }
  if (segment.payload_bytes == 0) return true;
  const std::uint32_t from = host_of(segment.from.address);
  const std::uint32_t to = host_of(segment.to.address);
  connection.fade(now);
  connection.lately += segment.payload_bytes;
  connection.bytes += segment.payload_bytes;
  carried_[{from, to}] += segment.payload_bytes;
  note_return(from, to, connection, now);
  carry_out_orders(from, to, now, out);
  return true;
}

// The first new connection after a reset is the one that takes its place.
void Connections::note_return(std::uint32_t a, std::uint32_t b, Connection& connection, Instant now) {
  if (connection.counted_as_back || connection.bytes < kDataBytes) return;
  connection.counted_as_back = true;
  for (ResetRecord& record : resets_) {
    const bool between = (record.a == a && record.b == b) || (record.a == b && record.b == a);
    if (!between || !record.hit || record.back) continue;
    record.back = now;
    return;
  }
}

void Connections::carry_out_orders(std::uint32_t from, std::uint32_t to, Instant now, ResetsFor& out) {
  if (orders_.empty()) return;
  const std::uint64_t so_far = carried(from, to);
  const auto is_due = [&](const Order& o) { return o.from == from && o.to == to && o.at <= so_far; };
  const auto due = std::count_if(orders_.begin(), orders_.end(), is_due);
  orders_.erase(std::remove_if(orders_.begin(), orders_.end(), is_due), orders_.end());
  for (auto i = due; i > 0; --i) reset(from, to, now, out);
}

void Connections::reset(std::uint32_t a, std::uint32_t b, Instant now, ResetsFor& out) {
  Connection* busiest = nullptr;
  Key ends;
  for (auto& [key, connection] : connections_) {
    const std::uint32_t low = host_of(key.first.address);
    const std::uint32_t high = host_of(key.second.address);
    if (connection.reset || !((low == a && high == b) || (low == b && high == a))) continue;
    connection.fade(now);
    if (connection.lately < 1 || (busiest != nullptr && connection.lately <= busiest->lately)) continue;
    busiest = &connection;
    ends = key;
  }
  ResetRecord record;
  record.a = a;
  record.b = b;
  record.at = now;
  if (busiest != nullptr) {
    const bool a_is_low = host_of(ends.first.address) == a;
    record.hit = true;
    record.port_a = a_is_low ? ends.first.port : ends.second.port;
    record.port_b = a_is_low ? ends.second.port : ends.first.port;
    record.carried = busiest->bytes;
    busiest->reset = resets_.size();
    out.push_back(tell(ends.first, ends.second, busiest->low.next));
    out.push_back(tell(ends.second, ends.first, busiest->high.next));
  }
  resets_.push_back(record);
}

void Connections::reset_after(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
  orders_.push_back({from, to, carried(from, to) + bytes});
}

std::uint64_t Connections::carried(std::uint32_t from, std::uint32_t to) const {
  const auto at = carried_.find({from, to});
  return at == carried_.end() ? 0 : at->second;
}

}  // namespace lockstep::wan
