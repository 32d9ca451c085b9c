#include "core/peer/machine.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/base/text.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

Peer::Machine::Machine(const PeerOptions& options, Instant now) : context_(options, now, *this) {
  LOCKSTEP_ASSERT(!options.id.is_nobody() && validate_options(options).empty());
  context_.mesh.attach({rounds_.neighbours(), transfers_, point_to_point_, *this});
}

namespace {

// Whether an input moves bytes or sums them up: there are hundreds of these in a round, and few of them change its
// state.
bool moves_data(const Input& input) {
  return std::holds_alternative<io::ReadDone>(input) || std::holds_alternative<io::WriteDone>(input) ||
         std::holds_alternative<JobDone>(input);
}

}  // namespace

void Peer::Machine::step(Input& input, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(now >= context_.now);  // drivers never run time backwards
  context_.now = now;
  context_.effects = &out;
  take(input);
  drive();
  if (!moves_data(input)) rounds_.assert_invariants();
  context_.effects = nullptr;
}

void Peer::Machine::take(Input& input) {
  const Instant now = context_.now;
  Effects& out = context_.out();
  Session& session = context_.session;
  Mesh& mesh = context_.mesh;
  std::visit(overloaded{
                 [&](const Connect& in) { admission_.connect(in); },
                 [&](Launch& in) { rounds_.launch(std::move(in)); },
                 [&](const Send& in) { on_send(in); },
                 [&](const Receive& in) { on_receive(in); },
                 [&](Publish& in) { on_publish(std::move(in)); },
                 [&](Prefetch& in) { on_prefetch(std::move(in)); },
                 [&](const Admit& in) {
                   if (admission_.admit(in, rounds_.launches())) rounds_.admissions().begin();
                 },
                 [&](const Leave& in) { on_leave(in); },
                 [&](const Stop& in) { on_stop(in); },
                 [&](const Abandon& in) { on_abandon(in); },
                 [&](Resolved& in) { session.on_resolved(std::move(in), now, out); },
                 [&](const Listening& in) { session.on_listening(in, now, out); },
                 [&](const JobDone& in) { on_job_done(in); },
                 [&](const Timer&) { on_timer(); },
                 [&](const io::Opened& in) {
                   session.owns(in.stream) ? session.on_opened(in, now) : mesh.on_opened(in, now, out);
                 },
                 [&](const io::Accepted& in) { mesh.on_accepted(in, now, out); },
                 [&](const io::ReadDone& in) {
                   session.owns(in.stream) ? session.on_read_done(in.bytes, now, out) : mesh.on_read_done(in, now, out);
                 },
                 [&](const io::WriteDone& in) {
                   session.owns(in.stream) ? session.on_write_done(in.bytes) : mesh.on_write_done(in, now);
                 },
                 [&](const io::Revoked& in) {
                   session.owns(in.stream) ? session.on_revoked(in.direction, in.bytes, now, out)
                                           : mesh.on_revoked(in, now, out);
                 },
                 [&](const io::Closed& in) {
                   session.owns(in.stream) ? session.on_closed(in, now, out) : mesh.on_closed(in, now, out);
                 },
             },
             input);
}

// What an input has made possible, in this order; then bytes go out.
void Peer::Machine::drive() {
  context_.mesh.set_term(context_.session.term());
  if (rounds_.drive_ends()) update_links();
  if (rounds_.drop_cohorts()) update_links();
  rounds_.drive_syncs();
  rounds_.ask_again();
  drive_transfers();
  point_to_point_.drive();
  try_leave();
  const bool relinks = rounds_.links().take_relink();
  if (point_to_point_.take_relink() || relinks) update_links();
  // The mesh comes first: the next peer waits for the segment, the coordinator for everybody.
  context_.mesh.pump(context_.now, context_.out());
  context_.session.pump(context_.out());
}

