#include "core/peer/point_to_point.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/base/text.h"
#include "core/ring/schedule.h"
#include "core/trace/event.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// Members that are gone and remembered by name.
constexpr std::size_t kMostGone = kMaxMembers;

// Whether the send may go before the receiver has asked for it.
bool fits_early(const CutTensor& tensor) { return tensor.segments() == 1 && tensor.memory.length <= kEarlySlotBytes; }

}  // namespace

// ---- words ----

std::string PointToPoint::words_of(DataType type, std::uint64_t count) {
  return std::string(lockstep::name_of(type)) + " [" + std::to_string(count) + "]";
}

std::string PointToPoint::name_of(PeerId peer) const {
  const auto gone = gone_.find(peer);
  return gone == gone_.end() ? context_.name_of(peer) : gone->second.name;
}

// "send of f32 [3] with tag 5 to b".
std::string PointToPoint::words_of(const Transfer& what, std::string_view verb) const {
  std::string text(verb);
  text.append(" of ").append(words_of(what.type, what.count));
  text.append(" with tag ").append(std::to_string(what.tag.value));
  text.append(verb == "send" ? " to " : " from ");
  return text.append(what.peer.is_nobody() ? "any member" : name_of(what.peer));
}

// Why a transfer has not ended.
std::string PointToPoint::waits_for(const Transfer& what, std::string_view verb) const {
  if (!what.peer.is_nobody() && !context_.mesh.first_stream(what.peer)) {
    return "there is no connection to " + name_of(what.peer);
  }
  if (verb == "send") return name_of(what.peer) + " has not received it";
  if (what.peer.is_nobody()) return "no member has sent it";
  const std::string name = name_of(what.peer);
  if (const auto pair = pairs_.find(what.peer); pair != pairs_.end() && pair->second.open_here >= kMaxOffers) {
    return std::to_string(kMaxOffers) + " sends of " + name +
           " wait here to be received, and it offers no more before: receive these first";
  }
  return name + " has not sent it";
}

// ---- calls ----

std::optional<Error> PointToPoint::validate(const Transfer& what, std::string_view verb) const {
  const auto invalid = [&](const std::string& why) {
    return Error{Status::kInvalidArgument, std::string(verb) + ": " + why};
  };
  if (what.count > kMaxTransferBytes / size_of(what.type)) {
    return invalid(words_of(what.type, what.count) + " is larger than " + std::to_string(kMaxTransferBytes) +
                   " bytes: cut it into several tensors");
  }
  if (what.memory.length != what.count * size_of(what.type)) {
    return invalid("memory of " + std::to_string(what.memory.length) + " bytes for " + words_of(what.type, what.count));
  }
  if (what.peer == context_.options.id) return invalid("the other member is this peer itself");
  if (what.peer.is_nobody() && verb == "send") return invalid("no peer has the id 0: give the id of a member");
  return std::nullopt;
}

// Why there will be no such transfer: the other peer is no member, or out of reach (rule 70).
std::optional<Error> PointToPoint::validate_partner(const Transfer& what, std::string_view verb) const {
  if (what.peer.is_nobody()) return std::nullopt;
  const auto error = [&](Status status, const std::string& why) {
    return Error{status, words_of(what, verb) + ": " + why};
  };
  if (Views::has_member(*context_.view, what.peer)) {
    const Contact* const contact = views_.find_contact(what.peer);
    if (contact == nullptr || contact->can_link || context_.mesh.first_stream(what.peer)) return std::nullopt;
    return error(Status::kUnreachable, "there is no way to " + name_of(what.peer) + ": " + no_way());
  }
  const auto gone = gone_.find(what.peer);
  if (gone == gone_.end()) return error(Status::kInvalidArgument, "that peer is no member of the run");
  return error(Status::kPeerLost, gone->second.name + (gone->second.left ? " has left the run" : " was lost"));
}

// Rule 44: the first transfer between two members makes their link, which stays.
PointToPoint::Pair& PointToPoint::pair_with(PeerId peer) {
  const auto [at, fresh] = pairs_.try_emplace(peer);
  if (fresh) relinks_ = true;
  return at->second;
}

