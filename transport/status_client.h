// Queries the status of a coordinator.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/wire/message.h"
#include "transport/destination.h"

namespace lockstep::transport {

// Blocks until the coordinator that this text names (transport/destination.h) has answered, or until `timeout` has
// passed. Errors: kUnreachable, kTimedOut, kRefused, kProtocolError, kInvalidArgument; the text names the address and
// what to do.
Result<wire::StatusReply> query_status(std::string_view coordinator, Duration timeout,
                                       const Protection& protection = {});

}  // namespace lockstep::transport
