// The end of a call as a lockstep_result.
#pragma once

#include <optional>

#include "bindings/c/error.h"
#include "core/base/ids.h"
#include "lockstep.h"
#include "transport/work.h"

namespace lockstep::c {

// The reason why `result` cannot be filled, or nullopt. A null `result` is valid.
std::optional<Error> validate_result(const lockstep_result* result);

// Fills `result` (may be null) from a call that is over, stores the error text, returns the status.
lockstep_status report(const transport::Work& work, PeerId self, lockstep_result* result);

// The same for a call that was not started.
lockstep_status report_not_started(const Error& error, lockstep_result* result);

// The same for a blocking call that continues without its caller.
lockstep_status report_interrupted(lockstep_result* result);

lockstep_peer_id to_c(PeerId id);
PeerId from_c(const lockstep_peer_id& id);

}  // namespace lockstep::c
