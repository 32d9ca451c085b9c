// Plans that are a little simpler than a given plan: candidates for a shrinker, the boldest first. Invariant: every
// candidate is strictly simpler by a measure of its own, so that shrinking ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

// A plan asks for nothing that must end badly: whoever waits for one that skips a call has a time-out, and enough hosts
// stay for the run to go on. A shrinker that left this ground would find "bugs" of its own making.
bool is_lawful(const Plan& plan);

// Without what had no time to happen: faults after `at` and after the launch with this number; and faults stop soon
// after `at`.
Plan cut_after(const Plan& plan, Instant at, std::uint64_t launches);

Plan without_entries(const Plan& plan, std::size_t begin, std::size_t end);

using Candidates = std::vector<Plan>;
Candidates fewer_peers(const Plan& plan);    // the others move up
Candidates plainer_world(const Plan& plan);  // groups, gangs, admission, payloads
Candidates smaller_program(const Plan& plan);
Candidates calmer_network(const Plan& plan);  // no jitter, full reads and writes, quick answers
Candidates rounder_numbers(const Plan& plan);
// Each one thing less: a fault, a host, an operation.
Candidates one_thing_less(const Plan& plan);

}  // namespace lockstep::sim