void PointToPoint::send(Send in) {
  if (auto error = validate(in.what, "send")) return context_.fail(in.call, error->status, std::move(error->text));
  if (auto error = validate_partner(in.what, "send")) {
    return context_.fail(in.call, error->status, std::move(error->text));
  }
  const Order order = ++begun_;
  Sending& send = sends_[order];
  send.call = in.call;
  send.what = in.what;
  send.launched = context_.now;
  send.deadline = context_.deadline_after(in.what.timeout);
  if (send.deadline != kNever) deadlines_.emplace(send.deadline, order);
  calls_.emplace(in.call, order);
  look_after(send.launched);
  const std::uint64_t bytes = in.what.memory.length;
  send.segments = OutgoingSegments(in.what.memory, transfer_segment_bytes(bytes, context_.options.segment_bytes));
  send.jobs = context_.jobs.open(Jobs::Use::kSend, order);
  if (fits_early(send.segments.tensor())) prepare(send);
  Pair& pair = pair_with(in.what.peer);
  pair.queued.insert(order);
  offer_queued(in.what.peer, pair);
}

void PointToPoint::receive(Receive in) {
  if (auto error = validate(in.what, "recv")) return context_.fail(in.call, error->status, std::move(error->text));
  const Order order = ++begun_;
  Receiving& receive = receives_[order];
  receive.call = in.call;
  receive.what = in.what;
  receive.launched = context_.now;
  receive.deadline = context_.deadline_after(in.what.timeout);
  if (mutant(Mutant::kTransferEndsEarly) && !deadlines_.empty()) receive.deadline = deadlines_.begin()->first;
  if (receive.deadline != kNever) deadlines_.emplace(receive.deadline, order);
  calls_.emplace(in.call, order);
  look_after(receive.launched);
  waiting_[in.what.tag].insert(order);
  find_arrival(order);
  const auto at = receives_.find(order);
  if (at == receives_.end() || at->second.arrival) return;
  if (auto error = validate_partner(in.what, "recv")) {
    return end_receive(order, at->second, error->status, std::move(error->text), false);
  }
  if (!in.what.peer.is_nobody()) pair_with(in.what.peer);
}

// Rule 46: sends are offered in the order of their calls. One that is small goes with its offer, as long as the
// receiver keeps few such.
void PointToPoint::offer_queued(PeerId to, Pair& pair) {
  while (!pair.queued.empty() && pair.open.size() + pair.held.size() < kMaxOffers) {
    const Order order = *pair.queued.begin();
    Sending& send = sends_.at(order);
    if (send.segments.jobs_running() > 0) return;  // its hash
    pair.queued.erase(pair.queued.begin());
    send.id = ++pair.offered;
    send.eager = fits_early(send.segments.tensor()) && pair.eager < kMaxEagerSends;
    if (send.eager) ++pair.eager;
    pair.open.emplace(send.id, Open{order, send.eager});
    const std::optional<StreamId> stream = pair.repeats ? std::nullopt : context_.mesh.first_stream(to);
    const wire::SendOffer& offer =
        pair.messages.say(wire::SendOffer{.id = send.id,
                                          .tag = send.what.tag,
                                          .type = send.what.type,
                                          .count = send.what.count,
                                          .segment_bytes = send.segments.tensor().segment_bytes,
                                          .eager = send.eager});
    if (stream) context_.mesh.say_on(*stream, offer);
    if (!send.eager) continue;
    send.bound = stream.value_or(StreamId{});
    send.segments.send_whole();
    list(order, send);
  }
}

void PointToPoint::prepare(Sending& send) {
  send.segments.prepare(context_.jobs.collected());
  context_.start_jobs(send.jobs);
}

// Keeps the lists of sends that have a segment which may go now.
void PointToPoint::list(Order order, Sending& send) {
  const auto at = pairs_.find(send.what.peer);
  if (at == pairs_.end()) return;
  const bool may = !send.end && send.segments.has_next() && (send.asked || send.bound.value != 0);
  if (may == send.listed) return;
  std::set<Order>& list = send.is_small() ? at->second.small : at->second.large;
  send.listed = may;
  if (may) {
    ++sendable_;
    list.insert(order);
  } else {
    --sendable_;
    list.erase(order);
  }
}

