#include "core/coordinator/proposals.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/base/mutant.h"
#include "core/trace/event.h"

namespace lockstep::coordinator {

namespace {

// Whether two lists decide the same. Texts may differ: they name the peers that wait for each other at the time of the
// draft.
bool same_decisions(const std::vector<wire::Verdict>& a, const std::vector<wire::Verdict>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const wire::Verdict& x, const wire::Verdict& y) {
    return x.key == y.key && x.attempt == y.attempt && x.status == y.status && x.hash == y.hash;
  });
}

// A member that is heard has so many round trips for its answer, or half a silence, and time for each entry of the
// message, which a slow line carries.
constexpr std::int64_t kAnswerRoundTrips = 8;
constexpr Duration kEachEntry = milliseconds(2);

}  // namespace

// ---- drafts ----

Proposal Proposals::draft_change(const std::set<PeerId>& lost) {
  ++drafts_;
  Proposal draft;
  draft.change.lost = lost;
  const Participants::OpenRounds leavers = participants_.leavers(lost);
  for (const auto& [leaver, open] : leavers) draft.change.left.insert(leaver);
  draft.change.kept = rounds_.kept_for(leavers);  // rule 22
  std::set<PeerId> gone = lost;
  if (!mutant(Mutant::kLeaverStaysInRing)) gone.insert(draft.change.left.begin(), draft.change.left.end());
  draft.message.view.members = membership_.next_members(gone, {});
  return draft;
}

std::optional<Proposal> Proposals::complete_change(Proposal draft, std::set<GroupId> relinked,
                                                   const std::string& around) const {
  draft.change.relinked = std::move(relinked);
  draft.change.around = around;
  const Rounds::Change& change = draft.change;
  if (change.lost.empty() && change.left.empty() && change.relinked.empty() && !rounds_.has_stops()) {
    return std::nullopt;
  }
  wire::View& view = draft.message.view;
  const bool same = change.relinked.empty() && view.members == membership_.view().members && change.lost.empty();
  view.term = context_.options.term;
  view.number = same ? membership_.view().number : last_view_.next();
  view.cohort = membership_.view().cohort;
  view.unmeshed = same ? membership_.view().unmeshed : membership_.unmeshed(view.members);
  return draft;
}

std::optional<Proposal> Proposals::draft_admission() {
  const auto& members = membership_.view().members;
  std::size_t wanted = 1;
  bool automatic = false;
  for (const wire::Member& member : members) {
    const Participant* participant = participants_.find(member.id);
    LOCKSTEP_ASSERT(participant != nullptr);  // a lost member makes a change, which comes first
    if (!participant->admit && member.id != members.front().id && mutant(Mutant::kAdmitWithoutAll)) continue;
    if (!participant->admit) {  // rule 18
      newcomers_.end_admission();
      return std::nullopt;
    }
    wanted = std::max<std::size_t>(wanted, participant->admit->at_least);
    automatic = automatic || participant->admit->automatic;
  }
  std::vector<Candidate> admissible = newcomers_.admissible();
  if (members.size() + admissible.size() < wanted) admissible = membership_.admissible();
  if (members.empty() && (admissible.empty() || newcomers_.waits_for_holder())) return std::nullopt;
  // An automatic admission waits for no number of members: members launch nothing until it is installed, and members
  // that joined it without a call of admit cannot wait. A member that wants more members asks again.
  const bool waits = members.size() + admissible.size() < wanted && !automatic;
  if (waits && !mutant(Mutant::kWorldIgnored)) return std::nullopt;
  Proposal draft;
  for (const wire::Member& member : members) {
    const Participant* participant = participants_.find(member.id);
    if (participant->admit) draft.change.admits[member.id] = participant->admit->open;
  }
  draft.admission = true;
  draft.arrivals = newcomers_.newest_arrival();
  draft.change.closes = membership_.view().cohort;
  for (const Candidate& candidate : admissible) draft.added.push_back(candidate.member.id);
  wire::View& view = draft.message.view;
  view.term = context_.options.term;
  view.number = last_view_.next();
  view.cohort = CohortId{view.number.value};
  view.members = membership_.next_members({}, admissible);
  view.unmeshed = membership_.unmeshed(view.members);
  return draft;
}

