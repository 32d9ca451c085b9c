// Shares capacities among flows by weighted max-min fairness (progressive filling): no flow can get more without taking
// from a flow that has no more. Integers only: the shares are equal on every machine, in whatever order flows come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/assert.h"

namespace lockstep::sim::flow {

using Resource = std::uint32_t;  // index of a capacity
inline constexpr Resource kNoResource = 0xffffffff;

inline constexpr std::uint64_t kMostRate = std::uint64_t{1} << 50U;    // bytes per second; more is no limit
inline constexpr std::uint64_t kMostWeight = std::uint64_t{1} << 40U;  // of one flow

// The resources that a flow crosses: each once.
class Path {
 public:
  static constexpr std::size_t kLongest = 8;
  void add(Resource resource) {
    LOCKSTEP_ASSERT(size_ < kLongest);
    resources_[size_++] = resource;
  }
  [[nodiscard]] std::span<const Resource> all() const { return {resources_.data(), size_}; }

 private:
  std::array<Resource, kLongest> resources_{};
  std::size_t size_ = 0;
};

struct Flow {
  Path path;
  std::uint64_t weight = 1;       // of its share where flows meet
  std::uint64_t cap = kMostRate;  // limit of the flow itself

  // answers
  std::uint64_t rate = 0;             // bytes per second, at least 1
  Resource bottleneck = kNoResource;  // the resource that limits the flow; kNoResource: its own cap
};

class MaxMin {
 public:
  // A capacity is exceeded by at most 1 byte per second and flow, so that every flow gets something.
  void share(std::span<const std::uint64_t> capacities, std::span<Flow> flows);

 private:
  void fix(Flow& flow, std::uint64_t rate, Resource bottleneck);

  // Memory that is kept: per resource.
  std::vector<std::uint64_t> left_;
  std::vector<std::uint64_t> weights_;  // of the flows that are not fixed yet
  std::vector<Resource> used_;
  std::vector<std::uint32_t> open_;  // flows that are not fixed yet
};

}  // namespace lockstep::sim::flow
