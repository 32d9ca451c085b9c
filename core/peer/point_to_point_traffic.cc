// What other members say and send about point-to-point transfers, and what goes to them.
#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/base/text.h"
#include "core/peer/point_to_point.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// The other side keeps at most about so many messages that were heard.
constexpr std::uint64_t kMostOwed = 32;

}  // namespace

// ---- matching (rule 46) ----

// The arrivals of a tag are in the order in which they were offered.
void PointToPoint::find_arrival(Order order) {
  const Receiving& receive = receives_.at(order);
  const auto untaken = untaken_.find(receive.what.tag);
  if (untaken == untaken_.end()) return;
  std::optional<Order> first;
  for (const Order candidate : untaken->second) {
    const bool fits = receive.what.peer.is_nobody() || arrivals_.at(candidate).from == receive.what.peer;
    if (!fits) continue;
    first = candidate;
    if (!mutant(Mutant::kNewestSendFirst)) break;
  }
  if (first) match(order, *first);
}

std::optional<PointToPoint::Order> PointToPoint::find_receive(const Arrival& arrival) const {
  const auto waiting = mutant(Mutant::kTransferTagIgnored) ? waiting_.begin() : waiting_.find(arrival.offer.tag);
  if (waiting == waiting_.end()) return std::nullopt;
  for (const Order candidate : waiting->second) {
    const PeerId from = receives_.at(candidate).what.peer;
    if (from.is_nobody() || from == arrival.from) return candidate;
  }
  return std::nullopt;
}

void PointToPoint::untake(const Receiving& receive, Order order) {
  const auto waiting = waiting_.find(receive.what.tag);
  if (waiting == waiting_.end()) return;
  waiting->second.erase(order);
  if (waiting->second.empty()) waiting_.erase(waiting);
}

void PointToPoint::match(Order receive, Order arrival) {
  Receiving& taker = receives_.at(receive);
  Arrival& taken = arrivals_.at(arrival);
  untake(taker, receive);
  if (const auto untaken = untaken_.find(taken.offer.tag); untaken != untaken_.end()) {
    untaken->second.erase(arrival);
    if (untaken->second.empty()) untaken_.erase(untaken);
  }
  taker.arrival = arrival;
  taken.receive = receive;
  const wire::SendOffer& offer = taken.offer;
  if (offer.type != taker.what.type || offer.count != taker.what.count) {
    std::string text = "send and recv with tag " + std::to_string(offer.tag.value) + " differ: " + name_of(taken.from) +
                       " sends " + words_of(offer.type, offer.count) + ", " + context_.name_of(context_.options.id) +
                       " receives " + words_of(taker.what.type, taker.what.count) +
                       ": give both the same type and count";
    return end_receive(receive, taker, Status::kMismatch, std::move(text), true);
  }
  if (taken.segments.complete()) return go_on(arrival, taken);
  if (taken.segments.has_place()) return;  // it is on its way to the early buffer
  const bool must_ask = !offer.eager || taken.segments.has_sunk();
  taken.segments.set_place(taker.what.memory);
  if (must_ask) ready(taken, std::nullopt);
  taken.asked = must_ask;
}

// The whole tensor is here.
void PointToPoint::go_on(Order order, Arrival& arrival) {
  if (!arrival.segments.complete() || arrival.segments.stopped()) return;
  if (!arrival.receive) {
    arrival.held = true;
    return report(arrival, wire::SendState::kHeld);
  }
  if (!arrival.reported && !arrival.held) report(arrival, wire::SendState::kReceived);
  if (arrival.slot) {
    arrival.segments.copy_to(receives_.at(*arrival.receive).what.memory, context_.jobs.collected());
    return context_.start_jobs(arrival.jobs);
  }
  complete_receive(*arrival.receive, Status::kOk, {});
  drop(order);
}

// Rule 47.
void PointToPoint::ready(const Arrival& arrival, std::optional<StreamId> stream) {
  if (!stream) stream = context_.mesh.first_stream(arrival.from);
  if (stream) context_.mesh.say_on(*stream, wire::SendReady{arrival.offer.id, arrival.segments.have()});
}

