#include "core/coordinator/machine.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

constexpr std::size_t kMostQueuedBeforeKnock = 64U << 10U;  // bytes for a member, with which a knock is dropped

}  // namespace

Coordinator::Machine::Machine(const CoordinatorOptions& options, Instant now) : context_(options, now) {
  LOCKSTEP_ASSERT(validate_options(options).empty());
}

void Coordinator::Machine::step(Input& input, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(now >= context_.now);  // drivers never run time backwards
  context_.now = now;
  context_.effects = &out;
  bool is_news = true;  // a decision may depend on the input
  if (!is_of_dial_back(input)) {
    std::visit(overloaded{
                   [&](Timer&) { on_timer(); }, [&](io::Accepted& in) { connections_.on_accepted(in); },
                   [&](io::ReadDone& in) {
                     connections_.on_read_done(in);
                     take_events(in.stream);
                   },
                   [&](io::WriteDone& in) {
                     connections_.on_write_done(in);
                     is_news = false;
                   },
                   [&](io::Revoked& in) { connections_.on_revoked(in); }, [&](io::Closed& in) { on_closed(in); },
                   [&](ChangeGrants& in) { on_change(in); }, [](io::Opened&) {},  // only DialBack dials
               },
               input);
  }
  for (const DialBack::Answer& answer : dial_back_.take_answers()) on_dialled_back(answer);
  if (is_news) decide();
  announce_published();
  pump();
  context_.effects = nullptr;
}

// ---- inputs ----

bool Coordinator::Machine::is_of_dial_back(const Input& input) {
  const auto pass = [&](StreamId stream, auto take) {
    if (!dial_back_.owns(stream)) return false;
    take();
    return true;
  };
  return std::visit(overloaded{
                        [&](const io::Opened& in) { return pass(in.stream, [&] { dial_back_.on_opened(in); }); },
                        [&](const io::ReadDone& in) { return pass(in.stream, [&] { dial_back_.on_read_done(in); }); },
                        [&](const io::WriteDone& in) { return pass(in.stream, [&] { dial_back_.on_write_done(in); }); },
                        [&](const io::Revoked& in) { return pass(in.stream, [&] { dial_back_.on_revoked(in); }); },
                        [&](const io::Closed& in) { return pass(in.stream, [&] { dial_back_.on_closed(in); }); },
                        [](const auto&) { return false; },
                    },
                    input);
}

// Rule 70.
void Coordinator::Machine::on_dialled_back(const DialBack::Answer& answer) {
  Candidate* const newcomer = membership_.candidate(answer.peer);
  if (newcomer == nullptr) return;
  newcomer->dialled_back = true;
  newcomer->member.calls_out = !answer.reached;
  if (answer.reached) return;
  context_.note({.kind = trace::Kind::kCallsOut,
                 .view = membership_.view().number,
                 .peer = answer.peer,
                 .round = {},
                 .text = "nobody can dial it at " + newcomer->member.address.text() + " (" + answer.why +
                         "), so it dials the others; forward this port to it to change that"});
}

void Coordinator::Machine::on_closed(const io::Closed& in) {
  const PeerId peer = connections_.on_closed(in);
  if (peer.is_nobody()) return;
  const std::string reason = in.text.empty() ? "" : " (" + in.text + ")";
  lose({peer, Status::kPeerLost, "its stream to the coordinator ended" + reason}, false);
}

// Rule 64.
void Coordinator::Machine::on_change(const ChangeGrants& in) {
  LOCKSTEP_ASSERT(validate_grants(in.grants).empty());
  for (Grants::Revoked& revoked : grants_.change(in.grants, in.barred)) {
    lose({revoked.peer, Status::kEvicted, std::move(revoked.why)});
  }
}

