#include "sim/network/network.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lockstep::sim {
namespace {

constexpr std::int64_t kSynAgain = 250'000'000;   // a lost first packet is sent again after so long
constexpr std::uint64_t kMostNamesAtOnce = 1000;  // of streams, that a process may leave out

}  // namespace

std::string stream_text(StreamId id) { return "stream " + std::to_string(id.value); }

std::string_view name_of(io::CloseReason reason) {
  switch (reason) {
    case io::CloseReason::kAsked: return "asked";
    case io::CloseReason::kEnd: return "end of stream";
    case io::CloseReason::kReset: return "connection reset by peer";
    case io::CloseReason::kRefused: return "connection refused";
    case io::CloseReason::kUnreachable: return "no route to host";
    case io::CloseReason::kTimedOut: return "connection timed out";
    case io::CloseReason::kRejected: return "rejected";
    case io::CloseReason::kFailed: return "failed";
  }
  LOCKSTEP_UNREACHABLE();
}

Network::Network(const NetworkOptions& options, std::uint32_t hosts, Dice dice, EventQueue& events, NetworkUser& user)
    : options_(options),
      hosts_(hosts),
      dice_(dice),
      events_(events),
      user_(user),
      ways_(options, hosts, dice),
      host_silent_(hosts),
      mutes_(hosts),
      shut_(hosts),
      lies_(hosts) {
  if (options.flow.on) flows_ = std::make_unique<Flows>(ways_.lay_lines(options));
}

io::Address Network::address_of(std::uint32_t host, std::uint16_t port) {
  io::Address address;
  address.family = io::Address::Family::kV4;
  address.bytes[0] = 10;
  address.bytes[2] = static_cast<std::uint8_t>(host >> 8U);
  address.bytes[3] = static_cast<std::uint8_t>(host);
  address.port = port;
  return address;
}

std::uint32_t Network::host_at(const io::Address& address) {
  const std::uint32_t host = std::uint32_t{address.bytes[2]} << 8U | address.bytes[3];
  const bool ours = address.family == io::Address::Family::kV4 && address.bytes[0] == 10 && host < kMaxHosts;
  return ours ? host : kMaxHosts;
}

Network::End Network::find(std::uint32_t process, StreamId id) {
  const auto& ends = port_of(process).ends[id.value % 2];
  return id.value / 2 < ends.size() ? ends[id.value / 2] : kNoEnd;
}

// False: the name is taken, or leaves out too many names.
bool Network::give_name(std::uint32_t process, StreamId id, End end) {
  Port& port = port_of(process);
  auto& ends = port.ends[id.value % 2];
  const std::uint64_t number = id.value / 2;
  if (number > ends.size() + kMostNamesAtOnce) return false;
  if (number >= ends.size()) ends.resize(number + 1, kNoEnd);
  if (ends[number] != kNoEnd) return false;
  ends[number] = end;
  port.order.push_back(end);
  if (witness_ != nullptr) witness_->opens(end, process, id);
  return true;
}

// An event for this side, at a random moment from now on.
void Network::soon(End end, What what, std::uint64_t b, std::int64_t at_most, Purpose purpose, Instant now) {
  Side& s = side(end);
  const std::uint64_t delay = dice_.skewed(static_cast<std::uint64_t>(at_most), purpose, end, s.draws++);
  events_.push(now + nanoseconds(static_cast<std::int64_t>(delay) + 1), what, s.process, end, b);
}

bool Network::chance(Side& s, std::uint64_t permille, Purpose purpose, End end) {
  return permille > 0 && dice_.permille(permille, purpose, end, s.draws++);
}

Luck Network::luck(Side& s, Purpose purpose, End end) { return Luck(dice_.bits(purpose, end, s.draws++)); }

// ---- effects ----

