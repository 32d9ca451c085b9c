#include "core/coordinator/rounds.h"

#include <algorithm>
#include <tuple>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/trace/event.h"
#include "core/wire/binding.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

std::string name_in(const std::vector<wire::Member>& members, PeerId peer) {
  const auto at = std::find_if(members.begin(), members.end(), [&](const wire::Member& m) { return m.id == peer; });
  return trace::short_name(peer, at == members.end() ? std::string_view{} : std::string_view{at->name});
}

bool has_member(const std::vector<wire::Member>& members, PeerId peer) {
  return std::any_of(members.begin(), members.end(), [&](const wire::Member& m) { return m.id == peer; });
}

// Whether a lost member took part in a round that all survivors are done with, as far as bytes of it had to pass.
// `survivor_done(rank)`: that rank is alive and done. Rounds without bytes prove nothing.
template <typename IsDone>
bool took_part(const wire::Descriptor& what, const std::vector<wire::Member>& members, std::size_t lost,
               IsDone is_done) {
  const std::size_t n = members.size();
  switch (what.collective) {
    case wire::Collective::kAllReduce: return what.count > 0;  // every result has everybody's contribution
    case wire::Collective::kAllGather: return true;            // every size had to be told
    case wire::Collective::kReduceScatter:                     // a chunk that is not empty has everybody's contribution
      for (std::size_t rank = 0; rank < n; ++rank) {
        const bool has_chunk = what.tensors == 1 ? rank < what.count : rank == 0 && what.count > 0;
        if (has_chunk && is_done(rank)) return true;
      }
      return false;
    case wire::Collective::kBroadcast:  // whoever has the tensor has it from its upstream neighbour
      if (what.count == 0) return false;
      for (std::size_t rank = (lost + 1) % n; members[rank].id != what.root && rank != lost; rank = (rank + 1) % n) {
        if (is_done(rank)) return true;
      }
      return false;
    case wire::Collective::kBarrier: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

// A proposal has a declared maximum (promise S9). Far beyond what programs do, texts go first; stops, and rounds that an
// admission closes, wait for the next proposal when they do not fit.
void fit_one_message(std::vector<wire::Verdict>& verdicts) {
  constexpr std::size_t kTextBytes = kMaxBodyBytes / 4;
  if (verdicts.size() > kMaxVerdicts) verdicts.resize(kMaxVerdicts);
  std::size_t text = 0;
  for (wire::Verdict& verdict : verdicts) {
    text += std::min(verdict.text.size(), kMaxTextBytes);
    if (text > kTextBytes) verdict.text.clear();
  }
}

// What a change takes away from the rounds of one generation of some groups that are bound together.
struct Loss {
  bool lost = false;
  bool left = false;
  bool relinked = false;
  std::string who;       // lost or left
  GroupId first;         // of the groups that have members
  std::size_t size = 0;  // number of these groups

  [[nodiscard]] Status status() const { return lost ? Status::kPeerLost : Status::kWorldChanged; }
  // What the callers of a round that will not be finished are told; `world`: how many its group has now.
  [[nodiscard]] std::string text(const RoundKey& key, std::size_t world) const {
    const std::string tag = "tag " + std::to_string(key.tag.value);
    const std::string now = "; the group has " + std::to_string(world) + " members now";
    if (lost) return "lost " + who + " during " + tag + now;
    if (left) return who + " left before " + tag + now;
    return "the ring was laid around a broken link during " + tag + ": call again";
  }
};

std::string cut_text(std::string text) {
  if (text.size() > kMaxTextBytes) text.resize(kMaxTextBytes);
  return text;
}

}  // namespace

const Rounds::Cohort* Rounds::cohort_of(const RoundKey& key) const {
  const auto at = cohorts_.find(key.cohort);
  return at == cohorts_.end() ? nullptr : &at->second;
}

const Rounds::Group* Rounds::group_of(const RoundKey& key) const {
  const Cohort* cohort = cohort_of(key);
  if (cohort == nullptr) return nullptr;
  const auto at = cohort->groups.find(key.group);
  return at == cohort->groups.end() ? nullptr : &at->second;
}

std::optional<Generation> Rounds::attempt_of(const RoundKey& key) const {
  const Group* group = group_of(key);
  if (group == nullptr) return std::nullopt;
  const auto kept = kept_.find(key);
  return kept == kept_.end() ? group->current : kept->second;
}

const std::vector<wire::Member>& Rounds::members_of(const RoundKey& key, Generation attempt) const {
  static const std::vector<wire::Member> kNobody;
  const Group* group = group_of(key);
  if (group == nullptr) return kNobody;
  const auto at = group->generations.find(attempt);
  return at == group->generations.end() ? kNobody : at->second;
}

std::vector<RoundKey> Rounds::bound_with(const RoundKey& key) const {
  const Group* group = group_of(key);
  if (group == nullptr || mutant(Mutant::kGroupsDecideAlone)) return {key};
  const std::vector<GroupId>& groups = cohort_of(key)->bound[group->binding];
  if (groups.size() == 1) return {key};
  std::vector<RoundKey> keys;
  for (const GroupId id : groups) {
    const RoundKey other{key.cohort, id, key.tag, key.use};
    if (!members_of(other, *attempt_of(other)).empty()) keys.push_back(other);
  }
  return keys;
}

RoundKey Rounds::bundle_of(const RoundKey& key) const {
  const Group* group = group_of(key);
  if (group == nullptr || mutant(Mutant::kGroupsDecideAlone)) return key;
  return {key.cohort, cohort_of(key)->bound[group->binding].front(), key.tag, key.use};
}

bool Rounds::all_done(const RoundKey& key, Generation attempt, const std::set<PeerId>& lost) const {
  const auto at = rounds_.find(key);
  if (at == rounds_.end() || at->second.attempt != attempt) return false;
  const Round& round = at->second;
  const auto& members = members_of(key, attempt);
  const auto is_done = [&](std::size_t rank) { return round.done.contains(members[rank].id); };
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    if (is_done(rank) || (mutant(Mutant::kCommitWithoutOne) && rank + 1 == members.size())) continue;
    if (!lost.contains(members[rank].id)) return false;
    if (!took_part(round.what, members, rank, is_done) && !mutant(Mutant::kLostCountsAsDone)) return false;
  }
  return true;
}