Instant Peer::Machine::deadline() const {
  Instant next = std::min(context_.session.deadline(), context_.mesh.deadline());
  next = std::min({next, admission_.deadline(), rounds_.deadline(), transfers_.deadline(), point_to_point_.deadline()});
  const bool paced = !states_.may_send(context_.now);
  if (paced && (transfers_.has_pieces() || rounds_.has_pieces())) next = std::min(next, states_.may_send_at());
  return next;
}

Peer::Footprint Peer::Machine::footprint() const {
  Footprint footprint;
  footprint.streams = context_.mesh.streams() + context_.session.streams();
  footprint.strangers = context_.mesh.strangers();
  footprint.widest = context_.mesh.widest();
  footprint.rounds = rounds_.size();
  footprint.waiting = rounds_.waiting();
  footprint.waiting_bytes = rounds_.waiting_bytes();
  footprint.calls = rounds_.calls() + admission_.calls() + transfers_.size() + point_to_point_.calls();
  footprint.queued_bytes = context_.mesh.queued_bytes() + context_.session.queued_bytes();
  footprint.remembered = views_.remembered() + rounds_.remembered() + point_to_point_.remembered();
  return footprint;
}

bool Peer::Machine::is_quiet() const {
  return admission_.is_member() && rounds_.empty() && transfers_.empty() && point_to_point_.empty() &&
         !views_.proposal() && !admission_.admits() && !admission_.leaves() && context_.session.is_quiet() &&
         context_.mesh.is_quiet();
}

Lifecycle Peer::Machine::lifecycle() const {
  switch (admission_.life()) {
    case Admission::Life::kNew: return Lifecycle::kNew;
    case Admission::Life::kOver: return Lifecycle::kOver;
    case Admission::Life::kLeaving: return admission_.has_said_leave() ? Lifecycle::kGoing : Lifecycle::kLeaving;
    case Admission::Life::kMember:
      if (views_.proposal()) return Lifecycle::kFrozen;
      if (admission_.admits()) return Lifecycle::kAdmitting;
      return rounds_.empty() ? Lifecycle::kIdle : Lifecycle::kInRounds;
    case Admission::Life::kJoining: break;
  }
  switch (context_.session.state()) {
    case Session::State::kIdle:
    case Session::State::kPausing:
    case Session::State::kLooking: return Lifecycle::kLooking;
    case Session::State::kDialling: return Lifecycle::kDialling;
    case Session::State::kGreeting: return Lifecycle::kGreeting;
    case Session::State::kWelcomed:
    case Session::State::kOver: break;
  }
  return views_.proposal() ? Lifecycle::kInvited : Lifecycle::kWaiting;
}

bool Peer::Machine::hears(StreamId stream) const {
  return context_.session.owns(stream) ? context_.session.hears() : context_.mesh.hears(stream);
}

// ---- calls ----

void Peer::Machine::on_send(const Send& in) {
  if (!admission_.is_member()) return admission_.refuse(in.call);
  point_to_point_.send(in);
}

void Peer::Machine::on_receive(const Receive& in) {
  if (!admission_.is_member()) return admission_.refuse(in.call);
  point_to_point_.receive(in);
}

void Peer::Machine::on_publish(Publish in) {
  if (!admission_.is_member()) return admission_.refuse(in.call);
  transfers_.publish(in.call, std::move(in.request));
}

void Peer::Machine::on_prefetch(Prefetch in) {
  if (admission_.is_member()) {  // just now: the next sync fetches the state
    Outcome outcome;
    outcome.state_defined = in.request.state == nullptr || states_.is_defined(in.request);
    return context_.complete(in.call, std::move(outcome));
  }
  if (admission_.life() != Admission::Life::kJoining) return admission_.refuse(in.call);
  transfers_.prefetch(in.call, std::move(in.request));
}

void Peer::Machine::on_leave(const Leave& in) {
  if (!admission_.leave(in)) return;
  point_to_point_.begin_leave();
  transfers_.finish_publications(Status::kOk, {});
  transfers_.finish_prefetches(Status::kAborted, "left before being admitted");
}