// Rule 47: a segment is missing, and its sender may have sent it again already: that copy went to the sink.
void PointToPoint::ask_again(Arrival& arrival) {
  if (arrival.asked || !arrival.segments.has_sunk() || arrival.segments.stopped()) return;
  arrival.asked = true;
  ready(arrival, std::nullopt);
}

void PointToPoint::report(Arrival& arrival, wire::SendState state, Status status, std::string text) {
  arrival.reported = state != wire::SendState::kHeld;
  const auto pair = pairs_.find(arrival.from);
  if (pair == pairs_.end()) return;
  if (arrival.reported) {
    LOCKSTEP_ASSERT(pair->second.open_here > 0);
    --pair->second.open_here;
    if (arrival.offer.eager) --pair->second.eager_here;
  }
  say(arrival.from, pair->second, {.id = arrival.offer.id, .state = state, .status = status, .text = std::move(text)});
}

// Nobody takes the rest of it; its memory comes back first (rule 16).
void PointToPoint::close(Order order, Arrival& arrival) {
  arrival.segments.stop();
  closing_.insert(order);
  const auto untaken = untaken_.find(arrival.offer.tag);
  if (untaken == untaken_.end()) return;
  untaken->second.erase(order);
  if (untaken->second.empty()) untaken_.erase(untaken);
}

bool PointToPoint::drop_closed(Order order) {
  Arrival& arrival = arrivals_.at(order);
  const RoundKey key = wire::send_key(arrival.offer.id);
  const bool returned = context_.mesh.release_received(arrival.from, key, context_.now, context_.out());
  if (!returned || arrival.segments.jobs_running() > 0) return false;
  if (arrival.receive) {
    Error end = std::move(*receives_.at(*arrival.receive).end);
    complete_receive(*arrival.receive, end.status, std::move(end.text));
  }
  closing_.erase(order);
  drop(order);
  return true;
}

void PointToPoint::drop(Order order) {
  const auto at = arrivals_.find(order);
  Arrival& arrival = at->second;
  if (arrival.slot) slots_.give_back(*arrival.slot);
  context_.jobs.close(arrival.jobs);
  if (const auto pair = pairs_.find(arrival.from); pair != pairs_.end()) {
    if (!arrival.reported) report(arrival, wire::SendState::kFreed);
    pair->second.arrivals.erase(arrival.offer.id);
  }
  arrivals_.erase(at);
}

// ---- messages ----

void PointToPoint::on_message(PeerId from, StripeIndex stripe, StreamId stream, const wire::Message& message) {
  if (gone_.contains(from) || (!pairs_.contains(from) && pairs_.size() >= kMostPairs)) return;
  const bool good = std::visit(overloaded{[&](const wire::SendOffer& in) { return on_offer(from, stream, in); },
                                          [&](const wire::SendReport& in) { return on_report(from, stream, in); },
                                          [&](const wire::SendReady& in) { return on_ready(from, stripe, stream, in); },
                                          [&](const wire::SendsHeard& in) { return on_heard(from, stream, in); },
                                          [](const auto&) { return false; }},
                               message);
  if (good) return;
  (void)context_.mesh.reset(stream, "a message that does not fit the transfers of this member", context_.now,
                            context_.out());
}

// Rule 3. An honest sender offers no more than this.
bool PointToPoint::is_sound(const Pair& pair, const wire::SendOffer& offer) {
  if (offer.id != pair.last + 1 || offer.segment_bytes == 0) return false;
  if (offer.count > kMaxTransferBytes / size_of(offer.type)) return false;
  const std::uint64_t bytes = offer.count * size_of(offer.type);
  const std::uint64_t segments = (bytes + offer.segment_bytes - 1) / offer.segment_bytes;
  if (segments > kMaxSegments || pair.open_here >= kMaxOffers) return false;
  if (!offer.eager) return true;
  return segments == 1 && bytes <= kEarlySlotBytes && pair.eager_here < kMaxEagerSends;
}

