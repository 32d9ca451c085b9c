// Lets a waiting thread check periodically whether it should continue to wait.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::transport {

// Returns true to end the wait. Called on the waiting thread every kAskEvery, first after kAskEvery, while no lock of
// the library is held. Null: never interrupted.
using Interrupted = bool (*)();
inline constexpr std::chrono::milliseconds kAskEvery(50);

// How a wait ended.
enum class Waited : std::uint8_t {
  kOver,         // the awaited event has happened
  kTimedOut,     // the timeout of the wait has passed
  kInterrupted,  // the thread was asked to stop waiting
};

}  // namespace lockstep::transport
