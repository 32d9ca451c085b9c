#include "core/state/requests.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/wire/limits.h"

namespace lockstep::state {

std::map<PeerId, std::uint32_t> Requests::take_digests() { return std::exchange(digests_, {}); }

bool Requests::ask_pieces(PeerId from, std::span<const std::uint32_t> pieces, std::uint32_t count) {
  std::deque<PieceIndex>& asked = pieces_[from];
  for (const std::uint32_t number : pieces) {
    if (number >= count) return false;
    const PieceIndex piece{number};
    const bool queued = std::find(asked.begin(), asked.end(), piece) != asked.end();  // a repeated request: we are slow
    if (queued) continue;
    // the requester has given up the oldest request: it never has more requests under way
    if (asked.size() == kMaxPiecesAsked) asked.pop_front();
    asked.push_back(piece);
  }
  LOCKSTEP_ASSERT(asked.size() <= kMaxPiecesAsked);
  return true;
}

std::optional<PieceIndex> Requests::next_piece(PeerId to) {
  const auto asked = pieces_.find(to);
  if (asked == pieces_.end()) return std::nullopt;
  if (asked->second.empty()) {
    pieces_.erase(asked);
    return std::nullopt;
  }
  const PieceIndex piece = asked->second.front();
  asked->second.pop_front();
  return piece;
}

}  // namespace lockstep::state
