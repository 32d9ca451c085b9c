// The option structs of the C API, checked and turned into what the transport takes.
#pragma once

#include "core/base/result.h"
#include "lockstep.h"
#include "transport/communicator.h"

namespace lockstep::c {

Result<transport::CommunicatorOptions> communicator_options(const lockstep_comm_options* options);

// Calls back into the program; empty without a function.
transport::Log log_to(lockstep_log_fn log, void* user);

// A field in milliseconds over a default.
void override_with(std::uint32_t ms, Duration& value);

}  // namespace lockstep::c
