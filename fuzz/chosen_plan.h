// A plan told by bytes: a network and a program as some seed draws them, and faults of which each byte is a choice. What a
// fuzzer keeps because it reached new code, it changes further: a search that is led by coverage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "fuzz/choices.h"
#include "sim/plan.h"

namespace lockstep::fuzz {

// Up to 2^(byte / 8), spread evenly over the magnitudes.
inline std::int64_t chosen_ns(Choices& choices, std::int64_t most) {
  const std::uint8_t how = choices.byte();
  return std::min(most, (std::int64_t{1} << how / 8U) + (std::int64_t{1} << how / 8U) / 8 * (how % 8U));
}

inline sim::Entry chosen_entry(Choices& choices, const sim::Plan& plan) {
  sim::Entry entry;
  entry.fault = static_cast<sim::Fault>(choices.below(sim::kFaultCount));
  switch (choices.below(5)) {
    case 0: break;
    case 1: entry.launch = 1 + choices.below(std::size_t{12} * plan.peers); break;
    case 2: entry.commit = 1 + choices.below(30); break;
    case 3: entry.view = 1 + choices.below(12); break;
    case 4: entry.event = 1 + choices.byte() + std::uint64_t{256} * choices.below(16); break;
  }
  entry.after = nanoseconds(chosen_ns(choices, plan.safety.ns));
  entry.a = static_cast<std::uint32_t>(choices.below(plan.peers + 1U));
  if (sim::is_of_pair(entry.fault)) entry.b = static_cast<std::uint32_t>(choices.below(plan.peers + 1U));
  entry.length = nanoseconds(chosen_ns(choices, plan.heartbeat.ns * 16));
  if (entry.fault == sim::Fault::kSlow || entry.fault == sim::Fault::kKernels) entry.number = 2 + choices.below(99);
  if (entry.fault == sim::Fault::kReset) entry.number = choices.below(21);
  return entry;
}

inline sim::Plan chosen_plan(Choices& choices) {
  constexpr std::size_t kMostFaults = 24;
  sim::PlanOptions options;
  options.calm = true;
  options.peers = 2 + static_cast<std::uint32_t>(choices.below(4));
  options.payload = choices.one_in(8) ? sim::PlanOptions::Payload::kBytes : sim::PlanOptions::Payload::kToken;
  sim::Plan plan = sim::plan_of(choices.byte(), options);
  plan.safety = plan.heartbeat * 12;
  plan.commits_after = 1;
  while (!choices.empty() && plan.entries.size() < kMostFaults) {
    const sim::Entry entry = chosen_entry(choices, plan);
    if (sim::flaw_of(plan, entry).empty()) plan.entries.push_back(entry);
  }
  // Who waits for one that has skipped a call, or called another, needs a time-out to get on.
  if (plan.call_timeout.ns == 0) plan.call_timeout = plan.heartbeat * 40;
  return plan;
}

}  // namespace lockstep::fuzz
