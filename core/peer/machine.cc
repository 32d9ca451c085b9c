#include "core/peer/machine.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/base/text.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

Peer::Machine::Machine(const Options& options, Instant now)
    : options_(options), now_(now), session_(options, names_, *this), mesh_(options, names_, *this) {
  LOCKSTEP_ASSERT(flaw_of(options).empty());
}

void Peer::Machine::step(Input& input, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(now >= now_);  // drivers never run time backwards
  now_ = now;
  out_ = &out;
  std::visit(
      overloaded{
          [&](const Connect& in) { on_connect(in); },
          [&](Launch& in) { on_launch(std::move(in)); },
          [&](Publish& in) { on_publish(std::move(in)); },
          [&](Prefetch& in) { on_prefetch(std::move(in)); },
          [&](Admit& in) { on_admit(in); },
          [&](Leave& in) { on_leave(in); },
          [&](Stop& in) { on_stop(in); },
          [&](const Abandon& in) { on_abandon(in); },
          [&](Resolved& in) { session_.on_resolved(std::move(in), now, out); },
          [&](Listening& in) { session_.on_listening(in, now, out); },
          [&](JobDone& in) { on_job_done(in); },
          [&](Timer&) { on_timer(); },
          [&](io::Opened& in) { session_.owns(in.stream) ? session_.on_opened(in, now) : mesh_.on_opened(in, now); },
          [&](io::Accepted& in) { mesh_.on_accepted(in, now, out); },
          [&](io::ReadDone& in) {
            session_.owns(in.stream) ? session_.on_read_done(in.bytes, now, out) : mesh_.on_read_done(in, now, out);
          },
          [&](io::WriteDone& in) {
            session_.owns(in.stream) ? session_.on_write_done(in.bytes) : mesh_.on_write_done(in);
          },
          [&](io::Revoked& in) {
            session_.owns(in.stream) ? session_.on_revoked(in.direction, in.bytes, now, out)
                                     : mesh_.on_revoked(in, now, out);
          },
          [&](io::Closed& in) {
            session_.owns(in.stream) ? session_.on_closed(in, now, out) : mesh_.on_closed(in, now, out);
          },
      },
      input);
  mesh_.set_term(session_.term());
  drive_ends();
  drive_syncs();
  drive_shares();
  try_leave();
  if (std::exchange(relinks_, false)) update_links();
  mesh_.pump(out);  // first: the next peer waits for the segment, the coordinator for everybody
  session_.pump(out);
  out_ = nullptr;
}

Instant Peer::Machine::deadline() const {
  Instant next = std::min(session_.deadline(), mesh_.deadline());
  for (const auto* waiting : {&connect_, &admit_, &leave_}) {
    if (*waiting) next = std::min(next, (*waiting)->deadline);
  }
  bool has_pieces = false;  // to send, of states
  for (const auto& [order, round] : rounds_) {
    next = std::min(next, round.deadline);
    if (!round.sync) continue;
    next = std::min(next, round.sync->deadline());
    has_pieces = has_pieces || (round.attempted() && round.sync->has_next());
  }
  for (const auto& [serial, share] : shares_) {
    next = std::min(next, share.deadline);
    if (!share.sync) continue;
    next = std::min(next, share.sync->deadline());
    has_pieces = has_pieces || share.sync->has_next();
  }
  if (has_pieces && !pace_.allows(now_)) next = std::min(next, pace_.next());
  return next;
}

Peer::Footprint Peer::Machine::footprint() const {
  Footprint footprint;
  footprint.streams = mesh_.streams() + session_.streams();
  footprint.strangers = mesh_.strangers();
  footprint.rounds = rounds_.size();
  const auto told = std::count_if(rounds_.begin(), rounds_.end(), [](const auto& entry) { return entry.second.told; });
  footprint.calls = rounds_.size() - static_cast<std::size_t>(told) + (connect_ ? 1 : 0) +
                    (admit_ && !admit_->by_itself ? 1 : 0) + (leave_ ? 1 : 0) + shares_.size();
  footprint.queued_bytes = mesh_.queued_bytes() + session_.queued_bytes();
  for (const auto& [id, cohort] : cohorts_) footprint.remembered += cohort.used_up.size();
  for (const auto& [peer, heralds] : heralds_) footprint.remembered += heralds.size();
  footprint.remembered += early_.size() + reported_.size();
  return footprint;
}

