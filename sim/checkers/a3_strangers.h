// A3, a stranger changes nothing: all that it is ever told is a refusal (rules 20, 63 and 65 of docs/protocol.md).
// Judges by what strangers hear; A1 and A2 judge what a welcome means, and S6 and L2 that no view and no round changes.
#pragma once

#include <variant>

#include "core/wire/message.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

inline Complaint check_told_to_stranger(const wire::Message& message) {
  if (std::holds_alternative<wire::Refused>(message)) return {};
  if (std::holds_alternative<wire::StatusReply>(message)) return "a stranger is told the status of the run";
  return "a stranger is told more than that it is refused";
}

}  // namespace lockstep::sim
