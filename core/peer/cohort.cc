#include "core/peer/cohort.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/io/stream.h"
#include "core/wire/binding.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Cohort Cohort::founded(const wire::View& view, GroupId group, std::uint32_t first_use) {
  Cohort cohort;
  cohort.uses = TagUses(first_use);
  cohort.id = view.cohort;
  cohort.group = group;
  cohort.current = Generation{view.number.value};
  for (std::vector<GroupId>& groups : wire::bound_groups(view.members)) {
    if (contains(groups, group)) cohort.bound = std::move(groups);
  }
  cohort.generations.emplace(cohort.current, cohort.roster_in(view, nullptr));
  return cohort;
}

Generation Cohort::attempt_of(const RoundKey& key) const {
  const auto at = retained_for_leavers.find(key);
  return at == retained_for_leavers.end() ? current : at->second;
}

bool Cohort::loses(const wire::Propose& change, Generation generation) const {
  return needs_any(change.lost, generation);
}

bool Cohort::needs_any(const std::vector<PeerId>& peers, Generation generation) const {
  const std::vector<PeerId>& needed = generations.at(generation).bound;
  return std::any_of(peers.begin(), peers.end(), [&](PeerId peer) { return contains(needed, peer); });
}

bool Cohort::shrinks(const wire::Propose& change, Generation generation, bool spares_leavers) const {
  return loses(change, generation) || (!spares_leavers && needs_any(change.left, generation));
}

bool Cohort::relinks(const wire::Propose& change) const {
  return std::any_of(change.relinked.begin(), change.relinked.end(),
                     [&](GroupId laid) { return contains(bound, laid); });
}

bool Cohort::touched(const RoundKey& key, Generation attempt, const wire::Propose& change) const {
  return relinks(change) || shrinks(change, attempt, contains(change.kept, key));
}

void Cohort::install(const wire::Propose& change) {
  // Before anything moves: a round that was retained for an earlier leaver, and loses a member now, is attempted anew.
  const std::vector<RoundKey> retained = retained_by(change);
  std::erase_if(retained_for_leavers, [&](const auto& entry) { return touched(entry.first, entry.second, change); });
  if (relinks(change) || shrinks(change, current, false)) {
    for (const RoundKey& key : retained) retained_for_leavers.emplace(key, current);
    Roster next = roster_in(change.view, &now());
    LOCKSTEP_ASSERT(Generation{change.view.number.value} > current);  // generations grow with views
    current = Generation{change.view.number.value};
    generations.insert_or_assign(current, std::move(next));
  }
  drop_unused();
}

void Cohort::remember(wire::Verdict verdict) {
  if (early_verdicts.size() >= kMaxRememberedOutcomes) (void)take_remembered(early_verdicts.begin()->first);
  if (early_text_bytes + verdict.text.size() > kMaxRememberedTextBytes) verdict.text = {};
  const std::size_t bytes = verdict.text.size();
  const RoundKey key = verdict.key;
  if (early_verdicts.emplace(key, std::move(verdict)).second) early_text_bytes += bytes;
}

std::optional<wire::Verdict> Cohort::take_remembered(const RoundKey& key) {
  const auto at = early_verdicts.find(key);
  if (at == early_verdicts.end()) return std::nullopt;
  wire::Verdict verdict = std::move(at->second);
  early_verdicts.erase(at);
  early_text_bytes -= verdict.text.size();
  return verdict;
}

void Cohort::forget_remembered() {
  early_verdicts.clear();
  early_text_bytes = 0;
}

// Rule 22.
std::vector<RoundKey> Cohort::retained_by(const wire::Propose& change) const {
  std::vector<RoundKey> keys;
  for (const RoundKey& key : change.kept) {
    const bool ended = std::any_of(change.verdicts.begin(), change.verdicts.end(),
                                   [&](const wire::Verdict& verdict) { return verdict.key == key; });
    const bool is_own = key.cohort == id && key.group == group;
    if (!is_own || ended || mutant(Mutant::kKeptRoundForgotten)) continue;
    if (!touched(key, attempt_of(key), change)) keys.push_back(key);
  }
  return keys;
}

bool Cohort::release(const RoundKey& key) {
  if (retained_for_leavers.erase(key) == 0) return false;
  drop_unused();
  return true;
}

void Cohort::drop_unused() {
  if (mutant(Mutant::kGenerationsStay)) return;
  std::erase_if(generations, [&](const auto& entry) {
    return entry.first != current && std::none_of(retained_for_leavers.begin(), retained_for_leavers.end(),
                                                  [&](const auto& round) { return round.second == entry.first; });
  });
}

void Cohort::assert_invariants() const {
  LOCKSTEP_ASSERT(generations.contains(current) && generations.rbegin()->first == current);
  for (const auto& [key, generation] : retained_for_leavers) LOCKSTEP_ASSERT(generations.contains(generation));
  LOCKSTEP_ASSERT(generations.size() <= 1 + retained_for_leavers.size());  // the others are dropped
  // A leaver may see a cohort that has no member of its group.
  LOCKSTEP_ASSERT(bound.empty() || std::binary_search(bound.begin(), bound.end(), group));
}

Cohort::Roster Cohort::roster_in(const wire::View& view, const Roster* among) const {
  Roster roster;
  std::vector<PeerId> ring;
  Duration farthest;                     // from the coordinator: members may be so far from each other
  const io::Address* address = nullptr;  // of the member before
  bool same_host = true;
  for (const wire::Member& member : view.members) {
    if (!contains(bound, member.group)) continue;
    if (among != nullptr && !contains(among->bound, member.id)) continue;
    roster.bound.push_back(member.id);
    if (member.group != group) continue;
    ring.push_back(member.id);
    farthest = std::max(farthest, member.round_trip);
    same_host = same_host && (address == nullptr || address->same_host(member.address));
    address = &member.address;
  }
  if (farthest < kFarCoordinator) roster.distance = same_host ? ring::Distance::kSameHost : ring::Distance::kNear;
  roster.sizes = WorldSizes::of(view);
  if (roster.distance == ring::Distance::kFar && !contains(view.unmeshed, group)) {
    roster.reach = ring.size() <= kMaxMeshed ? ring::Reach::kAll : ring::Reach::kGrid;
  }
  roster.peer_commit = alone() && (ring.size() <= kMaxPeerCommit || roster.reach == ring::Reach::kAll);
  if (mutant(Mutant::kRingSortedById)) std::sort(ring.begin(), ring.end());
  roster.ring = std::make_shared<const std::vector<PeerId>>(std::move(ring));
  return roster;
}

}  // namespace lockstep::peer
