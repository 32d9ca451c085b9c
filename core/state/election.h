// Elects the state that the other members take over (rule 25 of docs/protocol.md). The coordinator decides, from the
// claims of all members of a group and from nothing else.
//
// Members that had the last agreed state vote; newcomers only receive. If no such member is left (for example at the
// founding), all members vote. The highest revision among the votes wins. Among the roots of that revision the most
// popular root wins; if several are equally popular, the smallest root wins. So if all members agree on a lower
// revision than the last one, the run continues from the lower revision. Groups that share one outcome (each holds a
// shard of the state) continue with the highest revision that has votes in all groups.
//
// A newcomer may come with progress that the run does not have, for example after a coordinator was started again and
// others founded the run before. Its state is never overwritten without an error (rule 53), unless a strategy says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/base/strategy.h"
#include "core/wire/limits.h"

namespace lockstep::state {

// The lineage of a state that members have agreed on. A state that has none begins one, which is named after its root.
Lineage lineage_of(Lineage known, const Digest& root);

struct Claim {
  PeerId peer;
  Strategy strategy = Strategy::kPopular;
  bool defined = true;  // false: memory holds a part of a state (rule 26)
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
};

struct Elected {
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
  std::vector<PeerId> sources;    // members that have the state and may send it: the first ones of the claims
  std::vector<PeerId> receivers;  // members that do not have the state

  template <typename Archive>
  void archive(Archive& a) {
    a.all(revision, root, lineage, sources, receivers);
  }
};

// No state was elected: the round ends for all members, and no state changes.
struct Undecided {
  enum class Why : std::uint8_t {
    kNobodySends,      // no member that may send has a state; `a`, unless nobody, is send-only and has no state
    kSendersDisagree,  // `a` and `b` are both send-only and differ
  };
  Why why = Why::kNobodySends;
  PeerId a;
  PeerId b;
};

// The number of votes for each root of each revision. Invariant: every listed root has at least one vote.
using Votes = std::map<std::uint64_t, std::map<Digest, std::size_t>>;

// The votes of a group's members. `agreed`: the members that had the last agreed state.
std::variant<Votes, Undecided> votes_of(const std::vector<Claim>& claims, const std::set<PeerId>& agreed);

// The revision with which the groups that have these votes continue; nothing if no revision has votes in all of them.
std::optional<std::uint64_t> highest_common(std::span<const Votes* const> groups);

// The newcomers that hold a higher revision than this one, with which the others continue, and have not chosen a
// strategy that lets it go (rule 53). Nobody at the founding, where they had their votes, or if a peer only sends.
std::vector<PeerId> ahead_of(std::uint64_t revision, const std::vector<Claim>& claims, const std::set<PeerId>& agreed);

// The winner of this revision, which must have votes. Its lineage is that of most members that had the last agreed
// state and hold the winner now; if none of them names one, that of most others that hold it; otherwise it begins.
Elected elect(const std::vector<Claim>& claims, const Votes& votes, std::uint64_t revision,
              const std::set<PeerId>& agreed);

// The members that had the last agreed state, and come with another state than the winner: one of its revision, or of a
// lower one (rule 55). Nobody if the caller has chosen: a peer only sends, or no such member holds the winner.
std::vector<PeerId> strayed(const Elected& won, const std::vector<Claim>& claims, const std::set<PeerId>& agreed);

}  // namespace lockstep::state
