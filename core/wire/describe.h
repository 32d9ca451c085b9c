// Messages in words, for people: in errors that name both sides, and in traces.
#pragma once

#include <string>

#include "core/wire/message.h"

namespace lockstep::wire {

// "all_reduce f32 sum, 10 elements in 1 tensor, retry". Descriptors that differ read differently.
std::string describe(const Descriptor& what);

// One line with every field: "Commit{key: c1 g0 t7 #0, attempt: 2, hash: 00000000deadbeef, admit_here: false}". Long lists
// are cut.
std::string describe(const Message& message);

}  // namespace lockstep::wire
