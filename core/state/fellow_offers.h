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
  // This receiver has the whole state. True, once: the fellow has not been told so.
  [[nodiscard]] bool tell_whole(PeerId fellow) { return told_whole_.insert(fellow).second; }
  // The link to the fellow was opened again: messages may be lost, so everything is told again.
  void relinked(PeerId fellow) {
    told_.erase(fellow);
    told_whole_.erase(fellow);
  }

  // An offer of a fellow that is not used yet, because this peer does not know which pieces it misses.
  void keep(PeerId fellow, PieceIndex piece) { early_[fellow].insert(piece); }
  void keep_whole(PeerId fellow) { whole_.insert(fellow); }
  [[nodiscard]] bool has_kept(PeerId fellow) const { return early_.contains(fellow) || whole_.contains(fellow); }
  [[nodiscard]] std::map<PeerId, std::set<PieceIndex>> take() { return std::exchange(early_, {}); }
  // Fellows that have said before the fetch began that they have the whole state.
  [[nodiscard]] std::set<PeerId> take_whole() { return std::exchange(whole_, {}); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(told_, told_whole_, early_, whole_);
  }

 private:
  std::map<PeerId, std::size_t> told_;  // number of pieces that each fellow has been told of
  std::set<PeerId> told_whole_;
  std::map<PeerId, std::set<PieceIndex>> early_;  // offers before the fetch began
  std::set<PeerId> whole_;
};

}  // namespace lockstep::state
