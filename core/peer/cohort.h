// One cohort as a member knows it: the members that a call is made among in each generation, and the uses of tags that
// are spent (rules 9, 21 and 22 of docs/protocol.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/tag_uses.h"
#include "core/peer/world_sizes.h"
#include "core/ring/choice.h"
#include "core/ring/schedule.h"
#include "core/wire/message.h"

namespace lockstep::peer {

struct Cohort {
  // The members of one generation.
  struct Roster {
    std::shared_ptr<const std::vector<PeerId>> ring;  // this peer's group, in the order of ranks
    std::vector<PeerId> bound;                        // members of this peer's group, and of the groups bound with it
    ring::Distance distance = ring::Distance::kFar;   // between members of the ring, as far as the view tells
    bool peer_commit = false;                         // members tell each other that they are done (rule 14)
    ring::Reach reach = ring::Reach::kNeighbours;     // who keeps links (rule 57)
    WorldSizes sizes;                                 // of the view in which the generation began
    template <typename Archive>
    void archive(Archive& a) {
      a.all(ring, bound, distance, peer_commit, reach, sizes);
    }
  };

  // The admit of a member, by call or by auto_admit.
  struct PendingAdmit {
    std::uint32_t at_least = 1;  // members that the next cohort must have
    bool automatic = false;
    std::set<RoundKey> open;  // rounds that the member had open then
    template <typename Archive>
    void archive(Archive& a) {
      a.all(at_least, automatic, open);
    }
  };

  CohortId id;
  GroupId group;
  std::vector<GroupId> bound;  // groups in which a tag has one outcome, because of gangs: this peer's, and maybe others
  Generation current;
  std::map<Generation, Roster> generations;             // the current one, and those that retained rounds need
  std::map<RoundKey, Generation> retained_for_leavers;  // rounds that a leaver had launched
  TagUses uses;                                         // of each tag, by this peer
  std::map<RoundKey, wire::Verdict> early_verdicts;     // on uses that this peer has not launched yet: remember()
  std::size_t early_text_bytes = 0;                     // of the texts of these verdicts
  std::map<PeerId, PendingAdmit> pending_admits;        // of other members
  std::uint64_t admit_changes = 0;                      // of pending_admits
  PeerId last_admit;                                    // the member whose admit came last; nobody after a removal

  // `first_use`: PeerOptions::first_use.
  static Cohort founded(const wire::View& view, GroupId group, std::uint32_t first_use = 0);

  [[nodiscard]] const Roster& now() const { return generations.at(current); }
  // The generation in which a round is to be attempted.
  [[nodiscard]] Generation attempt_of(const RoundKey& key) const;
  // This peer's group is bound with no other.
  [[nodiscard]] bool alone() const { return bound.size() <= 1; }

  // Whether the proposal loses a member that this generation needs.
  [[nodiscard]] bool loses(const wire::Propose& change, Generation generation) const;
  // Whether the proposal lays the ring of this peer's group, or of a group that is bound with it, anew.
  [[nodiscard]] bool relinks(const wire::Propose& change) const;
  // Whether the proposal freezes a round, if that is in this attempt (rule 5).
  [[nodiscard]] bool touched(const RoundKey& key, Generation attempt, const wire::Propose& change) const;

  // The proposal holds. A new generation begins if it takes members away.
  void install(const wire::Propose& change);
  // A round that was retained for a leaver has ended, and so has its generation if that was the last round there.
  // False: it was not retained.
  bool release(const RoundKey& key);
  void drop_unused();
  // Keeps a verdict on a use that is yet to come (rule 9). Bounded: the earliest key goes first, and beyond
  // kMaxRememberedTextBytes verdicts lose their texts.
  void remember(wire::Verdict verdict);
  // Returns the verdict on this round and forgets it; nullopt if there is none.
  [[nodiscard]] std::optional<wire::Verdict> take_remembered(const RoundKey& key);
  void forget_remembered();
  void assert_invariants() const;
  // The members of the view that are in `among` (all when null).
  [[nodiscard]] Roster roster_in(const wire::View& view, const Roster* among) const;

  void admits_changed(PeerId added) {
    admit_changes += 1;
    last_admit = added;
  }

  // Left out: early_text_bytes, which follows from early_verdicts; admit_changes and last_admit, which spare rounds a
  // second look at the same admits.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(id, group, bound, current, generations, retained_for_leavers, uses, early_verdicts, pending_admits);
    if constexpr (Archive::kLoads) {
      early_text_bytes = 0;
      for (const auto& [key, verdict] : early_verdicts) early_text_bytes += verdict.text.size();
    }
  }

 private:
  [[nodiscard]] bool needs_any(const std::vector<PeerId>& peers, Generation generation) const;
  // Loses members, or takes leavers away.
  [[nodiscard]] bool shrinks(const wire::Propose& change, Generation generation, bool spares_leavers) const;
  // Rounds of this peer's group that go on where they are.
  [[nodiscard]] std::vector<RoundKey> retained_by(const wire::Propose& change) const;
};

}  // namespace lockstep::peer
