// How a call can end. The C API has the same values under LOCKSTEP_* names; numbers are part of the wire and the ABI.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class Status : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,   // this call's arguments are wrong by themselves
  kMismatch = 2,          // peers gave different arguments for one round; nothing was reduced
  kPeerLost = 3,          // a member was lost and this call does not retry by itself
  kWorldChanged = 4,      // a member left or came, and this call's arguments depend on the world
  kBelowMinimum = 5,      // fewer members than the agreed minimum
  kAborted = 6,           // a caller aborted the round; the text says who and why
  kTimedOut = 7,          // a caller's time-out ended the round
  kCohortClosed = 8,      // a member this call waits for has admitted newcomers and cannot launch it any more
  kOutcomeUnknown = 9,    // the run was lost before the outcome could be learnt; rejoin
  kEvicted = 10,          // the coordinator removed this peer; the text says why
  kNotConnected = 11,     // the communicator is not (or no longer) part of a run
  kUnreachable = 12,      // an address could not be resolved or reached
  kRefused = 13,          // the coordinator refused this peer; the text says why
  kTooManyInFlight = 14,  // the limit of rounds in flight is reached
  kBufferTooSmall = 15,   // a receive buffer cannot hold the result
  kOutOfMemory = 16,
  kProtocolError = 17,  // the other side spoke something that is not Lockstep, or another version of it
  kInternal = 18,       // a mistake of ours
  kStateUndefined =
      19,  // nobody who may send has a state; or this peer's was being taken over when its sources were lost
};
inline constexpr std::uint8_t kStatusCount = 20;

// A short name such as "peer lost".
std::string_view status_name(Status status);

}  // namespace lockstep
