// Which sources one receiver still asks in an attempt (rule 38 of docs/protocol.md): a source that sends wrong data is
// not asked again. A few wrong pieces are forgiven, because bits flip on the way.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "core/base/ids.h"

namespace lockstep::state {

class SourceTrust {
 public:
  void distrust(PeerId source) { liars_.insert(source); }
  // Counts a wrong piece of this source. Returns true if it is one too many.
  [[nodiscard]] bool is_one_too_many(PeerId source) { return ++wrong_pieces_[source] == kMostWrongPieces; }
  [[nodiscard]] bool trusts(PeerId source) const { return !liars_.contains(source); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(liars_, wrong_pieces_);
  }

 private:
  // More than bit flips on the way explain, and few enough that a source with wrong data costs little.
  static constexpr std::uint32_t kMostWrongPieces = 3;

  std::set<PeerId> liars_;
  std::map<PeerId, std::uint32_t> wrong_pieces_;  // number of wrong pieces of each source
};

}  // namespace lockstep::state
