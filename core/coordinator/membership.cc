#include "core/coordinator/membership.h"

#include <algorithm>
#include <string>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "core/wire/reach.h"

namespace lockstep::coordinator {

namespace {

// The most steps of a search for a ring: a budget in iterations, so that every machine finds the same ring. The budget
// suffices for any pattern of a few broken pairs among dozens of members.
constexpr int kRingSearchSteps = 20'000;

using Adjacent = std::vector<std::vector<bool>>;  // [i][j]: i and j may be neighbours

// Depth-first search for a cycle through all members; prefers the given order.
bool extend_ring(std::vector<std::size_t>& path, std::vector<bool>& used, const Adjacent& may, int& steps) {
  const std::size_t n = may.size();
  if (path.size() == n) return may[path.back()][path.front()];
  for (std::size_t next = 0; next < n; ++next) {
    if (used[next] || !may[path.back()][next]) continue;
    if (--steps < 0) return false;
    used[next] = true;
    path.push_back(next);
    if (extend_ring(path, used, may, steps)) return true;
    path.pop_back();
    used[next] = false;
  }
  return false;
}

// Puts one member that only calls out behind each of the others, as far as they go. The search for a ring begins with
// this order, in which a ring without two of them side by side is near.
void part_callers(std::vector<wire::Member>& ring) {
  auto caller = std::stable_partition(ring.begin(), ring.end(), [](const wire::Member& m) { return !m.calls_out; });
  const auto open = static_cast<std::size_t>(caller - ring.begin());
  if (open == ring.size()) return;
  std::vector<wire::Member> parted;
  parted.reserve(ring.size());
  for (std::size_t i = 0; i < open; ++i) {
    parted.push_back(std::move(ring[i]));
    if (caller != ring.end()) parted.push_back(std::move(*caller++));
  }
  for (; caller != ring.end(); ++caller) parted.push_back(std::move(*caller));
  ring = std::move(parted);
}

bool is_end_of(PeerId peer, const Pair& pair) { return pair.first == peer || pair.second == peer; }

}  // namespace

std::optional<Error> Membership::validate(const Candidate& candidate) const {
  const auto refuse = [](std::string text) { return Error{Status::kRefused, std::move(text)}; };
  if (candidate.member.id.is_nobody()) return refuse("a peer needs an id that is not zero");
  if (contains(candidate.member.id) || candidates_.contains(candidate.member.id)) {
    return refuse("peer id " + trace::short_name(candidate.member.id) +
                  " is already part of this run: ids are never reused");
  }
  if (view_.members.size() + candidates_.size() >= kMaxMembers) {
    return refuse("the run is full: " + std::to_string(kMaxMembers) + " members and waiting peers");
  }
  if (candidate.gang_size == 0 || (candidate.member.gang.value == 0 && candidate.gang_size != 1)) {
    return refuse("gang size " + std::to_string(candidate.gang_size) + " needs a gang id that is not zero");
  }
  if (candidate.founders > kMaxMembers || candidate.gang_size > kMaxMembers) {
    return refuse("waits for " + std::to_string(candidate.founders) + " founders and a gang of " +
                  std::to_string(candidate.gang_size) + ": a run has at most " + std::to_string(kMaxMembers) +
                  " members");
  }
  if (!view_.members.empty() && candidate.auto_admit != auto_admit_) {
    return refuse(std::string("auto_admit is ") + (auto_admit_ ? "on" : "off") + " in this run and " +
                  (candidate.auto_admit ? "on" : "off") + " at this peer: it must be equal on all peers");
  }
  std::uint32_t mates = 0;
  for (const auto& [id, other] : candidates_) {
    if (view_.members.empty() && other.auto_admit != candidate.auto_admit) {
      return refuse("auto_admit differs from that of waiting peer " + trace::short_name(id, other.member.name));
    }
    if (candidate.member.gang.value != 0 && other.member.gang == candidate.member.gang &&
        other.gang_size != candidate.gang_size) {
      return refuse("gang " + std::to_string(candidate.member.gang.value) + " has size " +
                    std::to_string(other.gang_size) + " at " + trace::short_name(id, other.member.name) + " and " +
                    std::to_string(candidate.gang_size) + " at this peer");
    }
    if (candidate.member.gang.value != 0 && other.member.gang == candidate.member.gang) ++mates;
  }
  for (const wire::Member& member : view_.members) {
    const bool named_alike = candidate.member.gang.value != 0 && member.gang == candidate.member.gang;
    if (named_alike && mutant(Mutant::kNamesakeRefused)) ++mates;
  }
  if (mates >= candidate.gang_size) {
    return refuse("gang " + std::to_string(candidate.member.gang.value) + " is whole already: " +
                  std::to_string(mates) + " of " + std::to_string(candidate.gang_size) + " wait");
  }
  return std::nullopt;
}

void Membership::add_candidate(Candidate candidate) {
  const PeerId id = candidate.member.id;
  LOCKSTEP_ASSERT(!id.is_nobody() && !contains(id));
  candidates_.emplace(id, std::move(candidate));
}

void Membership::remove_candidate(PeerId peer) { candidates_.erase(peer); }

std::vector<Candidate> Membership::admissible() const {
  if (candidates_.empty()) return {};
  std::map<GangId, std::uint32_t> waiting_of_gang;
  for (const auto& [id, candidate] : candidates_) {
    if (candidate.answers && candidate.dialled_back) ++waiting_of_gang[candidate.member.gang];
  }
  // A gang in the run is whole (rule 8): another gang of the same name waits until the first is gone.
  for (const wire::Member& member : view_.members) {
    if (!mutant(Mutant::kNamesakeAdmitted)) waiting_of_gang.erase(member.gang);
  }

  std::vector<Candidate> ready;
  std::uint32_t founders = 1;
  for (const auto& [id, candidate] : candidates_) {
    if (!candidate.answers || !candidate.dialled_back) continue;
    const bool whole =
        candidate.member.gang.value == 0 || waiting_of_gang[candidate.member.gang] == candidate.gang_size;
    if (!whole && !mutant(Mutant::kHalfGangAdmitted)) continue;
    founders = std::max(founders, candidate.founders);
    ready.push_back(candidate);
  }
  if (view_.members.empty() && ready.size() < founders) return {};
  std::sort(ready.begin(), ready.end(), [](const Candidate& a, const Candidate& b) { return a.arrival < b.arrival; });
  return ready;
}

const wire::Member* Membership::find(PeerId peer) const {
  const auto at = std::find_if(view_.members.begin(), view_.members.end(),
                               [&](const wire::Member& member) { return member.id == peer; });
  return at == view_.members.end() ? nullptr : &*at;
}

std::vector<PeerId> Membership::gang_of(PeerId peer) const {
  const wire::Member* member = find(peer);
  if (member == nullptr || member->gang.value == 0) return {peer};
  std::vector<PeerId> gang;
  for (const wire::Member& other : view_.members) {
    if (other.gang == member->gang) gang.push_back(other.id);
  }
  return gang;
}

std::vector<wire::Member> Membership::next_members(const std::set<PeerId>& gone,
                                                   const std::vector<Candidate>& added) const {
  std::map<GroupId, std::vector<wire::Member>> rings;
  for (const wire::Member& member : view_.members) {
    if (!gone.contains(member.id)) rings[member.group].push_back(member);
  }
  for (const Candidate& candidate : added) rings[candidate.member.group].push_back(candidate.member);
  std::vector<wire::Member> members;
  for (auto& [group, ring] : rings) {
    lay_ring(ring);
    members.insert(members.end(), ring.begin(), ring.end());
  }
  return members;
}

std::vector<GroupId> Membership::unmeshed(const std::vector<wire::Member>& members) const {
  std::set<GroupId> groups;
  std::map<PeerId, GroupId> group_of;
  std::map<GroupId, std::vector<const wire::Member*>> callers;
  for (const wire::Member& member : members) {
    if (!broken_.empty()) group_of.emplace(member.id, member.group);
    if (member.calls_out) callers[member.group].push_back(&member);
  }
  for (const auto& [pair, mark] : broken_) {
    const auto first = group_of.find(pair.first);
    if (first != group_of.end() && group_of.contains(pair.second)) groups.insert(first->second);
  }
  for (const auto& entry : callers) {
    const wire::Member& first = *entry.second.front();
    const auto is_beyond_reach = [&](const wire::Member* other) { return !wire::can_link(first, *other); };
    if (std::ranges::any_of(entry.second, is_beyond_reach)) groups.insert(entry.first);
  }
  return {groups.begin(), groups.end()};
}

void Membership::install(wire::View view, const std::set<PeerId>& left) {
  if (view_.members.empty() && !view.members.empty()) {
    auto_admit_ = candidates_.at(view.members.front().id).auto_admit;
  }
  LOCKSTEP_ASSERT(view.number >= view_.number);  // rule 28: numbers never go back
  view_ = std::move(view);
  for (const wire::Member& member : view_.members) candidates_.erase(member.id);
  const auto count_if_left = [&](const Pair& pair) {
    if (left.contains(pair.first)) ++links_to_left_[pair.second];
    if (left.contains(pair.second)) ++links_to_left_[pair.first];
  };
  for (const auto& [pair, mark] : broken_) {
    if (!mark.avoid) count_if_left(pair);
  }
  std::ranges::for_each(mended_, count_if_left);
  const auto is_gone = [&](const Pair& pair) { return !contains(pair.first) || !contains(pair.second); };
  std::erase_if(broken_, [&](const auto& entry) { return is_gone(entry.first); });
  std::erase_if(mended_, is_gone);
  std::erase_if(links_to_left_, [&](const auto& entry) { return !contains(entry.first); });
}

bool Membership::is_bad(const wire::Member& a, const wire::Member& b) const {
  const bool no_way = !wire::can_link(a, b) && !mutant(Mutant::kCallersSideBySide);
  return no_way || (!broken_.empty() && broken_.contains(pair_of(a.id, b.id)));
}

bool Membership::lay_ring(std::vector<wire::Member>& ring) const {
  const std::size_t n = ring.size();
  const auto is_whole = [&](const auto& bad) {
    for (std::size_t i = 0; n > 1 && i < n; ++i) {
      if (bad(ring[i], ring[(i + 1) % n])) return false;
    }
    return true;
  };
  const auto bad_pair = [this](const wire::Member& a, const wire::Member& b) { return is_bad(a, b); };
  if (is_whole(bad_pair)) return true;
  if (n < 4) return false;  // among up to three members, all are neighbours
  part_callers(ring);
  const auto lay_around = [&](const auto& bad) {
    Adjacent may(n, std::vector<bool>(n, true));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) may[i][j] = may[j][i] = !bad(ring[i], ring[j]);
    }
    std::vector<std::size_t> path{0};
    std::vector<bool> used(n, false);
    used[0] = true;
    int steps = kRingSearchSteps;
    if (!extend_ring(path, used, may, steps)) return false;
    std::vector<wire::Member> laid;
    laid.reserve(n);
    for (const std::size_t index : path) laid.push_back(std::move(ring[index]));
    ring = std::move(laid);
    return true;
  };
  if (lay_around(bad_pair)) return true;
  // A link that is only to be avoided works, more or less; two that only call out may find a way that nobody knows of.
  const auto no_way = [this](const wire::Member& a, const wire::Member& b) {
    const auto mark = broken_.find(pair_of(a.id, b.id));
    return !wire::can_link(a, b) || (mark != broken_.end() && !mark->second.avoid);
  };
  const auto marked = [this](const wire::Member& a, const wire::Member& b) {
    return broken_.contains(pair_of(a.id, b.id));
  };
  if (!is_whole(no_way) && !lay_around(no_way) && !is_whole(marked)) (void)lay_around(marked);
  return false;  // unavoidable() names a pair, if its link is broken
}

