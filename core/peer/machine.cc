#include "core/peer/machine.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/base/text.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

Peer::Machine::Machine(const Options& options, Instant now) : context_(options, now, *this, *this) {
  LOCKSTEP_ASSERT(flaw_of(options).empty());
}

void Peer::Machine::step(Input& input, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(now >= context_.now);  // drivers never run time backwards
  context_.now = now;
  context_.effects = &out;
  std::visit(overloaded{
                 [&](const Connect& in) { on_connect(in); },
                 [&](Launch& in) { on_launch(std::move(in)); },
                 [&](Publish& in) { on_publish(std::move(in)); },
                 [&](Prefetch& in) { on_prefetch(std::move(in)); },
                 [&](Admit& in) { on_admit(in); },
                 [&](Leave& in) { on_leave(in); },
                 [&](Stop& in) { on_stop(in); },
                 [&](const Abandon& in) { on_abandon(in); },
                 [&](Resolved& in) { context_.session.on_resolved(std::move(in), now, out); },
                 [&](Listening& in) { context_.session.on_listening(in, now, out); },
                 [&](JobDone& in) { on_job_done(in); },
                 [&](Timer&) { on_timer(); },
                 [&](io::Opened& in) {
                   context_.session.owns(in.stream) ? context_.session.on_opened(in, now)
                                                    : context_.mesh.on_opened(in, now);
                 },
                 [&](io::Accepted& in) { context_.mesh.on_accepted(in, now, out); },
                 [&](io::ReadDone& in) {
                   context_.session.owns(in.stream) ? context_.session.on_read_done(in.bytes, now, out)
                                                    : context_.mesh.on_read_done(in, now, out);
                 },
                 [&](io::WriteDone& in) {
                   context_.session.owns(in.stream) ? context_.session.on_write_done(in.bytes)
                                                    : context_.mesh.on_write_done(in);
                 },
                 [&](io::Revoked& in) {
                   context_.session.owns(in.stream) ? context_.session.on_revoked(in.direction, in.bytes, now, out)
                                                    : context_.mesh.on_revoked(in, now, out);
                 },
                 [&](io::Closed& in) {
                   context_.session.owns(in.stream) ? context_.session.on_closed(in, now, out)
                                                    : context_.mesh.on_closed(in, now, out);
                 },
             },
             input);
  context_.mesh.set_term(context_.session.term());
  drive_ends();
  drive_syncs();
  drive_transfers();
  try_leave();
  if (std::exchange(relinks_, false)) update_links();
  context_.mesh.pump(out);  // first: the next peer waits for the segment, the coordinator for everybody
  context_.session.pump(out);
  context_.effects = nullptr;
}

Instant Peer::Machine::deadline() const {
  Instant next = std::min(context_.session.deadline(), context_.mesh.deadline());
  for (const auto* waiting : {&connect_, &admit_, &leave_}) {
    if (*waiting) next = std::min(next, (*waiting)->deadline);
  }
  next = std::min(next, transfers_.deadline());
  bool has_pieces = transfers_.has_pieces();  // to send, of states
  for (const auto& [order, round] : rounds_) {
    next = std::min(next, round.deadline);
    if (!round.sync) continue;
    next = std::min(next, round.sync->deadline());
    has_pieces = has_pieces || (round.attempted() && round.sync->has_next());
  }
  if (has_pieces && !states_.may_send(context_.now)) next = std::min(next, states_.may_send_at());
  return next;
}

Peer::Footprint Peer::Machine::footprint() const {
  Footprint footprint;
  footprint.streams = context_.mesh.streams() + context_.session.streams();
  footprint.strangers = context_.mesh.strangers();
  footprint.rounds = rounds_.size();
  const auto told = std::count_if(rounds_.begin(), rounds_.end(), [](const auto& entry) { return entry.second.told; });
  footprint.calls = rounds_.size() - static_cast<std::size_t>(told) + (connect_ ? 1 : 0) +
                    (admit_ && !admit_->by_itself ? 1 : 0) + (leave_ ? 1 : 0) + transfers_.size();
  footprint.queued_bytes = context_.mesh.queued_bytes() + context_.session.queued_bytes();
  footprint.remembered = views_.remembered() + announcements_.size() + reported_.size();
  return footprint;
}

bool Peer::Machine::is_quiet() const {
  return life_ == Life::kMember && rounds_.empty() && transfers_.empty() && !views_.proposal() && !admit_ && !leave_ &&
         context_.session.is_quiet() && context_.mesh.is_quiet();
}

