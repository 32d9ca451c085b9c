// A scenario as an engineer writes it: peers, a network, work, timed events, and expectations. A seed makes a plan of
// it: ranges, and hosts called X, Y, Z or any, differ from seed to seed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

template <typename T>
struct Range {  // both included
  T lo{};
  T hi{};
};

// A host: by number, or as a name that a seed binds.
struct Who {
  enum class Kind : std::uint8_t { kHost, kVariable, kAny } kind = Kind::kHost;
  std::uint32_t number = 0;  // kHost: 0 is the coordinator's; kVariable: 0, 1, 2 for X, Y, Z
};

struct Act {
  Entry entry;  // all fields except hosts and drawn values
  Who a;
  Who b;
  Range<Duration> after;
  Range<Duration> length;
  std::uint32_t times = 1;
  Duration every;
};

struct Scenario {
  std::string name;
  std::string story;              // the real incident that the scenario models
  Plan base;                      // the fields that no seed changes, and the expectations
  bool says_heartbeat = false;    // false: the default of Plan
  Range<std::uint32_t> peers;     // that are there from the start
  std::uint32_t last_joiner = 0;  // the highest host that joins by name; 0: none does
  std::vector<Act> acts;
};

// Whether a text has a key of scenarios rather than only keys of plans.
bool is_scenario(std::string_view text);

// Errors name line and column, and suggest a correction.
Result<Scenario> scenario_from_text(std::string_view text);

// Asserts that no seed can make an impossible plan of it: scenario_from_text() has seen to that.
Plan plan_of(const Scenario& scenario, std::uint64_t seed);

}  // namespace lockstep::sim
