// Sums over many runs, as a person or a tool wants to see them.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sim/plan/report.h"

namespace lockstep::sim {

struct Totals : Counts {
  std::uint64_t seeds = 0;
  std::uint64_t bytes_seeds = 0;
  std::uint64_t hash = 0;  // of all runs, whatever their order
  double simulated_s = 0;

  void add(const Report& report);
  void add(const Totals& more);
};

// The upper bound of a failure rate after so many seeds without a failure: the rule of three.
std::string confidence_of(const Totals& totals);

nlohmann::json to_json(const Totals& totals, double seconds);
Totals totals_from(const nlohmann::json& json);    // throws what nlohmann throws
void print(const Totals& totals, double seconds);  // `seconds`: of real time that it took

}  // namespace lockstep::sim
