#include "sim/checkers/l2_causes.h"

#include <algorithm>

#include "core/base/assert.h"

namespace lockstep::sim {

Complaint Causes::lost(PeerId peer, const std::vector<std::uint32_t>& hosts, Status status,
                       const std::string& text) const {
  if (status == Status::kProtocolError) return text_of(peer) + " lost the run by a breach of the protocol: " + text;
  const auto touches = [&](std::uint32_t host) {
    return host == 0 || std::find(hosts.begin(), hosts.end(), host) != hosts.end();
  };
  for (const Entry& entry : begun_) {
    const bool of_pair = entry.fault == Fault::kCut || entry.fault == Fault::kCutBoth || entry.fault == Fault::kReset ||
                         entry.fault == Fault::kSilence;
    const bool of_everybody = entry.fault == Fault::kReset && entry.a == entry.b;
    if (!may_lose_members(entry.fault)) continue;
    if (touches(entry.a) || of_everybody || (of_pair && touches(entry.b))) return {};
  }
  return text_of(peer) + " lost the run (" + text + "), and nothing had happened to it";
}

bool Causes::has_begun(Fault fault) const {
  return std::any_of(begun_.begin(), begun_.end(), [&](const Entry& entry) { return entry.fault == fault; });
}

// Whether something that has begun can be the cause of this outcome.
bool Causes::excuse(const Call& call, bool leaving) const {
  const auto any = [&](auto is_cause) {
    return std::any_of(begun_.begin(), begun_.end(), [&](const Entry& entry) { return is_cause(entry.fault); });
  };
  const auto is = [&](Fault fault) { return has_begun(fault); };
  switch (call.outcome->status) {
    case Status::kOk: return true;
    case Status::kMismatch:  // out of step with each other
      return is(Fault::kMismatch) || is(Fault::kSkip) || (call.request.state != nullptr && some_do_not_vote_);
    case Status::kAborted:  // also by who is lied to by all who have the state, or reaches none of them
      return is(Fault::kStop) || (call.request.state != nullptr && (is(Fault::kSpoil) || any(may_lose_members)));
    case Status::kTimedOut: return call.request.timeout.ns > 0 || is(Fault::kTimeout);
    case Status::kCohortClosed:  // also when others could not launch it: alone below a minimum, or without the root
      return leaving || waits_for_more_ || is(Fault::kSkip) || is(Fault::kMismatch) || any(may_lose_members);
    case Status::kBelowMinimum:
      return any(may_lose_members) || is(Fault::kMismatch) || call.request.minimum_world > founders_;
    case Status::kBufferTooSmall:  // one that is out of step brings a block of another size than was made room for
      return call.request.collective == peer::Collective::kAllGather && is(Fault::kSkip);
    case Status::kOutcomeUnknown: return leaving || any(may_lose_members);
    case Status::kStateUndefined:  // also when groups that are bound are out of step with each other
      return any(may_lose_members) || some_do_not_vote_ || is(Fault::kMismatch) || is(Fault::kSkip);
    case Status::kPeerLost:
    case Status::kWorldChanged:
    case Status::kEvicted:
    case Status::kNotConnected:
    case Status::kInvalidArgument:  // a broadcast whose root is lost
      return any(may_lose_members);
    case Status::kUnreachable:
    case Status::kRefused:
    case Status::kTooManyInFlight:
    case Status::kOutOfMemory:
    case Status::kProtocolError:
    case Status::kInternal: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

bool Causes::only_bits_flip() const {
  return !waits_for_more_ && std::all_of(begun_.begin(), begun_.end(), [](const Entry& entry) {
    return entry.fault == Fault::kFlip || entry.fault == Fault::kMiscompute;
  });
}

Complaint Causes::aborted(const Call& call, bool leaving, bool odd) const {
  if (call.kind != CallKind::kCollective || excuse(call, leaving)) return {};
  if (odd) return {};
  return text_of(call.request) + " of " + text_of(call.peer) + " ended with " + text_of(*call.outcome) +
         ", and nothing had happened that is a cause of it";
}

Complaint Causes::noted(PeerId who, const trace::Event& event) const {
  const bool breach = event.kind == trace::Kind::kProtocolError ||
                      (event.kind == trace::Kind::kPeerRefused && event.status == Status::kProtocolError);
  if (!breach) return {};
  if (has_begun(Fault::kStrangers) && event.peer.is_nobody()) return {};
  if (has_begun(Fault::kSpoil) && event.text.starts_with("a piece of the state")) return {};
  return (who.is_nobody() ? "the coordinator" : text_of(who)) +
         " sees a breach of the protocol: " + trace::to_line(event);
}

}  // namespace lockstep::sim
