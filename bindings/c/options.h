// Validates the option structs of the C API and converts them to the transport's options.
#pragma once

#include "core/base/result.h"
#include "lockstep.h"
#include "transport/communicator.h"

namespace lockstep::c {

Result<transport::CommunicatorOptions> communicator_options(const lockstep_comm_options* options);

// Calls the program's function; empty if there is none.
transport::Log log_to(lockstep_log_fn log, void* user);

// Replaces a default if the field is not 0; the field is in milliseconds.
void override_with(std::uint32_t ms, Duration& value);

}  // namespace lockstep::c
