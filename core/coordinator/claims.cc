#include "core/coordinator/claims.h"

#include <algorithm>

#include "core/base/mutant.h"
#include "core/coordinator/names.h"
#include "core/state/election.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

std::string describe_nobody(const state::Undecided& undecided, const std::vector<wire::Member>& members,
                            const std::string& where) {
  if (undecided.a.is_nobody()) return "nobody who may send has a state" + where + ": load a checkpoint on one of them";
  return name_in(members, undecided.a) + " only sends, and its state is undefined" + where;
}

std::string describe_ahead(const std::string& name, const wire::Claim& claim, std::uint64_t revision, Lineage runs) {
  const std::string lineage = claim.lineage == Lineage{} ? ""
                              : claim.lineage == runs    ? " of the same lineage"
                                                         : " of another lineage";
  return "the state of " + name + " in tag " + std::to_string(claim.key.tag.value) + " has revision " +
         std::to_string(claim.revision) + lineage + ", and the run goes on from revision " + std::to_string(revision) +
         ": " + name +
         " is out of the run, and its state stays as it is. Join again and sync with the strategy newest "
         "(in lockstep.torch: newest_wins) if its state shall win, or with receive-only if it may go";
}

}  // namespace

Claims::Answer Claims::add(const std::vector<wire::Member>& members, PeerId from, const wire::Claim& claim) {
  Answer answer;
  const auto [at, fresh] = open_.try_emplace(claim.key);
  Round& round = at->second;
  if (fresh && claimed_by_.of(from) >= kMaxUndecided) {
    open_.erase(at);
    answer.violation = "claims states in more rounds than can be undecided";
    return answer;
  }
  if (fresh || round.attempt != claim.attempt) {
    drop_claims(round);
    round = Round{claim.attempt, from, claim.what, {}, {}};
  }
  if (!round.claims.emplace(from, claim).second) {
    answer.violation = "claimed a state twice in the same attempt of a round";
    return answer;
  }
  claimed_by_.add(from);
  const std::string where = " in tag " + std::to_string(claim.key.tag.value);
  const auto side = [&](PeerId peer) { return Comparison::Side{peer, name_in(members, peer)}; };
  const auto differ = [&](wire::Outlined of, PeerId a, PeerId b, Comparison::Texts texts) {
    answer.compare.emplace(claim.key, claim.attempt, of, side(a), side(b), std::move(texts));
    answer.stop.emplace(Status::kMismatch, answer.compare->text());
  };
  if (claim.what != round.what) {
    answer.differ.emplace(round.first, from);
    const std::string first = name_in(members, round.first);
    const std::string second = name_in(members, from);
    if (claim.what.layout == round.what.layout) {
      answer.stop.emplace(Status::kMismatch,
                          wire::arguments_differ(claim.key.tag, first, round.what, second, claim.what));
    } else {
      const std::string both =
          ": " + first + ": " + wire::describe(round.what) + "; " + second + ": " + wire::describe(claim.what);
      differ(wire::Outlined::kManifest, round.first, from,
             {"states differ" + where, both + Comparison::kStateTheSame, {}});
    }
    return answer;
  }
  if (round.claims.size() < members.size()) return answer;
  auto result = state::votes_of(claims_of(round, members), agreed_peers(claim.key));
  if (const auto* undecided = std::get_if<state::Undecided>(&result)) {
    if (undecided->why == state::Undecided::Why::kNobodySends) {
      answer.stop.emplace(Status::kStateUndefined, describe_nobody(*undecided, members, where));
      return answer;
    }
    const wire::Claim& a = round.claims.at(undecided->a);
    const wire::Claim& b = round.claims.at(undecided->b);
    const std::string revisions = ": revisions " + std::to_string(a.revision) + " and " + std::to_string(b.revision);
    differ(wire::Outlined::kContents, undecided->a, undecided->b,
           {name_in(members, undecided->a) + " and " + name_in(members, undecided->b) +
                " only send, and their states differ" + where,
            a.revision != b.revision ? revisions : "", ": let one of them receive"});
    if (a.root == b.root) answer.compare.reset();  // only the revisions differ
    return answer;
  }
  round.votes = std::get<state::Votes>(std::move(result));
  return answer;
}