bool PointToPoint::on_offer(PeerId from, StreamId stream, const wire::SendOffer& offer) {
  using Position = NumberedMessages::Position;
  Pair& pair = pair_with(from);
  if (!pair.messages.acknowledge(offer.heard)) return false;
  const Position position = pair.messages.position_of(offer.number);
  if (position == Position::kOld) tell_owed(pair, stream);
  if (position != Position::kNext) return true;
  if (!is_sound(pair, offer)) return false;
  pair.messages.hear();
  pair.last = offer.id;
  ++pair.open_here;
  if (offer.eager) ++pair.eager_here;
  const Order order = ++begun_;
  Arrival& arrival = arrivals_[order];
  arrival.from = from;
  arrival.offer = offer;
  arrival.segments = IncomingSegments(offer.count * size_of(offer.type), offer.segment_bytes);
  arrival.jobs = context_.jobs.open(Jobs::Use::kReceive, order);
  pair.arrivals.emplace(offer.id, order);
  if (leaving_) {
    report(arrival, wire::SendState::kRefused, Status::kPeerLost,
           context_.name_of(context_.options.id) + " leaves the run and receives nothing more");
    close(order, arrival);
  } else if (const auto receive = find_receive(arrival)) {
    match(*receive, order);
  } else {
    untaken_[offer.tag].insert(order);
    go_on(order, arrival);  // an empty tensor is here
  }
  if (pair.messages.owed() >= kMostOwed) tell_owed(pair, stream);
  return true;
}

void PointToPoint::tell_owed(Pair& pair, StreamId stream) {
  context_.mesh.say_on(stream, wire::SendsHeard{pair.messages.tell_heard(), false});
}

bool PointToPoint::on_heard(PeerId from, StreamId stream, const wire::SendsHeard& heard) {
  Pair& pair = pair_with(from);
  if (!pair.messages.acknowledge(heard.heard)) return false;
  if (heard.answer) tell_owed(pair, stream);
  return true;
}

bool PointToPoint::on_report(PeerId from, StreamId stream, const wire::SendReport& report) {
  using Position = NumberedMessages::Position;
  Pair& pair = pair_with(from);
  if (!pair.messages.acknowledge(report.heard)) return false;
  const Position position = pair.messages.position_of(report.number);
  if (position == Position::kOld) tell_owed(pair, stream);
  if (position != Position::kNext) return true;
  if (report.state == wire::SendState::kWithdrawn) {
    if (report.id > pair.last || report.status == Status::kOk) return false;
    pair.messages.hear();
    on_withdrawn(pair, report);
  } else if (!on_answer(from, pair, report)) {
    return false;
  }
  if (pair.messages.owed() >= kMostOwed) tell_owed(pair, stream);
  return true;
}

// What the receiver says of a send of this peer.
bool PointToPoint::on_answer(PeerId from, Pair& pair, const wire::SendReport& report) {
  using State = wire::SendState;
  if ((report.state == State::kRefused) != (report.status != Status::kOk)) return false;
  if (report.state == State::kFreed) {
    const auto held = pair.held.find(report.id);
    if (held == pair.held.end()) return false;
    pair.messages.hear();
    if (held->second) --pair.eager;
    pair.held.erase(held);
    offer_queued(from, pair);
    return true;
  }
  const auto at = pair.open.find(report.id);
  if (at == pair.open.end()) return false;
  pair.messages.hear();
  const auto [order, eager] = at->second;
  pair.open.erase(at);
  if (report.state == State::kHeld) {
    pair.held.emplace(report.id, eager);
  } else if (eager) {
    --pair.eager;
  }
  if (order != 0) {
    Sending& send = sends_.at(order);
    std::string text = plain(cut(report.text, kMaxTextBytes));
    end_send(order, send, report.status, std::move(text), false);
  }
  offer_queued(from, pair);
  return true;
}

// The send has ended at its sender. Unless a receive has all of it, nothing takes it.
void PointToPoint::on_withdrawn(Pair& pair, const wire::SendReport& report) {
  const auto at = pair.arrivals.find(report.id);
  if (at == pair.arrivals.end()) return;
  const Order order = at->second;
  Arrival& arrival = arrivals_.at(order);
  if (arrival.reported || arrival.segments.stopped()) return;
  std::string text = plain(cut(report.text, kMaxTextBytes));
  if (arrival.receive) {
    if (arrival.segments.complete()) return;  // it is being copied
    Receiving& receive = receives_.at(*arrival.receive);
    return end_receive(*arrival.receive, receive, report.status, std::move(text), true);
  }
  if (!arrival.held) this->report(arrival, wire::SendState::kRefused, report.status, std::move(text));
  if (arrival.held) this->report(arrival, wire::SendState::kFreed);
  close(order, arrival);
}