Rounds::DoneResult Rounds::on_done(PeerId from, const wire::Done& done) {
  DoneResult result;
  const std::optional<Generation> now = attempt_of(done.key);
  if (!now) {
    result.violation =
        "done with a round of cohort " + std::to_string(done.key.cohort.value) + ", which does not exist";
    return result;
  }
  const Generation attempt = *now;
  if (done.attempt < attempt) return result;  // given up meanwhile
  const auto& members = members_of(done.key, attempt);
  if (done.attempt != attempt || !has_member(members, from)) {
    result.violation = "done with attempt " + std::to_string(done.attempt.value) + " of a round it is not part of";
    return result;
  }
  const auto [at, is_first] = rounds_.try_emplace(done.key);
  if (is_first && done_by_.of(from) >= kMaxRoundsInFlight) {
    rounds_.erase(at);
    result.violation = "done with more rounds than can be in flight";
    return result;
  }
  Round& round = at->second;
  if (is_first || round.attempt != attempt) {
    uncount(round);
    round = Round{attempt, done.what, from, done.hash, {}};
  }
  if (!round.done.insert(from).second) {
    result.violation = "done twice with the same attempt of a round";
    return result;
  }
  done_by_.add(from);
  if (stops_.contains(bundle_of(done.key))) return result;
  if (round.what != done.what || round.hash != done.hash) {
    const bool arguments = round.what != done.what;
    const auto say = [&](PeerId who, const wire::Descriptor& what, std::uint64_t hash) {
      return name_in(members, who) + ": " + (arguments ? wire::describe(what) : "hash " + std::to_string(hash));
    };
    result.stop =
        wire::Verdict{done.key, attempt, arguments ? Status::kMismatch : Status::kInternal, 0,
                      cut_text(std::string(arguments ? "arguments" : "results") + " differ in tag " +
                               std::to_string(done.key.tag.value) + ": " + say(round.first, round.what, round.hash) +
                               "; " + say(from, done.what, done.hash))};
    stops_.emplace(bundle_of(done.key), Stop{*result.stop, {}});
    return result;
  }
  const auto bound = bound_with(done.key);
  if (!std::all_of(bound.begin(), bound.end(), [&](const RoundKey& key) { return all_done(key, attempt, {}); })) {
    return result;
  }
  for (const RoundKey& key : bound) result.committed.push_back(committed(key, attempt, rounds_.at(key).hash));
  for (const RoundKey& key : bound) forget(key);
  return result;
}