void Coordinator::Machine::on_timer() {
  // When this machine itself stood still, all peers seem silent: they get the lost time back (rule 24).
  const bool slept =
      context_.now - context_.next_timer > context_.options.heartbeat && !mutant(Mutant::kPauseIsSilence);
  for (const Eviction& peer : connections_.on_timer(slept)) lose(peer);
  dial_back_.on_timer(slept);
  for (const Eviction& mate : participants_.late_mates()) lose_one(mate);
  for (const Eviction& member : proposals_.late(slept)) lose(member);
  proposals_.miss_newcomers();
  for (const Eviction& newcomer : newcomers_.late(slept)) lose(newcomer);
  for (const Eviction& suspect : suspects()) lose(suspect);
  give_up_comparison(slept);
  waits_.on_timer();
  if (context_.now >= broken_links_.settles_at()) {
    changed_ = true;
  } else {
    context_.wake_at(broken_links_.settles_at());
  }
  if (connections_.size() == 0 && dial_back_.size() == 0) context_.next_timer = kNever;
}

void Coordinator::Machine::take_events(StreamId stream) {
  while (auto event = connections_.next_event(stream)) {
    std::visit(overloaded{
                   [&](Connections::Greeting& in) { on_greeting(in.stream, in.message); },
                   [&](Connections::FromPeer& in) { on_message(in.peer, in.message); },
                   [&](Connections::Violation& in) { lose_violator(in.peer, std::move(in.text)); },
               },
               *event);
  }
}

void Coordinator::Machine::on_greeting(StreamId stream, const wire::Message& message) {
  if (const auto* join = std::get_if<wire::Join>(&message)) return on_join(stream, *join);
  if (std::holds_alternative<wire::StatusRequest>(message)) {
    if (const auto error = grants_.validate_status_request(connections_.identity_of(stream), context_.now)) {
      return connections_.refuse(stream, error->status, error->text);
    }
    connections_.say_on(stream, snapshot(context_.now));
    return connections_.end(stream);
  }
  if (const auto* request = std::get_if<wire::EvictRequest>(&message)) return on_evict_request(stream, request->peer);
  if (std::holds_alternative<wire::Link>(message)) {
    return connections_.refuse(stream, Status::kProtocolError, "this is a coordinator, not a peer");
  }
  connections_.refuse(stream, Status::kProtocolError,
                      "a stream to a coordinator starts with Join, StatusRequest or EvictRequest");
}

// Rule 69.
void Coordinator::Machine::on_evict_request(StreamId stream, PeerId peer) {
  const io::Identity admin = connections_.identity_of(stream);
  if (const auto error = grants_.validate_eviction(admin, context_.now)) {
    return connections_.refuse(stream, error->status, error->text);
  }
  wire::EvictReply reply;
  if (participants_.contains(peer)) {
    const std::optional<io::Identity> identity = grants_.identity_of(peer);
    reply = {true, participants_.name_of(peer) + " is out of the run" + (identity ? grants_.way_back(*identity) : "")};
    if (identity) exclusions_.evicted(*identity, grants_.is_personal(identity->token), context_.now);
    lose({peer, Status::kEvicted, "an administrator (" + grants_.text_of(admin) + ") has evicted this peer"});
  } else {
    reply.text = "no peer " + trace::short_name(peer) + " is in the run, or waits: see `lockstep status`";
  }
  connections_.say_on(stream, reply);
  connections_.end(stream);
}

