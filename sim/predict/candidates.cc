#include "sim/predict/candidates.h"

#include <numeric>

#include "core/base/assert.h"
#include "core/ring/choice.h"
#include "core/ring/grid.h"
#include "core/ring/request.h"
#include "core/wire/limits.h"

namespace lockstep::sim {
namespace {

using wire::Algorithm;

wire::Descriptor descriptor_of(const Work& work) {
  ring::Request request = request_of(work);
  if (work.collective != wire::Collective::kBarrier) request.tensors.push_back({{}, {}, work.count});
  return ring::descriptor_of(request, 0);
}

std::uint32_t world_of(const peer::Cohort::Roster& roster) { return static_cast<std::uint32_t>(roster.ring->size()); }

bool has_grid(const Work& work) { return work.formats.native() && !request_of(work).weight; }

// Whether a caller may ask for it, among so many members, or the library may choose it.
bool is_allowed(const Work& work, Algorithm algorithm, std::uint32_t world) {
  if (work.algorithm == algorithm) return true;
  // Small calls among more have no room for all contributions (ring::direct_room).
  if (algorithm == Algorithm::kDirect && world > kMaxMeshed) return false;
  if (algorithm == Algorithm::kGrid && ring::Grid::square(world).rows() == 1) return false;
  if (work.collective != wire::Collective::kAllReduce) return true;
  Work asked = work;
  asked.algorithm = algorithm;
  return !ring::validate_encoding(request_of(asked));
}

}  // namespace

Setting setting_of(const Work& work, const peer::Cohort::Roster& roster, std::uint32_t by_rate_bytes) {
  Setting setting;
  setting.work = work;
  setting.hosts.resize(world_of(roster));
  std::iota(setting.hosts.begin(), setting.hosts.end(), 1U);
  Work by_choice = work;  // the library's, unless the work asks for equal parts
  if (work.algorithm != Algorithm::kDirect) by_choice.algorithm.reset();
  setting.by_rate = roster.reach == ring::Reach::kAll &&
                    ring::goes_by_rate(descriptor_of(by_choice), world_of(roster), Algorithm::kDirect, by_rate_bytes);
  setting.peer_commit = roster.peer_commit && work.collective == wire::Collective::kAllReduce;
  return setting;
}

std::vector<Bound> candidates(flow::Topology& topology, const Setting& setting) {
  const auto world = static_cast<std::uint32_t>(setting.hosts.size());
  std::vector<Bound> bounds;
  if (world < 2 || setting.work.count == 0 || !wire::has_choice(setting.work.collective)) return bounds;
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kGrid}) {
    if (is_allowed(setting.work, algorithm, world)) bounds.push_back(bound_of(topology, setting, algorithm));
  }
  return bounds;
}

wire::Algorithm choice_of(const Work& work, const peer::Cohort::Roster& roster) {
  if (!wire::has_choice(work.collective)) return Algorithm::kAuto;
  return ring::choose(descriptor_of(work), world_of(roster), roster.reach);
}

std::string reason_of(const Work& work, wire::Algorithm chosen, const peer::Cohort::Roster& roster) {
  const std::string members = std::to_string(world_of(roster)) + " far members";
  const std::string most = std::to_string(kMaxMeshed);
  if (chosen == Algorithm::kAuto) return {};
  if (work.algorithm) return "the work asks for it";
  if (ring::goes_direct(request_of(work))) return "around the ring, a format of less than 8 bits is rounded too often";
  if (roster.distance != ring::Distance::kFar) return "all members are less than 1 ms from the coordinator";
  if (roster.reach == ring::Reach::kNeighbours) return "a link between two far members does not work";
  switch (chosen) {
    case Algorithm::kGrid: return members + ", more than " + most;
    case Algorithm::kDirect: return members + " that reach each other, at most " + most;
    case Algorithm::kRing:
      return roster.reach == ring::Reach::kGrid && !has_grid(work)
                 ? members + ", more than " + most + ", and the call has no grid"
                 : members + ", but so many bytes take less time around the ring";
    case Algorithm::kAuto: break;
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep::sim
