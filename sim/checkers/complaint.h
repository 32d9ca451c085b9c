// The text of a broken promise.
#pragma once

#include <optional>
#include <string>

namespace lockstep::sim {

using Complaint = std::optional<std::string>;

}  // namespace lockstep::sim
