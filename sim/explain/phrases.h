// How the history says things.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/peer/effect.h"
#include "core/wire/message.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/program.h"

namespace lockstep::sim {

std::string_view name_of(const JobWork& work);
std::string_view name_of(Program::Phase phase);
// As core describes the message, with rounds in the form of the simulator: "round: c1.g0.t7.u0".
std::string text_of(const wire::Message& message);
std::string host_name(std::uint32_t host);
// "cut h1 -> h2 for 300 ms"
std::string text_of_fault(const Entry& fault);

}  // namespace lockstep::sim