void Coordinator::Machine::on_join(StreamId stream, const wire::Join& join) {
  const io::Identity identity = connections_.identity_of(stream);
  if (const auto error = grants_.validate_join(identity, context_.now)) {
    return connections_.refuse(stream, error->status, error->text);
  }
  const auto excluded = exclusions_.validate_join(identity, context_.now);
  if (excluded && !mutant(Mutant::kViolatorReturns)) {
    return connections_.refuse(stream, excluded->status, excluded->text);
  }
  const io::Address& from = connections_.address_of(stream);
  Candidate candidate;
  candidate.member = {join.peer, join.group, join.gang, join.advertised, join.name, join.round_trip, identity.key};
  io::Address& address = candidate.member.address;
  if (join.advertised.family == io::Address::Family::kNone) {
    address = from;
    address.port = join.advertised.port;
  }
  if (dial_back_.is_on()) {
    candidate.member.outside = from;
    candidate.member.outside.port = 0;
    if (join.local.port != 0 && join.local != address) candidate.member.local = join.local;
  }
  candidate.gang_size = join.gang_size;
  candidate.founders = join.founders;
  candidate.auto_admit = join.auto_admit;
  const io::Address network = io::network_of(from);
  if (const auto error = validate_join(candidate, network)) {
    return connections_.refuse(stream, error->status, error->text);
  }
  connections_.identify(stream, join.peer, join.round_trip);
  participants_.add(join.peer, join.name, network);
  if (grants_.joined(join.peer, identity)) context_.out().emplace_back(TokenUsed{identity.token});
  connections_.say_on(stream, wire::Waiting{address, context_.options.heartbeat, context_.options.silence});
  const std::string by = context_.options.secured ? ", by " + grants_.text_of(identity) : std::string();
  context_.note({.kind = trace::Kind::kPeerWaiting,
                 .view = membership_.view().number,
                 .peer = join.peer,
                 .round = {},
                 .text = join.name + " at " + address.text() + by});
  candidate.dialled_back = !dial_back_.is_on();
  if (!candidate.dialled_back) dial_back_.begin(join.peer, address, identity.key);
  newcomers_.add(std::move(candidate));
}

std::optional<Error> Coordinator::Machine::validate_join(const Candidate& candidate, const io::Address& network) const {
  if (candidate.member.address.port == 0) {
    return Error{Status::kInvalidArgument, "a peer must say on which port it listens"};
  }
  if (auto error = membership_.validate(candidate)) return error;
  if (participants_.contains(candidate.member.id)) return Error{Status::kRefused, "this peer id has joined already"};
  if (participants_.size() + lost_.size() >= kMaxMembers) {
    return Error{Status::kRefused,
                 "the run is full: " + std::to_string(kMaxMembers) + " peers wait, are members, or leave"};
  }
  const auto waiting = std::ranges::count_if(membership_.candidates(), [&](const auto& entry) {
    const Participant* participant = participants_.find(entry.first);
    return participant != nullptr && participant->network == network;
  });
  if (static_cast<std::size_t>(waiting) < context_.options.waiting_of_one) return std::nullopt;
  return Error{Status::kRefused,
               std::to_string(context_.options.waiting_of_one) + " peers of your address wait already: no more may"};
}

