#include "core/trace/event.h"

#include "core/base/assert.h"

namespace lockstep::trace {

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kPeerWaiting: return "peer-waiting";
    case Kind::kCallsOut: return "calls-out";
    case Kind::kPeerRefused: return "peer-refused";
    case Kind::kPeerLost: return "peer-lost";
    case Kind::kPeerLeaving: return "peer-leaving";
    case Kind::kProposed: return "proposed";
    case Kind::kInstalled: return "installed";
    case Kind::kCommitted: return "committed";
    case Kind::kRoundEnded: return "round-ended";
    case Kind::kLinkReported: return "link-reported";
    case Kind::kJoined: return "joined";
    case Kind::kViewChanged: return "view-changed";
    case Kind::kRoundRetried: return "round-retried";
    case Kind::kLinkLost: return "link-lost";
    case Kind::kLinkRestored: return "link-restored";
    case Kind::kUnanswered: return "unanswered";
    case Kind::kRunLost: return "run-lost";
    case Kind::kLeft: return "left";
    case Kind::kStateReplaced: return "state-replaced";
    case Kind::kStateRepaired: return "state-repaired";
    case Kind::kStateHeld: return "state-held";
    case Kind::kCallWaits: return "call-waits";
    case Kind::kProtocolError: return "protocol-error";
  }
  LOCKSTEP_UNREACHABLE();
}

std::string_view number_name_of(Kind kind) {
  switch (kind) {
    case Kind::kInstalled:
    case Kind::kJoined:
    case Kind::kViewChanged: return "members";
    case Kind::kCommitted: return "contributors";
    case Kind::kProposed: return "proposal";
    case Kind::kCallWaits: return "missing";
    case Kind::kStateReplaced:
    case Kind::kStateRepaired:
    case Kind::kStateHeld: return "revision";
    case Kind::kPeerWaiting:
    case Kind::kCallsOut:
    case Kind::kPeerRefused:
    case Kind::kPeerLost:
    case Kind::kPeerLeaving:
    case Kind::kRoundEnded:
    case Kind::kLinkReported:
    case Kind::kRoundRetried:
    case Kind::kLinkLost:
    case Kind::kLinkRestored:
    case Kind::kUnanswered:
    case Kind::kRunLost:
    case Kind::kLeft:
    case Kind::kProtocolError: return {};
  }
  LOCKSTEP_UNREACHABLE();
}

std::string to_line(const Event& event) {
  std::string line{name_of(event.kind)};
  const auto add = [&](std::string_view name, const std::string& value) {
    line.append(" ").append(name).append("=").append(value);
  };
  if (event.view.value != 0) add("view", std::to_string(event.view.value));
  if (!event.peer.is_nobody()) add("peer", short_name(event.peer));
  if (event.round.cohort.value != 0) {
    add("tag", std::to_string(event.round.tag.value));
    add("use", std::to_string(event.round.use));
    add("cohort", std::to_string(event.round.cohort.value));
    if (event.round.group.value != 0) add("group", std::to_string(event.round.group.value));
  }
  if (const std::string_view number = number_name_of(event.kind); !number.empty()) {
    add(number, std::to_string(event.number));
  }
  if (event.status != Status::kOk) add("status", "'" + std::string(status_name(event.status)) + "'");
  if (!event.text.empty()) line.append(": ").append(event.text);
  return line;
}

std::string short_name(PeerId id, std::string_view name) {
  if (!name.empty()) return std::string(name);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 60; shift >= 32; shift -= 4)
    digits.push_back(kDigits[(id.high >> static_cast<unsigned>(shift)) & 0xfU]);
  return digits;
}

}  // namespace lockstep::trace
