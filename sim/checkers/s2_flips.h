// S2, flipped bits. A bit that flips on the way is detected: it costs a stream, and the bytes are sent again. It has no
// other effect, and peers note at most one breach of the protocol for each flipped bit. If a bit flips in the output of
// a kernel, or in an input that the peer has hashed, the round commits nowhere. All peers that learn its outcome get a
// text with the place: with `invalid argument` from the peer whose own memory changed in a segment that it sends, else
// with `internal`. The promise leaves out what cannot be detected: a kernel that errs before the checksum of its result
// is computed (all peers get the same wrong sum); a bit that a kernel flips and that flips back on the way (only the
// sender has the wrong bytes, and nobody else sees them); and errors in memory after the end of a call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/trace/event.h"
#include "sim/checkers/complaint.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class Flips {
 public:
  // In bytes that leave `from`, a host.
  void on_the_way(std::uint32_t from) {
    flips_ += 1;
    flips_from_[from] += 1;
  }
  // `host`: that of the peer. `attempt`: the attempt of the round for which the kernel was started. `departs`: in a
  // segment that the peer sends.
  void in_a_kernel(const RoundKey& round, PeerId of, std::uint32_t host, ViewNumber attempt, bool departs = false) {
    const Spoilt spoilt{of, host, flips_from_[host], attempt, departs};
    const auto [at, is_first] = rounds_.try_emplace(round, spoilt);
    if (is_first) return;
    const bool all_depart = departs && at->second.departs;
    if (at->second.attempt <= attempt) at->second = spoilt;
    at->second.departs = all_depart;
  }
  // A retry of the round drops what a kernel has spoilt before, and what a job of the dropped attempt still spoils. A
  // caller that launches after the retry reports no retry itself: the event counts, not the outcome.
  void noted(PeerId by, const trace::Event& event, Instant now) {
    if (event.kind != trace::Kind::kRoundRetried) return;
    ViewNumber& newest = newest_[event.round];
    newest = std::max(newest, event.view);
    retries_[{by, event.round}] = {event.view, now};
  }
  // The attempt for which a kernel of this peer was started. `launched`: the view in which the peer launched the round,
  // or the first view of its cohort. All attempts before the last retry count as the first attempt.
  [[nodiscard]] ViewNumber attempt_of(PeerId of, const RoundKey& round, ViewNumber launched, Instant started) const {
    const auto at = retries_.find({of, round});
    return at != retries_.end() && started >= at->second.at ? std::max(launched, at->second.view) : launched;
  }

  // A machine reports a breach of the protocol. Returns whether a flipped bit can explain the report. One bit may cost
  // all streams of a link at one moment.
  bool explains(PeerId who, const trace::Event& event, Instant now) {
    const auto same = std::tuple(now, who, event.peer);
    if (same == last_) return true;
    if (flips_ + miscomputed_ <= seen_) return false;
    last_ = same;
    seen_ += 1;
    return true;
  }
  // The sender repeats a segment that a kernel spoilt. The receiver refuses each copy, and gives the segment up in the
  // end.
  void may_be_seen(std::uint64_t times) { miscomputed_ += times; }

  // The outcome of a round whose bits flipped, `internal` or `invalid argument`. In any group: gangs give connected
  // groups one outcome. `moves`: calls move to the next cohort (rule 21), and a stop that was asked for goes with them.
  [[nodiscard]] bool explains_end(RoundKey round, bool moves) const {
    return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& spoilt) {
      const RoundKey& then = spoilt.first;
      round.group = then.group;
      return round == then || (moves && round.tag == then.tag && then.cohort < round.cohort);
    });
  }

  // A peer with the right result, or with the correct form of a part that a kernel spoilt later, was lost before it
  // could report: the remaining peers hold the same wrong result, or only one peer is left. A world of 1 compares with
  // nobody. Nor does the sender of a spoilt part, if the bit may have flipped back on the way: the others hold the
  // right result.
  template <typename Lives, typename Done>
  [[nodiscard]] bool nobody_compares(const Call& call, const Lives& lives, const Done& done) const {
    const peer::Outcome& outcome = *call.outcome;
    const auto spoilt = rounds_.find(outcome.round);
    if (spoilt == rounds_.end() || outcome.status != Status::kOk || is_dropped(outcome.round)) return false;
    if (outcome.contributors->size() == 1) return true;
    if (call.peer == spoilt->second.of && may_be_undone(spoilt->second)) return true;
    return std::any_of(outcome.contributors->begin(), outcome.contributors->end(),
                       [&](PeerId peer) { return peer != spoilt->second.of && !lives(peer) && !done(peer); });
  }

  // `alone`: no other fault that ends calls has begun. `lives`: whether a peer is still in its run. A wrong result
  // disappears with a lost peer: the round commits if all other peers, whose results are right, are done. And results
  // are only compared with each other: if all peers with the right result are lost before their Done arrives, the error
  // is not detected.
  template <typename Lives, typename Done>
  [[nodiscard]] Complaint ended(const Call& call, bool alone, const Lives& lives, const Done& done) const {
    const peer::Outcome& outcome = *call.outcome;
    if (call.kind != CallKind::kCollective) return {};
    const auto spoilt = rounds_.find(outcome.round);
    if (spoilt == rounds_.end()) return {};
    const std::string what = text_of(outcome.round) + " of " + text_of(call.peer) + " ended with " + text_of(outcome);
    // A bit that flips on the way may be the one that a kernel flipped: the bytes of the result tell.
    if (outcome.status == Status::kOk && flips_ == 0 && !is_dropped(outcome.round) && lives(spoilt->second.of) &&
        !nobody_compares(call, lives, done)) {
      return what + ", and a bit had flipped in what a kernel made of a segment of it";
    }
    if (outcome.status == Status::kInternal) {
      const bool says_where = outcome.text.find("results differ in tag") != std::string::npos ||
                              outcome.text.find("tensor ") != std::string::npos;
      if (!says_where) return what + ", which does not say where";
      if (alone && flips_ == 0 && spoilt->second.departs)
        return what + ", although the sender could tell that its own memory had changed";
      return {};
    }
    // The bit may have made an element infinite or NaN, which the next kernel cannot tell from such an input; or a peer
    // gave the round an invalid weight, and the coordinator heard of the weight first.
    const bool is_refused =
        outcome.status == Status::kInvalidArgument &&
        (outcome.text.find("is infinite or NaN") != std::string::npos ||
         outcome.text.find("a weight is a finite number") != std::string::npos || tells_change(outcome.text));
    // With bits that flipped on the way as well, the neighbour may have reported the link before it gave the segment
    // up.
    const bool is_evicted = flips_ > 0 && outcome.text.find("a segment whose checksum is wrong") != std::string::npos;
    if (alone && outcome.status != Status::kOk && !is_refused && !is_evicted)
      return what + ", and not with internal, although only a kernel was wrong";
    return {};
  }

  // The text of a peer whose own buffer has changed (rule 35).
  [[nodiscard]] static bool tells_change(const std::string& text) {
    return text.find("changed during the call") != std::string::npos;
  }

 private:
  struct Spoilt {
    PeerId of;  // the peer of the kernel
    std::uint32_t host;
    std::uint64_t flips;  // on the way from this host, before
    ViewNumber attempt;
    bool departs = false;  // each time in a segment that a peer sends
  };
  struct Retry {
    ViewNumber view;
    Instant at;
  };
  [[nodiscard]] bool may_be_undone(const Spoilt& spoilt) const {
    const auto flips = flips_from_.find(spoilt.host);
    return spoilt.departs && flips != flips_from_.end() && flips->second > spoilt.flips;
  }
  // Whether a later attempt took the place of the one that a kernel spoilt.
  [[nodiscard]] bool is_dropped(const RoundKey& round) const {
    const auto newest = newest_.find(round);
    return newest != newest_.end() && newest->second > rounds_.at(round).attempt;
  }

  std::uint64_t flips_ = 0;
  std::map<std::uint32_t, std::uint64_t> flips_from_;  // by host
  std::uint64_t miscomputed_ = 0;
  std::uint64_t seen_ = 0;
  std::tuple<Instant, PeerId, PeerId> last_;
  std::map<RoundKey, Spoilt> rounds_;                     // the last that a kernel spoilt in each
  std::map<RoundKey, ViewNumber> newest_;                 // attempt that anybody retried
  std::map<std::pair<PeerId, RoundKey>, Retry> retries_;  // the last of each peer
};

}  // namespace lockstep::sim
