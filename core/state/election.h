// Whose state is taken over by the others: decided by the coordinator from what all members of a group claim, and by
// nothing else.
//
// Those vote who had the state that was last agreed on; newcomers only receive. If none of those is here (at the
// founding, for example), everybody votes. Among the votes the highest revision wins, and among its roots the most
// popular; of equally popular ones the one with the smallest root. So, if all members agree on a lower revision than
// the last, the run goes on from there. Groups whose outcomes are one (each has a shard of the state) go on with the
// highest revision that has votes in all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"

namespace lockstep::state {

enum class Strategy : std::uint8_t {
  kPopular,      // votes, and takes what wins
  kSendOnly,     // is never written to: its state wins, or the round ends
  kReceiveOnly,  // never votes, never sends
};
inline constexpr std::uint8_t kStrategyCount = 3;
constexpr std::string_view name_of(Strategy strategy) {
  constexpr std::string_view kNames[] = {"popular", "send_only", "receive_only"};
  return kNames[static_cast<std::size_t>(strategy)];
}

// Who takes a state over has a link to each source.
inline constexpr std::size_t kMaxSources = 16;

struct Claim {
  PeerId peer;
  Strategy strategy = Strategy::kPopular;
  bool defined = true;  // false: it has lost its state in mid-transfer, and holds none
  std::uint64_t revision = 0;
  Digest root;
};

struct Elected {
  std::uint64_t revision = 0;
  Digest root;
  std::vector<PeerId> sources;    // have it, and may send: the first of the claims
  std::vector<PeerId> receivers;  // have it not
};

// Nobody's state changes: the round ends for all.
struct Undecided {
  enum class Why : std::uint8_t {
    kNobodySends,      // who could has no state; `a`, if not nobody, may not be written to, and has none
    kSendersDisagree,  // `a` and `b` may both not be written to, and differ
  };
  Why why = Why::kNobodySends;
  PeerId a;
  PeerId b;
};

// How many vote for each root of each revision: for one at least.
using Votes = std::map<std::uint64_t, std::map<Digest, std::size_t>>;

// What the members of a group vote for. `agreed`: who had the state that was last agreed on.
std::variant<Votes, Undecided> votes_of(const std::vector<Claim>& claims, const std::set<PeerId>& agreed);

// The revision that the groups with these votes go on with; nothing when they have none in common.
std::optional<std::uint64_t> highest_common(std::span<const Votes* const> groups);

// The winner of this revision, which has votes.
Elected elect(const std::vector<Claim>& claims, const Votes& votes, std::uint64_t revision);

}  // namespace lockstep::state
