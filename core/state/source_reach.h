// Whether one receiver has gone without a source for too long (rule 38 of docs/protocol.md: with no source left, the
// attempt ends). A link that comes up and breaks again and again is no source: its line may drip (rule 51).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace lockstep::state {

class SourceReach {
 public:
  // `reach`: the time to wait for a source. `patience`: a silent or nearly dead stream ends within twice this time
  // (rules 24 and 51).
  SourceReach(Duration reach, Duration patience) : reach_(reach), proof_(std::min(patience * 2, reach)) {}

  // Digests or a piece of the elected state have come, or nothing is missing.
  void delivered() {
    alone_since_.reset();
    steady_since_.clear();
  }
  // A stream to this source is gone.
  void lost(PeerId source) { lost_.insert(source); }
  // `linked`: the sources that can be asked now.
  void watch(const std::vector<PeerId>& linked, Instant now) {
    const bool broke = !lost_.empty();
    std::erase_if(steady_since_, [&](const auto& entry) {
      return lost_.contains(entry.first) || std::find(linked.begin(), linked.end(), entry.first) == linked.end();
    });
    lost_.clear();
    if (cut_off_) return;
    if ((broke || linked.empty()) && !alone_since_) alone_since_ = now;
    if (!alone_since_) return;
    if (broke && steady_since_.empty() && now >= *alone_since_ + reach_) return cut_off();
    for (const PeerId source : linked) steady_since_.try_emplace(source, now);
  }
  // No source has been reached for `reach`.
  [[nodiscard]] bool is_cut_off() const { return cut_off_; }

  [[nodiscard]] Instant deadline() const {
    if (!alone_since_) return kNever;
    if (steady_since_.empty()) return *alone_since_ + reach_;
    Instant first = kNever;
    for (const auto& [source, since] : steady_since_) first = std::min(first, since + proof_);
    return first;
  }
  void on_timer(Instant now) {
    if (now < deadline()) return;
    if (steady_since_.empty()) return cut_off();
    delivered();
  }

  // Left out: reach_ and proof_, arguments of the constructor.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(alone_since_, steady_since_, lost_, cut_off_);
  }

 private:
  void cut_off() {
    delivered();
    cut_off_ = true;
  }

  Duration reach_;
  Duration proof_;                          // a source whose streams last so long is reached
  std::optional<Instant> alone_since_;      // since when no source is reached and nothing has come
  std::map<PeerId, Instant> steady_since_;  // linked sources: since when no stream was lost. Empty unless alone
  std::set<PeerId> lost_;                   // sources that have lost a stream since the last watch()
  bool cut_off_ = false;                    // Invariant: a receiver that is cut off has no deadline here
};

}  // namespace lockstep::state
