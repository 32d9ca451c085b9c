// Describes messages in words, for traces and for errors that name both sides.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/wire/message.h"

namespace lockstep::wire {

// "all_reduce f32 sum, 10 elements in 1 tensor, retry", "sync_state, 40 bytes in 1 tensor, layout 0123456789abcdef,
// retry". Invariant: different descriptors have different descriptions.
std::string describe(const Descriptor& what);

// The size of a state: "120 bytes in 3 tensors".
std::string describe_size(const Descriptor& state);

// The error text for the callers of a round whose arguments differ between two members.
std::string arguments_differ(Tag tag, std::string_view a, const Descriptor& of_a, std::string_view b,
                             const Descriptor& of_b);

// The error text for the callers of a round whose arguments a member refused itself. `operation`: in its words.
std::string refused(std::string_view member, std::string_view operation, Tag tag, std::string_view why);

// The error text for the callers of a round that a member did not launch before the admission that ended its cohort.
std::string not_launched(std::string_view member, Tag tag);

// "all_reduce with tag 3 has waited 3.2 s", "admit has waited 3.2 s".
std::string has_waited(std::string_view call, std::optional<Tag> tag, Duration age);

// One line with every field: "Commit{key: c1 g0 t7 #0, attempt: 2, hash: 00000000deadbeef, admit_here: false,
// state_difference: ""}". Long lists are cut.
std::string describe(const Message& message);

}  // namespace lockstep::wire