bool PointToPoint::stop(CallId call, const std::string& why) {
  const auto at = calls_.find(call);
  if (at == calls_.end()) return false;
  end_call(at->second, Status::kAborted, "aborted by " + context_.name_of(context_.options.id) + ": " + why, true);
  return true;
}

void PointToPoint::on_timer() {
  if (context_.now >= long_waits_.look_at) tell_long_waits();
  while (!deadlines_.empty() && deadlines_.begin()->first <= context_.now) {
    const Order order = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    const auto send = sends_.find(order);
    const Transfer& what = send != sends_.end() ? send->second.what : receives_.at(order).what;
    const std::string why = waits_for(what, send != sends_.end() ? "send" : "recv");
    end_call(order, Status::kTimedOut,
             context_.name_of(context_.options.id) + " timed out after " + std::to_string(what.timeout.ns / 1'000'000) +
                 " ms: " + why,
             true);
  }
}

void PointToPoint::look_after(Instant launched) {
  long_waits_.look_at = std::min(long_waits_.look_at, launched + context_.long_wait());
}

// Rule 54: the coordinator gets the list of the oldest transfers that wait for their partner, when it has changed.
void PointToPoint::tell_long_waits() {
  long_waits_.look_at = kNever;
  std::map<Order, std::pair<const Transfer*, Duration>> waits;
  const auto look = [&](Order order, const Transfer& what, Instant launched) {
    const Duration age = context_.now - launched;
    const bool is_long = age >= context_.long_wait();
    look_after(is_long ? context_.now : launched);
    if (!is_long) return;
    waits.emplace(order, std::pair{&what, age});
    if (waits.size() > kMaxWaitsTold) waits.erase(std::prev(waits.end()));
  };
  for (const auto& [order, send] : sends_) {
    if (send.waits()) look(order, send.what, send.launched);
  }
  for (const auto& [order, receive] : receives_) {
    if (receive.waits()) look(order, receive.what, receive.launched);
  }
  wire::TransfersWait said;
  std::set<Order> told;
  for (const auto& [order, wait] : waits) {
    const auto& [what, age] = wait;
    const bool receives = receives_.contains(order);
    said.transfers.push_back({what->peer, what->tag, receives, age});
    told.insert(order);
    if (!long_waits_.told.contains(order)) note_wait(*what, receives ? "recv" : "send", age);
  }
  if (told != long_waits_.told) context_.session.say(said);
  long_waits_.told = std::move(told);
}

std::string PointToPoint::oldest() const {
  const auto waits = [](const auto& entry) { return entry.second.waits(); };
  const auto send = std::find_if(sends_.begin(), sends_.end(), waits);
  const auto receive = std::find_if(receives_.begin(), receives_.end(), waits);
  const bool sends = send != sends_.end() && (receive == receives_.end() || send->first < receive->first);
  if (sends) return words_of(send->second.what, "send");
  return receive == receives_.end() ? std::string{} : words_of(receive->second.what, "recv");
}

void PointToPoint::note_wait(const Transfer& what, std::string_view verb, Duration age) const {
  const std::string text = wire::has_waited(words_of(what, verb), std::nullopt, age) + ": " + waits_for(what, verb);
  context_.note(
      {.kind = trace::Kind::kCallWaits, .view = {}, .peer = what.peer, .round = {}, .number = 1, .text = text});
}

void PointToPoint::on_job_done(const Jobs::Owner& owner, const JobDone& in) {
  if (owner.use == Jobs::Use::kReceive) return on_arrival_job_done(owner.id, in);
  Sending& send = sends_.at(owner.id);
  if (!send.segments.job_done(Jobs::own(in.token), in.result)) {  // rule 35
    end_call(owner.id, Status::kInvalidArgument,
             "the tensor changed during the send of " + context_.name_of(context_.options.id) +
                 ": the program must not write to it before the send has ended (if the program does not, the memory or "
                 "the CPU of the host is faulty)",
             true);
  }
  list(owner.id, send);
  if (const auto pair = pairs_.find(send.what.peer); pair != pairs_.end()) offer_queued(pair->first, pair->second);
}

// ---- how calls end ----

void PointToPoint::end_call(Order order, Status status, const std::string& text, bool tell) {
  if (const auto send = sends_.find(order); send != sends_.end()) {
    return end_send(order, send->second, status, words_of(send->second.what, "send") + ": " + text, tell);
  }
  Receiving& receive = receives_.at(order);
  end_receive(order, receive, status, words_of(receive.what, "recv") + ": " + text, tell);
}