void Network::dial(std::uint32_t process, const io::Dial& dial, Instant now) {
  const auto index = static_cast<std::uint32_t>(connections_.size());
  const End end = 2 * index;
  if (dial.stream.value % 2 != 0 || !give_name(process, dial.stream, end)) {
    user_.contract_broken(process, "dials as " + stream_text(dial.stream) + ", a name that is taken or not its own");
    return;
  }
  counts_.dials += 1;
  Connection& connection = connections_.emplace_back();
  Side& s = connection.sides[0];
  s.process = process;
  s.host = user_.host_of(process);
  s.id = dial.stream;
  s.state = State::kOpening;
  connection.port = dial.to.port;
  connection.to_host = host_at(dial.to);
  if (connection.to_host >= hosts_) {
    start_close(end, io::CloseReason::kUnreachable, now);
    return;
  }
  events_.push(now + nanoseconds(ways_.between(s.host, connection.to_host).latency + 1), What::kSyn, kNoProcess, index);
  events_.push(now + nanoseconds(options_.dial_gives_up_ns), What::kDialExpires, kNoProcess, index);
}

Network::Side* Network::usable(std::uint32_t process, StreamId id, std::string_view what, End& end) {
  end = find(process, id);
  if (end == kNoEnd) {
    user_.contract_broken(process, std::string(what) + " on " + stream_text(id) + ", which is over or was never there");
    return nullptr;
  }
  Side& s = side(end);
  if (s.asked || s.state == State::kOpening || s.state == State::kUnborn) {
    user_.contract_broken(process, std::string(what) + " on " + stream_text(id) +
                                       (s.asked ? ", which it has closed" : ", which is not open yet"));
    return nullptr;
  }
  return &s;
}

void Network::read(std::uint32_t process, const io::Read& read, Instant now) {
  End end = 0;
  Side* s = usable(process, read.stream, "read", end);
  if (s == nullptr) return;
  if (s->read.lent || s->read.revoked) {
    user_.contract_broken(process,
                          "a second read on " + stream_text(read.stream) + " while the first is lent or revoked");
    return;
  }
  if (read.place.length + read.tail.size() == 0) {
    user_.contract_broken(process, "an empty read on " + stream_text(read.stream));
    return;
  }
  std::erase_if(port_of(process).early, [&](const Early& early) { return early.end == end; });
  s->read.lent = true;
  s->read.place = read.place;
  s->read.tail = read.tail;
  s->read.landed = 0;
  s->read.number += 1;
  offer_read(end, now);
  notice_end(end, now);
}

void Network::moved(std::uint32_t process, const io::Read& read) {
  End end = 0;
  Side* s = usable(process, read.stream, "move a read", end);
  if (s == nullptr) return;
  if (!s->read.lent || s->read.place != read.place || s->read.tail.size() != read.tail.size()) {
    user_.contract_broken(process, "the loan on " + stream_text(read.stream) + " differs from the loan that was saved");
    return;
  }
  std::ranges::copy(s->read.tail, read.tail.begin());
  s->read.tail = read.tail;
}

void Network::write(std::uint32_t process, const io::Write& write, Instant now) {
  End end = 0;
  Side* s = usable(process, write.stream, "write", end);
  if (s == nullptr) return;
  if (s->write.lent || s->write.revoked) {
    user_.contract_broken(process,
                          "a second write on " + stream_text(write.stream) + " while the first is lent or revoked");
    return;
  }
  const std::size_t bytes = write.slices.bytes();
  if (bytes == 0) {
    user_.contract_broken(process, "an empty write on " + stream_text(write.stream));
    return;
  }
  s->write.lent = true;
  s->write.slices = write.slices;
  s->write.bytes = bytes;
  s->write.taken = 0;
  s->write.number += 1;
  offer_write(end, now);
  notice_end(end, now);
}

