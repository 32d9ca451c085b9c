// How a call can end. The C API has the same values under LOCKSTEP_* names. The numbers are part of the wire and the
// ABI.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class Status : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,   // the arguments of this call are invalid on their own
  kMismatch = 2,          // the arguments of one round differ between peers; nothing was reduced
  kPeerLost = 3,          // a member was lost, and this call does not retry automatically
  kWorldChanged = 4,      // a member left or joined, and the arguments of this call depend on the world
  kBelowMinimum = 5,      // fewer members than the agreed minimum
  kAborted = 6,           // a caller aborted the round; the text names the peer and the reason
  kTimedOut = 7,          // the timeout of a caller's call ended the round
  kCohortClosed = 8,      // a member of the round has admitted newcomers and can no longer launch the round
  kOutcomeUnknown = 9,    // the run was lost before this peer learned the outcome; rejoin
  kEvicted = 10,          // the coordinator removed this peer; the text gives the reason
  kNotConnected = 11,     // the communicator is not, or no longer, part of a run
  kUnreachable = 12,      // an address could not be resolved or reached
  kRefused = 13,          // the coordinator refused this peer, or is another one; the text gives the reason
  kTooManyInFlight = 14,  // the limit of rounds in flight is reached
  kBufferTooSmall = 15,   // a receive buffer cannot hold the result
  kOutOfMemory = 16,
  kProtocolError = 17,  // the other side does not speak Lockstep, or speaks another version
  kInternal = 18,       // results differ, or memory changed during the call; or a bug in Lockstep
  // no member that may send has a state, or the sources of a transfer to this peer were lost
  kStateUndefined = 19,
  kStateConflict =
      20,  // a newcomer's state is ahead of the run's, and is not overwritten; the text gives both revisions
};
inline constexpr std::uint8_t kStatusCount = 21;

// Whether a newcomer ends a round with this status while the others go on (rules 52, 53 of docs/protocol.md).
constexpr bool ends_alone(Status status) { return status == Status::kMismatch || status == Status::kStateConflict; }

// A short name such as "peer lost".
std::string_view status_name(Status status);

}  // namespace lockstep
