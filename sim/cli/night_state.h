// The results of all nights, which the next night continues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/cli/totals.h"
#include "sim/cover/cells.h"
#include "sim/plan/report.h"

namespace lockstep::sim {

struct Night {
  std::string build;            // build of the program; a night of another build does not count
  std::uint32_t max_peers = 0;  // of the plans that seeds give
  std::uint64_t next_seed = 0;
  double seconds = 0;
  Totals totals;
  cover::Tally cells;  // of one seed in so many (kSeedsPerLook)
  std::vector<Report> failures;
};

// To look which cells of the coverage matrices a run hits costs half as much as the run.
inline constexpr std::uint64_t kSeedsPerLook = 50;

nlohmann::json to_json(const Night& night);
Night night_from(const nlohmann::json& json);  // throws what nlohmann throws, or std::runtime_error

std::string plan_name(const Report& report);  // of the file with the plan of a failure
// For people, in Markdown.
std::string report_of(const Night& night, const std::string& date);
// Why a night without a failure proves less than it should: too little has happened, or an impossible cell was hit.
// Empty: no such reason.
std::string doubts_about(const Night& night);

}  // namespace lockstep::sim
