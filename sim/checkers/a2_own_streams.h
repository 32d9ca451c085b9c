// A2, links between members only: a peer says nothing on a stream that it has dialled to a member and that proves
// another key, and gives such a stream no place in a link (rule 65 of docs/protocol.md). Judges by what an impostor is
// told.
#pragma once

#include <variant>

#include "core/wire/message.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

// `answers`: the impostor answers at the address of a member. Otherwise it has dialled, and named a member.
inline Complaint check_told_to_impostor(const wire::Message& message, bool answers) {
  if (std::holds_alternative<wire::Refused>(message)) return {};
  // Whoever asks for a peer hears whether it is there (rule 70), and no more.
  const auto* const link = std::get_if<wire::Link>(&message);
  if (link != nullptr && link->use == wire::LinkUse::kDialBack && link->key == LinkKey{}) return {};
  if (answers) return "a peer greets whoever answers at a member's address: the impostor hears the key of the run";
  if (std::holds_alternative<wire::LinkWelcome>(message)) return "an impostor is welcome to a link";
  return "a neighbour talks to an impostor";
}

}  // namespace lockstep::sim
