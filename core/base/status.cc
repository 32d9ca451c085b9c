#include "core/base/status.h"

#include "core/base/assert.h"

namespace lockstep {

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kOk: return "ok";
    case Status::kInvalidArgument: return "invalid argument";
    case Status::kMismatch: return "arguments differ between peers";
    case Status::kPeerLost: return "peer lost";
    case Status::kWorldChanged: return "world changed";
    case Status::kBelowMinimum: return "below minimum world size";
    case Status::kAborted: return "aborted";
    case Status::kTimedOut: return "timed out";
    case Status::kCohortClosed: return "cohort closed";
    case Status::kOutcomeUnknown: return "outcome unknown";
    case Status::kEvicted: return "evicted";
    case Status::kNotConnected: return "not connected";
    case Status::kUnreachable: return "unreachable";
    case Status::kRefused: return "refused";
    case Status::kTooManyInFlight: return "too many in flight";
    case Status::kBufferTooSmall: return "buffer too small";
    case Status::kOutOfMemory: return "out of memory";
    case Status::kProtocolError: return "protocol error";
    case Status::kInternal: return "internal error";
    case Status::kStateUndefined: return "state undefined";
    case Status::kStateConflict: return "state conflict";
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep
