// The effect of a change on rounds: which rounds commit although a member is lost, which end and with which text, and
// which are kept for leavers.
#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/mutant.h"
#include "core/coordinator/rounds.h"
#include "core/trace/event.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

// A proposal has a declared maximum (rule 29 of docs/protocol.md). Far beyond the use of programs, texts are dropped
// first. Stops, and rounds that an admission closes, wait for the next proposal when they do not fit.
void fit_one_message(std::vector<wire::Verdict>& verdicts) {
  constexpr std::size_t kTextBytes = kMaxBodyBytes / 4;
  if (verdicts.size() > kMaxVerdicts) verdicts.resize(kMaxVerdicts);
  std::size_t text = 0;
  for (wire::Verdict& verdict : verdicts) {
    text += std::min(verdict.text.size(), kMaxTextBytes);
    if (text > kTextBytes) verdict.text.clear();
  }
}

// The members that a change takes away from the rounds of one generation of bound groups.
struct Loss {
  bool lost = false;
  bool left = false;
  bool relinked = false;
  std::string around;    // names of the ends of the broken link
  std::string who;       // names of the lost members and of the leavers
  GroupId first;         // first bound group that has members
  std::size_t size = 0;  // number of bound groups that have members

  [[nodiscard]] Status status() const { return lost ? Status::kPeerLost : Status::kWorldChanged; }
  // The text for the callers of a round that ends. `world`: number of members that its group has now.
  [[nodiscard]] std::string text(const RoundKey& key, std::size_t world) const {
    const std::string tag = "tag " + std::to_string(key.tag.value);
    const std::string now = "; the group has " + std::to_string(world) + " members now";
    if (lost) return "lost " + who + " during " + tag + now;
    if (left) return who + " left before " + tag + now;
    return "the ring was laid around a broken link" + (around.empty() ? "" : ", that of " + around + ",") + " during " +
           tag + ": call again";
  }
};

}  // namespace

bool Rounds::relinks(const Change& change, const RoundKey& key) const {
  const Group* group = group_of(key);
  if (group == nullptr || change.relinked.empty()) return false;
  const std::vector<GroupId>& bound = cohort_of(key)->bound[group->binding];
  return std::any_of(bound.begin(), bound.end(), [&](GroupId id) { return change.relinked.contains(id); });
}

bool Rounds::touched(const RoundKey& key, Generation attempt, const Change& change) const {
  if (relinks(change, key)) return true;
  const bool kept = change.kept.contains(key);
  for (const RoundKey& bound : bound_with(key)) {
    for (const wire::Member& member : members_of(bound, attempt)) {
      if (change.lost.contains(member.id) || (change.left.contains(member.id) && !kept)) return true;
    }
  }
  return false;
}

std::string Rounds::describe_waiting(const RoundKey& key, Generation attempt, const Change& change) const {
  std::string text;
  for (const wire::Member& member : members_of(key, attempt)) {
    const auto open = change.flushed.find(member.id);
    if (open == change.flushed.end()) continue;
    const auto launched = std::any_of(open->second.begin(), open->second.end(),
                                      [&](const wire::OpenRound& round) { return round.key == key; });
    if (launched) continue;
    text += (text.empty() ? "; it waited for " : ", ") + trace::short_name(member.id, member.name);
    // A member that is done, or claims a state, waits for others in that round, unless it has reported the commit.
    const auto busy = std::find_if(open->second.begin(), open->second.end(), [&](const wire::OpenRound& round) {
      return !round.done || is_undecided(round.key);
    });
    text += busy == open->second.end() ? " (in no call)" : " (in tag " + std::to_string(busy->key.tag.value) + ")";
    if (text.size() > kMaxTextBytes / 2) break;
  }
  return text;
}

std::vector<wire::Verdict> Rounds::touched_verdicts(const Change& change, const wire::View& next,
                                                    std::map<RoundKey, Stop>* unsaid) const {
  // Every undecided round that a member has open or is done with; one entry for bound rounds. The properties of a
  // generation are computed once: members may be many, and each may have many rounds open.
  struct Known {
    Generation attempt;
    bool retry = true;
  };
  std::map<RoundKey, Known> known;  // by bundle
  for (const auto& [peer, open] : change.flushed) {
    const std::vector<wire::Member>* looked_in = nullptr;
    bool is_in = false;
    for (const wire::OpenRound& round : open) {
      if (attempt_of(round.key) != round.attempt) continue;
      const std::vector<wire::Member>& members = members_of(round.key, round.attempt);
      if (&members != looked_in) is_in = has_member(members, peer);
      looked_in = &members;
      if (!is_in) continue;
      Known& entry = known.try_emplace(bundle_of(round.key), Known{round.attempt, true}).first->second;
      entry.retry = entry.retry && round.retry;
    }
  }
  std::map<std::tuple<CohortId, GroupId, Generation>, Loss> losses;  // of the groups of a bundle
  const auto loss_of = [&](const RoundKey& bundle, Generation attempt) -> const Loss& {
    const auto [at, fresh] = losses.try_emplace({bundle.cohort, bundle.group, attempt});
    Loss& loss = at->second;
    if (!fresh) return loss;
    loss.relinked = relinks(change, bundle);
    loss.around = change.around;
    const std::vector<RoundKey> bound = bound_with(bundle);
    loss.first = bound.front().group;
    loss.size = bound.size();
    for (const RoundKey& key : bound) {
      for (const wire::Member& member : members_of(key, attempt)) {
        const bool lost = change.lost.contains(member.id) || (!change.lost.empty() && mutant(Mutant::kAnyLossCounts));
        const bool left = change.left.contains(member.id);
        loss.lost = loss.lost || lost;
        loss.left = loss.left || left;
        if ((!lost && !left) || loss.who.size() >= kMaxTextBytes / 2) continue;
        loss.who += (loss.who.empty() ? "" : ", ") + trace::short_name(member.id, member.name);
      }
    }
    return loss;
  };
  std::map<GroupId, std::size_t> worlds;
  for (const wire::Member& member : next.members) ++worlds[member.group];

  std::vector<wire::Verdict> verdicts;
  std::vector<std::pair<RoundKey, Known>> uncommitted;  // bundles
  for (const auto& [bundle, round] : known) {
    if (stops_.contains(bundle)) continue;
    const Loss& loss = loss_of(bundle, round.attempt);
    const RoundKey first{bundle.cohort, loss.first, bundle.tag, bundle.use};
    const bool left = loss.left && !change.kept.contains(first);
    if (!loss.relinked && !loss.lost && !left) continue;
    const bool commits = rounds_.contains(first) && commit(bundle, round.attempt, change, verdicts);
    if (!commits) uncommitted.emplace_back(bundle, round);
  }
  for (const auto& [bundle, round] : uncommitted) {
    if (round.retry || mutant(Mutant::kRetriesWhatMustNot)) continue;
    const Loss& loss = loss_of(bundle, round.attempt);
    if (verdicts.size() + loss.size > kMaxVerdicts) {  // bound rounds end together (rule 32)
      if (unsaid == nullptr) continue;
      unsaid->emplace(bundle, Stop{{bundle, round.attempt, loss.status(), 0, "too many rounds were cut short"}, {}});
      continue;
    }
    for (const RoundKey& key : bound_with(bundle)) {
      verdicts.push_back({key, round.attempt, loss.status(), 0, loss.text(key, worlds[key.group])});
    }
  }
  return verdicts;
}

