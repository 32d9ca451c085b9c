// L4: no call ends before its time. A call ends with `timed out` only after the time-out of its caller, or of a caller
// that the text names. It ends with `aborted` only if its caller, or a caller that the text names, has asked for that.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// A call of another peer that may have ended a call, and the name of that peer.
struct Counterpart {
  std::string name;
  const Call* call = nullptr;
};

inline bool is_transfer(const Call& call) { return call.kind == CallKind::kSend || call.kind == CallKind::kReceive; }

inline Duration time_out_of(const Call& call) {
  return is_transfer(call) ? call.transfer.timeout : call.request.timeout;
}

inline bool has_passed(const Call& call, Instant now) {
  const Duration limit = time_out_of(call);
  return limit.ns > 0 && now >= call.made + limit;
}

// "NAME timed out after 3 s", "aborted by NAME: why".
inline bool is_named(std::string_view text, Status status, const std::string& name) {
  if (status == Status::kAborted) return text.find("aborted by " + name + ": ") != std::string_view::npos;
  const std::size_t at = text.find(name + " timed out after ");
  return at != std::string_view::npos && (at == 0 || text[at - 1] == ' ');
}

// Whether the other call is of the same collective, or the other side of the same transfer, as far as both can tell: a
// call that ended before it had a round is known by its tag alone.
inline bool may_end(const Call& other, const Call& call) {
  if (is_transfer(call)) return is_transfer(other) && other.transfer.tag == call.transfer.tag;
  if (call.kind != CallKind::kCollective || other.kind != call.kind) return false;
  return other.request.tag == call.request.tag;
}

// `others`: calls of other peers for which may_end() holds.
inline Complaint check_cause_of_end(const Call& call, const std::vector<Counterpart>& others) {
  const peer::Outcome& outcome = *call.outcome;
  const bool timed_out = outcome.status == Status::kTimedOut;
  if (!timed_out && outcome.status != Status::kAborted) return {};
  const auto has_asked = [&](const Call& one) { return timed_out ? has_passed(one, call.ended) : one.stopped; };
  if (has_asked(call)) return {};
  const bool other_has_asked = std::ranges::any_of(others, [&](const Counterpart& other) {
    const bool ended_otherwise =
        other.call->outcome && other.call->outcome->status != outcome.status && !is_out(other.call->outcome->status);
    return !ended_otherwise && has_asked(*other.call) && is_named(outcome.text, outcome.status, other.name);
  });
  if (other_has_asked) return {};
  std::string what = text_of(call.peer) + "'s " + text_of(call) + " ended with " + text_of(outcome) + " after " +
                     std::to_string((call.ended - call.made).ns / 1'000) + " us; ";
  if (!timed_out) return what + "neither its caller nor a peer that the text names has aborted it";
  what += time_out_of(call).ns == 0 ? std::string("it has no time-out")
                                    : "its own time-out is " + std::to_string(time_out_of(call).ns / 1'000) + " us";
  return what + ", and no time-out of a peer that the text names has passed";
}

}  // namespace lockstep::sim