const std::set<PeerId>& Claims::agreed_peers(const RoundKey& key) const {
  static const std::set<PeerId> kNobody;
  const auto agreed = agreed_.find({key.group, key.tag});
  return agreed == agreed_.end() ? kNobody : agreed->second.peers;
}

std::vector<state::Claim> Claims::claims_of(const Round& round, const std::vector<wire::Member>& members) {
  std::vector<state::Claim> claims;
  for (const wire::Member& member : members) {
    const auto said = round.claims.find(member.id);
    if (said == round.claims.end()) continue;
    const wire::Claim& c = said->second;
    claims.push_back({member.id, c.strategy, c.defined, c.revision, c.root, c.lineage});
  }
  return claims;
}

const state::Votes* Claims::votes(const RoundKey& key, Generation attempt) const {
  const auto at = open_.find(key);
  return at != open_.end() && at->second.attempt == attempt && at->second.votes ? &*at->second.votes : nullptr;
}

wire::Elected Claims::elect(const RoundKey& key, const std::vector<wire::Member>& members,
                            std::uint64_t revision) const {
  const Round& round = open_.at(key);
  const state::Elected won = state::elect(claims_of(round, members), *round.votes, revision, agreed_peers(key));
  return {key, round.attempt, won.revision, won.root, won.lineage, won.sources, won.receivers};
}

bool Claims::is_news(const wire::Elected& elected) const {
  const auto& claims = open_.at(elected.key).claims;
  return !elected.receivers.empty() || std::any_of(claims.begin(), claims.end(), [&](const auto& entry) {
    const wire::Claim& claim = entry.second;
    return state::lineage_of(claim.lineage, claim.root) != elected.lineage;
  });
}

std::vector<Claims::Ahead> Claims::ahead_of(std::uint64_t revision, const RoundKey& key,
                                            const std::vector<wire::Member>& members) const {
  if (mutant(Mutant::kAheadOverwritten)) return {};
  const Round& round = open_.at(key);
  std::vector<Ahead> ahead;
  for (const PeerId peer : state::ahead_of(revision, claims_of(round, members), agreed_peers(key))) {
    const Lineage runs = elect(key, members, revision).lineage;
    ahead.push_back({peer, describe_ahead(name_in(members, peer), round.claims.at(peer), revision, runs)});
  }
  return ahead;
}

std::optional<std::pair<PeerId, const wire::Descriptor*>> Claims::first(const RoundKey& key, Generation attempt) const {
  const auto at = open_.find(key);
  if (at == open_.end() || at->second.attempt != attempt) return std::nullopt;
  return std::pair(at->second.first, &at->second.what);
}

void Claims::drop_claims(const Round& round) {
  for (const auto& [peer, claim] : round.claims) claimed_by_.remove(peer);
}

void Claims::forget(const RoundKey& key) {
  const auto at = open_.find(key);
  if (at == open_.end()) return;
  drop_claims(at->second);
  open_.erase(at);
}

void Claims::forget(CohortId cohort) {
  std::erase_if(open_, [&](const auto& entry) {
    if (entry.first.cohort != cohort) return false;
    drop_claims(entry.second);
    return true;
  });
}

// Leavers finish the rounds of their cohort, also when a newer cohort has agreed meanwhile: the last agreement is that
// of the newest cohort, whichever commit comes last.
void Claims::agreed(const RoundKey& key, const std::vector<wire::Member>& members) {
  const auto name = std::pair(key.group, key.tag);
  const auto known = agreed_.find(name);
  if (known != agreed_.end() && key.cohort < known->second.cohort) return;
  if (!agreed_.contains(name) && agreed_.size() >= kMaxStates) {  // forgets the oldest agreement
    agreed_.erase(std::min_element(agreed_.begin(), agreed_.end(),
                                   [](const auto& a, const auto& b) { return a.second.order < b.second.order; }));
  }
  Agreement& agreement = agreed_[name];
  agreement = {key.cohort, {}, ++agreements_};
  for (const wire::Member& member : members) agreement.peers.insert(member.id);
}

void Claims::gone(const std::set<PeerId>& peers) {
  if (peers.empty()) return;
  for (auto& [name, agreement] : agreed_) {
    std::erase_if(agreement.peers, [&](PeerId peer) { return peers.contains(peer); });
  }
  std::erase_if(agreed_, [](const auto& entry) { return entry.second.peers.empty(); });
}

}  // namespace lockstep::coordinator
