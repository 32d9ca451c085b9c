// The destination of log lines for people.
#pragma once

#include <functional>
#include <string_view>

namespace lockstep::transport {

// Receives one line without its end. Called on the thread that logs (the thread of a communicator or coordinator, or a
// waiting caller). The function must be quick and must not throw. It must not wait for a call of the same communicator,
// or take a lock that is held around such a wait.
using Log = std::function<void(std::string_view line)>;

}  // namespace lockstep::transport