void Peer::Machine::on_stop(const Stop& in) {
  const std::string why(cut(in.why, kMaxTextBytes));
  if (const auto decision = admission_.stop(in.call, why)) return carry_out(*decision);
  if (transfers_.stop(in.call, why) || point_to_point_.stop(in.call, why)) return;
  (void)rounds_.stop(in.call, why);  // it may have completed meanwhile
}

// The coordinator is not told: a program that abandons the run waits for the end of its calls only.
void Peer::Machine::on_abandon(const Abandon& in) {
  if (admission_.is_over()) return;
  context_.session.hang_up(context_.out());
  end_run(Status::kNotConnected, std::string(cut(in.why, kMaxTextBytes)));
}

void Peer::Machine::on_timer() {
  context_.session.on_timer(context_.now, context_.out());
  context_.mesh.on_timer(context_.now, context_.out());
  const Admission::Decision decision = admission_.on_timer();
  carry_out(decision);
  if (std::holds_alternative<Admission::RunEnds>(decision)) return;
  transfers_.on_timer();
  point_to_point_.on_timer();
  if (const auto run = rounds_.on_timer()) end_run(run->status, run->text);
}

void Peer::Machine::on_job_done(const JobDone& in) {
  const Jobs::Owner owner = context_.jobs.owner_of(in.token);
  switch (owner.use) {
    case Jobs::Use::kRound:
    case Jobs::Use::kWatch: return rounds_.on_job_done(owner, in);
    case Jobs::Use::kTransfer: return transfers_.on_job_done(owner.id, in);
    case Jobs::Use::kSend:
    case Jobs::Use::kReceive: return point_to_point_.on_job_done(owner, in);
  }
  LOCKSTEP_UNREACHABLE();
}

void Peer::Machine::carry_out(const Admission::Decision& decision) {
  if (const auto* run = std::get_if<Admission::RunEnds>(&decision)) return end_run(run->status, run->text);
  if (const auto* admit = std::get_if<Admission::AdmitEnds>(&decision)) return end_admit(admit->status, admit->text);
}

// The call of admit ends without an admission. With auto_admit other members may have joined it: then this peer stays
// in.
void Peer::Machine::end_admit(Status status, const std::string& text) {
  admission_.end_admit(status, text);
  continue_without_admission();
}

void Peer::Machine::continue_without_admission() {
  rounds_.admissions().join();
  rounds_.enter_queued();
}

// ---- the coordinator ----

void Peer::Machine::on_decision(wire::Message message) {
  if (admission_.is_over()) return;
  std::visit(overloaded{
                 [&](wire::Propose& in) { on_propose(std::move(in)); },
                 [&](const wire::Install& in) { on_install(in); },
                 [&](const wire::Elected& in) { on_elected(in); },
                 [&](const wire::AskOutline& in) { check(rounds_.on_ask_outline(in)); },
                 [&](const wire::AskEntry& in) { check(rounds_.on_ask_entry(in)); },
                 [&](wire::Published& in) {
                   if (admission_.life() == Admission::Life::kJoining) transfers_.on_published(std::move(in));
                 },
                 [&](const wire::Commit& in) { check(rounds_.on_commit(in)); },
                 [&](const wire::Admitting& in) { rounds_.admissions().on_admitting(in); },
                 [&](const wire::AdmitEnded& in) { on_admit_ended(in); },
                 [&](const wire::CallAwaited& in) { rounds_.on_awaited(in, point_to_point_.oldest()); },
                 [&](const wire::Knock& in) { point_to_point_.on_caller(in.other); },
                 [&](const wire::Pending& in) {
                   admission_.on_pending(in);
                   rounds_.admissions().join();
                 },
                 [&](const wire::Evicted& in) {
                   if (ends_alone(in.status)) rounds_.end_alone(in.round, in.status, in.text);
                   end_run(in.status, "evicted by the coordinator: " + in.text);
                 },
                 [&](const wire::Left&) { on_left(); },
                 [&](const wire::Refused& in) { end_run(in.status, "refused by the coordinator: " + in.text); },
                 [&](const wire::Waiting&) { on_put_off(); },
                 [&](const auto&) { check("said what a coordinator does not say"); },
             },
             message);
  rounds_.assert_invariants();
}

