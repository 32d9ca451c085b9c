#include "core/peer/admission.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

void Admission::refuse(CallId call, const char* leaving) const {
  LOCKSTEP_ASSERT(life_ != Life::kMember);
  context_.fail(call, over_status_, life_ == Life::kLeaving ? leaving : over_text_);
}

// ---- calls ----

void Admission::connect(const Connect& in) {
  if (life_ != Life::kNew) {
    return context_.fail(in.call, Status::kInvalidArgument,
                         "connect was called before: create a new communicator to join again");
  }
  life_ = Life::kJoining;
  over_text_ = "this communicator is not admitted yet: wait for connect to complete";
  connect_ = Connecting{in.call, context_.deadline_after(in.timeout)};
  context_.session.connect(in.coordinator, context_.now, context_.out());
}

// Rule 18: members decide when newcomers join.
bool Admission::admit(const Admit& in, std::uint64_t launches) {
  const auto fail = [&](Status status, std::string text) {
    context_.fail(in.call, status, std::move(text));
    return false;
  };
  if (life_ != Life::kMember) {
    refuse(in.call, "this peer is leaving");
    return false;
  }
  if (admit_ && admit_->call) {
    return fail(Status::kInvalidArgument, "admit is being called already: one at a time");
  }
  if (in.at_least > kMaxMembers) {
    return fail(Status::kInvalidArgument, "admit wants " + std::to_string(in.at_least) +
                                              " members; a run has at most " + std::to_string(kMaxMembers));
  }
  const bool said = admit_ && admit_->said;  // automatically
  admit_ = Admitting{.call = in.call,
                     .deadline = context_.deadline_after(in.timeout),
                     .said = said,
                     .said_automatic = said,
                     .at_least = in.at_least,
                     .launches = launches};
  return true;
}

bool Admission::leave(const Leave& in) {
  if (life_ != Life::kJoining && life_ != Life::kMember) {
    refuse(in.call, "leave is being called already");
    return false;
  }
  leave_ = Leaving{.call = in.call, .deadline = context_.deadline_after(in.timeout)};
  life_ = Life::kLeaving;
  return true;
}

bool Admission::begin_automatic() {
  if (life_ != Life::kMember || admit_) return false;
  admit_ = Admitting{};
  return true;
}

void Admission::cancel_admit(Status status) {
  admit_->cancelled = status;
  admit_->deadline = context_.now + context_.options.abort_grace;
  context_.session.say(wire::AdmitCancel{status});
}

std::optional<Admission::Decision> Admission::stop(CallId call, const std::string& why) {
  if (connect_ && connect_->call == call) return RunEnds{Status::kAborted, "connect was aborted: " + why};
  if (leave_ && leave_->call == call) return RunEnds{Status::kAborted, "leave was aborted: " + why};
  if (!admit_ || admit_->call != call || admit_->cancelled) return std::nullopt;
  const std::string text = "admit was aborted by " + context_.name_of(context_.options.id) + ": " + why;
  if (!admit_->said) return AdmitEnds{Status::kAborted, text};
  cancel_admit(Status::kAborted);
  admit_->cancelled_by = text;
  return std::monostate{};
}

Admission::Decision Admission::on_timer() {
  if (connect_ && context_.now >= connect_->deadline) {
    if (context_.session.welcomed()) {
      return RunEnds{Status::kTimedOut,
                     "not admitted in time: the members of the run must call admit, and a new run must have enough "
                     "founders"};
    }
    Error why = context_.session.unanswered(context_.now);
    return RunEnds{why.status, std::move(why.text)};
  }
  if (leave_ && context_.now >= leave_->deadline) {
    return RunEnds{Status::kTimedOut, "leave timed out: the calls launched before it had not all ended; left by force"};
  }
  if (!admit_ || context_.now < admit_->deadline) return {};
  if (admit_->cancelled) {
    return RunEnds{Status::kOutcomeUnknown, "admit got no answer from the coordinator in time; left the run"};
  }
  if (!admit_->said) return AdmitEnds{Status::kTimedOut, "admit timed out while the membership was changing"};
  cancel_admit(Status::kTimedOut);
  return {};
}

template <typename Call>
void Admission::end(std::optional<Call>& waiting, Outcome outcome) {
  if (!waiting) return;
  const std::optional<CallId> call = waiting->call;
  if (!mutant(Mutant::kCallCompletesAgain)) waiting.reset();
  if (call) context_.complete(*call, std::move(outcome));
}

template <typename Call>
void Admission::end(std::optional<Call>& waiting, Status status, const std::string& text) {
  Outcome outcome;
  outcome.status = status;
  outcome.text = text;
  end(waiting, std::move(outcome));
}