void Network::revoke(std::uint32_t process, const io::Revoke& revoke, Instant now) {
  End end = 0;
  Side* s = usable(process, revoke.stream, "revoke", end);
  if (s == nullptr) return;
  const bool reads = revoke.direction == io::Direction::kRead;
  bool& revoked = reads ? s->read.revoked : s->write.revoked;
  if (revoked || !(reads ? s->read.lent : s->write.lent)) {
    user_.contract_broken(process, "revokes a loan on " + stream_text(revoke.stream) + ", which holds none");
    return;
  }
  revoked = true;
  soon(end, What::kRevoked, static_cast<std::uint64_t>(revoke.direction), options_.revoke_delay_ns,
       Purpose::kRevokeDelay, now);
}

void Network::close(std::uint32_t process, const io::Close& close, Instant now) {
  const End end = find(process, close.stream);
  if (end == kNoEnd || side(end).asked) {
    user_.contract_broken(process, "closes " + stream_text(close.stream) + ", which is over or closed already");
    return;
  }
  Side& s = side(end);
  s.asked = true;
  if (s.state == State::kClosing) return;  // the answer is on its way, for another reason
  s.ended = now;
  if (side(other(end)).state != State::kUnborn) send(end, 0, close.flush_first ? Mark::kEnd : Mark::kReset, now);
  start_close(end, io::CloseReason::kAsked, now);
}

void Network::place(std::uint32_t process, const io::CopyBytes& place) {
  if (place.bytes.size() > place.into.length) {
    user_.contract_broken(process, "places more bytes than there is room for");
    return;
  }
  Memory& memory = user_.memory_of(process);
  if (memory.mode() == Mode::kToken) {
    place_tokens(process, place, memory);
    return;
  }
  const auto into = memory.open({place.into.id, place.into.offset, place.bytes.size()}, Touch::kPlace);
  if (!into.empty()) std::memcpy(into.data(), place.bytes.data(), place.bytes.size());
}

void Network::place_tokens(std::uint32_t process, const io::CopyBytes& place, Memory& memory) {
  const BufferRef into = place.into.slice(0, place.bytes.size());
  const auto& came = port_of(process).early;
  const auto early = std::find_if(came.begin(), came.end(), [&](const Early& e) {
    return e.at == place.bytes.data() && e.bytes == place.bytes.size();
  });
  if (early == came.end()) {
    user_.contract_broken(process, "places bytes that are not the beginning of a payload");
    return;
  }
  if (early->whole && !early->spoilt) {
    memory.write_token(into, Touch::kPlace, early->token);
    return;
  }
  memory.spoil(into, Touch::kPlace);
  if (early->whole) return;
  Span& span = side(early->end).in.spans.front();
  span.target = {into.id, into.offset, span.total};  // the rest must land behind it
}

// ---- the wire ----

