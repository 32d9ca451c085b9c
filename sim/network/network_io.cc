// Reading and writing: bytes leave a sender's memory and land in a reader's memory, in pieces, late or at once, as the
// dice decide.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/assert.h"
#include "sim/flow/stream_limits.h"
#include "sim/network/network.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kCompactAt = 1U << 16U;

// A valid token of other contents.
Token falsified(const Token& token) { return {mix64(token.sum), mix64(token.chain)}; }

}  // namespace

// ---- reading ----

// As a rule a driver reads available bytes at once; a busy driver reads later.
void Network::offer_read(End end, Instant now, bool bytes_came) {
  Side& s = side(end);
  if (s.state != State::kOpen || !s.read.lent || s.read.landing || s.in.arrived == s.in.taken) return;
  s.read.landing = true;
  s.read.luck = luck(s, Purpose::kShortRead, end);
  if (s.read.luck.permille(options_.busy_permille)) {
    soon(end, What::kLand, s.read.number, options_.host_delay_ns, Purpose::kLandDelay, now);
  } else if (bytes_came && !user_.stalled(s.process)) {
    land(end, s.read.number, now);
  } else {
    events_.push_at_once(now, What::kLand, s.process, end, s.read.number);
  }
}

void Network::land(End end, std::uint64_t loan, Instant now) {
  Side& s = side(end);
  if (!s.read.lent || loan != s.read.number) return;
  const std::size_t moved = land_once(end, now);
  if (!s.read.lent || loan != s.read.number) return;
  if (s.read.revoked || s.state == State::kClosing) {
    if (moved > 0) counts_.revoked_midway += 1;
    const bool told =
        s.read.revoked && s.state == State::kOpen && s.read.landed > 0 && chance(s, 300, Purpose::kPieces, end);
    s.read.landing = told;
    if (told) soon(end, What::kTold, loan, options_.host_delay_ns, Purpose::kAnswerDelay, now);
    return;
  }
  if (s.read.landed == 0) {
    s.read.landing = false;
    return;
  }
  if (s.read.luck.permille(options_.pieces_permille)) {  // more may land before it is told
    soon(end, s.read.luck.permille(500) ? What::kLand : What::kTold, loan, options_.revoke_delay_ns,
         Purpose::kAnswerDelay, now);
    s.read.luck = luck(s, Purpose::kShortRead, end);
    return;
  }
  const std::size_t bytes = s.read.landed;
  s.read.lent = s.read.landing = false;
  s.read.landed = 0;
  user_.tell(s.process, io::ReadDone{s.id, bytes});
}

std::size_t Network::land_once(End end, Instant now) {
  Side& s = side(end);
  Pipe& pipe = s.in;
  Memory& memory = user_.memory_of(s.process);
  const std::size_t room = s.read.place.length + s.read.tail.size() - s.read.landed;
  std::uint64_t limit = std::min<std::uint64_t>(pipe.arrived - pipe.taken, room);
  if (limit == 0) return 0;
  const bool apart = s.read.luck.permille(options_.apart_permille);
  if (s.read.luck.permille(options_.short_permille) && limit > 1) {
    limit = dice_.range(1, limit, Purpose::kShortRead, end, s.draws++);
  }
  std::size_t moved = 0;
  if (memory.mode() == Mode::kToken) {
    moved = land_tokens(end, memory, limit, apart);
  } else {
    while (moved < limit) {
      const bool in_place = s.read.landed < s.read.place.length;
      const std::size_t n =
          std::min<std::size_t>(limit - moved, in_place ? s.read.place.length - s.read.landed : limit);
      const auto into = in_place ? memory.open(s.read.place.slice(s.read.landed, n), Touch::kLand)
                                 : s.read.tail.subspan(s.read.landed - s.read.place.length, n);
      if (!into.empty()) std::memcpy(into.data(), pipe.bytes.data() + pipe.head, n);
      pipe.head += n;
      s.read.landed += n;
      moved += n;
    }
  }
  pipe.taken += moved;
  if (pipe.head == pipe.bytes.size()) {
    pipe.bytes.clear();
    pipe.head = 0;
  } else if (pipe.head > kCompactAt) {
    pipe.bytes.erase(pipe.bytes.begin(), pipe.bytes.begin() + static_cast<std::ptrdiff_t>(pipe.head));
    pipe.head = 0;
  }
  credit(end, now);
  return moved;
}

