// The expectations of a run: how often something happens, and by when. A run that misses one fails with the promise
// "goal".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"

namespace lockstep::sim {

struct Report;

struct Expectation {
  enum class Is : std::uint8_t { kLess, kAtMost, kEqual, kAtLeast, kMore } is = Is::kEqual;
  std::string count;  // a name of visit_counts()
  std::uint64_t value = 0;

  bool operator==(const Expectation&) const = default;
};

struct Expectations {
  std::vector<Expectation> counts;
  std::optional<Duration> within;  // of simulated time

  [[nodiscard]] bool empty() const { return counts.empty() && !within; }
  bool operator==(const Expectations&) const = default;
};

// The expectations that were missed: "commits >= 9, but 7"; empty: none.
std::string unmet(const Expectations& expected, const Report& report);

// The first exceeded expectation, as an upper bound: if `lost_runs = 0` and 2 were lost, `lost_runs <= 0`. Nothing:
// every missed count was too low. A smaller run misses such an expectation trivially, so it shows nothing.
std::optional<Expectations> exceeded(const Expectations& expected, const Report& report);

std::string to_text(const Expectations& expected);  // an [expect] table, as expect_file.h reads it

}  // namespace lockstep::sim
