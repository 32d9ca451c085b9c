#include "sim/scenario/scenario.h"

#include <algorithm>
#include <numeric>

#include "core/base/assert.h"

#include "sim/engine/dice.h"

namespace lockstep::sim {
namespace {

// Hosts in an order of this seed's: X is the first, Y the second, Z the third.
std::vector<std::uint32_t> shuffled_hosts(std::uint32_t peers, const Dice& dice) {
  std::vector<std::uint32_t> hosts(peers);
  std::iota(hosts.begin(), hosts.end(), 1U);
  for (std::size_t i = hosts.size(); i-- > 1;) {
    std::swap(hosts[i], hosts[dice.range(0, i, Purpose::kPlan, 1, i)]);
  }
  return hosts;
}

}  // namespace

Plan plan_of(const Scenario& scenario, std::uint64_t seed) {
  const Dice dice(seed);
  Plan plan = scenario.base;
  plan.seed = seed;
  plan.founders = static_cast<std::uint32_t>(dice.range(scenario.peers.lo, scenario.peers.hi, Purpose::kPlan, 2));
  plan.peers = std::max(plan.founders, scenario.last_joiner);
  const std::vector<std::uint32_t> hosts = shuffled_hosts(plan.founders, dice);
  std::uint64_t n = 0;
  const auto draw = [&](std::uint64_t lo, std::uint64_t hi) { return dice.range(lo, hi, Purpose::kFault, n++); };
  const auto host_of = [&](const Who& who) -> std::uint32_t {
    switch (who.kind) {
      case Who::Kind::kHost: return who.number;
      case Who::Kind::kVariable: return hosts[who.number % hosts.size()];
      case Who::Kind::kAny: return static_cast<std::uint32_t>(draw(1, plan.founders));
    }
    LOCKSTEP_UNREACHABLE();
  };
  const auto within = [&](const Range<Duration>& range) {
    return nanoseconds(static_cast<std::int64_t>(
        draw(static_cast<std::uint64_t>(range.lo.ns), static_cast<std::uint64_t>(range.hi.ns))));
  };
  for (const Act& act : scenario.acts) {
    for (std::uint32_t time = 0; time < act.times; ++time) {
      Entry entry = act.entry;
      entry.after = within(act.after) + act.every * static_cast<std::int64_t>(time);
      entry.length = within(act.length);
      entry.a = host_of(act.a);
      if (is_of_pair(entry.fault)) {
        entry.b = host_of(act.b);
        if (entry.a == entry.b) entry.b = entry.b % plan.founders + 1;  // drawn alike: its neighbour
        if (entry.a == entry.b) continue;                               // alone
      }
      plan.entries.push_back(entry);
    }
  }
  return plan;
}

}  // namespace lockstep::sim