bool Peer::Machine::is_quiet() const {
  return life_ == Life::kMember && rounds_.empty() && shares_.empty() && !proposal_ && !admit_ && !leave_ &&
         session_.is_quiet() && mesh_.is_quiet();
}

void Peer::Machine::on_connect(const Connect& in) {
  if (life_ != Life::kNew)
    return fail(in.call, Status::kInvalidArgument,
                "connect was called before: create a new communicator to join again");
  life_ = Life::kJoining;
  over_text_ = "this communicator is not admitted yet: wait for connect to complete";
  connect_ = Waiting{.call = in.call, .deadline = deadline_after(in.timeout)};
  session_.connect(in.coordinator, now_, *out_);
}

void Peer::Machine::on_admit(const Admit& in) {
  if (life_ != Life::kMember) {
    return fail(in.call, over_status_, life_ == Life::kLeaving ? "this peer is leaving" : over_text_);
  }
  if (admit_ && !admit_->by_itself)
    return fail(in.call, Status::kInvalidArgument, "admit is being called already: one at a time");
  if (in.at_least > kMaxMembers) {
    return fail(
        in.call, Status::kInvalidArgument,
        "admit wants " + std::to_string(in.at_least) + " members; a run has at most " + std::to_string(kMaxMembers));
  }
  const bool said = admit_ && admit_->said;  // by itself
  admit_ = Waiting{.call = in.call,
                   .deadline = deadline_after(in.timeout),
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
  if (!admit_ || admit_->said || proposal_) return;  // a proposal may decide rounds: say it when that is installed
  admit_->said = true;
  admit_->said_by_itself = admit_->by_itself;
  const bool hides = mutant(Mutant::kAdmitHidesRounds);
  session_.say(wire::Admit{view_->cohort, admit_->at_least, admit_->by_itself,
                           hides ? std::vector<wire::OpenRound>{} : open_rounds()});
}

void Peer::Machine::on_leave(const Leave& in) {
  if (life_ == Life::kJoining || life_ == Life::kMember) {
    finish_shares(true, Status::kOk, {});
    finish_shares(false, Status::kAborted, "left before being admitted");
  }
  if (life_ == Life::kJoining) {
    leave_ = Waiting{.call = in.call, .deadline = deadline_after(in.timeout)};
    life_ = Life::kLeaving;
    return;
  }
  if (life_ != Life::kMember)
    return fail(in.call, over_status_, life_ == Life::kLeaving ? "leave is being called already" : over_text_);
  leave_ = Waiting{.call = in.call, .deadline = deadline_after(in.timeout)};
  life_ = Life::kLeaving;
}

// Says that we leave, once every call that was made before has a round.
void Peer::Machine::try_leave() {
  if (!leave_ || leave_->said || proposal_ || admit_) return;
  if (connect_) {
    const bool nobody_knows = !session_.has_asked();
    if (!nobody_knows && !session_.welcomed()) return;
    end_waiting(connect_, Status::kAborted, "left before being admitted");
    if (nobody_knows) return end_left();
  }
  leave_->said = true;
  session_.say(wire::Leave{open_rounds()});
}

void Peer::Machine::on_stop(const Stop& in) {
  const std::string why(cut(in.why, kMaxTextBytes));
  if (connect_ && connect_->call == in.call) return end_run(Status::kAborted, "connect was aborted: " + why);
  if (leave_ && leave_->call == in.call) return end_run(Status::kAborted, "leave was aborted: " + why);
  if (admit_ && admit_->call == in.call && !admit_->by_itself && !admit_->cancelled) {
    if (!admit_->said) return give_up_admit(Status::kAborted, why);
    admit_->cancelled = Status::kAborted;
    admit_->deadline = now_ + options_.abort_grace;
    return session_.say(wire::AdmitCancel{Status::kAborted});
  }
  if (stop_share(in.call, why)) return;
  for (auto& [order, round] : rounds_) {
    if (round.call == in.call) {
      return ask_to_stop(round, Status::kAborted, "aborted by " + name_of(options_.id) + ": " + why);
    }
  }
}

// Nobody is to be told: whoever gives up waits for the end of its calls, and not for a coordinator that hears no more.
void Peer::Machine::on_abandon(const Abandon& in) {
  if (life_ == Life::kOver) return;
  session_.hang_up(*out_);
  end_run(Status::kNotConnected, std::string(cut(in.why, kMaxTextBytes)));
}

void Peer::Machine::on_timer() {
  session_.on_timer(now_, *out_);
  mesh_.on_timer(now_, *out_);
  if (connect_ && now_ >= connect_->deadline) {
    if (session_.welcomed()) {
      return end_run(Status::kTimedOut,
                     "not admitted in time: the members of the run must call admit, and a new run must have enough "
                     "founders");
    }
    Error why = session_.unanswered(now_);
    return end_run(why.status, std::move(why.text));
  }
  if (leave_ && now_ >= leave_->deadline) {
    return end_run(Status::kTimedOut, "leave timed out: the calls launched before it had not all ended; left by force");
  }
  if (admit_ && now_ >= admit_->deadline) {
    if (admit_->cancelled)
      return end_run(Status::kOutcomeUnknown, "admit got no answer from the coordinator in time; left the run");
    if (!admit_->said) {
      give_up_admit(Status::kTimedOut, "admit timed out while the membership was changing");
    } else {
      admit_->cancelled = Status::kTimedOut;
      admit_->deadline = now_ + options_.abort_grace;
      session_.say(wire::AdmitCancel{Status::kTimedOut});
    }
  }
  on_share_timer();
  std::vector<std::uint64_t> due;
  for (const auto& [order, round] : rounds_) {
    if (round.sync && now_ >= round.sync->deadline()) round.sync->on_timer(now_);
    if (now_ >= round.deadline) due.push_back(order);
  }
  for (const std::uint64_t order : due) {
    const auto at = rounds_.find(order);
    if (at == rounds_.end()) continue;
    Round& round = at->second;
    if (round.stop) {
      return end_run(Status::kOutcomeUnknown, "no verdict on tag " + std::to_string(round.request.tag.value) +
                                                  " within " + std::to_string(options_.abort_grace.ns / 1'000'000) +
                                                  " ms of asking to stop it; left the run");
    }
    ask_to_stop(round, Status::kTimedOut,
                name_of(options_.id) + " timed out after " + std::to_string(round.request.timeout.ns / 1'000'000) +
                    " ms in tag " + std::to_string(round.request.tag.value));
  }
}

void Peer::Machine::complete(CallId call, Outcome outcome) {
  outcome.view = view_->number;
  if (!outcome.contributors) {
    outcome.world = static_cast<std::uint32_t>(
        std::count_if(view_->members.begin(), view_->members.end(),
                      [&](const wire::Member& member) { return member.group == options_.group; }));
  }
  out_->emplace_back(Complete{call, std::move(outcome)});
}

void Peer::Machine::fail(CallId call, Status status, std::string text) {
  Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(text);
  complete(call, std::move(outcome));
}

void Peer::Machine::end_waiting(std::optional<Waiting>& waiting, Status status, const std::string& text) {
  if (!waiting) return;
  const Waiting ended = mutant(Mutant::kCallCompletesAgain) ? *waiting : *std::exchange(waiting, std::nullopt);
  if (ended.by_itself) return;
  Outcome outcome;
  outcome.status = status;
  outcome.text = text;
  complete(ended.call, std::move(outcome));
}

std::string Peer::Machine::name_of(PeerId peer) const {
  if (peer == options_.id) return trace::short_name(peer, options_.name);
  const auto at = std::find_if(view_->members.begin(), view_->members.end(),
                               [&](const wire::Member& member) { return member.id == peer; });
  return trace::short_name(peer, at == view_->members.end() ? std::string_view{} : std::string_view{at->name});
}

}  // namespace lockstep::peer