void Coordinator::Machine::on_message(PeerId from, wire::Message& message) {
  const auto unexpected = [&] { lose_violator(from, "said what only a coordinator or a neighbour says"); };
  std::visit(overloaded{
                 [&](wire::Heartbeat&) {},
                 [&](wire::Done& in) { on_done(from, rounds_.on_done(from, in)); },
                 [&](wire::Claim& in) { on_done(from, rounds_.on_claim(from, in)); },
                 [&](wire::StateOutline& in) { on_done(from, rounds_.on_outline(from, std::move(in))); },
                 [&](wire::StateEntry& in) { on_done(from, rounds_.on_entry(from, std::move(in))); },
                 [&](wire::Admit& in) {
                   if (const auto eviction = participants_.admit(from, std::move(in))) return lose(*eviction);
                   waits_.on_admit();
                 },
                 [&](wire::AdmitCancel& in) { participants_.cancel_admit(from, in); },
                 [&](wire::Leave& in) { on_leave(from, std::move(in)); },
                 [&](wire::StopRound& in) { on_stop(from, in); },
                 [&](wire::LinkBroken& in) { on_link_broken(from, in); },
                 [&](wire::Publish& in) { on_publish(from, in); },
                 [&](wire::WantState& in) { on_want(from, in); },
                 [&](wire::Flush& in) { on_flush(from, std::move(in)); },
                 [&](wire::CallWaits& in) { waits_.on_call(from, in); },
                 [&](wire::TransfersWait& in) {
                   if (!participants_.is_in_run(from)) return lose_violator(from, "has transfers, and is no member");
                   waits_.on_transfers(from, in);
                 },
                 [&](wire::Join&) { unexpected(); },
                 [&](wire::Link&) { unexpected(); },
                 [&](wire::StatusRequest&) { unexpected(); },
                 [&](wire::Refused&) { unexpected(); },
                 [&](wire::Waiting&) { unexpected(); },
                 [&](wire::LinkWelcome&) { unexpected(); },
                 [&](wire::Pending&) { unexpected(); },
                 [&](wire::Admitting&) { unexpected(); },
                 [&](wire::AdmitEnded&) { unexpected(); },
                 [&](wire::Propose&) { unexpected(); },
                 [&](wire::Install&) { unexpected(); },
                 [&](wire::Commit&) { unexpected(); },
                 [&](wire::Evicted&) { unexpected(); },
                 [&](wire::Left&) { unexpected(); },
                 [&](wire::StatusReply&) { unexpected(); },
                 [&](wire::EvictRequest&) { unexpected(); },
                 [&](wire::EvictReply&) { unexpected(); },
                 [&](wire::Ready&) { unexpected(); },
                 [&](wire::RankParameter&) { unexpected(); },
                 [&](wire::Segment&) { unexpected(); },
                 [&](wire::Offer&) { unexpected(); },
                 [&](wire::Elected&) { unexpected(); },
                 [&](wire::AskDigests&) { unexpected(); },
                 [&](wire::PieceDigests&) { unexpected(); },
                 [&](wire::AskPieces&) { unexpected(); },
                 [&](wire::HavePieces&) { unexpected(); },
                 [&](wire::AskOutline&) { unexpected(); },
                 [&](wire::AskEntry&) { unexpected(); },
                 [&](wire::Published&) { unexpected(); },
                 [&](wire::SendOffer&) { unexpected(); },
                 [&](wire::SendReport&) { unexpected(); },
                 [&](wire::SendReady&) { unexpected(); },
                 [&](wire::SendsHeard&) { unexpected(); },
                 [&](wire::CallAwaited&) { unexpected(); },
                 [&](wire::Knock& in) { on_knock(from, in); },
             },
             message);
}

void Coordinator::Machine::on_leave(PeerId from, wire::Leave in) {
  if (!participants_.find(from)->leave && !membership_.contains(from)) return let_go(from);  // never admitted
  if (const auto eviction = participants_.leave(from, std::move(in))) return lose(*eviction);
  changed_ = true;
}

// A stop is a request (rule 15): the next proposal decides. A peer has a limited number of them (rule 67).
void Coordinator::Machine::on_stop(PeerId from, const wire::StopRound& in) {
  if (in.status == Status::kCohortClosed && !participants_.closed_by_admit(in.key)) return;
  Rounds::DoneResult result = rounds_.on_stop(from, in);
  const bool counts = result.stop || !result.misfits.empty();
  on_done(from, std::move(result));
  changed_ = true;
  if (!counts || participants_.use_stop(from)) return;
  lose_violator(from, "stopped more than " + std::to_string(context_.options.stops_at_once) + " rounds, and " +
                          std::to_string(context_.options.stops_per_second) + " more in each second");
}

void Coordinator::Machine::on_link_broken(PeerId from, const wire::LinkBroken& in) {
  std::visit(overloaded{
                 [](const BrokenLinks::Ignored&) {},
                 [&](const BrokenLinks::Relaid&) { changed_ = true; },
                 [&](const Eviction& eviction) { lose(eviction); },
             },
             broken_links_.report(from, in));
}