bool Membership::can_avoid(Pair pair) const {
  const wire::Member* const member = find(pair.first);
  if (member == nullptr) return false;
  Membership with(*this);
  with.mark_broken(pair, {}, true);
  std::vector<wire::Member> ring;
  for (const wire::Member& other : view_.members) {
    if (other.group == member->group) ring.push_back(other);
  }
  return with.lay_ring(ring);
}

std::vector<Pair> Membership::unavoidable(const std::vector<wire::Member>& members) const {
  std::vector<Pair> pairs;
  for (std::size_t begin = 0; begin < members.size();) {
    std::size_t end = begin;
    while (end < members.size() && members[end].group == members[begin].group) ++end;
    const std::size_t n = end - begin;
    for (std::size_t i = 0; n > 1 && i < n; ++i) {
      const Pair pair = pair_of(members[begin + i].id, members[begin + (i + 1) % n].id);
      if (broken_.contains(pair)) pairs.push_back(pair);
    }
    begin = end;
  }
  return pairs;
}

Instant Membership::mark_broken(Pair pair, Instant now, bool avoid) {
  Broken& mark = broken_.try_emplace(pair, Broken{now, now, avoid}).first->second;
  mark.said = now;
  if (!avoid) mended_.erase(pair);
  if (!avoid && std::exchange(mark.avoid, false)) mark.since = now;
  return mark.since;
}