// Rule 47.
bool PointToPoint::on_ready(PeerId from, StripeIndex stripe, StreamId stream, const wire::SendReady& ready) {
  Pair& pair = pair_with(from);
  if (ready.id == 0 || ready.id > pair.offered) return false;
  const auto at = pair.open.find(ready.id);
  if (at == pair.open.end() || at->second.order == 0) return true;  // it has ended meanwhile
  Sending& send = sends_.at(at->second.order);
  send.asked = true;
  if (!send.segments.grant(ready.have, stripe, stream)) return false;
  if (send.eager && ready.have.empty()) send.segments.send_whole();
  prepare(send);
  list(at->second.order, send);
  return true;
}

void PointToPoint::say(PeerId to, Pair& pair, wire::SendReport report) {
  report.text = cut(report.text, kMaxTextBytes);
  const wire::SendReport& said = pair.messages.say(std::move(report));
  const std::optional<StreamId> stream = pair.repeats ? std::nullopt : context_.mesh.first_stream(to);
  if (stream) context_.mesh.say_on(*stream, said);
}

// Rule 45: on another stream than before, all that the other side may not have heard. A segment that went with its
// offer goes again with it.
void PointToPoint::repeat(PeerId to, Pair& pair) {
  const std::optional<StreamId> stream = context_.mesh.first_stream(to);
  if (!stream) return;
  pair.repeats = false;
  --repeating_;
  pair.asked = 0;
  std::set<std::uint64_t> unheard;
  for (NumberedMessages::Said said : pair.messages.unheard()) {
    if (said.offer) {
      unheard.insert(said.offer->id);
      said.offer->heard = pair.messages.tell_heard();
      context_.mesh.say_on(*stream, *said.offer);
    } else {
      said.report->heard = pair.messages.tell_heard();
      context_.mesh.say_on(*stream, *said.report);
    }
  }
  for (const auto& [id, open] : pair.open) {
    if (open.order == 0 || !open.eager || mutant(Mutant::kEarlySendNotRepeated)) continue;
    Sending& send = sends_.at(open.order);
    if (send.asked || (send.bound.value != 0 && !unheard.contains(id))) continue;
    send.bound = *stream;
    send.segments.send_whole();
    prepare(send);
    list(open.order, send);
  }
}

// ---- segments ----

ring::Operation::SegmentPlace PointToPoint::on_segment_began(PeerId from, StreamId stream,
                                                             const wire::Segment& segment) {
  using Landing = ring::Operation::Landing;
  const auto pair = pairs_.find(from);
  if (pair == pairs_.end() || segment.key != wire::send_key(segment.key.tag.value) || segment.attempt.value != 0) {
    return {pair == pairs_.end() ? Landing::kSink : Landing::kNonsense, {}};
  }
  const auto at = pair->second.arrivals.find(segment.key.tag.value);
  if (at == pair->second.arrivals.end()) return {Landing::kSink, {}};
  Arrival& arrival = arrivals_.at(at->second);
  if (!arrival.segments.has_place() && !arrival.segments.stopped() && arrival.offer.eager) {
    arrival.slot = slots_.take(arrival.segments.tensor().memory.length);
    if (arrival.slot) arrival.segments.set_place(*arrival.slot);
  }
  return arrival.segments.begin(segment, stream);
}

void PointToPoint::on_segment_ended(PeerId from, StreamId /*stream*/, const wire::SegmentEnded& segment) {
  const auto pair = pairs_.find(from);
  if (pair == pairs_.end()) return;
  const auto at = pair->second.arrivals.find(segment.segment.key.tag.value);
  if (at == pair->second.arrivals.end()) return;
  Arrival& arrival = arrivals_.at(at->second);
  arrival.segments.landed(segment.segment, segment.taken_back, segment.checksum, context_.jobs.collected());
  context_.start_jobs(arrival.jobs);
}

