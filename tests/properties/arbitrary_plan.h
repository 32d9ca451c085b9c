// Plans as values that rapidcheck draws (fuzz/chosen_plan.h constructs them from bytes). rapidcheck does not know how
// to simplify a plan and shrinks none: the simulator's own shrinker handles a plan that breaks a law (plan_law.h).
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include <rapidcheck.h>

#include "core/base/rng.h"
#include "fuzz/chosen_plan.h"

namespace lockstep::sim {

inline constexpr std::size_t kMostPlanBytes = 350;

// A plan from `length` bytes drawn from the seed.
inline Plan plan_of_bytes(std::uint64_t seed, std::size_t length) {
  std::vector<std::uint8_t> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::uint8_t>(draw(seed, 0, i));
  fuzz::Choices choices(bytes);
  return fuzz::chosen_plan(choices);
}

inline rc::Gen<Plan> arbitrary_plan() {
  return rc::gen::noShrink(rc::gen::exec([] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    return plan_of_bytes(seed, *rc::gen::inRange<std::size_t>(0, kMostPlanBytes));
  }));
}

// rapidcheck's output; the text of the law contains the small plan.
inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  return out << "a plan of " << plan.peers << " peers and " << plan.entries.size() << " faults";
}

}  // namespace lockstep::sim
