// Waits that the program interrupts: the function that they call, and the calls that interrupted threads left behind.
#pragma once

#include <memory>

#include "lockstep.h"
#include "transport/interrupt.h"

namespace lockstep::c {

// The function that a wait calls; null if the program has set none.
transport::Interrupted interrupted();

// Whether launches of this thread wait for room (lockstep_set_no_wait()).
bool waits_for_room();

// This thread stops waiting for its blocking call; lockstep_interrupted() returns its `work`.
void leave_behind(std::unique_ptr<lockstep_work> work);

// The result of an interrupted wait; the awaited call continues.
lockstep_status fail_interrupted();

}  // namespace lockstep::c
