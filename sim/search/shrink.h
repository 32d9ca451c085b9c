// Makes a plan that breaks a promise small: fewer faults, peers and operations, a calmer network, rounder numbers. A
// smaller plan is taken only if it breaks the same promise. Pure: how a plan is run, and when it takes too long, is the
// caller's business.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/time.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

struct Broken {
  std::string promise;
  Instant at{INT64_MAX};                // when it was seen; far away: not known
  std::uint64_t launches = UINT64_MAX;  // of collectives until then
};

// Runs a plan. Returns nothing if the plan breaks no promise.
using Trial = std::function<std::optional<Broken>(const Plan&)>;

struct ShrinkOptions {
  std::uint32_t max_runs = 300;
  std::function<bool()> stop;  // asked before every run: time is up; may be empty
  // After every run: the smallest plan so far; and after the last run was the smallest so far. May be empty.
  std::function<void(const Plan& best, std::uint32_t runs)> tell;
  std::function<void(const Plan& best)> better;
};

struct Shrunk {
  Plan plan;
  Broken broken;
  std::uint32_t runs = 0;
  bool done = false;  // no simpler plan breaks the promise; false: the runs or the time were used up
};

// Nothing: the plan breaks no promise.
std::optional<Shrunk> shrink(const Plan& plan, const Trial& trial, const ShrinkOptions& options = {});

}  // namespace lockstep::sim
