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
  // `attempt`: of the round, for which the kernel was started.
  void in_a_kernel(const RoundKey& round, PeerId of, ViewNumber attempt) {
    const auto [at, is_first] = rounds_.try_emplace(round, Spoilt{of, attempt});
    if (!is_first && at->second.attempt <= attempt) at->second = {of, attempt};
  }
  // A retry of the round drops what a kernel has spoilt before, and what a job of the dropped attempt still spoils. A
  // caller that launches after the retry reports no retry itself: the event counts, not the outcome.
  void noted(PeerId by, const trace::Event& event, Instant now) {
    if (event.kind != trace::Kind::kRoundRetried) return;
    ViewNumber& newest = newest_[event.round];
    newest = std::max(newest, event.view);
    retries_[{by, event.round}] = {event.view, now};
  }
  // The attempt that a kernel of this peer, started then, works for. `launched`: the view in which it launched the
  // round, or the first of its cohort. Kernels of attempts before the last retry are all taken for those of the first.
  [[nodiscard]] ViewNumber attempt_of(PeerId of, const RoundKey& round, ViewNumber launched, Instant started) const {
    const auto at = retries_.find({of, round});
    return at != retries_.end() && started >= at->second.at ? std::max(launched, at->second.view) : launched;
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
  // What a kernel spoilt is sent again, and refused each time, until the receiver gives it up.
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
    if (spoilt == rounds_.end() || outcome.status != Status::kOk || is_dropped(outcome.round)) return false;
    return std::any_of(outcome.contributors->begin(), outcome.contributors->end(),
                       [&](PeerId peer) { return peer != spoilt->second.of && !lives(peer) && !done(peer); });
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
    // A bit that flips on the way may be the one that a kernel flipped: only the bytes of the result can tell.
    if (outcome.status == Status::kOk && flips_ == 0 && !is_dropped(outcome.round) && lives(spoilt->second.of) &&
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
  struct Spoilt {
    PeerId of;  // whose kernel it was
    ViewNumber attempt;
  };
  struct Retry {
    ViewNumber view;
    Instant at;
  };
  // Whether a later attempt took the place of the one that a kernel spoilt.
  [[nodiscard]] bool is_dropped(const RoundKey& round) const {
    const auto newest = newest_.find(round);
    return newest != newest_.end() && newest->second > rounds_.at(round).attempt;
  }

  std::uint64_t flips_ = 0;
  std::uint64_t miscomputed_ = 0;
  std::uint64_t seen_ = 0;
  std::tuple<Instant, PeerId, PeerId> last_;
  std::map<RoundKey, Spoilt> rounds_;                     // the last that a kernel spoilt in each
  std::map<RoundKey, ViewNumber> newest_;                 // attempt that anybody retried
  std::map<std::pair<PeerId, RoundKey>, Retry> retries_;  // the last of each peer
};

}  // namespace lockstep::sim