void Membership::forget_broken(Pair pair) {
  const auto at = broken_.find(pair);
  if (at == broken_.end()) return;
  if (!at->second.avoid) mended_.insert(pair);
  broken_.erase(at);
}

bool Membership::is_only_avoided(Pair pair) const {
  const auto at = broken_.find(pair);
  return at != broken_.end() && at->second.avoid;
}

Instant Membership::broken_since(Pair pair, Instant now) const {
  const auto at = broken_.find(pair);
  return at == broken_.end() ? now : at->second.since;
}

bool Membership::said_since(Pair pair, Instant then) const {
  const auto at = broken_.find(pair);
  return at != broken_.end() && at->second.said >= then;
}

std::size_t Membership::broken_links_of(PeerId peer, Instant then) const {
  return static_cast<std::size_t>(std::count_if(broken_.begin(), broken_.end(), [&](const auto& entry) {
    const auto& [pair, mark] = entry;
    return is_end_of(peer, pair) && mark.said >= then && !mark.avoid;
  }));
}

std::size_t Membership::ever_broken_links_of(PeerId peer) const {
  constexpr Instant kEver{INT64_MIN};
  const auto to_left = links_to_left_.find(peer);
  const auto mended = std::ranges::count_if(mended_, [&](const Pair& pair) { return is_end_of(peer, pair); });
  return broken_links_of(peer, kEver) + static_cast<std::size_t>(mended) +
         (to_left == links_to_left_.end() ? 0 : to_left->second);
}

}  // namespace lockstep::coordinator
