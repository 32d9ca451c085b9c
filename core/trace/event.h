// What happened, as data: said by the machines where a person or a checker would want to know, never per segment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/status.h"

namespace lockstep::trace {

enum class Kind : std::uint8_t {
  // on the coordinator
  kPeerWaiting,   // peer: asks to join
  kPeerRefused,   // text: who and why (address, reason)
  kPeerLost,      // peer, text: why
  kPeerLeaving,   // peer
  kProposed,      // view, number: the proposal
  kInstalled,     // view, number: members
  kCommitted,     // round, number: contributors, text: how the states differ that members watch
  kRoundEnded,    // round, status, text: a verdict other than commit
  kLinkReported,  // peer, text: a broken pair
  // on a peer
  kJoined,        // view
  kViewChanged,   // view, number: members
  kRoundRetried,  // round, view
  kLinkLost,      // peer, text
  kLinkRestored,  // peer
  kUnanswered,    // text: the coordinator is not there yet
  kRunLost,       // status, text: this peer is out
  kLeft,          // this peer is out, as it has asked to be
  // on both
  kProtocolError,  // peer (if known), text
};

struct Event {
  Kind kind;
  ViewNumber view;
  PeerId peer;
  RoundKey round;
  Status status = Status::kOk;
  std::uint64_t number = 0;
  std::string text;
};

std::string_view name_of(Kind kind);

// What Event::number counts for this kind: "members"; empty when it means nothing.
std::string_view number_name_of(Kind kind);

// One line for people and for transcripts: "view-changed view=3 members=4".
std::string to_line(const Event& event);

// "b" when `name` is not empty, else the first eight hexadecimal digits of the id.
std::string short_name(PeerId id, std::string_view name = {});

}  // namespace lockstep::trace
