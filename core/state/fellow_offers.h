// What receivers of the same state tell each other, so that a receiver can fetch a piece from a fellow receiver (rule
// 38 of docs/protocol.md). Knows neither links nor contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/state/pieces.h"

namespace lockstep::state {

class FellowOffers {
 public:
  // The pieces that `fellow` has not been told of, in messages of at most kMaxPiecesAsked. `here`: the pieces that
  // were fetched, in the order of their arrival; the list only grows. The pieces count as told.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> tell(PeerId fellow, const std::vector<PieceIndex>& here);
  // The link to the fellow was opened again: messages may be lost, so everything is told again.
  void relinked(PeerId fellow) { told_.erase(fellow); }

  // An offer of a fellow that is not used yet, because this peer does not know which pieces it misses.
  void keep(PeerId fellow, PieceIndex piece) { early_[fellow].insert(piece); }
  [[nodiscard]] bool has_kept(PeerId fellow) const { return early_.contains(fellow); }
  [[nodiscard]] std::map<PeerId, std::set<PieceIndex>> take() { return std::exchange(early_, {}); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(told_, early_);
  }

 private:
  std::map<PeerId, std::size_t> told_;            // number of pieces that each fellow has been told of
  std::map<PeerId, std::set<PieceIndex>> early_;  // offers before the fetch began
};

}  // namespace lockstep::state