void Admission::end_admit(Status status, const std::string& text) { end(admit_, status, text); }

void Admission::end_cancelled(Status status, const std::string& text) {
  LOCKSTEP_ASSERT(is_cancelled());
  const std::string by = admit_->cancelled_by.empty() ? "" : admit_->cancelled_by + "; ";
  end(admit_, status, by + text);
}
void Admission::end_leave() { end(leave_, Status::kOk, {}); }

// ---- admit ----

// Rule 21: the coordinator learns which rounds this peer has launched, because it launches no more.
void Admission::say_admit(std::vector<wire::OpenRound> open) {
  LOCKSTEP_ASSERT(admit_ && !admit_->said);
  admit_->said = true;
  admit_->said_automatic = !admit_->call;
  if (mutant(Mutant::kAdmitHidesRounds)) open.clear();
  context_.session.say(wire::Admit{context_.view->cohort, admit_->at_least, admit_->said_automatic, std::move(open)});
}

bool Admission::joins(const Cohort& cohort) const {
  return context_.options.auto_admit && std::any_of(cohort.pending_admits.begin(), cohort.pending_admits.end(),
                                                    [&](const auto& entry) { return enough(entry.second.at_least); });
}

bool Admission::goes_on(const Cohort& cohort) const {
  if (life_ == Life::kLeaving && joins(cohort)) return true;
  if (!context_.options.auto_admit || !admit_) return false;
  if (!admit_->call || admit_->said_automatic) return true;
  const auto is = [&](auto what) {
    return std::any_of(cohort.pending_admits.begin(), cohort.pending_admits.end(), what);
  };
  if (is([](const auto& entry) { return entry.second.automatic; })) return true;
  return enough(admit_->at_least) && !is([&](const auto& entry) { return !enough(entry.second.at_least); });
}

// ---- leave ----

// Rule 22: a leave is said between proposals, with the rounds that are open.
Admission::Farewell Admission::farewell(bool proposed, bool waits) {
  if (!leave_ || leave_->said || proposed || admit_ || waits) return Farewell::kNone;
  if (!connect_) return Farewell::kSay;
  const bool unseen = !context_.session.has_asked();
  if (!unseen && !context_.session.welcomed()) return Farewell::kNone;
  end(connect_, Status::kAborted, "left before being admitted");
  return unseen ? Farewell::kUnseen : Farewell::kSay;
}

void Admission::say_leave(std::vector<wire::OpenRound> open) {
  LOCKSTEP_ASSERT(leave_ && !leave_->said);
  leave_->said = true;
  context_.session.say(wire::Leave{std::move(open)});
}

// ---- what the coordinator decides ----

void Admission::on_pending(const wire::Pending& pending) {
  pending_ = pending.count;
  context_.out().emplace_back(PendingChanged{pending_, pending.fetching, pending.holding});
}

void Admission::enter_cohort(std::size_t members, const std::vector<PeerId>& newcomers) {
  pending_ = 0;
  context_.out().emplace_back(PendingChanged{});
  end(connect_, Status::kOk, {});
  if (!admit_) return;
  admit_->newcomers.insert(admit_->newcomers.end(), newcomers.begin(), newcomers.end());
  // With auto_admit there may be fewer members than the call wants: it is said again.
  const bool enough = !context_.options.auto_admit || members >= admit_->at_least;
  if (enough || mutant(Mutant::kAdmitUnderstated)) {
    Outcome admitted;
    admitted.newcomers = admit_->newcomers;
    return end(admit_, std::move(admitted));
  }
  if (admit_->cancelled) return end(admit_, *admit_->cancelled, "the run has too few members");
  admit_->said = false;
}

void Admission::renew_grace(Instant limit) {
  if (is_cancelled()) admit_->deadline = limit;
}

// Rule 37.
void Admission::begin_end(Status status, std::string text) {
  LOCKSTEP_ASSERT(life_ != Life::kOver);
  life_ = Life::kOver;
  over_status_ = status == Status::kEvicted ? status : Status::kNotConnected;
  over_text_ = std::move(text);
}

void Admission::end_calls(Status status) {
  LOCKSTEP_ASSERT(life_ == Life::kOver);
  end(connect_, status, over_text_);
  end(admit_, status, over_text_);
  end(leave_, status, over_text_);
}

Instant Admission::deadline() const {
  Instant next = kNever;
  if (connect_) next = std::min(next, connect_->deadline);
  if (admit_) next = std::min(next, admit_->deadline);
  if (leave_) next = std::min(next, leave_->deadline);
  return next;
}

std::size_t Admission::calls() const {
  return (connect_ ? 1U : 0U) + (admit_ && admit_->call ? 1U : 0U) + (leave_ ? 1U : 0U);
}

}  // namespace lockstep::peer
