// Plans as values that rapidcheck draws (fuzz/chosen_plan.h makes them of bytes). It does not know what a simpler plan
// is, so it shrinks none: a plan that breaks a law goes to our own shrinker (plan_law.h).
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include <rapidcheck.h>

#include "core/base/rng.h"
#include "fuzz/chosen_plan.h"

namespace lockstep::sim {

inline constexpr std::size_t kMostPlanBytes = 350;

// Of so many bytes, drawn by the seed.
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

// What rapidcheck prints of it; the law's words have the small one.
inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  return out << "a plan of " << plan.peers << " peers and " << plan.entries.size() << " faults";
}

}  // namespace lockstep::sim
