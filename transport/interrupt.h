// A thread that waits asks now and then whether it is to go on waiting.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::transport {

// True: the wait ends. Called on the thread that waits, every kAskEvery, the first time so long after the wait began. No lock of
// the library is held then. Null: nobody is asked.
using Interrupted = bool (*)();
inline constexpr std::chrono::milliseconds kAskEvery(50);

// How a wait ended.
enum class Waited : std::uint8_t {
  kOver,         // what was waited for has happened
  kTimedOut,     // the time-out of the wait has passed
  kInterrupted,  // the thread was asked not to wait any longer
};

}  // namespace lockstep::transport