// The memory comes back first (rule 16); drive() sees to the rest. `tell`: the receiver does not know.
void PointToPoint::end_send(Order order, Sending& send, Status status, std::string text, bool tell) {
  if (send.end) return;
  deadlines_.erase({send.deadline, order});
  send.segments.stop();
  send.end = Error{status, std::move(text)};
  list(order, send);
  ending_.insert(order);
  const auto pair = pairs_.find(send.what.peer);
  if (pair == pairs_.end()) return;
  if (send.id == 0) {
    pair->second.queued.erase(order);
    if (tell) offer_queued(pair->first, pair->second);
  } else if (tell) {
    pair->second.open.at(send.id).order = 0;
    say(send.what.peer, pair->second,
        {.id = send.id, .state = wire::SendState::kWithdrawn, .status = status, .text = send.end->text});
  }
}

void PointToPoint::end_receive(Order order, Receiving& receive, Status status, std::string text, bool tell) {
  if (receive.end) return;
  deadlines_.erase({receive.deadline, order});
  if (!receive.arrival) {
    untake(receive, order);
    return complete_receive(order, status, std::move(text));
  }
  Arrival& arrival = arrivals_.at(*receive.arrival);
  if (tell && !arrival.reported) {
    arrival.held ? report(arrival, wire::SendState::kFreed) : report(arrival, wire::SendState::kRefused, status, text);
  }
  receive.end = Error{status, std::move(text)};
  close(*receive.arrival, arrival);
}

// False: memory is still lent.
bool PointToPoint::complete_send(Order order) {
  Sending& send = sends_.at(order);
  const bool returned =
      send.id == 0 || context_.mesh.release_sent(send.what.peer, wire::send_key(send.id), context_.out());
  if (!returned || send.segments.jobs_running() > 0) return false;
  Outcome outcome;
  outcome.status = send.end->status;
  outcome.text = std::move(send.end->text);
  outcome.transfer.tag = send.what.tag;
  outcome.transfer.partner = send.what.peer;
  outcome.transfer.count = outcome.status == Status::kOk ? send.what.count : 0;
  outcome.bytes_sent = send.segments.bytes_sent();
  context_.jobs.close(send.jobs);
  context_.complete(send.call, std::move(outcome));
  calls_.erase(send.call);
  ending_.erase(order);
  sends_.erase(order);
  return true;
}

void PointToPoint::complete_receive(Order order, Status status, std::string text) {
  const auto at = receives_.find(order);
  const Receiving& receive = at->second;
  deadlines_.erase({receive.deadline, order});
  Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(text);
  outcome.transfer.tag = receive.what.tag;
  outcome.transfer.partner = receive.arrival ? arrivals_.at(*receive.arrival).from : receive.what.peer;
  if (status == Status::kOk) {
    outcome.transfer.count = receive.what.count;
    outcome.bytes_received = receive.what.memory.length;
  }
  context_.complete(receive.call, std::move(outcome));
  calls_.erase(receive.call);
  receives_.erase(at);
}

// ---- changes of the membership ----

// Rule 48. What a member that is gone had delivered stays: it waits in the early buffer for its receive.
void PointToPoint::on_view(const wire::View& before, const wire::Propose& change) {
  for (const wire::Member& member : before.members) {
    if (Views::has_member(change.view, member.id) || member.id == context_.options.id) continue;
    const bool left = std::find(change.left.begin(), change.left.end(), member.id) != change.left.end();
    if (gone_.size() >= kMostGone) gone_.erase(gone_.begin());
    gone_[member.id] = Gone{trace::short_name(member.id, member.name), left};
    const std::string fate = gone_[member.id].name + (left ? " has left the run" : " was lost");
    std::vector<Order> sends;
    std::vector<Order> receives;
    for (const auto& [order, send] : sends_) {
      if (send.what.peer == member.id || mutant(Mutant::kAnyLossEndsSends)) sends.push_back(order);
    }
    for (const auto& [order, receive] : receives_) {
      const Arrival* const arrival = receive.arrival ? &arrivals_.at(*receive.arrival) : nullptr;
      const bool here = arrival != nullptr && arrival->segments.complete();
      if (arrival != nullptr ? arrival->from == member.id && !here : receive.what.peer == member.id)
        receives.push_back(order);
    }
    const bool tell = mutant(Mutant::kAnyLossEndsSends);  // a receiver that lives
    for (const Order order : sends) end_call(order, Status::kPeerLost, fate + " before it had received it", tell);
    for (const Order order : receives) end_call(order, Status::kPeerLost, fate + " before it had sent it", false);
    for (auto& [order, arrival] : arrivals_) {
      if (arrival.from == member.id && !arrival.receive && !arrival.held) close(order, arrival);
    }
    if (const auto pair = pairs_.find(member.id); pair != pairs_.end()) {
      if (pair->second.repeats) --repeating_;
      pairs_.erase(pair);
    }
  }
}