// A proposal holds up what it would touch until the next one is installed. When it is withdrawn because a newcomer is
// gone, and there is nothing else to propose (admit was called for more members than are left, or was cancelled),
// members install a proposal that changes nothing.
std::optional<Proposal> Proposals::draft_empty(const std::set<PeerId>& held_up) const {
  const bool needed =
      !mutant(Mutant::kWithdrawnUnsaid) && std::any_of(held_up.begin(), held_up.end(), [&](PeerId peer) {
        return participants_.contains(peer) && participants_.is_in_run(peer);
      });
  if (!needed) return std::nullopt;
  Proposal draft;
  draft.message.view = membership_.view();
  return draft;
}

// ---- the open proposal ----

void Proposals::complete(Proposal& draft) const {
  wire::Propose& message = draft.message;
  message.lost.assign(draft.change.lost.begin(), draft.change.lost.end());
  message.left.assign(draft.change.left.begin(), draft.change.left.end());
  message.relinked.assign(draft.change.relinked.begin(), draft.change.relinked.end());
  message.kept.assign(draft.change.kept.begin(), draft.change.kept.end());
  message.verdicts = rounds_.verdicts(draft.change, message.view);
  for (const auto& [peer, participant] : participants_.all()) {
    const bool added = std::find(draft.added.begin(), draft.added.end(), peer) != draft.added.end();
    if (participants_.is_in_run(peer) || added) draft.recipients.insert(peer);
  }
}

void Proposals::propose(Proposal draft) {
  LOCKSTEP_ASSERT(!open_);  // rule 4
  const bool again = draft.message.number.value != 0;
  if (!again) complete(draft);
  wire::Propose& message = draft.message;
  message.number = context_.take_proposal_number();
  message.link_key = context_.options.link_key;
  draft.awaited = draft.recipients;
  draft.since = context_.now;
  draft.slowest = {};
  context_.wake_at(context_.now + context_.options.silence);
  draft.change.flushed.clear();
  for (const PeerId peer : draft.recipients) {
    connections_.say(peer, message);
    if (Candidate* newcomer = membership_.candidate(peer)) newcomer->ask(message.number, context_.now);
  }
  context_.note({.kind = trace::Kind::kProposed,
                 .view = message.view.number,
                 .peer = {},
                 .round = {},
                 .number = message.number.value,
                 .text = {}});
  open_ = std::move(draft);
  wake_for_newcomers();
}

bool Proposals::is_stale(const Proposal& proposal, const std::set<PeerId>& lost) const {
  const bool new_loss =
      std::any_of(lost.begin(), lost.end(), [&](PeerId peer) { return !proposal.change.lost.contains(peer); });
  const bool gone = std::any_of(proposal.added.begin(), proposal.added.end(), [&](PeerId peer) {
    return !participants_.contains(peer) || newcomers_.is_silent(peer);
  });
  return (new_loss && !mutant(Mutant::kNewLossWaits)) || gone;
}

std::optional<Proposal> Proposals::withdraw_if_stale(const std::set<PeerId>& lost) {
  if (!open_ || !is_stale(*open_, lost)) return std::nullopt;
  if (open_->admission) newcomers_.withdraw_admission(open_->arrivals);
  return std::exchange(open_, std::nullopt);
}

void Proposals::put_off(const std::set<PeerId>& held_up) {
  for (const PeerId peer : held_up) {
    const auto candidate = membership_.candidates().find(peer);
    if (candidate == membership_.candidates().end() || is_recipient(peer)) continue;
    connections_.say(
        peer, wire::Waiting{candidate->second.member.address, context_.options.heartbeat, context_.options.silence});
  }
}

bool Proposals::on_flush(PeerId from, wire::Flush in) {
  LOCKSTEP_ASSERT(is_open(in.proposal));
  if (open_->awaited.erase(from) == 0) return false;
  open_->change.flushed[from] = std::move(in.open);
  if (!membership_.candidates().contains(from)) open_->slowest = context_.now - open_->since;
  wake_for_newcomers();
  return true;
}

