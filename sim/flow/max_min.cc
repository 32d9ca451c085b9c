#include "sim/flow/max_min.h"

#include <algorithm>

#include "sim/flow/wide.h"

namespace lockstep::sim::flow {
namespace {

// The rate of one unit of weight: a fraction.
struct Level {
  std::uint64_t rate = 0;
  std::uint64_t weight = 1;
};

bool operator<(const Level& a, const Level& b) { return Wide{a.rate} * b.weight < Wide{b.rate} * a.weight; }

std::uint64_t share_of(const Level& level, std::uint64_t weight) {
  return static_cast<std::uint64_t>(Wide{level.rate} * weight / level.weight);
}

}  // namespace

void MaxMin::fix(Flow& flow, std::uint64_t rate, Resource bottleneck) {
  flow.rate = std::max<std::uint64_t>(rate, 1);
  flow.bottleneck = bottleneck;
  for (const Resource r : flow.path.all()) {
    left_[r] -= std::min(left_[r], flow.rate);
    weights_[r] -= flow.weight;
  }
}

void MaxMin::share(std::span<const std::uint64_t> capacities, std::span<Flow> flows) {
  left_.resize(capacities.size());
  weights_.assign(capacities.size(), 0);
  used_.clear();
  open_.clear();
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    open_.push_back(i);
    for (const Resource r : flows[i].path.all()) {
      if (weights_[r] == 0) used_.push_back(r);
      weights_[r] += flows[i].weight;
    }
  }
  std::sort(used_.begin(), used_.end());
  for (const Resource r : used_) left_[r] = std::min(capacities[r], kMostRate);
  while (!open_.empty()) {
    Level least{kMostRate, 1};
    Resource tightest = kNoResource;
    for (const Resource r : used_) {
      if (weights_[r] == 0) continue;
      const Level level{left_[r], weights_[r]};
      if (!(level < least)) continue;
      least = level;
      tightest = r;
    }
    // A demand of at most that rate is fixed at its demand. The other demands are left at least as much.
    const auto modest = [&](std::uint32_t i) {
      Flow& flow = flows[i];
      if (tightest != kNoResource && least < Level{flow.cap, flow.weight}) return false;
      fix(flow, flow.cap, kNoResource);
      return true;
    };
    if (std::erase_if(open_, modest) > 0) continue;
    const auto crosses = [&](std::uint32_t i) {
      Flow& flow = flows[i];
      const auto path = flow.path.all();
      if (std::find(path.begin(), path.end(), tightest) == path.end()) return false;
      fix(flow, share_of(least, flow.weight), tightest);
      return true;
    };
    std::erase_if(open_, crosses);
  }
}

}  // namespace lockstep::sim::flow
