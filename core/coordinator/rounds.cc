#include "core/coordinator/rounds.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/coordinator/names.h"
#include "core/wire/binding.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

// Of a broadcast. Direct, a rank has the tensor from the root or from owners, and the root is done once all have
// launched the round. Around the ring, a rank has the tensor from its upstream neighbour.
template <typename IsDone>
bool has_passed(PeerId root, const std::vector<wire::Member>& members, std::size_t lost, IsDone is_done) {
  const std::size_t n = members.size();
  const bool of_root = members[lost].id == root;
  bool behind = false;  // a survivor downstream of the lost rank is done
  for (std::size_t hop = 1; hop < n; ++hop) {
    std::size_t rank = lost + hop;
    if (rank >= n) rank -= n;
    if (members[rank].id == root) return behind && is_done(rank);
    behind = behind || is_done(rank);
  }
  return of_root && behind;
}

// Whether the results of the survivors, all of them done, prove that a lost member took part (rule 13 of
// docs/protocol.md). `is_done(rank)`: that rank is a survivor and done. A round without bytes proves nothing.
template <typename IsDone>
bool took_part(const wire::Descriptor& what, const std::vector<wire::Member>& members, std::size_t lost,
               IsDone is_done) {
  const std::size_t n = members.size();
  switch (what.collective) {
    case wire::Collective::kAllReduce: return what.count > 0;  // every result has all contributions
    case wire::Collective::kAllGather: return true;            // every size was received
    case wire::Collective::kReduceScatter:                     // a chunk that is not empty has all contributions
      for (std::size_t rank = 0; rank < n; ++rank) {
        const bool has_chunk = what.tensors == 1 ? rank < what.count : rank == 0 && what.count > 0;
        if (has_chunk && is_done(rank)) return true;
      }
      return false;
    case wire::Collective::kBroadcast: return what.count > 0 && has_passed(what.root, members, lost, is_done);
    case wire::Collective::kScatter:
    case wire::Collective::kAllToAll: return true;  // every size was received, and then every block
    case wire::Collective::kGather:                 // the root has all blocks
      if (mutant(Mutant::kRootNotNeeded)) return true;
      for (std::size_t rank = 0; rank < n; ++rank) {
        if (members[rank].id == what.root) return is_done(rank);
      }
      return false;
    case wire::Collective::kReduce:  // the root has all contributions
      if (mutant(Mutant::kRootNotNeeded)) return true;
      for (std::size_t rank = 0; rank < n; ++rank) {
        if (members[rank].id == what.root && what.count > 0) return is_done(rank);
      }
      return false;
    case wire::Collective::kBarrier: return false;
    case wire::Collective::kSync: return true;  // all claims were counted before a state was elected
  }
  LOCKSTEP_UNREACHABLE();
}

const std::vector<wire::Member>& nobody() {
  static const std::vector<wire::Member> kNobody;
  return kNobody;
}

std::string cut_text(std::string text) {
  if (text.size() > kMaxTextBytes) text.resize(kMaxTextBytes);
  return text;
}

std::string describe_nothing_common(const std::vector<RoundKey>& bound, const std::vector<const state::Votes*>& votes) {
  std::string text = "groups that have gangs in common have no revision in common in tag " +
                     std::to_string(bound.front().tag.value) + " (";
  for (std::size_t i = 0; i < bound.size(); ++i) {
    text += (i == 0 ? "group " : "; group ") + std::to_string(bound[i].group.value);
    for (auto each = votes[i]->rbegin(); each != votes[i]->rend(); ++each) {
      text += (each == votes[i]->rbegin() ? ": " : ", ") + std::to_string(each->first);
    }
  }
  return text + "): load a checkpoint in all of them";
}

}  // namespace

bool Rounds::has_member(const std::vector<wire::Member>& members, PeerId peer) {
  return std::any_of(members.begin(), members.end(), [&](const wire::Member& m) { return m.id == peer; });
}

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
  const Group* group = group_of(key);
  if (group == nullptr) return nobody();
  const auto at = group->generations.find(attempt);
  return at == group->generations.end() ? nobody() : at->second;
}

