// What a checker says when its promise is broken.
#pragma once

#include <optional>
#include <string>

namespace lockstep::sim {

using Complaint = std::optional<std::string>;

}  // namespace lockstep::sim
