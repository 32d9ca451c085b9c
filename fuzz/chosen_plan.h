// A plan told by bytes: a world, a network, a program and faults of which each byte is a choice. It can be run, and
// asks for nothing that must end badly; beyond that anything goes with anything: faults at one moment, or that
// contradict each other. What a fuzzer keeps because it reached new code, it changes further: a search that is led by
// coverage. Properties draw the bytes (tests/properties/arbitrary_plan.h).
#pragma once

#include "fuzz/choices.h"
#include "sim/plan/plan.h"

namespace lockstep::fuzz {

// Takes all bytes that there are, up to a number of faults; without any it is a small and calm plan.
sim::Plan chosen_plan(Choices& choices);

}  // namespace lockstep::fuzz
