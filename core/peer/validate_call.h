// What a collective call must be, wherever its memory lies. A driver asks before it lends memory, so that an invalid
// call fails at once; Rounds asks again, and so refuses the invalid calls of any driver.
#pragma once

#include <optional>

#include "core/base/result.h"
#include "core/peer/input.h"

namespace lockstep::peer {

// The reason for a refusal of the call, or nullopt. Reads no buffer, and no length but that of residuals.
std::optional<Error> validate_call(const ring::Request& request);

}  // namespace lockstep::peer
