// S2, bits that flip. On the way: what has flipped is seen, costs a stream, and is sent again; nothing else comes of
// it, and nobody notes more breaches of the protocol than bits have flipped. In what a kernel made of a segment: the
// round commits nowhere; all who learn how it ends get `internal`, and a text that says where. What this promise does
// not cover, because nothing can tell: a kernel that is wrong before the checksum of its result is taken (all get the
// same, wrong, sum), and memory that goes bad after the end of a call, or in inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/trace/event.h"
#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/text.h"

namespace lockstep::sim {

class Flips {
 public:
  void on_the_way() { flips_ += 1; }
  void in_a_kernel(const RoundKey& round, PeerId of) { rounds_[round] = of; }
  // A retry of the round drops what a kernel has spoilt before, and what a job of the dropped attempt still spoils. A
  // caller that launches after the retry reports no retry itself: the event counts, not the outcome.
  void noted(const trace::Event& event) {
    if (event.kind == trace::Kind::kRoundRetried) retried_.insert(event.round);
  }

  // A machine takes something for a breach of the protocol. Whether a bit that has flipped may be what it saw. One bit
  // may cost all streams of a link at one moment.
  bool explains(PeerId who, const trace::Event& event, Instant now) {
    const auto same = std::tuple(now, who, event.peer);
    if (same == last_) return true;
    if (flips_ + miscomputed_ <= seen_) return false;
    last_ = same;
    seen_ += 1;
    return true;
  }
  // A result that a kernel spoilt is sent again and again, and seen each time, until the round is over.
  void may_be_seen(std::uint64_t times) { miscomputed_ += times; }

  // In any group: gangs bind groups to one outcome.
  [[nodiscard]] bool explains_internal(RoundKey round) const {
    return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& spoilt) {
      round.group = spoilt.first.group;
      return round == spoilt.first;
    });
  }

  // Somebody who had the right result, or a part of it that a kernel spoilt behind him, was lost before it could say
  // so: those that are left hold the same wrong one, or there is only one left.
  template <typename Lives, typename Done>
  [[nodiscard]] bool nobody_compares(const Call& call, const Lives& lives, const Done& done) const {
    const peer::Outcome& outcome = *call.outcome;
    const auto spoilt = rounds_.find(outcome.round);
    if (spoilt == rounds_.end() || outcome.status != Status::kOk || retried_.contains(outcome.round)) return false;
    return std::any_of(outcome.contributors->begin(), outcome.contributors->end(),
                       [&](PeerId peer) { return peer != spoilt->second && !lives(peer) && !done(peer); });
  }

  // `alone`: no other fault has begun that ends calls. `lives`: whether a peer is still in its run. One that is lost
  // takes what its kernel spoilt with it: the round commits if all others are done, whose results are right. And a
  // result is compared with those of others: where all of them are lost before `done` says that they had one, nothing
  // tells that it is wrong.
  template <typename Lives, typename Done>
  [[nodiscard]] Complaint ended(const Call& call, bool alone, const Lives& lives, const Done& done) const {
    const peer::Outcome& outcome = *call.outcome;
    if (call.kind != CallKind::kCollective) return {};
    const auto spoilt = rounds_.find(outcome.round);
    if (spoilt == rounds_.end()) return {};
    const std::string what = text_of(outcome.round) + " of " + text_of(call.peer) + " ended with " + text_of(outcome);
    if (outcome.status == Status::kOk && !retried_.contains(outcome.round) && lives(spoilt->second) &&
        !nobody_compares(call, lives, done)) {
      return what + ", and a bit had flipped in what a kernel made of a segment of it";
    }
    if (outcome.status == Status::kInternal) {
      const bool says_where = outcome.text.find("results differ in tag") != std::string::npos ||
                              outcome.text.find("tensor ") != std::string::npos;
      if (!says_where) return what + ", which does not say where";
      return {};
    }
    // The bit may have made an element infinite or NaN, which the next kernel cannot tell from such an input.
    const bool odd =
        outcome.status == Status::kInvalidArgument && outcome.text.find("is infinite or NaN") != std::string::npos;
    if (alone && outcome.status != Status::kOk && !odd)
      return what + ", and not with internal: a kernel was wrong, and nothing else";
    return {};
  }

 private:
  std::uint64_t flips_ = 0;
  std::uint64_t miscomputed_ = 0;
  std::uint64_t seen_ = 0;
  std::tuple<Instant, PeerId, PeerId> last_;
  std::map<RoundKey, PeerId> rounds_;  // and whose kernel it was
  std::set<RoundKey> retried_;
};

}  // namespace lockstep::sim
