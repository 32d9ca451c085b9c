// Events for people and checkers. Machines emit events at notable points, never per segment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/status.h"

namespace lockstep::trace {

enum class Kind : std::uint8_t {
  // on the coordinator
  kPeerWaiting,   // peer: has asked to join
  kCallsOut,      // peer: nobody can dial it (rule 70)
  kPeerRefused,   // text: address and reason
  kPeerLost,      // peer, text: reason
  kPeerLeaving,   // peer
  kProposed,      // view, number: the proposal
  kInstalled,     // view, number: members
  kCommitted,     // round, number: contributors, text: as Commit.state_difference
  kRoundEnded,    // round, status, text: a verdict other than commit
  kLinkReported,  // peer, text: a broken pair
  // on a peer
  kJoined,         // view
  kViewChanged,    // view, number: members
  kRoundRetried,   // round, view
  kLinkLost,       // peer, text
  kLinkRestored,   // peer
  kStateReplaced,  // round, number: revision, text: a sync put an older state, or one of another lineage, in its place
  kStateRepaired,  // round, number: revision, text: a sync overwrote states that had strayed (rule 55)
  kUnanswered,     // text: the coordinator does not answer yet
  kRunLost,        // status, text: this peer is no longer part of the run
  kLeft,           // this peer left the run as requested
  // on both
  kProtocolError,  // peer (if known), text
  kCallWaits,      // round (a collective), peer (a transfer), number: members that are missing, text
  kStateHeld,      // a newcomer holds a published state; text: its tag; on the newcomer: number: revision
};

struct Event {
  Kind kind = {};
  ViewNumber view;
  PeerId peer;
  RoundKey round;
  Status status = Status::kOk;
  std::uint64_t number = 0;
  std::string text;
};

std::string_view name_of(Kind kind);

// What Event::number counts for this kind, for example "members"; empty if the kind has no number.
std::string_view number_name_of(Kind kind);

// One line for people and transcripts: "view-changed view=3 members=4".
std::string to_line(const Event& event);

// "b" when `name` is not empty, else the first eight hexadecimal digits of the id.
std::string short_name(PeerId id, std::string_view name = {});

}  // namespace lockstep::trace