Rounds::Committed Rounds::committed(const RoundKey& key, Generation attempt, std::uint64_t hash) const {
  const wire::Descriptor& what = rounds_.at(key).what;
  return {{key, attempt, hash, false}, members_of(key, attempt), what.count * size_of(what.type)};
}

void Rounds::forget(const RoundKey& key) {
  if (const auto at = rounds_.find(key); at != rounds_.end() && uncount(at->second)) rounds_.erase(at);
  if (const auto at = stops_.find(bundle_of(key)); at != stops_.end() && uncount(at->second)) stops_.erase(at);
  closed_.erase(key);
  kept_.erase(key);
  const auto cohort = cohorts_.find(key.cohort);
  if (cohort == cohorts_.end()) return;
  cohort->second.live.erase(key);
  const bool newest = std::next(cohort) == cohorts_.end();
  if (newest || !cohort->second.live.empty()) {
    drop_unused_generations(key.cohort);
  } else {
    drop_cohort(key.cohort);
  }
}

bool Rounds::uncount(const Round& round) {
  for (const PeerId peer : round.done) done_by_.remove(peer);
  return true;
}

bool Rounds::uncount(const Stop& stop) {
  if (!stop.by.is_nobody()) asked_by_.remove(stop.by);
  return true;
}

void Rounds::drop_unused_generations(CohortId id) {
  std::set<std::pair<GroupId, Generation>> needed;
  for (const auto& [key, generation] : kept_) {
    if (key.cohort == id) needed.emplace(key.group, generation);
  }
  for (auto& entry : cohorts_.at(id).groups) {
    const Generation current = entry.second.current;
    std::erase_if(entry.second.generations, [&](const auto& generation) {
      return generation.first != current && !needed.contains({entry.first, generation.first});
    });
  }
}

void Rounds::drop_cohort(CohortId id) {
  const auto belongs = [&](const auto& entry) { return entry.first.cohort == id; };
  std::erase_if(rounds_, [&](const auto& entry) { return belongs(entry) && uncount(entry.second); });
  std::erase_if(stops_, [&](const auto& entry) { return belongs(entry) && uncount(entry.second); });
  std::erase_if(closed_, belongs);
  std::erase_if(kept_, belongs);
  cohorts_.erase(id);
}

std::string Rounds::on_stop(PeerId from, const wire::StopRound& stop) {
  const RoundKey bundle = bundle_of(stop.key);
  if (stops_.contains(bundle) || attempt_of(stop.key) != stop.attempt) return {};
  if (!has_member(members_of(stop.key, stop.attempt), from)) return {};
  if (stop.done && !rounds_.contains(stop.key)) return {};  // committed: the news is on its way
  if (asked_by_.of(from) >= kMaxRoundsInFlight) return "asked to stop more rounds than can be in flight";
  asked_by_.add(from);
  stops_.emplace(bundle, Stop{{stop.key, stop.attempt, stop.status, 0, cut_text(stop.text)}, from});
  return {};
}

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
    const auto busy = std::find_if(open->second.begin(), open->second.end(),
                                   [](const wire::OpenRound& round) { return !round.done; });
    text += busy == open->second.end() ? " (in no call)" : " (in tag " + std::to_string(busy->key.tag.value) + ")";
    if (text.size() > kMaxTextBytes / 2) break;
  }
  return text;
}