// The arrived part of a payload lands in its place, or in the tail, as virtual bytes, when its header has just come.
std::size_t Network::land_tokens(End end, Memory& memory, std::uint64_t limit, bool apart) {
  Side& s = side(end);
  Pipe& pipe = s.in;
  std::size_t moved = 0;
  while (moved < limit && !pipe.spans.empty()) {
    Span& span = pipe.spans.front();
    const std::uint64_t ready = span.length - span.read;
    const std::uint64_t in_place = s.read.landed < s.read.place.length ? s.read.place.length - s.read.landed : 0;
    const std::size_t at = in_place > 0 ? 0 : s.read.landed - s.read.place.length;  // in the tail
    const std::uint64_t room = in_place > 0 ? in_place : s.read.tail.size() - at;
    const std::uint64_t n = std::min({limit - moved, ready, room});
    if (n == 0) return moved;
    if (!span.payload) {
      if (in_place > 0) {
        user_.contract_broken(s.process, "reads payload on " + stream_text(s.id) + " where a header comes");
        return moved;
      }
      std::memcpy(s.read.tail.data() + at, pipe.bytes.data() + pipe.head, n);
      pipe.head += n;
    } else if (in_place > 0) {
      land_in_place(s.read.place.slice(s.read.landed, n), span, memory);
    } else if (apart) {
      return moved;
    } else if (!land_early(end, s.read.tail.data() + at, n, span)) {
      user_.contract_broken(s.process, "reads a header on " + stream_text(s.id) + " where payload comes");
      return moved;
    }
    span.read += n;
    s.read.landed += n;
    moved += n;
    const bool over = span.read == (span.payload ? span.total : span.length);
    if (over) pipe.spans.pop_front();
  }
  return moved;
}

// False: the header of the payload has not just arrived.
bool Network::land_early(End end, const std::byte* at, std::size_t bytes, const Span& span) {
  const Side& s = side(end);
  auto& came = port_of(s.process).early;
  if (span.read == 0 && s.read.landed > 0) came.push_back({.at = at, .end = end});
  const auto early = std::find_if(came.rbegin(), came.rend(), [&](const Early& e) { return e.end == end; });
  if (early == came.rend() || early->whole || early->at + early->bytes != at) return false;
  early->bytes += bytes;
  early->whole = span.read + bytes == span.total;
  early->spoilt = span.spoilt;
  early->token = span.token;
  return true;
}

// A payload is valid if all of its parts landed one behind the other.
void Network::land_in_place(const BufferRef& target, Span& span, Memory& memory) {
  if (span.read == 0) {
    span.target = {target.id, target.offset, span.total};
  } else if (target.id != span.target.id || target.offset != span.target.offset + span.read) {
    span.target.id = kSinkBuffer;
  }
  memory.spoil(target, Touch::kLand);
  if (span.read + target.length == span.total && !span.spoilt) {
    memory.write_token(span.target, Touch::kLand, span.token);
  }
}

// Bytes that were read give window to the sender, unless the way back is cut.
void Network::credit(End reader, Instant now) {
  Side& s = side(reader);
  Side& sender = side(other(reader));
  Connection& c = connection(reader);
  if (c.black || c.over || ways_.is_cut(s.host, sender.host)) return;
  s.in.credited = s.in.taken;
  acknowledge(other(reader), s.in.credited);
  offer_write(other(reader), now);
}

// ---- writing ----

void Network::offer_write(End end, Instant now) {
  Side& s = side(end);
  if (s.state != State::kOpen || !s.write.lent || s.write.taking) return;
  const Pipe& pipe = side(other(end)).in;
  const std::uint64_t window = way_from(end).window;
  if (pipe.sent - pipe.credited >= window || !has_room(end, window)) return;
  s.write.taking = true;
  s.write.luck = luck(s, Purpose::kShortWrite, end);
  if (s.write.luck.permille(options_.busy_permille)) {
    soon(end, What::kTake, s.write.number, options_.host_delay_ns, Purpose::kTakeDelay, now);
  } else {
    events_.push_at_once(now, What::kTake, s.process, end, s.write.number);
  }
}

