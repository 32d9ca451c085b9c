// Queries the status of a coordinator, and has it evict a peer.
#pragma once

#include <string_view>

#include "core/base/ids.h"
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

// Asks the coordinator to take a peer out of the run (rule 69 of docs/protocol.md). Blocks and fails likewise.
// kRefused: the run token of `coordinator` is none of an administrator.
Result<wire::EvictReply> evict_peer(std::string_view coordinator, PeerId peer, Duration timeout,
                                    const Protection& protection = {});

}  // namespace lockstep::transport
