// The judgement of `lockstep doctor` on a coordinator and on the way to it. Pure: the same facts give the same
// findings.
#pragma once

#include <cstdint>
#include <string_view>

#include "bindings/cli/doctor/coordinator_facts.h"
#include "bindings/cli/doctor/finding.h"

namespace lockstep::cli::doctor {

// The verdict on one address.
enum class Outcome : std::uint8_t {
  kAnswers,           // a coordinator, which answers
  kRefusesProof,      // the coordinator that was asked for; it does not accept the token or the certificate
  kOtherKey,          // a coordinator with another key than that of the token, or with another authority
  kFailsTls,          // a coordinator; the TLS handshake fails
  kNeedsToken,        // a coordinator that speaks TLS was asked in plain
  kPlainCoordinator,  // a coordinator without TLS was asked by TLS
  kNeedsInsecure,     // a coordinator without TLS on another machine; a peer dials it only with `insecure`
  kOtherVersion,      // a coordinator of another version of the protocol
  kOtherService,      // another program
  kHangsUp,           // accepts the connection and closes it
  kSilent,            // accepts the connection and says nothing
  kNothingListens,    // refuses the connection
  kNoAnswer,          // does not answer the connection: dropped packets
  kNoRoute,           // this machine has no route
  kCannotConnect,     // another failure of the connection
};

Outcome outcome_of(const AddressFacts& address, Way way);
// A stable word, such as "other_service".
std::string_view name_of(Outcome outcome);

// One finding for each name, and for each address.
Findings check_names(const CoordinatorFacts& facts);
Findings check_dials(const CoordinatorFacts& facts);
// None without a run token, or if nothing is known about it.
Findings check_token(const CoordinatorFacts& facts);
// None unless a coordinator answers.
Findings check_protection(const CoordinatorFacts& facts);
Findings check_round_trip(const CoordinatorFacts& facts);
Findings check_run(const CoordinatorFacts& facts);

// All of them, in the order in which they are shown.
Findings check_coordinator(const CoordinatorFacts& facts);

}  // namespace lockstep::cli::doctor