// All survivors are done with these rounds. A member may have reported their commit (rule 14), and be lost since: they
// must commit. So must a round of which members say that they have committed it among themselves (rule 56).
// Invariant: a proposal has room for all of them, at most kMaxUndecided for each list of bound groups.
bool Rounds::commit(const RoundKey& bundle, Generation attempt, const Change& change,
                    std::vector<wire::Verdict>& verdicts) const {
  const std::vector<RoundKey> bound = bound_with(bundle);
  if (verdicts.size() + bound.size() > kMaxVerdicts) return false;
  const bool done =
      std::all_of(bound.begin(), bound.end(), [&](const RoundKey& key) { return all_done(key, attempt, change.lost); });
  if (!done) {
    std::optional<wire::Verdict> agreed = agreed_among_members(bound.front(), attempt, change);
    if (!agreed) return false;
    verdicts.push_back(*std::move(agreed));
    return true;
  }
  for (const RoundKey& key : bound) {
    verdicts.push_back({key, attempt, Status::kOk, rounds_.at(key).hash, describe_difference(key, attempt)});
  }
  return true;
}

// A member says that all have agreed on this round, and that its caller was told (rule 14), and another member has the
// same result, or all members of the attempt that are left flush it as done with that result. Then a member has told
// the coordinator something else than the members, or nothing (rule 56). Returns the commit of the result that stands.
// An honest member says Done before it flushes the round, so the word of a member that has not said Done counts only if
// nobody contradicts.
std::optional<wire::Verdict> Rounds::agreed_among_members(const RoundKey& key, Generation attempt,
                                                          const Change& change) const {
  const auto round = rounds_.find(key);
  if (round == rounds_.end() || round->second.attempt != attempt || bound_with(key).size() > 1) return {};
  const std::vector<wire::Member>& members = members_of(key, attempt);
  if (members.size() > kMaxMeshed || mutant(Mutant::kAgreedIsTakenBack)) return {};
  std::map<std::uint64_t, std::size_t> flushed_with;  // by hash
  std::map<std::uint64_t, std::size_t> members_with;  // by hash; members that have said Done
  std::set<std::uint64_t> agreed;
  std::size_t left = 0;
  for (const wire::Member& member : members) {
    const auto flushed = change.flushed.find(member.id);
    if (flushed == change.flushed.end()) continue;
    left += 1;
    const auto at = std::ranges::find_if(flushed->second, [&](const wire::OpenRound& open) {
      return open.key == key && open.attempt == attempt && open.done;
    });
    if (at == flushed->second.end()) continue;
    flushed_with[at->hash] += 1;
    if (!round->second.done.contains(member.id)) continue;
    members_with[at->hash] += 1;
    if (at->agreed) agreed.insert(at->hash);
  }
  const auto stands = std::ranges::find_if(
      agreed, [&](std::uint64_t hash) { return flushed_with[hash] == left || members_with[hash] > 1; });
  if (stands == agreed.end()) return {};
  return wire::Verdict{key, attempt, Status::kOk, *stands, {}};
}

std::vector<wire::Verdict> Rounds::verdicts(const Change& change, const wire::View& next) const {
  std::vector<wire::Verdict> verdicts = touched_verdicts(change, next, nullptr);
  for (const auto& [bundle, stop] : stops_) {
    const bool may_commit = !mutant(Mutant::kStopBeatsDone);
    if (may_commit && commit(bundle, stop.verdict.attempt, change, verdicts)) continue;
    const auto bound = bound_with(bundle);
    if (verdicts.size() + bound.size() > kMaxVerdicts) break;  // the other stops wait for the next proposal
    for (const RoundKey& key : bound) {
      wire::Verdict verdict = stop.verdict;
      verdict.key = key;
      if (verdict.status == Status::kTimedOut) verdict.text += describe_waiting(key, verdict.attempt, change);
      verdicts.push_back(std::move(verdict));
    }
  }
  if (change.closes || !closed_.empty()) {
    std::set<RoundKey> decided;
    for (const wire::Verdict& verdict : verdicts) decided.insert(verdict.key);
    const auto close = [&](const wire::Verdict& closed) {
      if (verdicts.size() >= kMaxVerdicts || !decided.insert(closed.key).second) return;
      verdicts.push_back(agreed_among_members(closed.key, closed.attempt, change).value_or(closed));
    };
    for (const auto& [key, closed] : closed_) close(closed);
    if (change.closes) {
      for (const wire::Verdict& closed : closed_by_admission(*change.closes, change.admits)) close(closed);
    }
  }
  fit_one_message(verdicts);
  return verdicts;
}

