// What a message, a call or a note is about. A moment follows, within its process, from the last one about the same subject.
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
// Rounds, and "membership" for all that changes who is in; empty: a sign of life, a greeting between neighbours.
Subjects subjects_of(const wire::Message& message);
Subjects subjects_of(const trace::Event& event);

}  // namespace lockstep::sim