void Network::take(End end, std::uint64_t loan, Instant now) {
  Side& s = side(end);
  if (!s.write.lent || loan != s.write.number || s.state != State::kOpen) return;
  const std::size_t moved = take_once(end, now);
  const bool more = s.write.taken < s.write.bytes;
  if (s.write.revoked) {
    if (moved > 0) counts_.revoked_midway += 1;
    s.write.taking = false;
    return;
  }
  if (s.write.taken == 0) {
    s.write.taking = false;
    return;
  }
  if (s.write.luck.permille(options_.pieces_permille)) {
    soon(end, s.write.luck.permille(500) && more ? What::kTake : What::kTaken, loan, options_.revoke_delay_ns,
         Purpose::kAnswerDelay, now);
    s.write.luck = luck(s, Purpose::kShortWrite, end);
    return;
  }
  const std::size_t bytes = s.write.taken;
  s.write.lent = s.write.taking = false;
  s.write.taken = 0;
  user_.tell(s.process, io::WriteDone{s.id, bytes, port_of(s.process).written});
}

// The sender is told of so many bytes of the pipe in all. A closed stream has acknowledged all that was sent.
void Network::acknowledge(End sender, std::uint64_t bytes) {
  Pipe& pipe = side(other(sender)).in;
  if (bytes <= pipe.acknowledged) return;
  const std::uint64_t loss = way_from(sender).loss_ppm;
  const auto lost_of = [&](std::uint64_t all) { return all / flow::kPacketBytes * loss / flow::kPerMillion; };
  const std::uint64_t lost = lost_of(bytes) - lost_of(pipe.acknowledged);
  const std::uint64_t news = bytes - std::exchange(pipe.acknowledged, bytes);
  io::Written& written = port_of(side(sender).process).written;
  written.acknowledged += news;
  written.outstanding -= news;
  written.lost += options_.resends ? 1 : lost;
}

std::size_t Network::take_once(End end, Instant now) {
  Side& s = side(end);
  Pipe& pipe = side(other(end)).in;
  const std::uint64_t used = pipe.sent - pipe.credited;
  const std::uint64_t most = way_from(end).window;
  const std::uint64_t room = used < most ? most - used : 0;
  std::uint64_t limit = std::min<std::uint64_t>({s.write.bytes - s.write.taken, room, way_from(end).piece});
  if (limit == 0) return 0;
  if (s.write.luck.permille(options_.short_permille) && limit > 1) {
    limit = dice_.range(1, limit, Purpose::kShortWrite, end, s.draws++);
  }
  Memory& memory = user_.memory_of(s.process);
  std::size_t skip = s.write.taken;
  std::size_t left = limit;
  std::size_t sent = 0;
  for (const io::Slice& slice : s.write.slices.all()) {
    if (skip >= slice.size()) {
      skip -= slice.size();
      continue;
    }
    const std::size_t n = std::min(left, slice.size() - skip);
    if (n == 0) break;
    sent += push_slice(end, memory, slice, skip, n);
    left -= n;
    skip = 0;
  }
  s.write.taken += limit;
  pipe.sent += sent;
  port_of(s.process).written.outstanding += sent;
  if (sent > 0) send(end, sent, Mark::kBytes, now);
  return limit;
}