std::vector<wire::Verdict> Rounds::closed_by_admission(
    CohortId cohort, const std::map<PeerId, std::vector<wire::OpenRound>>& open) const {
  std::map<RoundKey, std::set<PeerId>> launched;
  for (const auto& [peer, list] : open) {
    for (const wire::OpenRound& round : list) {
      if (round.key.cohort == cohort) launched[round.key].insert(peer);
    }
  }
  for (const auto& [key, attempt] : kept_) {
    if (key.cohort == cohort) launched.try_emplace(key);  // by leavers, and perhaps by no member
  }
  // The first member that has not launched a round of the bundle. The search looks at each member, so it is done once.
  std::map<RoundKey, const wire::Member*> missing;
  const auto missing_of = [&](const RoundKey& key, Generation attempt) -> const wire::Member* {
    const auto [at, fresh] = missing.try_emplace(bundle_of(key), nullptr);
    if (!fresh) return at->second;
    for (const GroupId id : mutant(Mutant::kGroupsDecideAlone) ? std::vector<GroupId>{key.group}
                                                               : cohort_of(key)->bound[group_of(key)->binding]) {
      const RoundKey other{key.cohort, id, key.tag, key.use};
      const auto has = launched.find(other);
      for (const wire::Member& member : members_of(other, attempt)) {
        if (has != launched.end() && has->second.contains(member.id)) continue;
        if (!open.contains(member.id)) continue;  // a leaver whose rounds are kept
        return at->second = &member;
      }
    }
    return nullptr;
  };
  std::vector<wire::Verdict> verdicts;
  for (const auto& [key, who] : launched) {
    const std::optional<Generation> attempt = attempt_of(key);
    if (!attempt) continue;
    const wire::Member* member = missing_of(key, *attempt);
    if (member == nullptr) continue;
    verdicts.push_back({key, *attempt, Status::kCohortClosed, 0,
                        wire::not_launched(trace::short_name(member->id, member->name), key.tag)});
  }
  return verdicts;
}

std::set<RoundKey> Rounds::kept_for(const std::map<PeerId, std::vector<wire::OpenRound>>& leavers) const {
  std::map<PeerId, std::set<RoundKey>> launched;
  for (const auto& [peer, open] : leavers) {
    std::set<RoundKey>& own = launched[peer];
    for (const wire::OpenRound& round : open) own.insert(round.key);
  }
  // Whether all leavers that these rounds need have launched the rounds.
  const auto can_end = [&](const std::vector<RoundKey>& bound) {
    return std::all_of(bound.begin(), bound.end(), [&](const RoundKey& key) {
      const std::optional<Generation> attempt = attempt_of(key);
      if (!attempt) return false;
      const auto& members = members_of(key, *attempt);
      return std::all_of(members.begin(), members.end(), [&](const wire::Member& member) {
        const auto leaver = launched.find(member.id);
        return leaver == launched.end() || leaver->second.contains(key) || mutant(Mutant::kKeepsUnlaunched);
      });
    });
  };
  std::set<RoundKey> bundles;  // that were examined
  std::set<RoundKey> keys;
  const auto keep = [&](const RoundKey& key) {
    const RoundKey bundle = bundle_of(key);
    if (!bundles.insert(bundle).second) return;
    const auto bound = bound_with(bundle);
    if (keys.size() + bound.size() <= kMaxVerdicts && can_end(bound)) keys.insert(bound.begin(), bound.end());
  };
  for (const auto& [key, attempt] : kept_) keep(key);  // these first: an earlier proposal has promised them
  for (const auto& [peer, own] : launched) {
    for (const RoundKey& key : own) keep(key);
  }
  return keys;
}

}  // namespace lockstep::coordinator