void Network::send(End from, std::uint64_t bytes, Mark mark, Instant now) {
  Connection& c = connection(from);
  if (c.black || c.over) return;
  Pipe& pipe = side(other(from)).in;
  counts_.bytes += bytes;
  if (flows_ != nullptr) {
    pipe.flights.push_back({bytes, mark});
    send_as_flow(from, bytes, now);
    return;
  }
  Way& w = way_from(from);
  const auto wire = static_cast<std::int64_t>(bytes * 1'000'000'000U / w.rate * w.slow);
  w.busy_until = std::max(w.busy_until, now.ns) + wire;
  const std::uint64_t jitter =
      dice_.skewed(static_cast<std::uint64_t>(options_.jitter_ns), Purpose::kJitter, other(from), pipe.arrivals++);
  pipe.last_arrival = std::max(w.busy_until + w.latency + static_cast<std::int64_t>(jitter), pipe.last_arrival + 1);
  pipe.flights.push_back({bytes, mark});
  events_.push({pipe.last_arrival}, What::kArrive, kNoProcess, other(from));
}

// `turn`: that of a flight of which only pieces pass; 0: the flight arrives.
void Network::arrive(End to, std::uint64_t turn, Instant now) {
  const bool drips = turn != 0;
  if (drips && turn != side(to).in.turn) return;  // the drip is over
  Connection& c = connection(to);
  if (c.black || c.over) return;
  Side& s = side(to);
  Side& from = side(other(to));
  if (silent(s.host) || silent(from.host)) {
    c.black = true;
    return;
  }
  const Way& way = ways_.between(from.host, s.host);
  if (way.cuts > 0) {
    s.in.held += 1;
    if (drips) s.in.held += std::exchange(s.in.behind, 0);
    if (drips) s.in.drips = false;
    return;
  }
  const bool dripped = drips || s.in.drips || s.in.behind > 0;
  if ((way.drip > 0 || dripped) && drip_on(to, way.drip, drips, now)) return;
  give_flight(to, now);
}

// True: the flight has not arrived as a whole, or waits for its turn.
bool Network::drip_on(End to, std::uint64_t rate, bool drips, Instant now) {
  constexpr std::uint64_t kTurnsPerSecond = 20;  // of a way that passes so many bytes or more
  Side& s = side(to);
  Pipe& pipe = s.in;
  if (pipe.drips && !drips) {
    pipe.behind += 1;
    return true;
  }
  pipe.drips = false;
  if (pipe.flights.empty()) return false;
  if (rate == 0) {  // all that waits is free
    for (; pipe.behind > 0; --pipe.behind) {
      pipe.last_arrival = std::max(now.ns, pipe.last_arrival) + 1;
      events_.push({pipe.last_arrival}, What::kArrive, kNoProcess, to);
    }
    return false;
  }
  Flight& flight = pipe.flights.front();
  const bool passes =
      now >= pipe.drips_at && flight.mark == Mark::kBytes && s.state != State::kGone && s.state != State::kClosing;
  if (now >= pipe.drips_at && !passes) {
    if (pipe.behind > 0) {  // the next one has its turn
      pipe.behind -= 1;
      pipe.drips = true;
      events_.push(now + nanoseconds(1), What::kArrive, kNoProcess, to, pipe.turn);
    }
    return false;
  }
  bool more = true;
  if (passes) {
    const std::uint64_t piece = std::min(flight.bytes, std::max<std::uint64_t>(1, rate / kTurnsPerSecond));
    pipe.drips_at = now + nanoseconds(static_cast<std::int64_t>(piece * 1'000'000'000 / rate));
    flight.bytes -= piece;
    if (flight.bytes == 0) {
      pipe.flights.pop_front();
      more = pipe.behind > 0;
      if (more) pipe.behind -= 1;
    }
    pipe.arrived += piece;
  }
  pipe.drips = more;
  if (more) events_.push(pipe.drips_at, What::kArrive, kNoProcess, to, pipe.turn);
  if (passes) offer_read(to, now, true);
  return true;
}

void Network::give_flight(End to, Instant now) {
  Side& s = side(to);
  Pipe& pipe = s.in;
  if (pipe.flights.empty()) return;
  const Flight flight = pipe.flights.front();
  pipe.flights.pop_front();
  if (s.state == State::kGone || s.state == State::kClosing) {  // no process is there any more: the sender gets a reset
    if (flight.mark == Mark::kBytes && s.state == State::kGone) send(to, 0, Mark::kReset, now);
    return;
  }
  switch (flight.mark) {
    case Mark::kBytes:
      pipe.arrived += flight.bytes;
      offer_read(to, now, true);
      return;
    case Mark::kEnd: see_end(to, io::CloseReason::kEnd, now); return;
    case Mark::kReset:
      counts_.resets += 1;
      see_end(to, io::CloseReason::kReset, now);
      return;
  }
}

void Network::see_end(End end, io::CloseReason reason, Instant now) {
  Side& s = side(end);
  s.end_seen = true;
  s.end_reason = reason;
  if (reason == io::CloseReason::kReset && chance(s, 500, Purpose::kLoss, end)) {
    s.in.arrived = s.in.taken;  // unread bytes are lost
    s.in.flights.clear();
  }
  notice_end(end, now);
}

// A driver sees an end when it reads; a reset also when it writes, or (some) at once.
void Network::notice_end(End end, Instant now) {
  Side& s = side(end);
  if (!s.end_seen || s.state != State::kOpen) return;
  if (s.end_reason == io::CloseReason::kReset) {
    if (s.read.lent || s.write.lent || chance(s, 500, Purpose::kLoss, end)) start_close(end, s.end_reason, now);
    return;
  }
  if (s.read.lent && !s.read.landing && s.read.landed == 0 && s.in.arrived == s.in.taken)
    start_close(end, s.end_reason, now);
}

void Network::start_close(End end, io::CloseReason reason, Instant now) {
  Side& s = side(end);
  if (s.state == State::kClosing || s.state == State::kGone) return;
  s.state = State::kClosing;
  soon(end, What::kClosed, static_cast<std::uint64_t>(reason), options_.revoke_delay_ns, Purpose::kCloseDelay, now);
}

void Network::finish_close(End end, io::CloseReason reason, Instant) {
  Side& s = side(end);
  if (s.state == State::kGone) return;
  s.state = State::kGone;
  s.read.lent = s.write.lent = false;
  acknowledge(end, side(other(end)).in.sent);
  Port& port = port_of(s.process);
  port.ends[s.id.value % 2][s.id.value / 2] = kNoEnd;
  std::erase(port.order, end);
  std::erase_if(port.early, [&](const Early& early) { return early.end == end; });  // core frees that memory
  const Side& far = side(other(end));
  if (reason != io::CloseReason::kAsked && far.ended != kNever) user_.let_go(s.process, far.process, far.ended);
  user_.tell(s.process, io::Closed{s.id, reason, std::string(name_of(reason))});
}

void Network::shut(std::uint32_t host, const Shut& change) {
  Shut& state = shut_[host];
  state.on += change.on;
  if (change.on > 0) {
    state.refuses = change.refuses;
    state.instead = change.instead;
  }
}

bool Network::gets_in(std::uint32_t index, Instant now) {
  Connection& c = connections_[index];
  const Side& from = c.sides[0];
  const Shut& shut = shut_[c.to_host];
  if (shut.on == 0 || from.host == c.to_host) return true;
  if (shut.instead != 0 && shut.instead != from.host) {
    c.to_host = shut.instead;
    c.port = kAnyPort;
    return true;
  }
  if (shut.refuses) {
    const std::int64_t back = ways_.between(c.to_host, from.host).latency;
    const End dialled = 2 * index;
    events_.push(now + nanoseconds(back + 1), What::kClosed, from.process, dialled,
                 static_cast<std::uint64_t>(io::CloseReason::kRefused));
  } else {
    events_.push(now + nanoseconds(kSynAgain), What::kSyn, kNoProcess, index);
  }
  return false;
}

void Network::syn(std::uint32_t index, Instant now) {
  const End dialled = 2 * index;
  const End accepted = dialled + 1;
  Connection& c = connections_[index];
  Side& from = c.sides[0];
  if (from.state != State::kOpening || c.sides[1].state != State::kUnborn) return;
  if (ways_.is_cut(from.host, c.to_host) || ways_.is_cut(c.to_host, from.host) || silent(c.to_host) ||
      silent(from.host)) {
    events_.push(now + nanoseconds(kSynAgain), What::kSyn, kNoProcess, index);
    return;
  }
  if (!gets_in(index, now)) return;
  const std::uint32_t listener = user_.listener(c.to_host, c.port, from.process);
  const std::int64_t back = ways_.between(c.to_host, from.host).latency;
  const bool rejected = user_.rejects(c.to_host, c.port, from.process);
  if (listener == kNoProcess || rejected) {
    const io::CloseReason reason = rejected ? io::CloseReason::kRejected : io::CloseReason::kRefused;
    events_.push(now + nanoseconds(back + 1), What::kClosed, from.process, dialled, static_cast<std::uint64_t>(reason));
    return;
  }
  Side& to = c.sides[1];
  to.process = listener;
  to.host = c.to_host;
  to.id = port_of(listener).accepting.next();
  to.state = State::kOpening;
  give_name(listener, to.id, accepted);
  soon(accepted, What::kAccepted, 0, options_.host_delay_ns, Purpose::kAnswerDelay, now);
  events_.push(now + nanoseconds(back + 1), What::kOpened, from.process, dialled);
}

// ---- events ----

void Network::handle(const Event& event, Instant now) {
  const auto end = static_cast<End>(event.a);
  switch (event.what) {
    case What::kArrive: arrive(end, event.b, now); return;
    case What::kSyn: syn(end, now); return;
    case What::kDialExpires:
      if (connections_[end].sides[0].state == State::kOpening) start_close(2 * end, io::CloseReason::kTimedOut, now);
      return;
    case What::kLand: land(end, event.b, now); return;
    case What::kTold: {
      Side& s = side(end);
      if (!s.read.lent || event.b != s.read.number || s.state != State::kOpen) return;
      const std::size_t bytes = s.read.landed;
      s.read.lent = s.read.landing = false;
      s.read.landed = 0;
      user_.tell(s.process, io::ReadDone{s.id, bytes});
      return;
    }
    case What::kTake: take(end, event.b, now); return;
    case What::kTaken: {
      Side& s = side(end);
      if (!s.write.lent || event.b != s.write.number || s.state != State::kOpen) return;
      const std::size_t bytes = s.write.taken;
      s.write.lent = s.write.taking = false;
      s.write.taken = 0;
      user_.tell(s.process, io::WriteDone{s.id, bytes, port_of(s.process).written});
      return;
    }
    case What::kRevoked: {
      Side& s = side(end);
      if (s.state != State::kOpen) return;
      const auto direction = static_cast<io::Direction>(event.b);
      const bool reads = direction == io::Direction::kRead;
      std::size_t& count = reads ? s.read.landed : s.write.taken;
      const std::size_t bytes = count;
      count = 0;
      if (reads) {
        s.read.lent = s.read.landing = s.read.revoked = false;
      } else {
        s.write.lent = s.write.taking = s.write.revoked = false;
      }
      user_.tell(s.process, io::Revoked{s.id, direction, bytes});
      return;
    }
    case What::kClosed:
      if (side(end).state == State::kOpening) side(end).state = State::kClosing;  // refused
      finish_close(end, static_cast<io::CloseReason>(event.b), now);
      return;
    case What::kOpened: {
      Side& s = side(end);
      if (s.state != State::kOpening) return;
      s.state = State::kOpen;
      const Side& far = side(other(end));
      user_.tell(s.process,
                 io::Opened{s.id, ways_.round_trip(s.host, far.host), user_.proves(far.process, far.id, s.process)});
      notice_end(end, now);
      return;
    }
    case What::kAccepted: {
      Side& s = side(end);
      if (s.state != State::kOpening) return;
      s.state = State::kOpen;
      const Side& far = side(other(end));
      const auto ephemeral = static_cast<std::uint16_t>(30'000 + (end / 2) % 30'000);
      user_.tell(s.process, io::Accepted{s.id, address_of(far.host, ephemeral), ways_.round_trip(s.host, far.host),
                                         user_.proves(far.process, far.id, s.process)});
      notice_end(end, now);
      return;
    }
    case What::kFlow:
      if (flows_->is_newest(event.a)) flow_on(now);
      return;
    default: LOCKSTEP_UNREACHABLE();
  }
}

// ---- the second fidelity ----

void Network::send_as_flow(End from, std::uint64_t bytes, Instant now) {
  const Side& to = side(other(from));
  const std::uint32_t host = to.state == State::kUnborn ? connection(from).to_host : to.host;
  if (const auto takes = flows_->send(from, side(from).host, host, bytes, now.ns)) {
    fly(from, now.ns + *takes);
    return;
  }
  if (flows_->changed()) flows_changed(now);
}

void Network::fly(End from, std::int64_t left_ns) {
  Pipe& pipe = side(other(from)).in;
  const std::uint64_t jitter =
      dice_.skewed(static_cast<std::uint64_t>(options_.jitter_ns), Purpose::kJitter, other(from), pipe.arrivals++);
  const std::int64_t at = left_ns + way_from(from).latency + static_cast<std::int64_t>(jitter);
  pipe.last_arrival = std::max(at, pipe.last_arrival + 1);
  events_.push({pipe.last_arrival}, What::kArrive, kNoProcess, other(from));
}

// Room for all waiting bytes, or for a packet and an eighth of the window; of a window below two packets, for half.
// Otherwise a reader of small pieces makes the sender send small pieces for ever (RFC 1122, section 4.2.3.4).
bool Network::has_room(End from, std::uint64_t window) {
  constexpr std::uint64_t kPacket = 1448;  // bytes of a stream in a packet of Ethernet
  const Side& s = side(from);
  const Pipe& pipe = side(other(from)).in;
  const std::uint64_t room = window - std::min(window, pipe.sent - pipe.credited);
  const std::uint64_t piece = std::max(window / 8, std::min(window / 2, kPacket));
  return room >= std::min<std::uint64_t>(s.write.bytes - s.write.taken, piece);
}

// One event for all changes at this moment.
void Network::flows_changed(Instant now) {
  if (const auto serial = flows_->expect_change()) events_.push_at_once(now, What::kFlow, kNoProcess, *serial);
}

void Network::flow_on(Instant now) {
  for (const End end : flows_->departed(now.ns)) fly(end, now.ns);
  const std::int64_t next = flows_->next(now.ns);
  if (next != flow::Lines::kNever) events_.push({next}, What::kFlow, kNoProcess, flows_->expect_departure());
}

// ---- faults ----

void Network::cut(std::uint32_t from, std::uint32_t to) { ways_.between(from, to).cuts += 1; }

void Network::heal(std::uint32_t from, std::uint32_t to, Instant now) {
  Way& w = ways_.between(from, to);
  if (w.cuts == 0) return;
  w.cuts -= 1;
  if (w.cuts > 0) return;
  for (End end = 0; end < 2 * connections_.size(); ++end) {
    Side& s = side(end);
    Side& o = side(other(end));
    if (s.state == State::kUnborn || o.state == State::kUnborn) continue;
    if (o.host == from && s.host == to) {  // held flights continue
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

void Network::drip(std::uint32_t from, std::uint32_t to, std::uint64_t bytes_per_s, Instant now) {
  ways_.between(from, to).drip = bytes_per_s;
  for (End end = 0; bytes_per_s == 0 && end < 2 * connections_.size(); ++end) {
    Side& s = side(end);
    if (!s.in.drips || s.host != to || side(other(end)).host != from) continue;
    events_.push(now + nanoseconds(1), What::kArrive, kNoProcess, end, ++s.in.turn);
  }
}

void Network::slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor, Instant now) {
  ways_.slow(a, b, factor);
  if (flows_ == nullptr) return;
  flows_->slow(a, b, factor);
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
    s.read.lent = s.write.lent = false;
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

// ---- for checkers ----

StreamId Network::lent_to(std::uint32_t process, BufferId buffer) const {
  if (process >= ports_.size()) return {};
  for (const End end : ports_[process].order) {
    const Side& s = connections_[end / 2].sides[end % 2];
    if (s.read.lent && s.read.place.length > 0 && s.read.place.id == buffer) return s.id;
    if (!s.write.lent) continue;
    for (const io::Slice& slice : s.write.slices.all()) {
      if (slice.bytes.empty() && slice.payload.id == buffer) return s.id;
    }
  }
  return {};
}

std::size_t Network::streams_of(std::uint32_t process) const {
  return process < ports_.size() ? ports_[process].order.size() : 0;
}

}  // namespace lockstep::sim
