// Messages in words, for people: in errors that name both sides, and in traces.
#pragma once

#include <string>
#include <string_view>

#include "core/wire/message.h"

namespace lockstep::wire {

// "all_reduce f32 sum, 10 elements in 1 tensor, retry". Descriptors that differ read differently.
std::string describe(const Descriptor& what);

// What the callers of a round are told that a member did not launch before the admission that ended its cohort.
std::string not_launched(std::string_view member, Tag tag);

// One line with every field: "Commit{key: c1 g0 t7 #0, attempt: 2, hash: 00000000deadbeef, admit_here: false, parity:
// ""}". Long lists are cut.
std::string describe(const Message& message);

}  // namespace lockstep::wire
