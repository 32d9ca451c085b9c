// Keeps secrets out of core dumps. Only for a process of our own: a library must not decide this for a program.
#pragma once

namespace lockstep::cli {

// From now on a crash of this process leaves no core dump, and other processes of the same user can neither trace it
// nor read its memory.
void leave_no_core_dump();

}  // namespace lockstep::cli
