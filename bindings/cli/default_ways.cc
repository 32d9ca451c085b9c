#include "bindings/cli/default_ways.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "core/base/time.h"
#include "core/peer/cohort.h"
#include "core/ring/choice.h"
#include "core/wire/limits.h"
#include "core/wire/reach.h"

namespace lockstep::cli {
namespace {

constexpr double kNsPerMs = 1e6;

// Pairs of members of which neither can dial the other.
std::size_t parted_pairs(const wire::View& view, GroupId group) {
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < view.members.size(); ++i) {
    for (std::size_t j = i + 1; j < view.members.size(); ++j) {
      const wire::Member& a = view.members[i];
      const wire::Member& b = view.members[j];
      if (a.group == group && b.group == group && !wire::can_link(a, b)) ++pairs;
    }
  }
  return pairs;
}

std::string why_of(const peer::Cohort::Roster& roster, Duration farthest, std::size_t parted) {
  if (roster.distance != ring::Distance::kFar) return "all are less than 1 ms from the coordinator";
  const std::string far =
      fmt::format("up to {:.1f} ms from the coordinator", static_cast<double>(farthest.ns) / kNsPerMs);
  switch (roster.reach) {
    case ring::Reach::kAll: return far + ", with links between all pairs";
    case ring::Reach::kGrid: return fmt::format("{}, more than {}, with links along rows and columns", far, kMaxMeshed);
    case ring::Reach::kNeighbours: break;
  }
  if (parted == 1) return far + ", and nobody can dial either of two of them, so there is no link between the two";
  if (parted > 1)
    return fmt::format("{}, and {} pairs of them have no link: nobody can dial either of the two", far, parted);
  return far + ", and a link between two of them does not work, or is slow: see the troubles";
}

DefaultWay way_of(const wire::View& view, GroupId group) {
  const peer::Cohort::Roster roster = peer::Cohort::founded(view, group).now();
  DefaultWay way{.group = group, .members = roster.ring->size(), .farthest = {}, .algorithm = {}, .why = {}};
  for (const wire::Member& member : view.members) {
    if (member.group == group) way.farthest = std::max(way.farthest, member.round_trip);
  }
  wire::Descriptor small;
  small.collective = wire::Collective::kAllReduce;
  small.count = small.tensors = 1;
  small.algorithm = wire::Algorithm::kAuto;
  way.algorithm = wire::name_of(ring::choose(small, static_cast<std::uint32_t>(way.members), roster.reach));
  way.why = why_of(roster, way.farthest, parted_pairs(view, group));
  return way;
}

}  // namespace

std::string DefaultWay::text() const {
  const std::string_view go = algorithm == "ring"   ? "go around the ring"
                              : algorithm == "grid" ? "go in a grid"
                                                    : "go direct";
  return fmt::format("all-reduces of group {} {}: {} members, {}", group.value, go, members, why);
}

nlohmann::json DefaultWay::json() const {
  return {{"group", group.value},
          {"members", members},
          {"farthest_round_trip_seconds", farthest.seconds()},
          {"all_reduce", algorithm},
          {"why", why}};
}

std::vector<DefaultWay> default_ways(const wire::View& view) {
  std::vector<DefaultWay> ways;
  for (const wire::Member& member : view.members) {
    const bool known = std::ranges::any_of(ways, [&](const DefaultWay& way) { return way.group == member.group; });
    if (!known) ways.push_back(way_of(view, member.group));
  }
  std::erase_if(ways, [](const DefaultWay& way) { return way.members < 2; });
  return ways;
}

}  // namespace lockstep::cli
