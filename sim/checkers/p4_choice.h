// P4: a collective takes the algorithm that its caller has asked for, or that the view of its attempt makes faster:
// direct where a member is far from the coordinator, at most 64 members take part, and each link of the group works; in
// a grid where more members take part in a call that is neither encoded nor weighted; else the ring. A broadcast or a
// reduce of many bytes goes around the ring, too. Computed from the view alone, a second time (rule 57 of
// docs/protocol.md).
#pragma once

#include <algorithm>
#include <string>

#include "sim/checkers/complaint.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/checkers/oracle_grid.h"
#include "sim/checkers/oracle_shares.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// The committed attempt began in the view `attempt`, which is null if nobody has installed that view. `gangs`: groups
// may be bound, and then members of other groups count, too.
inline Complaint check_choice(const Call& call, const wire::View* attempt, bool gangs) {
  const peer::Outcome& outcome = *call.outcome;
  if (outcome.status != Status::kOk || !oracle::has_ways(call.request.collective) || attempt == nullptr) return {};
  const auto takes = [&](wire::Algorithm right, const std::string& why) -> Complaint {
    if (outcome.way.algorithm == right) return {};
    return text_of(outcome.round) + " went " + std::string(name_of(outcome.way.algorithm)) + " for " +
           text_of(call.peer) + ", and not " + std::string(name_of(right)) + ": " + why;
  };
  const bool by_rate = oracle::is_direct(outcome) && oracle::goes_by_rate(call, outcome.world);
  if (outcome.way.rates.size() != (by_rate ? outcome.world : 0)) {
    return text_of(outcome.round) + " knows the lines of " + std::to_string(outcome.way.rates.size()) + " ranks of " +
           std::to_string(outcome.world) + " on " + text_of(call.peer) + ", and " +
           (by_rate ? "they own what their lines carry" : "they own as much as each other");
  }
  const wire::Algorithm asked = oracle::asked(call.request);
  if (asked != wire::Algorithm::kAuto) return takes(asked, "that is what it has asked for");
  bool far = false;
  GroupId group;
  for (const wire::Member& member : attempt->members) {
    if (std::ranges::find(*outcome.contributors, member.id) == outcome.contributors->end()) continue;
    far = far || member.round_trip >= milliseconds(1);
    group = member.group;
  }
  if (!far && gangs) return {};
  const bool works = std::ranges::find(attempt->unmeshed, group) == attempt->unmeshed.end();
  const std::uint64_t members = outcome.contributors->size();
  const std::uint64_t tensors = call.request.stated ? call.request.stated->tensors : call.request.tensors.size();
  const std::uint64_t bytes = oracle::bytes_of(call.request);
  const oracle::RootWay of_root =
      members > 64 ? oracle::way_of_root_in_grid(bytes, members) : oracle::way_of_root(bytes, members);
  const bool pays = !oracle::may_go_straight(call.request.collective) || of_root != oracle::RootWay::kAround;
  const bool direct = far && works && members <= 64 && tensors * members <= 524'288 && pays;
  const bool few = oracle::may_go_straight(call.request.collective) ? tensors * members <= 524'288 : tensors <= 131'072;
  const bool grid = far && works && members > 64 && few && !oracle::is_encoded(call.request) && pays;
  return takes(direct ? wire::Algorithm::kDirect
               : grid ? wire::Algorithm::kGrid
                      : wire::Algorithm::kRing,
               !far     ? "all of its members are near"
               : !works ? "a link of its group does not work"
               : !pays  ? "its bytes take longer than the hops that they would save"
                        : "it has " + std::to_string(members) + " members, some far away");
}

}  // namespace lockstep::sim