// The first answers may also change texts, which name the peers that wait for each other.
bool Proposals::settle() {
  LOCKSTEP_ASSERT(is_answered());
  Proposal& proposal = *open_;
  std::vector<wire::Verdict> verdicts = rounds_.verdicts(proposal.change, proposal.message.view);
  const bool first = !std::exchange(proposal.settled_once, true);
  const bool holds =
      first ? verdicts == proposal.message.verdicts : same_decisions(verdicts, proposal.message.verdicts);
  if (holds || mutant(Mutant::kFirstVerdictStands)) return true;
  proposal.message.verdicts = std::move(verdicts);
  propose(*std::exchange(open_, std::nullopt));
  return false;
}

Proposal Proposals::take() {
  LOCKSTEP_ASSERT(is_answered());  // rule 6
  last_view_ = open_->message.view.number;
  return *std::exchange(open_, std::nullopt);
}

void Proposals::drop_round(const RoundKey& key) {
  if (!open_) return;
  for (auto& [peer, open] : open_->change.admits) remove_round(open, key);
  open_->change.kept.erase(key);
}

// ---- time ----

std::vector<PeerId> Proposals::newcomers_await() const {
  std::vector<PeerId> awaited;
  if (membership_.admissible().empty()) return awaited;
  if (open_) {
    std::copy_if(open_->awaited.begin(), open_->awaited.end(), std::back_inserter(awaited),
                 [&](PeerId peer) { return !membership_.candidates().contains(peer); });
    return awaited;
  }
  bool gathers = false;
  for (const wire::Member& member : membership_.view().members) {
    const Participant* participant = participants_.find(member.id);
    if (participant != nullptr && participant->admit) {
      gathers = true;
    } else {
      awaited.push_back(member.id);
    }
  }
  return gathers ? awaited : std::vector<PeerId>{};
}

bool Proposals::waits_for_newcomers() const {
  return open_ && !open_->awaited.empty() &&
         std::all_of(open_->awaited.begin(), open_->awaited.end(),
                     [&](PeerId peer) { return membership_.candidates().contains(peer); });
}

void Proposals::wake_for_newcomers() {
  if (!waits_for_newcomers()) return;
  for (const PeerId peer : open_->awaited) {
    const Candidate& newcomer = membership_.candidates().at(peer);
    context_.wake_at(open_->since + newcomers_.patience_with(newcomer, open_->slowest));
  }
}

// A member that is heard answers at once, as soon as the proposal has come to it.
Instant Proposals::answer_limit(PeerId peer) const {
  const Instant longest = open_->since + longest_answer();
  const Instant heard = connections_.heard_since(peer);
  if (heard == kNever) return longest;
  const Duration expected = std::max(connections_.round_trip_to(peer), open_->slowest) * kAnswerRoundTrips;
  const auto entries = static_cast<std::int64_t>(open_->message.verdicts.size() + open_->message.view.members.size());
  const Duration patience = std::max(context_.options.silence / 2, expected) + kEachEntry * entries;
  return std::min(longest, std::max(open_->since, heard) + patience);
}

std::vector<Eviction> Proposals::late(bool slept) {
  std::vector<Eviction> late;
  if (!open_ || open_->awaited.empty()) return late;
  if (slept) open_->since = context_.now;
  for (const PeerId peer : open_->awaited) {
    if (membership_.candidates().contains(peer)) continue;  // miss_newcomers()
    const Instant limit = answer_limit(peer);
    if (context_.now < limit) {
      context_.wake_at(limit);
      continue;
    }
    const std::string ms = std::to_string((limit - open_->since).ns / 1'000'000);
    late.push_back({peer, Status::kEvicted, "did not answer a proposal within " + ms + " ms"});
  }
  return late;
}

void Proposals::miss_newcomers() {
  if (!waits_for_newcomers()) return;
  for (const PeerId peer : open_->awaited) {
    Candidate& newcomer = *membership_.candidate(peer);
    if (context_.now >= open_->since + newcomers_.patience_with(newcomer, open_->slowest)) newcomers_.miss(newcomer);
  }
  wake_for_newcomers();
}

}  // namespace lockstep::coordinator