const std::vector<wire::Member>& Rounds::contributors(const RoundKey& key, Generation attempt) const {
  return attempt_of(key) == attempt ? members_of(key, attempt) : nobody();
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
  if (at == rounds_.end() || at->second.attempt != attempt || at->second.differs) return false;
  const Round& round = at->second;
  const auto& members = members_of(key, attempt);
  const auto is_done = [&](std::size_t rank) { return round.done.contains(members[rank].id); };
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    if (is_done(rank) || (mutant(Mutant::kCommitWithoutOne) && rank + 1 == members.size())) continue;
    if (mutant(Mutant::kScatterEndsWithRoot) && round.what.collective == wire::Collective::kScatter) continue;
    if (!lost.contains(members[rank].id)) return false;
    if (!took_part(round.what, members, rank, is_done) && !mutant(Mutant::kLostCountsAsDone)) return false;
  }
  return true;
}

bool Rounds::is_due(PeerId from, const RoundKey& key, Generation attempt, std::string_view what,
                    std::string& violation) const {
  const std::optional<Generation> due = attempt_of(key);
  if (!due) {
    violation = std::string(what) + " a round of cohort " + std::to_string(key.cohort.value) + ", which does not exist";
    return false;
  }
  if (attempt < *due) return false;  // given up meanwhile
  if (attempt == *due && has_member(members_of(key, attempt), from)) return true;
  violation = std::string(what) + " attempt " + std::to_string(attempt.value) + " of a round it is not part of";
  return false;
}

Rounds::DoneResult Rounds::on_done(PeerId from, const wire::Done& done) {
  DoneResult result;
  if (!is_due(from, done.key, done.attempt, "done with", result.violation)) return result;
  const auto& members = members_of(done.key, done.attempt);
  const auto [at, is_first] = rounds_.try_emplace(done.key);
  const bool elected = !is_first && at->second.attempt == done.attempt;
  if (done.what.collective == wire::Collective::kSync && (!elected || done.state_fingerprint != 0)) {
    if (is_first) rounds_.erase(at);
    result.violation = elected ? "watches a state in a sync" : "has taken over a state that was not elected";
    return result;
  }
  if (is_first && done_by_.of(from) >= kMaxUndecided) {
    rounds_.erase(at);
    result.violation = "done with more rounds than can be undecided";
    return result;
  }
  Round& round = at->second;
  if (is_first || round.attempt != done.attempt) {
    uncount(round);
    round = Round{done.attempt, done.what, from, done.hash, {}, false, {}};
  }
  if (!round.done.insert(from).second) {
    result.violation = "done twice with the same attempt of a round";
    return result;
  }
  done_by_.add(from);
  round.fingerprints.add(from, done.state_fingerprint);
  if (elected) repairs_.done(done.key, from, done.fetched);
  const bool compares =
      !mutant(Mutant::kDifferingCommits) && (!mutant(Mutant::kFirstTwoCompared) || round.done.size() <= 2);
  round.differs = round.differs || round.what != done.what || (round.hash != done.hash && compares);
  if (stops_.contains(bundle_of(done.key)) || is_parting(done.key, done.attempt)) return result;
  if (const auto claimed = claims_.first(done.key, done.attempt); claimed && !elected) {
    part(done.key, done.attempt, {claimed->first, from},
         wire::arguments_differ(done.key.tag, name_in(members, claimed->first), *claimed->second,
                                name_in(members, from), done.what),
         result);
    return result;
  }
  if (round.differs) {
    const std::string first = name_in(members, round.first);
    const std::string second = name_in(members, from);
    if (round.what != done.what) {
      part(done.key, done.attempt, {round.first, from},
           wire::arguments_differ(done.key.tag, first, round.what, second, done.what), result);
    } else {
      stop(done.key, done.attempt, Status::kInternal,
           "results differ in tag " + std::to_string(done.key.tag.value) + ": " + first + ": hash " +
               std::to_string(round.hash) + "; " + second + ": hash " + std::to_string(done.hash),
           result);
    }
    return result;
  }
  commit_if_done(done.key, done.attempt, result);
  return result;
}