// Rule 70. Only between members: a peer that has left, or waits, dials nobody. A peer knocks again until it is dialled,
// so that a knock may be lost: otherwise one that knocks without end would cost a slow reader the run.
void Coordinator::Machine::on_knock(PeerId from, const wire::Knock& in) {
  if (!participants_.is_in_run(from) || !participants_.is_in_run(in.other) || in.other == from) return;
  if (connections_.queued_bytes(in.other) < kMostQueuedBeforeKnock) connections_.say(in.other, wire::Knock{from});
}

// A message that comes too late means nothing: a peer that is being admitted, or leaves, may not know it yet.
void Coordinator::Machine::on_publish(PeerId from, const wire::Publish& in) {
  if (membership_.candidates().contains(from)) return lose_violator(from, "publishes a state before it is a member");
  const wire::Member* member = membership_.find(from);
  if (member == nullptr) return;
  std::string violation = publications_.publish(*member, in);
  if (!violation.empty()) lose_violator(from, std::move(violation));
}

void Coordinator::Machine::on_want(PeerId from, const wire::WantState& in) {
  const auto candidate = membership_.candidates().find(from);
  if (candidate == membership_.candidates().end()) return;
  std::string violation = publications_.want(from, candidate->second.member.group, in);
  if (!violation.empty()) return lose_violator(from, std::move(violation));
  if (!in.holds) return;
  membership_.candidate(from)->holds = true;
  context_.note({.kind = trace::Kind::kStateHeld,
                 .view = membership_.view().number,
                 .peer = from,
                 .round = {},
                 .text = "tag " + std::to_string(in.tag.value)});
}

void Coordinator::Machine::on_flush(PeerId from, wire::Flush in) {
  if (in.proposal > context_.last_proposal) return lose_violator(from, "answered a proposal that was never made");
  if (!proposals_.is_open(in.proposal)) return newcomers_.on_late_answer(from, in.proposal);
  if (proposals_.on_flush(from, std::move(in))) return;
  lose_violator(from, "answered a proposal twice, or one that it has no part in");
}

// ---- rounds ----

void Coordinator::Machine::on_done(PeerId from, Rounds::DoneResult result) {
  if (!result.violation.empty()) return lose_violator(from, std::move(result.violation));
  carry_out(std::move(result));
}

void Coordinator::Machine::carry_out(Rounds::DoneResult result) {
  for (const auto& [state, members] : result.elected) {
    for (const wire::Member& member : members) connections_.say(member.id, state);
  }
  for (const auto& [to, question] : result.questions) connections_.say(to, question);
  if (result.compares_watched) {
    compared_since_ = context_.now;
    context_.wake_at(context_.now + context_.options.silence);
  }
  changed_ = changed_ || result.stop.has_value();
  for (Rounds::Committed& committed : result.committed) announce_commit(std::move(committed));
  for (const Eviction& misfit : result.misfits) lose(misfit);
  if (!result.committed.empty() && !mutant(Mutant::kLeaverIsNotReleased)) release_leavers();
}

// All members are done with that round. A peer that is asked where its state differs answers at once, unless it lies
// (rule 40).
void Coordinator::Machine::give_up_comparison(bool slept) {
  if (!rounds_.compares_watched()) return;
  if (slept) compared_since_ = context_.now;
  const Instant limit = compared_since_ + context_.options.silence;
  if (context_.now < limit) return context_.wake_at(limit);
  carry_out(rounds_.give_up_comparison());
}

void Coordinator::Machine::announce_commit(Rounds::Committed committed) {
  committed.commit.admit_here = membership_.auto_admit() && committed.commit.key.cohort == membership_.view().cohort &&
                                !membership_.admissible().empty() && !mutant(Mutant::kWaitingForgotten);
  for (const wire::Member& member : committed.members) connections_.say(member.id, committed.commit);
  count_commit(committed);
}

void Coordinator::Machine::count_commit(const Rounds::Committed& committed) {
  ++counters_.commits;
  if (committed.repairs) ++counters_.repairs;
  counters_.bytes_reduced += committed.bytes;
  context_.note({.kind = trace::Kind::kCommitted,
                 .view = ViewNumber{committed.commit.attempt.value},
                 .peer = {},
                 .round = committed.commit.key,
                 .number = committed.members.size(),
                 .text = committed.commit.state_difference});
  drop_round(committed.commit.key);
}

