// The result of one check of `lockstep doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::cli::doctor {

// From the best to the worst.
enum class Grade : std::uint8_t { kOk, kWarning, kFailed };

struct Finding {
  Grade grade = Grade::kOk;
  std::string check;                                 // a stable word, such as "descriptors"
  std::string found;                                 // what was found, with values
  std::string remedy;                                // what to do; empty if there is nothing to do
  nlohmann::json values = nlohmann::json::object();  // the same values for programs
};

using Findings = std::vector<Finding>;

}  // namespace lockstep::cli::doctor