Rounds::DoneResult Rounds::on_claim(PeerId from, const wire::Claim& claim) {
  DoneResult result;
  if (!is_due(from, claim.key, claim.attempt, "claims a state in", result.violation)) return result;
  if (claim.what.collective != wire::Collective::kSync) {
    result.violation = "claims a state in a round that is no sync";
    return result;
  }
  const auto& members = members_of(claim.key, claim.attempt);
  Claims::Answer answer = claims_.add(members, from, claim);
  result.violation = std::move(answer.violation);
  const RoundKey bundle = bundle_of(claim.key);
  if (is_parting(claim.key, claim.attempt)) return result;
  if (stops_.contains(bundle) || (comparison_ && bundle_of(comparison_->key()) == bundle)) return result;
  if (answer.compare && !comparison_) {
    comparison_ = std::move(answer.compare);
    result.questions = comparison_->begin();
    return result;
  }
  if (answer.stop) {
    std::string text = std::move(answer.stop->second);
    if (answer.differ) {
      part(claim.key, claim.attempt, *answer.differ, std::move(text), result);
    } else {
      stop(claim.key, claim.attempt, answer.stop->first, std::move(text), result);
    }
    return result;
  }
  const auto done = rounds_.find(claim.key);  // by members that have called something else with this tag
  if (done != rounds_.end() && done->second.attempt == claim.attempt) {
    const Round& other = done->second;
    part(claim.key, claim.attempt, {other.first, from},
         wire::arguments_differ(claim.key.tag, name_in(members, other.first), other.what, name_in(members, from),
                                claim.what),
         result);
    return result;
  }
  if (claims_.votes(claim.key, claim.attempt) != nullptr) begin_transfers(claim.key, claim.attempt, result);
  return result;
}

void Rounds::begin_transfers(const RoundKey& key, Generation attempt, DoneResult& result) {
  const auto bound = bound_with(key);
  std::vector<const state::Votes*> votes;
  for (const RoundKey& each : bound) {
    votes.push_back(claims_.votes(each, attempt));
    if (votes.back() == nullptr) return;
  }
  const auto common = state::highest_common(votes);
  if (!common) {
    return stop(key, attempt, Status::kStateUndefined, describe_nothing_common(bound, votes), result);
  }
  for (const RoundKey& each : bound) {  // rule 53
    for (Claims::Ahead& ahead : claims_.ahead_of(*common, each, members_of(each, attempt))) {
      take_out(each, ahead.peer, Status::kStateConflict, std::move(ahead.why), result);
    }
  }
  if (!result.misfits.empty()) return;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const RoundKey& each = bound[i];
    const std::uint64_t revision = mutant(Mutant::kGroupsElectApart) ? votes[i]->rbegin()->first : *common;
    const auto& members = members_of(each, attempt);
    wire::Elected elected = claims_.elect(each, members, revision);
    repairs_.elected(each, members, claims_.of(each, members), elected, claims_.agreed_peers(each));
    Round& round = rounds_[each];
    uncount(round);
    round = Round{attempt, claims_.what(each), elected.sources.front(), elected.root.low, {}, false, {}};
    for (const wire::Member& member : members) {
      const bool receives =
          std::find(elected.receivers.begin(), elected.receivers.end(), member.id) != elected.receivers.end();
      if (!receives && round.done.insert(member.id).second) done_by_.add(member.id);
    }
    if (claims_.is_news(elected)) result.elected.push_back({std::move(elected), members});
  }
  commit_if_done(key, attempt, result);
}

template <typename Answer>
Rounds::DoneResult Rounds::on_answer(PeerId from, Answer answer) {
  DoneResult result;
  const RoundKey key = answer.key;
  const Generation attempt = answer.attempt;
  std::optional<Comparison::Questions> next;
  if (comparison_ && comparison_->is_of(key, attempt)) next = comparison_->take(from, std::move(answer));
  if (!next) {
    const bool goes_on = attempt_of(key) == attempt && claims_.has(key);
    if (goes_on)
      result.violation = "answered a question about its state that it was not asked";  // else given up meanwhile
    return result;
  }
  result.questions = *std::move(next);
  if (!comparison_->over()) return result;
  end_comparison(result);
  return result;
}

