// The timeline: one page that shows a history, with everything it needs inside of it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::sim {

// `history`: as history_json.h makes it.
std::string page_of(const nlohmann::json& history);

}  // namespace lockstep::sim