void Peer::Machine::on_connect(const Connect& in) {
  if (life_ != Life::kNew)
    return context_.fail(in.call, Status::kInvalidArgument,
                         "connect was called before: create a new communicator to join again");
  life_ = Life::kJoining;
  over_text_ = "this communicator is not admitted yet: wait for connect to complete";
  connect_ = Waiting{.call = in.call, .deadline = context_.deadline_after(in.timeout)};
  context_.session.connect(in.coordinator, context_.now, context_.out());
}

void Peer::Machine::on_admit(const Admit& in) {
  if (life_ != Life::kMember) {
    return context_.fail(in.call, over_status_, life_ == Life::kLeaving ? "this peer is leaving" : over_text_);
  }
  if (admit_ && !admit_->by_itself)
    return context_.fail(in.call, Status::kInvalidArgument, "admit is being called already: one at a time");
  if (in.at_least > kMaxMembers) {
    return context_.fail(
        in.call, Status::kInvalidArgument,
        "admit wants " + std::to_string(in.at_least) + " members; a run has at most " + std::to_string(kMaxMembers));
  }
  const bool said = admit_ && admit_->said;  // by itself
  admit_ = Waiting{.call = in.call,
                   .deadline = context_.deadline_after(in.timeout),
                   .said = said,
                   .at_least = in.at_least,
                   .said_by_itself = said,
                   .launches = launches_};
  say_admit();
}

// From here on, launches wait for the next cohort.
void Peer::Machine::admit_by_itself() {
  if (life_ != Life::kMember || admit_) return;
  admit_ = Waiting{};
  admit_->by_itself = true;
  say_admit();
}

void Peer::Machine::say_admit() {
  if (!admit_ || admit_->said || views_.proposal())
    return;  // a proposal may decide rounds: say it when that is installed
  admit_->said = true;
  admit_->said_by_itself = admit_->by_itself;
  const bool hides = mutant(Mutant::kAdmitHidesRounds);
  context_.session.say(wire::Admit{context_.view->cohort, admit_->at_least, admit_->by_itself,
                                   hides ? std::vector<wire::OpenRound>{} : open_rounds()});
}

void Peer::Machine::on_leave(const Leave& in) {
  if (life_ == Life::kJoining || life_ == Life::kMember) {
    transfers_.finish_publications(Status::kOk, {});
    transfers_.finish_prefetches(Status::kAborted, "left before being admitted");
  }
  if (life_ == Life::kJoining) {
    leave_ = Waiting{.call = in.call, .deadline = context_.deadline_after(in.timeout)};
    life_ = Life::kLeaving;
    return;
  }
  if (life_ != Life::kMember)
    return context_.fail(in.call, over_status_, life_ == Life::kLeaving ? "leave is being called already" : over_text_);
  leave_ = Waiting{.call = in.call, .deadline = context_.deadline_after(in.timeout)};
  life_ = Life::kLeaving;
}

// Says that we leave, once every call that was made before has a round.
void Peer::Machine::try_leave() {
  if (!leave_ || leave_->said || views_.proposal() || admit_) return;
  if (connect_) {
    const bool nobody_knows = !context_.session.has_asked();
    if (!nobody_knows && !context_.session.welcomed()) return;
    end_waiting(connect_, Status::kAborted, "left before being admitted");
    if (nobody_knows) return end_left();
  }
  leave_->said = true;
  context_.session.say(wire::Leave{open_rounds()});
}

void Peer::Machine::on_stop(const Stop& in) {
  const std::string why(cut(in.why, kMaxTextBytes));
  if (connect_ && connect_->call == in.call) return end_run(Status::kAborted, "connect was aborted: " + why);
  if (leave_ && leave_->call == in.call) return end_run(Status::kAborted, "leave was aborted: " + why);
  if (admit_ && admit_->call == in.call && !admit_->by_itself && !admit_->cancelled) {
    if (!admit_->said) return give_up_admit(Status::kAborted, why);
    admit_->cancelled = Status::kAborted;
    admit_->deadline = context_.now + context_.options.abort_grace;
    return context_.session.say(wire::AdmitCancel{Status::kAborted});
  }
  if (transfers_.stop(in.call, why)) return;
  for (auto& [order, round] : rounds_) {
    if (round.call == in.call) {
      return ask_to_stop(round, Status::kAborted, "aborted by " + context_.name_of(context_.options.id) + ": " + why);
    }
  }
}

// Nobody is to be told: whoever gives up waits for the end of its calls, and not for a coordinator that hears no more.
void Peer::Machine::on_abandon(const Abandon& in) {
  if (life_ == Life::kOver) return;
  context_.session.hang_up(context_.out());
  end_run(Status::kNotConnected, std::string(cut(in.why, kMaxTextBytes)));
}

