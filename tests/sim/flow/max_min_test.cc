#include "sim/flow/max_min.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::sim::flow {
namespace {

Flow over(std::initializer_list<Resource> path, std::uint64_t weight = 1, std::uint64_t cap = kMostRate) {
  Flow flow;
  for (const Resource resource : path) flow.path.add(resource);
  flow.weight = weight;
  flow.cap = cap;
  return flow;
}

std::vector<std::uint64_t> shares(const std::vector<std::uint64_t>& capacities, std::vector<Flow> flows) {
  MaxMin().share(capacities, flows);
  std::vector<std::uint64_t> rates;
  rates.reserve(flows.size());
  for (const Flow& flow : flows) rates.push_back(flow.rate);
  return rates;
}

TEST(MaxMin, EqualsShareEqually) {
  EXPECT_EQ(shares({900}, {over({0}), over({0}), over({0})}), (std::vector<std::uint64_t>{300, 300, 300}));
}

TEST(MaxMin, ASmallDemandLeavesTheRestToOthers) {
  EXPECT_EQ(shares({900}, {over({0}, 1, 100), over({0}), over({0})}), (std::vector<std::uint64_t>{100, 400, 400}));
}

TEST(MaxMin, WeightsDivideALine) {
  EXPECT_EQ(shares({900}, {over({0}, 2), over({0}, 1)}), (std::vector<std::uint64_t>{600, 300}));
}

// Bertsekas and Gallager, "Data Networks", figure 6.7: the long flow meets two others on the first line and one on the
// second.
TEST(MaxMin, TheTightestLineDecidesFirst) {
  EXPECT_EQ(shares({300, 300}, {over({0, 1}), over({0}), over({0}), over({1})}),
            (std::vector<std::uint64_t>{100, 100, 100, 200}));
}

TEST(MaxMin, WithoutALineTheCapDecides) {
  EXPECT_EQ(shares({}, {over({}, 1, 77), over({})}), (std::vector<std::uint64_t>{77, kMostRate}));
}

TEST(MaxMin, EveryDemandGetsSome) {
  EXPECT_EQ(shares({1}, {over({0}, 1'000'000), over({0}, 1)}), (std::vector<std::uint64_t>{1, 1}));
}

struct Case {
  std::vector<std::uint64_t> capacities;
  std::vector<Flow> flows;
};

// Lines from slow to fast, flows over up to four of them; some with a cap.
Case drawn() {
  Case c;
  c.capacities = *rc::gen::container<std::vector<std::uint64_t>>(*rc::gen::inRange<std::size_t>(1, 12),
                                                                 rc::gen::inRange<std::uint64_t>(1'000, 2'000'000'000));
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  for (std::size_t i = 0; i < count; ++i) {
    auto path = *rc::gen::unique<std::vector<Resource>>(
        *rc::gen::inRange<std::size_t>(0, std::min<std::size_t>(4, c.capacities.size()) + 1),
        rc::gen::inRange<Resource>(0, static_cast<Resource>(c.capacities.size())));
    Flow flow;
    for (const Resource resource : path) flow.path.add(resource);
    flow.weight = *rc::gen::inRange<std::uint64_t>(1, 1'000);
    if (*rc::gen::inRange(0, 2) == 0) flow.cap = *rc::gen::inRange<std::uint64_t>(1, 3'000'000'000);
    c.flows.push_back(flow);
  }
  return c;
}

std::uint64_t used(const Case& c, Resource resource) {
  std::uint64_t sum = 0;
  for (const Flow& flow : c.flows) {
    for (const Resource r : flow.path.all()) sum += r == resource ? flow.rate : 0;
  }
  return sum;
}

RC_GTEST_PROP(MaxMin, NoResourceIsOverItsCapacity, ()) {
  Case c = drawn();
  MaxMin().share(c.capacities, c.flows);
  for (Resource r = 0; r < c.capacities.size(); ++r) RC_ASSERT(used(c, r) <= c.capacities[r] + c.flows.size());
}

// The max-min property: a flow that wants more crosses a full resource on which no flow has a better share.
RC_GTEST_PROP(MaxMin, EveryFlowHasABottleneck, ()) {
  Case c = drawn();
  MaxMin().share(c.capacities, c.flows);
  for (const Flow& flow : c.flows) {
    RC_ASSERT(flow.rate <= flow.cap);
    if (flow.bottleneck == kNoResource) {
      RC_ASSERT(flow.rate == flow.cap);
      continue;
    }
    RC_ASSERT(used(c, flow.bottleneck) + c.flows.size() >= c.capacities[flow.bottleneck]);
    for (const Flow& other : c.flows) {
      const auto path = other.path.all();
      if (std::find(path.begin(), path.end(), flow.bottleneck) == path.end()) continue;
      const auto slack = (flow.weight + other.weight) * c.flows.size();  // rounding
      RC_ASSERT(other.rate * flow.weight <= flow.rate * other.weight + slack);
    }
  }
}

RC_GTEST_PROP(MaxMin, TheOrderOfFlowsDoesNotMatter, ()) {
  Case c = drawn();
  Case other = c;
  const auto shift = *rc::gen::inRange<std::size_t>(0, c.flows.size());
  std::rotate(other.flows.begin(), other.flows.begin() + static_cast<std::ptrdiff_t>(shift), other.flows.end());
  MaxMin().share(c.capacities, c.flows);
  MaxMin().share(other.capacities, other.flows);
  std::rotate(other.flows.begin(), other.flows.end() - static_cast<std::ptrdiff_t>(shift), other.flows.end());
  for (std::size_t i = 0; i < c.flows.size(); ++i) RC_ASSERT(c.flows[i].rate == other.flows[i].rate);
}

}  // namespace
}  // namespace lockstep::sim::flow