void Peer::Machine::check(const std::string& violation) {
  if (!violation.empty()) end_run(Status::kProtocolError, "the coordinator " + violation + "; left the run");
}

void Peer::Machine::on_unanswered(std::string text) {
  context_.note({.kind = trace::Kind::kUnanswered, .view = {}, .peer = {}, .round = {}, .text = std::move(text)});
}

// Rule 4: a member answers every proposal with the rounds that it has open.
void Peer::Machine::on_propose(wire::Propose proposal) {
  if (const auto flaw = views_.validate(proposal, admission_.has_said_leave())) return check(*flaw);
  const ProposalNumber number = proposal.number;
  const LinkKey key = proposal.link_key;
  const bool question = views_.is_question(proposal);
  views_.propose(std::move(proposal));
  if (question) return context_.session.say(wire::Flush{number, {}});
  context_.mesh.set_key(key, context_.now, context_.out());
  context_.session.say(wire::Flush{number, rounds_.open_rounds()});
  update_links();
  const auto is_in = [&](PeerId peer) { return Views::has_member(views_.proposal()->view, peer); };
  context_.mesh.disconnect_prefetchers(is_in, context_.now, context_.out());
  const Instant grace = context_.now + context_.options.abort_grace;  // rule 15: the coordinator is at work
  admission_.renew_grace(grace);
  rounds_.renew_grace(grace);
}

// Rule 19: another newcomer of the proposal is gone, and the next proposal does not admit this peer.
void Peer::Machine::on_put_off() {
  if (!views_.proposal() || context_.view->number.value != 0) {
    return check("let a peer wait that it did not want to admit");
  }
  views_.withdraw();
  update_links();
}

// Rules 6 and 7: the proposal holds, and verdicts reach callers now. A caller whose call ends by this change finds the
// new members.
void Peer::Machine::on_install(const wire::Install& in) {
  if (!views_.proposal() || views_.proposal()->number != in.number) return check("installed what it had not proposed");
  const wire::Propose change = views_.take_proposal();
  const bool rejoins = change.view.cohort != context_.view->cohort && views_.is_in(change.view);
  auto view = std::make_shared<const wire::View>(change.view);
  // A leaver that still finishes rounds is no member.
  if (view->number != context_.view->number && views_.is_in(*view)) context_.out().emplace_back(Installed{view});
  for (const wire::Verdict& verdict : change.verdicts) {
    check(rounds_.on_verdict(verdict, rejoins));
    if (admission_.is_over()) return;
  }
  rounds_.give_up_touched(change);
  install(std::move(view), change);
}

// Rule 4: a view is installed whole. A new cohort begins with an admission (rule 18).
void Peer::Machine::install(std::shared_ptr<const wire::View> view, const wire::Propose& change) {
  const bool admission = change.view.cohort != context_.view->cohort;
  const bool changed = change.view.number != context_.view->number;
  const bool joins = admission_.life() == Admission::Life::kJoining && views_.is_in(change.view);
  const auto before = std::exchange(context_.view, std::move(view));
  if (changed) point_to_point_.on_view(*before, change);
  if (joins) {
    admission_.become_member();
    transfers_.finish_prefetches(Status::kOk, {});
  }
  if (changed && views_.is_in(*context_.view)) {
    context_.note({.kind = joins ? trace::Kind::kJoined : trace::Kind::kViewChanged,
                   .view = context_.view->number,
                   .peer = {},
                   .round = {},
                   .number = context_.view->members.size(),
                   .text = {}});
  }
  if (admission) {
    views_.found(change.view);
    std::vector<PeerId> newcomers;
    for (const wire::Member& member : change.view.members) {
      if (before->number.value != 0 && !Views::has_member(*before, member.id)) newcomers.push_back(member.id);
    }
    admission_.enter_cohort(change.view.members.size(), newcomers);
    rounds_.enter_cohort();
  }
  if (views_.forget_admits()) rounds_.admissions().refuse_anew();
  views_.assert_invariants();
  rounds_.forget_stale_announcements();
  update_links();
  rounds_.go_on();
}