void Peer::Machine::on_timer() {
  context_.session.on_timer(context_.now, context_.out());
  context_.mesh.on_timer(context_.now, context_.out());
  if (connect_ && context_.now >= connect_->deadline) {
    if (context_.session.welcomed()) {
      return end_run(Status::kTimedOut,
                     "not admitted in time: the members of the run must call admit, and a new run must have enough "
                     "founders");
    }
    Error why = context_.session.unanswered(context_.now);
    return end_run(why.status, std::move(why.text));
  }
  if (leave_ && context_.now >= leave_->deadline) {
    return end_run(Status::kTimedOut, "leave timed out: the calls launched before it had not all ended; left by force");
  }
  if (admit_ && context_.now >= admit_->deadline) {
    if (admit_->cancelled)
      return end_run(Status::kOutcomeUnknown, "admit got no answer from the coordinator in time; left the run");
    if (!admit_->said) {
      give_up_admit(Status::kTimedOut, "admit timed out while the membership was changing");
    } else {
      admit_->cancelled = Status::kTimedOut;
      admit_->deadline = context_.now + context_.options.abort_grace;
      context_.session.say(wire::AdmitCancel{Status::kTimedOut});
    }
  }
  transfers_.on_timer();
  std::vector<std::uint64_t> due;
  for (const auto& [order, round] : rounds_) {
    if (round.sync && context_.now >= round.sync->deadline()) round.sync->on_timer(context_.now);
    if (context_.now >= round.deadline) due.push_back(order);
  }
  for (const std::uint64_t order : due) {
    const auto at = rounds_.find(order);
    if (at == rounds_.end()) continue;
    Round& round = at->second;
    if (round.stop) {
      return end_run(Status::kOutcomeUnknown, "no verdict on tag " + std::to_string(round.request.tag.value) +
                                                  " within " +
                                                  std::to_string(context_.options.abort_grace.ns / 1'000'000) +
                                                  " ms of asking to stop it; left the run");
    }
    ask_to_stop(round, Status::kTimedOut,
                context_.name_of(context_.options.id) + " timed out after " +
                    std::to_string(round.request.timeout.ns / 1'000'000) + " ms in tag " +
                    std::to_string(round.request.tag.value));
  }
}

void Peer::Machine::end_waiting(std::optional<Waiting>& waiting, Status status, const std::string& text) {
  if (!waiting) return;
  const Waiting ended = mutant(Mutant::kCallCompletesAgain) ? *waiting : *std::exchange(waiting, std::nullopt);
  if (ended.by_itself) return;
  Outcome outcome;
  outcome.status = status;
  outcome.text = text;
  context_.complete(ended.call, std::move(outcome));
}

void Peer::Machine::on_publish(Publish in) {
  if (life_ != Life::kMember) {
    return context_.fail(in.call, over_status_,
                         life_ == Life::kLeaving ? "this peer is leaving: no more calls" : over_text_);
  }
  transfers_.publish(in.call, std::move(in.request));
}

void Peer::Machine::on_prefetch(Prefetch in) {
  if (life_ == Life::kMember) {  // just now: the next sync fetches the state
    Outcome outcome;
    outcome.state_defined = in.request.state == nullptr || states_.is_defined(in.request);
    return context_.complete(in.call, std::move(outcome));
  }
  if (life_ != Life::kJoining) {
    return context_.fail(in.call, over_status_,
                         life_ == Life::kLeaving ? "this peer is leaving: no more calls" : over_text_);
  }
  transfers_.prefetch(in.call, std::move(in.request));
}

void Peer::Machine::drive_transfers() {
  using Place = StateTransfers::Place;
  if (transfers_.empty()) return;
  const bool waits = life_ == Life::kJoining && !views_.proposal();
  const bool member = life_ == Life::kMember;
  if (transfers_.drive(waits ? Place::kWaits : member ? Place::kMember : Place::kOther)) update_links();
  if (!transfers_.serves()) {
    context_.mesh.dismiss_visitors([](PeerId) { return true; }, context_.now, context_.out());
  }
}

std::optional<std::string> Peer::Machine::refusal_of_visitor(PeerId peer) const {
  if (!transfers_.serves()) return "nothing is published here";
  const bool is_member = Views::has_member(*context_.view, peer) ||
                         (views_.proposal() && Views::has_member(views_.proposal()->view, peer));
  if (is_member) return "a member does not visit";
  return std::nullopt;
}

}  // namespace lockstep::peer