void Coordinator::Machine::drop_round(const RoundKey& key) {
  participants_.drop_round(key);
  proposals_.drop_round(key);
  waits_.drop_round(key);
}

// ---- the end of a peer ----

void Coordinator::Machine::lose(const Eviction& eviction, bool tell) {
  const std::vector<PeerId> gang = membership_.gang_of(eviction.peer);
  const std::string why_mates = "its gang lost " + participants_.name_of(eviction.peer) + ": " + eviction.why;
  lose_one(eviction, tell);
  for (const PeerId mate : gang) {
    if (mate == eviction.peer || mutant(Mutant::kGangLosesOne)) continue;
    lose_one({mate, Status::kEvicted, why_mates});
  }
}

void Coordinator::Machine::lose_one(const Eviction& eviction, bool tell) {
  const PeerId peer = eviction.peer;
  if (!participants_.contains(peer)) return;
  if (tell) {
    const Status status = eviction.status == Status::kPeerLost ? Status::kEvicted : eviction.status;
    connections_.say(peer, wire::Evicted{status, eviction.why.substr(0, kMaxTextBytes), eviction.round});
  }
  connections_.end(peer);
  if (eviction.status == Status::kProtocolError) exclude(peer);
  context_.note({.kind = trace::Kind::kPeerLost,
                 .view = membership_.view().number,
                 .peer = peer,
                 .round = {},
                 .status = eviction.status,
                 .text = participants_.name_of(peer) + ": " + eviction.why});
  if (participants_.is_in_run(peer)) {
    context_.trouble(peer, {}, participants_.name_of(peer) + " is lost: " + eviction.why);
    lost_.insert(peer);
    changed_ = true;
    if (membership_.contains(peer)) ++counters_.lost;
  }
  remove(peer);
}

void Coordinator::Machine::exclude(PeerId violator) {
  const std::optional<io::Identity> identity = grants_.identity_of(violator);
  if (identity) exclusions_.violated(*identity, grants_.is_personal(identity->token), context_.now);
}

void Coordinator::Machine::let_go(PeerId leaver) {
  connections_.say(leaver, wire::Left{});
  connections_.end(leaver);
  rounds_.let_go(leaver);
  remove(leaver);
}

void Coordinator::Machine::release_leavers() {
  std::vector<PeerId> released;
  for (const auto& [peer, participant] : participants_.all()) {
    const bool finishes = rounds_.keeps(peer) && !mutant(Mutant::kLeaverGoesAtOnce);
    if (participant.cut && !finishes && !proposals_.is_recipient(peer)) released.push_back(peer);
  }
  for (const PeerId leaver : released) let_go(leaver);
}

void Coordinator::Machine::remove(PeerId peer) {
  membership_.remove_candidate(peer);
  dial_back_.forget(peer);
  publications_.gone(peer);
  waits_.gone(peer);
  grants_.gone(peer);
  participants_.remove(peer);
}

// ---- proposals ----

// Carries the protocol as far as it goes without another answer: one proposal at a time (rule 4).
void Coordinator::Machine::decide() {
  std::set<PeerId> held_up;  // recipients of withdrawn proposals
  for (;;) {
    if (auto withdrawn = proposals_.withdraw_if_stale(lost_)) {
      broken_links_.add_groups(withdrawn->change.relinked);  // the next proposal lays these rings, too
      held_up.merge(withdrawn->recipients);
      changed_ = true;
    }
    if (proposals_.open()) {
      if (!proposals_.is_answered()) break;
      if (proposals_.settle()) install();
      continue;
    }
    participants_.answer_cancelled_admits();
    std::optional<Proposal> next = draft_change();
    if (!next) next = proposals_.draft_admission();
    if (!next) next = proposals_.draft_empty(held_up);
    if (!next) break;
    proposals_.propose(*std::move(next));
  }
  proposals_.put_off(held_up);
  announce_pending();
  (void)suspects();  // wakes this machine in time
}