void Peer::Machine::on_elected(const wire::Elected& elected) {
  const Rounds::Election election = rounds_.on_elected(elected);
  check(election.violation);
  if (election.taken) update_links();
}

void Peer::Machine::on_admit_ended(const wire::AdmitEnded& ended) {
  if (!admission_.is_cancelled()) return check("ended an admit that this peer has not given up");
  admission_.end_cancelled(ended.status, ended.text);
  continue_without_admission();
}

void Peer::Machine::on_left() {
  if (!admission_.has_said_leave()) return check("let go of a peer that did not leave");
  end_left();
}

// ---- links ----

// Rules 23 and 51.
void Peer::Machine::on_link_broken(PeerId peer, const std::string& why, bool avoid) {
  context_.note(
      {.kind = trace::Kind::kLinkReported, .view = context_.view->number, .peer = peer, .round = {}, .text = why});
  context_.session.say(wire::LinkBroken{peer, why, avoid});
}

// ---- after every step ----

void Peer::Machine::drive_transfers() {
  using Standing = StateTransfers::Standing;
  if (transfers_.empty()) return;
  const bool waits = admission_.life() == Admission::Life::kJoining && !views_.proposal();
  if (transfers_.drive(waits ? Standing::kWaits : admission_.is_member() ? Standing::kMember : Standing::kOther))
    update_links();
  if (transfers_.serves()) return;
  context_.mesh.disconnect_prefetchers([](PeerId) { return true; }, context_.now, context_.out());
}

// Rule 48: what was sent is delivered first.
void Peer::Machine::try_leave() {
  if (!admission_.leaves() || admission_.has_said_leave()) return;
  if (!point_to_point_.may_leave() && !mutant(Mutant::kLeaveBeforeDelivery)) return;
  switch (admission_.farewell(views_.proposal().has_value(), rounds_.waiting() > 0)) {
    case Admission::Farewell::kNone: return;
    case Admission::Farewell::kSay: return admission_.say_leave(rounds_.open_rounds());
    case Admission::Farewell::kUnseen: return end_left();
  }
}

void Peer::Machine::end_left() {
  admission_.end_leave();
  end_run(Status::kNotConnected, "this peer has left the run", true);
}

// Rule 37.
void Peer::Machine::end_run(Status status, std::string text, bool left) {
  if (admission_.is_over()) return;
  admission_.begin_end(status, std::move(text));
  const std::string& why = admission_.over_text();
  views_.withdraw();
  context_.session.finish(context_.now, context_.out());
  if (left) {
    context_.note({.kind = trace::Kind::kLeft, .view = context_.view->number, .peer = {}, .round = {}, .text = {}});
  } else {
    context_.note({.kind = trace::Kind::kRunLost,
                   .view = context_.view->number,
                   .peer = {},
                   .round = {},
                   .status = status,
                   .text = why});
  }
  context_.out().emplace_back(RunOver{status, why, left});
  admission_.end_calls(status);
  rounds_.end(status, why);
  transfers_.finish(status, why);
  point_to_point_.end(status, why);
  context_.mesh.close_all(context_.out());
  rounds_.forget();
  views_.forget_outcomes();
}

// The links that are needed: to the neighbours in every ring that is in use or proposed, for syncs and for transfers.
void Peer::Machine::update_links() {
  Views::Links links;
  if (!admission_.is_over()) {
    views_.add_rings(rounds_.links().is_direct(), links);
    rounds_.links().add(links);
    transfers_.add_sources(links);
    views_.add_proposed_ring(rounds_.links().is_direct(), links);
    point_to_point_.add_links(links);
  }
  context_.mesh.want(links, context_.now, context_.out());
  rounds_.forget_others([&](PeerId peer) { return links.contains(peer); });
  views_.forget_contacts();
}

}  // namespace lockstep::peer
