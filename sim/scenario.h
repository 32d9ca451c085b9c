// A story as an engineer writes it: peers, a network, work, what happens when, and what is expected. With a seed it becomes a
// plan; what was given as a range, and hosts called X, Y, Z or any, differ from seed to seed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/plan.h"

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
  Entry entry;  // all but the hosts and what is drawn
  Who a;
  Who b;
  Range<Duration> after;
  Range<Duration> length;
  std::uint32_t times = 1;
  Duration every;
};

struct Scenario {
  std::string name;
  std::string story;              // which real incident it stands for
  Plan base;                      // what no seed changes, and what is expected
  bool says_heartbeat = false;    // else it is a Plan's
  Range<std::uint32_t> peers;     // that are there from the start
  std::uint32_t last_joiner = 0;  // the highest host that joins by name; 0: none does
  std::vector<Act> acts;
};

// A text that has one of the words of a scenario, rather than those of a plan.
bool is_scenario(std::string_view text);

// Errors name line and column, and what was meant.
Result<Scenario> scenario_from_text(std::string_view text);

// Asserts that no seed can make an impossible plan of it: scenario_from_text() has seen to that.
Plan plan_of(const Scenario& scenario, std::uint64_t seed);

}  // namespace lockstep::sim