void Rounds::end_comparison(DoneResult& result) {
  const RoundKey key = comparison_->key();
  if (stops_.contains(bundle_of(key))) return comparison_.reset();
  if (!compares_watched()) {
    const Comparison compared = *std::exchange(comparison_, std::nullopt);
    if (is_parting(key, compared.attempt())) return;
    if (compared.of() == wire::Outlined::kManifest) {
      return part(key, compared.attempt(), compared.peers(), compared.text(), result);
    }
    return stop(key, compared.attempt(), Status::kMismatch, compared.text(), result);
  }
  commit_all(bound_with(key), comparison_->attempt(), result);
}

Rounds::DoneResult Rounds::give_up_comparison() {
  DoneResult result;
  end_comparison(result);
  return result;
}

Rounds::DoneResult Rounds::on_outline(PeerId from, wire::StateOutline outline) {
  return on_answer(from, std::move(outline));
}

Rounds::DoneResult Rounds::on_entry(PeerId from, wire::StateEntry entry) { return on_answer(from, std::move(entry)); }

void Rounds::stop(const RoundKey& key, Generation attempt, Status status, std::string text, DoneResult& result) {
  result.stop = wire::Verdict{key, attempt, status, 0, cut_text(std::move(text))};
  stops_.emplace(bundle_of(key), Stop{*result.stop, {}});
}

void Rounds::part(const RoundKey& key, Generation attempt, const std::pair<PeerId, PeerId>& two, std::string text,
                  DoneResult& result) {
  const std::optional<PeerId> newcomer = newcomer_of(two);
  if (!newcomer) return stop(key, attempt, Status::kMismatch, std::move(text), result);
  take_out(key, *newcomer, Status::kMismatch, std::move(text), result);
}

void Rounds::take_out(const RoundKey& key, PeerId newcomer, Status status, std::string text, DoneResult& result) {
  parting_.insert(newcomer);
  result.misfits.push_back({newcomer, status, cut_text(std::move(text)), key});
}

std::optional<PeerId> Rounds::newcomer_of(const std::pair<PeerId, PeerId>& two) const {
  if (mutant(Mutant::kMisfitEndsAll)) return std::nullopt;
  const Standing first = standing_of(two.first);
  const Standing second = standing_of(two.second);
  if (first == second) return std::nullopt;
  return first < second ? two.first : two.second;
}

Rounds::Standing Rounds::standing_of(PeerId peer) const {
  const auto at = newcomers_.find(peer);
  const Standing standing = at == newcomers_.end() ? Standing::kFull : at->second;
  return standing == Standing::kSynced && mutant(Mutant::kSyncMakesAMember) ? Standing::kFull : standing;
}

bool Rounds::is_parting(const RoundKey& key, Generation attempt) const {
  if (parting_.empty()) return false;
  const auto& members = members_of(key, attempt);
  return std::any_of(members.begin(), members.end(), [&](const wire::Member& m) { return parting_.contains(m.id); });
}

void Rounds::has_contributed(const std::vector<wire::Member>& members, const wire::Descriptor& what) {
  if (newcomers_.empty()) return;
  for (const wire::Member& member : members) {
    const auto at = newcomers_.find(member.id);
    if (at == newcomers_.end()) continue;
    if (what.collective == wire::Collective::kSync) {
      at->second = Standing::kSynced;
    } else {
      newcomers_.erase(at);
    }
  }
}

void Rounds::gone(const std::set<PeerId>& peers) {
  claims_.gone(peers);
  for (const PeerId peer : peers) {
    newcomers_.erase(peer);
    parting_.erase(peer);
  }
}

void Rounds::commit_if_done(const RoundKey& key, Generation attempt, DoneResult& result) {
  const auto bound = bound_with(key);
  if (!std::all_of(bound.begin(), bound.end(), [&](const RoundKey& each) { return all_done(each, attempt, {}); })) {
    return;
  }
  if (!begins_comparison(bound, attempt, result)) commit_all(bound, attempt, result);
}

