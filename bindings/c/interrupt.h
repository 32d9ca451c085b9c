// Waits that the program ends early: the function that it is asked through, and calls that an interrupted thread has left behind.
#pragma once

#include <memory>

#include "lockstep.h"
#include "transport/interrupt.h"

namespace lockstep::c {

// The function that a wait asks; null if the program has set none.
transport::Interrupted interrupted();

// This thread does not wait any longer for its blocking call: lockstep_interrupted() gives it `work`.
void leave_behind(std::unique_ptr<lockstep_work> work);

// For a wait; what was waited for goes on.
lockstep_status fail_interrupted();

}  // namespace lockstep::c
