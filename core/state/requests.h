// What other peers have requested of this peer's state and not received yet (rule 3 of docs/protocol.md: a peer that
// repeats its requests makes no queue longer). Knows neither the state nor its receivers.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>

#include "core/base/ids.h"
#include "core/state/pieces.h"

namespace lockstep::state {

class Requests {
 public:
  // Digests from the piece `first` on. A new request replaces the previous one of the same peer.
  void ask_digests(PeerId from, std::uint32_t first) { digests_[from] = first; }
  // All requests for digests, by peer. They count as answered.
  [[nodiscard]] std::map<PeerId, std::uint32_t> take_digests();

  // Returns false if a piece is not one of the `count` pieces of the state.
  [[nodiscard]] bool ask_pieces(PeerId from, std::span<const std::uint32_t> pieces, std::uint32_t count);
  // The next piece to send to this peer; nothing if all requests of the peer are answered.
  [[nodiscard]] std::optional<PieceIndex> next_piece(PeerId to);
  [[nodiscard]] bool has_pieces() const { return !pieces_.empty(); }
  // The link to the peer was opened again: the peer repeats its requests.
  void relinked(PeerId peer) { pieces_.erase(peer); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(pieces_, digests_);
  }

 private:
  // Pieces in the order of the requests. Invariant: at most kMaxPiecesAsked of each peer.
  std::map<PeerId, std::deque<PieceIndex>> pieces_;
  std::map<PeerId, std::uint32_t> digests_;  // first piece of the last request of each peer
};

}  // namespace lockstep::state