bool Rounds::begins_comparison(const std::vector<RoundKey>& bound, Generation attempt, DoneResult& result) {
  if (comparison_) return false;
  for (const RoundKey& key : bound) {
    const auto& members = members_of(key, attempt);
    const auto difference = rounds_.at(key).fingerprints.difference(members);
    if (!difference) continue;
    const auto side = [&](PeerId peer) { return Comparison::Side{peer, name_in(members, peer)}; };
    comparison_.emplace(key, attempt, wire::Outlined::kManifest, side(difference->popular), side(difference->other),
                        Comparison::Texts{describe(*difference, members, key.tag), {}, {}}, true);
    result.questions = comparison_->begin();
    result.compares_watched = true;
    return true;
  }
  return false;
}

void Rounds::commit_all(const std::vector<RoundKey>& bound, Generation attempt, DoneResult& result) {
  for (const RoundKey& each : bound) {
    LOCKSTEP_ASSERT(all_done(each, attempt, {}));  // rules 13 and 32
    result.committed.push_back(committed(each, attempt, rounds_.at(each).hash));
    const bool compared = comparison_ && comparison_->is_of(each, attempt);
    std::string text = compared ? comparison_->text() : describe_difference(each, attempt);
    result.committed.back().commit.state_difference = cut_text(std::move(text));
  }
  for (const RoundKey& each : bound) {
    has_contributed(members_of(each, attempt), rounds_.at(each).what);
    note_agreed(each, attempt);
    forget(each);
  }
}

std::string Rounds::describe_difference(const RoundKey& key, Generation attempt) const {
  const auto& members = members_of(key, attempt);
  const auto difference = rounds_.at(key).fingerprints.difference(members);
  return difference ? describe(*difference, members, key.tag) : repairs_.describe(key);
}

// A sync commits: its contributors hold the same state.
void Rounds::note_agreed(const RoundKey& key, Generation attempt) {
  if (rounds_.at(key).what.collective == wire::Collective::kSync) claims_.agreed(key, members_of(key, attempt));
}

Rounds::Committed Rounds::committed(const RoundKey& key, Generation attempt, std::uint64_t hash) const {
  const wire::Descriptor& what = rounds_.at(key).what;
  const bool repairs = !repairs_.describe(key).empty();
  return {{key, attempt, hash, false, {}}, members_of(key, attempt), what.count * size_of(what.type), repairs};
}

void Rounds::forget(const RoundKey& key) {
  if (const auto at = rounds_.find(key); at != rounds_.end() && uncount(at->second)) rounds_.erase(at);
  if (const auto at = stops_.find(bundle_of(key)); at != stops_.end() && uncount(at->second)) stops_.erase(at);
  claims_.forget(key);
  repairs_.forget(key);
  if (comparison_ && comparison_->key() == key) comparison_.reset();
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
  claims_.forget(id);
  repairs_.forget(id);
  if (comparison_ && comparison_->key().cohort == id) comparison_.reset();
  std::erase_if(closed_, belongs);
  std::erase_if(kept_, belongs);
  cohorts_.erase(id);
}

Rounds::DoneResult Rounds::on_stop(PeerId from, const wire::StopRound& stop) {
  DoneResult result;
  const RoundKey bundle = bundle_of(stop.key);
  if (stops_.contains(bundle) || attempt_of(stop.key) != stop.attempt) return result;
  const auto& members = members_of(stop.key, stop.attempt);
  if (!has_member(members, from)) return result;
  if (stop.done && !is_undecided(stop.key)) return result;  // committed: the commit is on its way
  if (stop.status == Status::kMismatch && has_member(members, stop.other)) {
    if (is_parting(stop.key, stop.attempt)) return result;
    if (newcomer_of({from, stop.other})) {
      part(stop.key, stop.attempt, {from, stop.other}, stop.text, result);
      return result;
    }
  }
  if (asked_by_.of(from) >= kMaxRoundsInFlight) {
    result.violation = "asked to stop more rounds than can be in flight";
    return result;
  }
  asked_by_.add(from);
  result.stop = wire::Verdict{stop.key, stop.attempt, stop.status, 0, cut_text(stop.text)};
  stops_.emplace(bundle, Stop{*result.stop, from});
  return result;
}