std::vector<wire::Verdict> Rounds::touched_verdicts(const Change& change, const wire::View& next,
                                                    std::map<RoundKey, Stop>* unsaid) const {
  // Every undecided round that somebody has open or is done with: one entry for those that are bound together. What all of one
  // generation have in common is found out once: members may be many, and each may have many rounds open.
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
    const std::vector<RoundKey> bound = bound_with(bundle);
    loss.first = bound.front().group;
    loss.size = bound.size();
    for (const RoundKey& key : bound) {
      for (const wire::Member& member : members_of(key, attempt)) {
        const bool lost = change.lost.contains(member.id);
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
  for (const auto& [bundle, round] : known) {
    if (stops_.contains(bundle)) continue;
    const Loss& loss = loss_of(bundle, round.attempt);
    const RoundKey first{bundle.cohort, loss.first, bundle.tag, bundle.use};
    const bool left = loss.left && !change.kept.contains(first);
    if (!loss.relinked && !loss.lost && !left) continue;
    const bool tried_again = round.retry || mutant(Mutant::kRetriesWhatMustNot);
    if (verdicts.size() + loss.size > kMaxVerdicts) {  // those that are bound go together
      if (unsaid == nullptr || tried_again) continue;
      unsaid->emplace(bundle, Stop{{bundle, round.attempt, loss.status(), 0, "too many rounds were cut short"}, {}});
      continue;
    }
    if (tried_again && !rounds_.contains(first)) continue;  // nor is it committed
    const auto bound = bound_with(bundle);
    const bool commits = std::all_of(bound.begin(), bound.end(), [&, attempt = round.attempt](const RoundKey& key) {
      return all_done(key, attempt, change.lost);
    });
    if (!commits && tried_again) continue;
    for (const RoundKey& key : bound) {
      if (commits) {
        verdicts.push_back({key, round.attempt, Status::kOk, rounds_.at(key).hash, {}});
      } else {
        verdicts.push_back({key, round.attempt, loss.status(), 0, loss.text(key, worlds[key.group])});
      }
    }
  }
  return verdicts;
}

std::vector<wire::Verdict> Rounds::verdicts(const Change& change, const wire::View& next) const {
  std::vector<wire::Verdict> verdicts = touched_verdicts(change, next, nullptr);
  for (const auto& [bundle, stop] : stops_) {
    const auto bound = bound_with(bundle);
    if (verdicts.size() + bound.size() > kMaxVerdicts) break;  // the rest waits for the next proposal
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
    for (const auto& [key, closed] : closed_) {
      if (verdicts.size() >= kMaxVerdicts) break;
      if (decided.insert(key).second) verdicts.push_back(closed);
    }
    if (change.closes) {
      for (wire::Verdict& closed : closed_by_admission(*change.closes, change.admits)) {
        if (verdicts.size() >= kMaxVerdicts) break;
        if (decided.insert(closed.key).second) verdicts.push_back(std::move(closed));
      }
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
  // Who keeps a bundle from being launched by all: the first who has not. To find it costs a look at each who has.
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
                        trace::short_name(member->id, member->name) + " has called admit without launching tag " +
                            std::to_string(key.tag.value) + ": launch the same calls on all peers before admit"});
  }
  return verdicts;
}

std::vector<Rounds::Committed> Rounds::install(const Change& change, const wire::View& next,
                                               const std::vector<wire::Verdict>& verdicts) {
  std::map<RoundKey, Stop> unsaid;
  (void)touched_verdicts(change, next, &unsaid);
  std::vector<Committed> commits;
  for (const wire::Verdict& verdict : verdicts) {
    if (verdict.status == Status::kOk) commits.push_back(committed(verdict.key, verdict.attempt, verdict.hash));
  }
  for (const wire::Verdict& verdict : verdicts) forget(verdict.key);
  stops_.merge(unsaid);
  if (change.closes) {  // what this proposal could not carry comes with the next
    std::set<RoundKey> decided;
    for (const wire::Verdict& verdict : verdicts) decided.insert(verdict.key);
    for (wire::Verdict& closed : closed_by_admission(*change.closes, change.admits)) {
      const RoundKey key = closed.key;
      if (!decided.contains(key)) closed_.emplace(key, std::move(closed));
    }
  }
  std::set<RoundKey> kept;  // what nothing else has ended
  for (const RoundKey& key : change.kept) {
    const bool ended =
        std::any_of(verdicts.begin(), verdicts.end(), [&](const wire::Verdict& v) { return v.key == key; });
    const std::optional<Generation> attempt = attempt_of(key);
    if (!ended && attempt && !touched(key, *attempt, change)) kept.insert(key);
  }
  if (change.lost.empty() && change.left.empty() && change.relinked.empty()) return commits;
  for (auto& [key, attempt] : std::map<RoundKey, Generation>(kept_)) {
    if (touched(key, attempt, change)) kept_.erase(key);
  }
  std::vector<CohortId> ended;
  for (auto& [id, cohort] : cohorts_) {
    const auto changes = [&](GroupId group_id, const Group& group) {
      if (change.relinked.contains(group_id)) return true;
      const auto& members = group.generations.at(group.current);
      return std::any_of(members.begin(), members.end(), [&](const wire::Member& member) {
        return change.lost.contains(member.id) || change.left.contains(member.id);
      });
    };
    std::set<std::size_t> changing;  // bindings
    for (const auto& [group_id, group] : cohort.groups) {
      if (changes(group_id, group)) changing.insert(group.binding);
    }
    bool empty = true;
    for (auto& [group_id, group] : cohort.groups) {
      if (changing.contains(group.binding)) move_on(group, group_id, id, kept, next);
      empty = empty && group.generations.at(group.current).empty();
    }
    drop_unused_generations(id);
    const bool keeps_some = std::any_of(
        kept_.begin(), kept_.end(), [cohort_id = id](const auto& entry) { return entry.first.cohort == cohort_id; });
    if (id != next.cohort && empty && !keeps_some) ended.push_back(id);
  }
  for (const CohortId id : ended) drop_cohort(id);
  drop_stops_of_nobody();
  // What was given up starts again from nothing.
  if (mutant(Mutant::kDoneCarriesOver)) {
    for (auto& [key, round] : rounds_) round.attempt = attempt_of(key).value_or(round.attempt);
  }
  std::erase_if(rounds_, [&](const auto& entry) {
    return attempt_of(entry.first) != entry.second.attempt && uncount(entry.second);
  });
  return commits;
}

// Of groups that have no members any more: no proposal could name them.
void Rounds::drop_stops_of_nobody() {
  std::erase_if(stops_, [&](const auto& entry) {
    const RoundKey& bundle = entry.first;
    const std::vector<GroupId>& bound = cohort_of(bundle)->bound[group_of(bundle)->binding];
    const bool empty = std::all_of(bound.begin(), bound.end(), [&](GroupId id) {
      const RoundKey key{bundle.cohort, id, bundle.tag, bundle.use};
      return members_of(key, *attempt_of(key)).empty();
    });
    return empty && uncount(entry.second);
  });
}

// A new generation of one group begins.
void Rounds::move_on(Group& group, GroupId id, CohortId cohort, const std::set<RoundKey>& kept,
                     const wire::View& next) {
  for (const RoundKey& key : kept) {
    if (key.cohort == cohort && key.group == id) kept_.emplace(key, group.current);
  }
  const std::vector<wire::Member>& before = group.generations.at(group.current);
  std::vector<wire::Member> after;
  for (const wire::Member& member : next.members) {
    if (has_member(before, member.id)) after.push_back(member);
  }
  group.current = Generation{next.number.value};
  group.generations.emplace(group.current, std::move(after));
}

void Rounds::admit(const wire::View& next, const std::map<PeerId, std::vector<wire::OpenRound>>& open) {
  const auto live = [&](const RoundKey& key) {
    const auto at = cohorts_.find(key.cohort);
    if (at != cohorts_.end()) at->second.live.insert(key);
  };
  for (const auto& [peer, list] : open) {
    for (const wire::OpenRound& round : list) live(round.key);
  }
  for (const auto& [key, attempt] : kept_) live(key);
  std::vector<CohortId> ended;
  for (const auto& [id, cohort] : cohorts_) {
    if (cohort.live.empty()) ended.push_back(id);
  }
  for (const CohortId id : ended) drop_cohort(id);

  Cohort cohort;
  for (const wire::Member& member : next.members) {
    Group& group = cohort.groups[member.group];
    group.current = Generation{next.number.value};
    group.generations[group.current].push_back(member);
  }
  cohort.bound = wire::bound_groups(next.members);
  for (std::size_t binding = 0; binding < cohort.bound.size(); ++binding) {
    for (const GroupId group : cohort.bound[binding]) cohort.groups.at(group).binding = binding;
  }
  cohorts_.emplace(next.cohort, std::move(cohort));
}

void Rounds::drop_not_open(PeerId from, std::vector<wire::OpenRound>& open) const {
  std::erase_if(open, [&](const wire::OpenRound& round) {
    const std::optional<Generation> attempt = attempt_of(round.key);
    if (!attempt || !has_member(members_of(round.key, *attempt), from)) return true;
    const bool newest = std::prev(cohorts_.end())->first == round.key.cohort;
    if (!newest && !cohort_of(round.key)->live.contains(round.key)) return true;
    return round.done && !rounds_.contains(round.key);
  });
}

std::set<RoundKey> Rounds::kept_for(const std::map<PeerId, std::vector<wire::OpenRound>>& leavers) const {
  std::map<PeerId, std::set<RoundKey>> launched;
  for (const auto& [peer, open] : leavers) {
    std::set<RoundKey>& own = launched[peer];
    for (const wire::OpenRound& round : open) own.insert(round.key);
  }
  // Whether all leavers that these rounds need have launched them.
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
  std::set<RoundKey> bundles;  // that were looked at
  std::set<RoundKey> keys;
  const auto keep = [&](const RoundKey& key) {
    const RoundKey bundle = bundle_of(key);
    if (!bundles.insert(bundle).second) return;
    const auto bound = bound_with(bundle);
    if (keys.size() + bound.size() <= kMaxVerdicts && can_end(bound)) keys.insert(bound.begin(), bound.end());
  };
  for (const auto& [key, attempt] : kept_) keep(key);  // these first: that they are kept has been said
  for (const auto& [peer, own] : launched) {
    for (const RoundKey& key : own) keep(key);
  }
  return keys;
}

bool Rounds::keeps(PeerId leaver) const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [&](const auto& kept) { return has_member(members_of(kept.first, kept.second), leaver); });
}

std::vector<wire::RoundStatus> Rounds::status() const {
  std::vector<wire::RoundStatus> status;
  for (const auto& [key, round] : rounds_) {
    if (status.size() == kMaxVerdicts) break;
    status.push_back({key, round.attempt, static_cast<std::uint32_t>(round.done.size()),
                      static_cast<std::uint32_t>(members_of(key, round.attempt).size())});
  }
  return status;
}

}  // namespace lockstep::coordinator
