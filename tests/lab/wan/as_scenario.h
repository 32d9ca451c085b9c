// A topology as the simulator's `predict` takes it: a scenario with work. The words are the same; those that only the
// box knows (mtu, seed, queue, burst, ...) are left out, and the hosts' receive buffer is the window of streams.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "sim/plan/plan.h"

namespace lockstep::wan {

// Its work is one all-reduce of f32. Errors name line and column: of a way that is not the same in both directions, for
// one.
Result<sim::Plan> as_plan(std::string_view topology, std::uint64_t bytes);

}  // namespace lockstep::wan