void PointToPoint::begin_leave() {
  leaving_ = true;
  std::vector<Order> unmatched;
  for (const auto& [order, receive] : receives_) {
    if (!receive.arrival) unmatched.push_back(order);
  }
  for (const Order order : unmatched) {
    end_call(order, Status::kNotConnected, "this peer leaves the run, and nothing of the kind had been sent", false);
  }
  const std::string why = context_.name_of(context_.options.id) + " leaves the run and receives nothing more";
  for (auto& [order, arrival] : arrivals_) {
    if (arrival.receive || arrival.held || arrival.segments.stopped()) continue;
    report(arrival, wire::SendState::kRefused, Status::kPeerLost, why);
    close(order, arrival);
  }
}

// A report that cannot be said, because there is no connection, does not hold this peer.
bool PointToPoint::may_leave() const {
  return empty() && std::all_of(pairs_.begin(), pairs_.end(), [&](const auto& entry) {
           return entry.second.messages.unheard().empty() || !context_.mesh.first_stream(entry.first);
         });
}

void PointToPoint::end(Status status, const std::string& text) {
  std::vector<Order> receives;
  for (auto& [order, send] : sends_) {
    const bool offered = send.id != 0;
    end_send(order, send, offered ? Status::kOutcomeUnknown : status,
             words_of(send.what, "send") + " was not delivered: " + text, false);
  }
  for (const auto& [order, receive] : receives_) receives.push_back(order);
  for (const Order order : receives) end_call(order, status, text, false);
  for (auto& [order, arrival] : arrivals_) close(order, arrival);
  pairs_.clear();
  gone_.clear();
  long_waits_.told.clear();
  repeating_ = 0;
}

// ---- links ----

void PointToPoint::on_caller(PeerId from) {
  if (!gone_.contains(from) && (pairs_.contains(from) || pairs_.size() < kMostPairs)) pair_with(from);
}

void PointToPoint::add_links(Views::Links& links) const {
  for (const auto& [peer, pair] : pairs_) {
    const Contact* const contact = views_.find_contact(peer);
    if (contact == nullptr) continue;
    Mesh::Wanted& link = links.try_emplace(peer, Mesh::Wanted{*contact, false}).first->second;
    // Rule 44. Neighbours want the link on both sides; the other side may have no other use for any other link.
    if (!link.needed && !link.prefetch_key) link.use = wire::LinkUse::kTransfer;
  }
}

// ---- after every step ----

void PointToPoint::drive_all() {
  if (repeating_ > 0) {
    for (auto& [peer, pair] : pairs_) {
      if (pair.repeats) repeat(peer, pair);
    }
  }
  if (!ending_.empty()) {
    const std::vector<Order> ending(ending_.begin(), ending_.end());
    for (const Order order : ending) (void)complete_send(order);
  }
  if (!closing_.empty()) {
    const std::vector<Order> closing(closing_.begin(), closing_.end());
    for (const Order order : closing) (void)drop_closed(order);
  }
  if (!leaving_) return;
  for (auto& [peer, pair] : pairs_) {
    if (pair.messages.unheard().empty() || pair.asked == pair.messages.said()) continue;
    const std::optional<StreamId> stream = context_.mesh.first_stream(peer);
    if (!stream || pair.repeats) continue;
    pair.asked = pair.messages.said();
    context_.mesh.say_on(*stream, wire::SendsHeard{pair.messages.tell_heard(), true});
  }
}

}  // namespace lockstep::peer