// Rule 50: newcomers do not wait for silent members alone as long as for members that others wait for, too.
std::vector<Eviction> Coordinator::Machine::suspects() {
  std::vector<Eviction> suspects;
  if (membership_.candidates().empty()) return suspects;
  const Duration limit = context_.options.silence * 2 / 3;
  const std::string silence = std::to_string(limit.ns / 1'000'000);
  const std::vector<PeerId> awaited = proposals_.newcomers_await();
  for (const PeerId peer : awaited) {
    if (!connections_.has(peer)) continue;  // it is lost already
    const Instant suspected_at = connections_.heard(peer) + limit;
    if (context_.now < suspected_at) {
      context_.wake_at(suspected_at);
    } else {
      suspects.push_back({peer, Status::kEvicted, "silent for " + silence + " ms, and newcomers wait for it alone"});
    }
  }
  if (suspects.size() < awaited.size()) suspects.clear();
  return suspects;
}

std::optional<Proposal> Coordinator::Machine::draft_change() {
  if (!std::exchange(changed_, false)) return std::nullopt;  // usual: most steps draft no view
  for (;;) {
    Proposal draft = proposals_.draft_change(lost_);
    const auto eviction = broken_links_.unavoidable(draft.message.view.members);
    if (!eviction) {
      const bool settles = broken_links_.settles_at() != kNever;
      return proposals_.complete_change(std::move(draft), settles ? std::set<GroupId>{} : broken_links_.take_groups(),
                                        broken_links_.around());
    }
    lose(*eviction);  // and draft again without that member
  }
}

// All recipients have acknowledged exactly these verdicts (rule 6).
void Coordinator::Machine::install() {
  const Proposal proposal = proposals_.take();
  const wire::View& view = proposal.message.view;
  changed_ = true;
  end_rounds(proposal);
  if (proposal.admission) begin_cohort(proposal);
  waits_.drop_stale();
  const bool founds = membership_.view().members.empty() && !view.members.empty();
  membership_.install(view, proposal.change.left);
  if (founds) newcomers_.ask_remaining();
  for (const PeerId peer : proposal.change.lost) lost_.erase(peer);
  for (const PeerId leaver : proposal.change.left) {
    if (participants_.cut(leaver)) ++counters_.left;
  }
  for (const PeerId peer : proposal.recipients) connections_.say(peer, wire::Install{proposal.message.number});
  context_.note({.kind = trace::Kind::kInstalled,
                 .view = view.number,
                 .peer = {},
                 .round = {},
                 .number = view.members.size(),
                 .text = {}});
  release_leavers();
}

void Coordinator::Machine::end_rounds(const Proposal& proposal) {
  const wire::View& view = proposal.message.view;
  for (const wire::Verdict& verdict : proposal.message.verdicts) {
    drop_round(verdict.key);
    if (verdict.status == Status::kOk) continue;
    ++counters_.aborts;
    context_.note({.kind = trace::Kind::kRoundEnded,
                   .view = view.number,
                   .peer = {},
                   .round = verdict.key,
                   .status = verdict.status,
                   .text = verdict.text});
  }
  for (const Rounds::Committed& committed : rounds_.install(proposal.change, view, proposal.message.verdicts)) {
    count_commit(committed);
  }
}

void Coordinator::Machine::begin_cohort(const Proposal& proposal) {
  auto open = proposal.change.admits;
  for (const wire::Verdict& verdict : proposal.message.verdicts) {
    for (auto& [peer, rounds] : open) remove_round(rounds, verdict.key);
  }
  newcomers_.end_admission();
  rounds_.admit(proposal.message.view, open);
  participants_.end_admits();
  counters_.admitted += proposal.added.size();
  for (const PeerId peer : proposal.added) {
    connections_.admit(peer);
    publications_.admitted(peer);
  }
  announced_ = {};  // an admission starts every member's count anew
}

