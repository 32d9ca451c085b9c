// The subject of a message, a call or a note. A moment follows, within its process, from the last one about the same
// subject.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/trace/event.h"
#include "core/wire/message.h"

namespace lockstep::sim {

using Subjects = std::vector<std::string>;

inline constexpr auto kMembershipSubject = "membership";

std::string subject_of(const RoundKey& round);
// A round, or "membership" for changes of the members; empty for signs of life and greetings between neighbours.
Subjects subjects_of(const wire::Message& message);
Subjects subjects_of(const trace::Event& event);

}  // namespace lockstep::sim
