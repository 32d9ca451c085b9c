// What a run is expected to come to: how often something happens, and by when. A run that misses it fails, with "goal" as its
// promise.
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

// What was expected and did not come: "commits >= 9, but 7"; empty: everything came.
std::string unmet(const Expectations& expected, const Report& report);

// The first thing of which there was too much, as an upper bound: of `lost_runs = 0`, but 2, it is `lost_runs <= 0`. Nothing:
// there was too little of everything that was missed; a smaller run misses that by itself, so that it says nothing.
std::optional<Expectations> exceeded(const Expectations& expected, const Report& report);

std::string to_text(const Expectations& expected);  // an [expect] table, as expect_file.h reads it

}  // namespace lockstep::sim
