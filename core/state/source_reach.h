// Whether one receiver has been without a link to any source for too long (rule 38 of docs/protocol.md: with no source
// left, the attempt ends).
#pragma once

#include <optional>

#include "core/base/time.h"

namespace lockstep::state {

class SourceReach {
 public:
  // `reach`: the time to wait for a link to any source.
  explicit SourceReach(Duration reach) : reach_(reach) {}

  void linked() { alone_since_.reset(); }
  void alone(Instant now) {
    if (!alone_since_ && !cut_off_) alone_since_ = now;
  }
  // No source has been linked for `reach`.
  [[nodiscard]] bool is_cut_off() const { return cut_off_; }

  [[nodiscard]] Instant deadline() const { return alone_since_ ? *alone_since_ + reach_ : kNever; }
  void on_timer(Instant now) {
    if (now < deadline()) return;
    alone_since_.reset();
    cut_off_ = true;
  }

  // Left out: reach_, an argument of the constructor.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(alone_since_, cut_off_);
  }

 private:
  Duration reach_;
  std::optional<Instant> alone_since_;  // since when no source is linked and no piece has arrived
  bool cut_off_ = false;                // Invariant: a receiver that is cut off has no deadline here
};

}  // namespace lockstep::state
