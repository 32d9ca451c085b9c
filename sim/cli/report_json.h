// Reports as JSON: for people's tools, and between processes of one run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/plan/report.h"

namespace lockstep::sim {

nlohmann::json to_json(const Counts& counts);
nlohmann::json to_json(const Report& report);
Report report_from(const nlohmann::json& json);  // throws what nlohmann throws

}  // namespace lockstep::sim
