// How `lockstep doctor` shows its findings. Run tokens in them are redacted.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "bindings/cli/doctor/finding.h"

namespace lockstep::cli::doctor {

// The worst grade; kOk if there are no findings.
Grade worst_of(const Findings& findings);

// A line for each finding, another one for its remedy, and a line that counts them.
std::string text_of(const Findings& findings);

// {"version": 1, "grade": "warning", "findings": [{"check": "clock", "grade": "warning", "found": text, "remedy": text,
// "values": object}]}; "remedy" is missing if there is nothing to do.
nlohmann::ordered_json json_of(const Findings& findings);

}  // namespace lockstep::cli::doctor