void Coordinator::Machine::announce_published() {
  for (const auto& [peer, published] : publications_.take_news(context_.options.link_key)) {
    connections_.say(peer, published);
  }
}

void Coordinator::Machine::announce_pending() {
  wire::Pending pending;
  if (!membership_.view().members.empty()) {
    pending = {static_cast<std::uint32_t>(membership_.admissible().size()), publications_.fetching(),
               publications_.holding()};
  }
  if (pending == announced_) return;
  announced_ = pending;
  for (const wire::Member& member : membership_.view().members) connections_.say(member.id, pending);
}

void Coordinator::Machine::pump() {
  dial_back_.pump();
  for (auto deaf = connections_.pump(); !deaf.empty(); deaf = connections_.pump()) {
    for (const PeerId peer : deaf) lose({peer, Status::kEvicted, "does not read what it is told"});
    decide();
    announce_published();
  }
}

// ---- inspection ----

wire::StatusReply Coordinator::Machine::snapshot(Instant now) const {
  wire::StatusReply reply;
  reply.view = membership_.view();
  for (const auto& [id, candidate] : membership_.candidates()) reply.waiting.push_back(candidate.member);
  reply.rounds = rounds_.status();
  reply.proposal_open = proposals_.open().has_value();
  reply.uptime = now - context_.born;
  reply.commits = counters_.commits;
  reply.aborts = counters_.aborts;
  reply.repairs = counters_.repairs;
  reply.admitted = counters_.admitted;
  reply.lost = counters_.lost;
  reply.left = counters_.left;
  reply.bytes_reduced = counters_.bytes_reduced;
  for (const Context::Trouble& trouble : context_.troubles) {
    reply.troubles.push_back({now - trouble.at, trouble.peer, trouble.other, trouble.text});
  }
  reply.waits = waits_.status(now);
  for (const auto& [peer, identity] : grants_.identities()) reply.proofs.push_back({peer, grants_.text_of(identity)});
  return reply;
}

bool Coordinator::Machine::is_quiet() const {
  if (proposals_.open() || rounds_.size() > 0 || waits_.size() > 0) return false;
  if (!lost_.empty() || membership_.view().members.empty()) return false;
  const bool acts = participants_.any(
      [](const Participant& participant) { return participant.admit.has_value() || participant.leave.has_value(); });
  return !acts && connections_.is_quiet();
}

Coordinator::Footprint Coordinator::Machine::footprint() const {
  Footprint footprint;
  footprint.streams = connections_.size();
  footprint.members = membership_.view().members.size();
  footprint.waiting = membership_.candidates().size();
  footprint.rounds = rounds_.size();
  footprint.queued_bytes = connections_.queued_bytes();
  footprint.drafts = proposals_.drafts();
  footprint.published = publications_.size();
  footprint.strangers = connections_.strangers();
  footprint.waits = waits_.size();
  return footprint;
}

Lifecycle Coordinator::Machine::lifecycle() const {
  const bool empty = membership_.view().members.empty();
  if (const auto& proposal = proposals_.open()) {
    if (proposal->settled_once) return Lifecycle::kSettling;
    if (!proposal->admission) return Lifecycle::kChanging;
    return empty ? Lifecycle::kFounding : Lifecycle::kAdmitting;
  }
  if (empty) {
    const bool any_leaver = participants_.any([](const Participant& participant) { return participant.cut; });
    return any_leaver ? Lifecycle::kSeeingOff : Lifecycle::kEmpty;
  }
  const bool any_admit =
      participants_.any([](const Participant& participant) { return participant.admit.has_value(); });
  if (any_admit) return Lifecycle::kGathering;
  return rounds_.size() > 0 ? Lifecycle::kInRounds : Lifecycle::kQuiet;
}

}  // namespace lockstep::coordinator
