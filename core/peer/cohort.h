// One cohort as a member sees it: who a call is made among, in which generations, and which uses of tags are spent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/base/mutant.h"
#include "core/io/stream.h"
#include "core/peer/tag_uses.h"
#include "core/ring/schedule.h"
#include "core/wire/binding.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::peer {

struct Cohort {
  struct Membership {
    std::shared_ptr<const std::vector<PeerId>> ring;  // our group, in rank order
    std::vector<PeerId> bound;                        // our group's, and those of the groups that are bound with it
    ring::Distance distance = ring::Distance::kFar;   // between those of the ring, as far as the view tells
    bool direct = false;                              // members tell each other that they are done
    template <typename Archive>
    void state(Archive& a) {
      a.all(ring, bound, distance, direct);
    }
  };

  // For how many members it called admit, or that auto_admit did; and what it had open then.
  struct Closer {
    std::uint32_t at_least = 1;
    bool by_itself = false;
    std::set<RoundKey> open;
    template <typename Archive>
    void state(Archive& a) {
      a.all(at_least, by_itself, open);
    }
  };

  CohortId id;
  GroupId group;
  std::vector<GroupId> bound;  // the groups in which a tag has one outcome, by gangs: ours, and maybe others
  Generation current;
  std::map<Generation, Membership> generations;  // the current one, and those that kept rounds need
  std::map<RoundKey, Generation> kept;           // rounds that a leaver had launched
  TagUses uses;                                  // of each tag, by us
  std::map<RoundKey, wire::Verdict> used_up;     // outcomes of uses that we have not launched yet
  std::map<PeerId, Closer> closers;              // members that have admitted

  static Cohort founded(const wire::View& view, GroupId group, std::uint32_t first_use = 0) {
    Cohort cohort;
    cohort.uses = TagUses(first_use);
    cohort.id = view.cohort;
    cohort.group = group;
    cohort.current = Generation{view.number.value};
    for (std::vector<GroupId>& groups : wire::bound_groups(view.members)) {
      if (std::find(groups.begin(), groups.end(), group) != groups.end()) cohort.bound = std::move(groups);
    }
    cohort.generations.emplace(cohort.current, cohort.membership_in(view, nullptr));
    return cohort;
  }

  [[nodiscard]] const Membership& now() const { return generations.at(current); }
  [[nodiscard]] Generation attempt_of(const RoundKey& key) const {
    const auto at = kept.find(key);
    return at == kept.end() ? current : at->second;
  }

  // Whether the proposal loses anybody that this generation needs.
  [[nodiscard]] bool loses(const wire::Propose& change, Generation generation) const {
    return needs_any(change.lost, generation);
  }
  // The same, or takes somebody away.
  [[nodiscard]] bool shrinks(const wire::Propose& change, Generation generation, bool spare_left) const {
    return loses(change, generation) || (!spare_left && needs_any(change.left, generation));
  }
  [[nodiscard]] bool needs_any(const std::vector<PeerId>& who, Generation generation) const {
    const std::vector<PeerId>& needed = generations.at(generation).bound;
    return std::any_of(who.begin(), who.end(),
                       [&](PeerId peer) { return std::find(needed.begin(), needed.end(), peer) != needed.end(); });
  }
  // Whether the ring of our group, or of one that is bound with it, is laid anew.
  [[nodiscard]] bool relinks(const wire::Propose& change) const {
    return std::any_of(change.relinked.begin(), change.relinked.end(),
                       [&](GroupId laid) { return std::find(bound.begin(), bound.end(), laid) != bound.end(); });
  }
  [[nodiscard]] bool touched(const RoundKey& key, Generation attempt, const wire::Propose& change) const {
    if (relinks(change)) return true;
    const bool keep = std::find(change.kept.begin(), change.kept.end(), key) != change.kept.end();
    return shrinks(change, attempt, keep);
  }

  // The proposal holds: begins a new generation if it takes anybody away from us.
  void install(const wire::Propose& change) {
    // Before anything moves: a round that was kept for an earlier leaver and loses somebody now is attempted anew.
    const std::vector<RoundKey> still_kept = kept_by(change);
    std::erase_if(kept, [&](const auto& entry) { return touched(entry.first, entry.second, change); });
    if (relinks(change) || shrinks(change, current, false)) {
      for (const RoundKey& key : still_kept) kept.emplace(key, current);
      Membership next = membership_in(change.view, &now());
      current = Generation{change.view.number.value};
      generations.insert_or_assign(current, std::move(next));
    }
    drop_unused();
  }
  // Those of our rounds that go on where they are.
  [[nodiscard]] std::vector<RoundKey> kept_by(const wire::Propose& change) const {
    std::vector<RoundKey> keys;
    for (const RoundKey& key : change.kept) {
      const bool ended = std::any_of(change.verdicts.begin(), change.verdicts.end(),
                                     [&](const wire::Verdict& verdict) { return verdict.key == key; });
      const bool ours = key.cohort == id && key.group == group;
      if (!ours || ended || mutant(Mutant::kKeptRoundForgotten)) continue;
      if (!touched(key, attempt_of(key), change)) keys.push_back(key);
    }
    return keys;
  }
  // A round that was kept for a leaver has ended; and so has its generation, if it was the last one there.
  bool forget_kept(const RoundKey& key) {
    if (kept.erase(key) == 0) return false;
    drop_unused();
    return true;
  }
  void drop_unused() {
    std::erase_if(generations, [&](const auto& entry) {
      return entry.first != current &&
             std::none_of(kept.begin(), kept.end(), [&](const auto& round) { return round.second == entry.first; });
    });
  }

  [[nodiscard]] bool alone() const { return bound.size() <= 1; }

  template <typename Archive>
  void state(Archive& a) {
    a.all(id, group, bound, current, generations, kept, uses, used_up, closers);
  }

  // Those of the view that are in `among` (everybody when null).
  [[nodiscard]] Membership membership_in(const wire::View& view, const Membership* among) const {
    Membership membership;
    std::vector<PeerId> ring;
    Duration farthest;                     // from the coordinator: so far they may be from each other
    const io::Address* address = nullptr;  // of those before
    bool same_host = true;
    for (const wire::Member& member : view.members) {
      if (std::find(bound.begin(), bound.end(), member.group) == bound.end()) continue;
      if (among != nullptr && std::find(among->bound.begin(), among->bound.end(), member.id) == among->bound.end()) {
        continue;
      }
      membership.bound.push_back(member.id);
      if (member.group != group) continue;
      ring.push_back(member.id);
      farthest = std::max(farthest, member.round_trip);
      same_host = same_host && (address == nullptr || address->same_host(member.address));
      address = &member.address;
    }
    if (farthest < kFarCoordinator) membership.distance = same_host ? ring::Distance::kSameHost : ring::Distance::kNear;
    membership.direct = alone() && ring.size() <= kMaxDirect;
    if (mutant(Mutant::kRingSortedById)) std::sort(ring.begin(), ring.end());
    membership.ring = std::make_shared<const std::vector<PeerId>>(std::move(ring));
    return membership;
  }
};

}  // namespace lockstep::peer