std::vector<Rounds::Committed> Rounds::install(const Change& change, const wire::View& next,
                                               const std::vector<wire::Verdict>& verdicts) {
  std::map<RoundKey, Stop> unsaid;
  (void)touched_verdicts(change, next, &unsaid);
  std::vector<Committed> commits;
  for (const wire::Verdict& verdict : verdicts) {
    if (verdict.status != Status::kOk) continue;
    commits.push_back(committed(verdict.key, verdict.attempt, verdict.hash));
    commits.back().commit.state_difference = verdict.text;
    has_contributed(members_of(verdict.key, verdict.attempt), rounds_.at(verdict.key).what);
    note_agreed(verdict.key, verdict.attempt);
  }
  gone(change.lost);
  for (const wire::Verdict& verdict : verdicts) forget(verdict.key);
  stops_.merge(unsaid);
  if (change.closes) {  // verdicts that this proposal could not carry come with the next (rule 29)
    std::set<RoundKey> decided;
    for (const wire::Verdict& verdict : verdicts) decided.insert(verdict.key);
    for (wire::Verdict& closed : closed_by_admission(*change.closes, change.admits)) {
      const RoundKey key = closed.key;
      if (!decided.contains(key)) closed_.emplace(key, std::move(closed));
    }
  }
  std::set<RoundKey> kept;  // rounds that nothing else has ended
  for (const RoundKey& key : change.kept) {
    const bool ended =
        std::any_of(verdicts.begin(), verdicts.end(), [&](const wire::Verdict& v) { return v.key == key; });
    const std::optional<Generation> attempt = attempt_of(key);
    if (!ended && attempt && !touched(key, *attempt, change)) kept.insert(key);
  }
  if (change.lost.empty() && change.left.empty() && change.relinked.empty()) return commits;
  std::set<RoundKey> given_up;  // found before any is erased: touched() looks at bound rounds, too
  for (const auto& [key, attempt] : kept_) {
    if (touched(key, attempt, change)) given_up.insert(key);
  }
  std::erase_if(kept_, [&](const auto& entry) { return given_up.contains(entry.first); });
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
  // An attempt that was given up counts for nothing (rule 31).
  if (mutant(Mutant::kDoneCarriesOver)) {
    for (auto& [key, round] : rounds_) round.attempt = attempt_of(key).value_or(round.attempt);
  }
  std::erase_if(rounds_, [&](const auto& entry) {
    return attempt_of(entry.first) != entry.second.attempt && uncount(entry.second);
  });
  if (comparison_ && attempt_of(comparison_->key()) != comparison_->attempt()) comparison_.reset();
  return commits;
}

// Drops the stops of groups without members: no proposal could name them.
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
  // Invariant: generations of a group never go back (rule 31).
  LOCKSTEP_ASSERT(Generation{next.number.value} >= group.current);
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
  const auto was_member = [&](PeerId peer) {
    if (cohorts_.empty()) return false;
    const auto& groups = std::prev(cohorts_.end())->second.groups;
    return std::any_of(groups.begin(), groups.end(), [&](const auto& entry) {
      return has_member(entry.second.generations.at(entry.second.current), peer);
    });
  };
  for (const wire::Member& member : next.members) {
    if (!was_member(member.id)) newcomers_.emplace(member.id, Standing::kNew);
  }
  if (!cohorts_.empty()) {  // a member that was alone has committed its rounds by itself (rule 33)
    for (const auto& [id, group] : std::prev(cohorts_.end())->second.groups) {
      const std::vector<wire::Member>& members = group.generations.at(group.current);
      if (members.size() == 1) newcomers_.erase(members.front().id);
    }
  }
  std::vector<CohortId> ended;
  for (const auto& [id, cohort] : cohorts_) {
    if (cohort.live.empty()) ended.push_back(id);
  }
  for (const CohortId id : ended) drop_cohort(id);

  LOCKSTEP_ASSERT(cohorts_.empty() || std::prev(cohorts_.end())->first < next.cohort);
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
    return round.done && !is_undecided(round.key);
  });
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
