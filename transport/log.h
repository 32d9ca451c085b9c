// Where lines for people go.
#pragma once

#include <functional>
#include <string_view>

namespace lockstep::transport {

// One line, without an end of line. Called on the thread that has something to say (a communicator's or a coordinator's own, or a
// caller's that waits): must be quick, must not throw, must not wait for a call of the same communicator, and must not take a lock
// that is held around such a wait.
using Log = std::function<void(std::string_view line)>;

}  // namespace lockstep::transport