std::size_t Network::push_slice(End from, Memory& memory, const io::Slice& slice, std::size_t skip, std::size_t bytes) {
  Side& s = side(from);
  const Connection& c = connection(from);
  Pipe& pipe = side(other(from)).in;
  // Still read, so that trespassing is seen.
  const bool lost = c.black || c.over || side(other(from)).state == State::kGone;
  const bool header = !slice.bytes.empty();
  auto source = header ? slice.bytes.subspan(skip, bytes) : std::span<const std::byte>();
  if (watches_answers_ && header && from % 2 == 0 && c.to_host == 0) {
    let_through_.clear();
    s.answers.pass(source, mutes_[s.host].on, mutes_[s.host].answers, let_through_);
    source = let_through_;
    bytes = source.size();
    if (bytes == 0) return 0;
  }
  if (watches_words_ && header && s.host != 0) {
    source = tell_lies(from, source);
    bytes = source.size();
    if (bytes == 0) return 0;
  }
  if (witness_ != nullptr) witness_->sends(from, source, bytes);
  if (memory.mode() == Mode::kToken && !header) {
    if (!lost) push_payload(from, pipe, memory, slice.payload, skip, bytes);
    return bytes;
  }
  if (!header) source = memory.open(slice.payload.slice(skip, bytes), Touch::kSend);
  if (lost) return bytes;
  if (memory.mode() == Mode::kToken) {
    if (!pipe.spans.empty() && pipe.spans.back().payload && pipe.spans.back().length < pipe.spans.back().total) {
      user_.contract_broken(s.process, "writes a header on " + stream_text(s.id) + " in the middle of a payload");
    }
    if (pipe.spans.empty() || pipe.spans.back().payload) pipe.spans.push_back({});
    pipe.spans.back().length += bytes;
  }
  if (source.empty()) {  // trespassing; the stream goes on with nothing in particular
    pipe.bytes.resize(pipe.bytes.size() + bytes);
  } else {
    pipe.bytes.insert(pipe.bytes.end(), source.begin(), source.end());
    const bool lie = !header && user_.lies_about(s.process, slice.payload.slice(skip, bytes));
    if (lie) pipe.bytes.back() ^= std::byte{0x10};
    if (const auto luck = flip_now(from, !header)) {
      const auto pushed = static_cast<std::ptrdiff_t>(*luck % source.size());
      *(pipe.bytes.end() - 1 - pushed) ^= static_cast<std::byte>(1U << (*luck >> 32U & 7U));
    }
  }
  return bytes;
}

// The words of this side, true or not, as far as its messages are complete.
std::span<const std::byte> Network::tell_lies(End from, std::span<const std::byte> bytes) {
  Side& s = side(from);
  if (s.liar == nullptr) s.liar = std::make_unique<Liar>();
  const bool to_coordinator = from % 2 == 0 && connection(from).to_host == 0;
  told_.clear();
  s.liar->pass(bytes, {lies_[s.host], dice_, from, to_coordinator, options_.mode == Mode::kToken}, told_);
  return told_;
}

// Decides whether a bit of these bytes flips, and returns the dice that choose the bit. The flip comes after TCP's
// checksum: no layer below core detects it.
std::optional<std::uint64_t> Network::flip_now(End from, bool payload) {
  const Side& s = side(from);
  const Side& o = side(other(from));
  Way& w = way_from(from);
  if (w.to_flip == 0 || w.flipped >= kMostFlips) return std::nullopt;
  const std::uint64_t luck = dice_.bits(Purpose::kFlip, 1000 + ways_.index_of(s.host, o.host), w.flipped);
  if (payload != (luck % 10 < 7)) return std::nullopt;
  w.to_flip -= 1;
  w.flipped += 1;
  flips_ += 1;
  user_.flipped(s.host, o.host);
  return mix64(luck);
}

void Network::push_payload(End from, Pipe& pipe, Memory& memory, const BufferRef& payload, std::size_t skip,
                           std::size_t bytes) {
  Side& s = side(from);
  const bool goes_on =
      !pipe.spans.empty() && pipe.spans.back().payload && pipe.spans.back().length < pipe.spans.back().total;
  if (!goes_on) {
    if (skip != 0) user_.contract_broken(s.process, "begins a payload on " + stream_text(s.id) + " in its middle");
    Span& span = pipe.spans.push_back({});
    span.payload = true;
    span.total = payload.length;
    span.origin = payload;
    span.spoilt = !memory.read_token(payload, Touch::kSend, span.token);
    span.is_lie = user_.lies_about(s.process, payload);
    if (span.is_lie) span.token = falsified(span.token);
    if (const auto luck = flip_now(from, true)) span.flip = std::uint64_t{1} << (*luck & 63U);
    span.token.sum ^= span.flip;
    span.length = bytes;
    return;
  }
  Span& span = pipe.spans.back();
  const bool same = payload.id == span.origin.id && payload.offset + skip == span.origin.offset + span.length;
  Token again;
  const bool whole = same && memory.read_token(span.origin, Touch::kSend, again);
  if (span.is_lie) again = falsified(again);
  again.sum ^= span.flip;
  if (!whole || again != span.token) span.spoilt = true;
  span.length += bytes;
}

}  // namespace lockstep::sim