void PointToPoint::on_arrival_job_done(Order order, const JobDone& in) {
  Arrival& arrival = arrivals_.at(order);
  const IncomingSegments::Finished finished = arrival.segments.job_done(Jobs::own(in.token), in.result);
  if (arrival.segments.stopped()) return;
  if (finished.copied) {
    complete_receive(*arrival.receive, Status::kOk, {});
    return drop(order);
  }
  if (!finished.corrupt) return go_on(order, arrival);
  const char* const why = "a segment of a transfer whose checksum is wrong";  // rule 35
  context_.mesh.reopen(finished.stream, arrival.from, why, context_.now, context_.out());
  if (!finished.faulty) return ask_again(arrival);
  std::string text = "what " + name_of(arrival.from) + " sent with tag " + std::to_string(arrival.offer.tag.value) +
                     " to " + context_.name_of(context_.options.id) +
                     " arrived again and again with a wrong checksum: the program of the sender or of the receiver "
                     "wrote to the tensor before the call had ended, or the memory or the CPU of one of the two hosts "
                     "is faulty";
  if (arrival.receive) {
    Receiving& receive = receives_.at(*arrival.receive);
    return end_receive(*arrival.receive, receive, Status::kInternal, std::move(text), true);
  }
  report(arrival, wire::SendState::kRefused, Status::kInternal, std::move(text));
  close(order, arrival);
}

bool PointToPoint::has_segments_for(PeerId to) const {
  if (sendable_ == 0) return false;
  const auto pair = pairs_.find(to);
  return pair != pairs_.end() && !(pair->second.small.empty() && pair->second.large.empty());
}

bool PointToPoint::next_small_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) {
  const Pair& pair = pairs_.at(to);
  for (const Order order : pair.small) {
    Sending& send = sends_.at(order);
    if (!send.asked && send.bound != stream) continue;
    give(order, send, stripe, stream, writer);
    return true;
  }
  return false;
}

bool PointToPoint::next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) {
  const Pair& pair = pairs_.at(to);
  if (pair.large.empty()) return false;
  const Order order = *pair.large.begin();
  give(order, sends_.at(order), stripe, stream, writer);
  return true;
}

void PointToPoint::give(Order order, Sending& send, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) {
  const OutgoingSegments::Outgoing next = send.segments.next(stripe, stream);
  writer.segment({wire::send_key(send.id),
                  {},
                  wire::Phase::kTransfer,
                  next.index,
                  static_cast<std::uint32_t>(next.payload.length)},
                 context_.session.term(), next.payload, next.checksum);
  prepare(send);
  list(order, send);
  if (send.eager && mutant(Mutant::kSendEndsEarly)) {
    pairs_.at(send.what.peer).open.at(send.id).order = 0;
    end_send(order, send, Status::kOk, {}, false);
  }
}

// ---- streams ----

void PointToPoint::on_stripe_up(PeerId peer, StripeIndex /*stripe*/, StreamId stream) {
  const auto at = pairs_.find(peer);
  if (at == pairs_.end()) return;
  Pair& pair = at->second;
  if (!std::exchange(pair.repeats, true)) ++repeating_;
  if (mutant(Mutant::kTransferReadyNotRepeated)) return;
  for (const auto& [id, order] : pair.arrivals) {
    const Arrival& arrival = arrivals_.at(order);
    if (arrival.asked && !arrival.segments.complete() && !arrival.segments.stopped()) ready(arrival, stream);
  }
}

void PointToPoint::on_stream_gone(PeerId peer, StreamId stream) {
  for (auto& [order, arrival] : arrivals_) {
    if (arrival.from == peer && arrival.segments.stream_closed(stream)) ask_again(arrival);
  }
  const auto at = pairs_.find(peer);
  if (at == pairs_.end()) return;
  Pair& pair = at->second;
  if (!std::exchange(pair.repeats, true)) ++repeating_;
  for (const auto& [id, open] : pair.open) {
    if (open.order == 0) continue;
    Sending& send = sends_.at(open.order);
    if (send.bound != stream) continue;
    send.bound = {};
    list(open.order, send);
  }
}

}  // namespace lockstep::peer
