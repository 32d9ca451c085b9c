// Keeps the Ready messages, offers and eager segments of neighbours for rounds that this peer has not begun (rule 10 of
// docs/protocol.md), until the round begins here or is over. Decides nothing about rounds.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/eager_receive_buffer.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class Announcements {
 public:
  // A Ready message that came before the attempt that it names began here, and the stripe and stream that it came on.
  struct EarlyReady {
    wire::Ready ready;
    StripeIndex stripe;
    StreamId stream;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(ready, stripe, stream);
    }
  };

  // Keeps the message. False: this neighbour has announced more rounds than can be in flight (rule 3).
  [[nodiscard]] bool keep(PeerId from, EarlyReady early);
  // The message of this neighbour about this attempt, if one was kept; then it is kept no longer.
  [[nodiscard]] std::optional<EarlyReady> take(PeerId from, const RoundKey& key, Generation attempt);
  // Offers, and segments that came with them.
  [[nodiscard]] EagerReceiveBuffer& eager() { return eager_; }

  // The round is over, or will never begin here.
  void forget(const RoundKey& key);
  // Nobody waits for these attempts any more: `stale(key, attempt)`.
  template <typename Stale>
  void forget_if(Stale stale) {
    for (auto& [peer, readies] : readies_) {
      std::erase_if(readies, [&](const auto& entry) { return stale(entry.first, entry.second.ready.attempt); });
    }
    eager_.drop_if([&](const RoundKey& key, Generation attempt, PeerId) { return stale(key, attempt); });
    drop_empty();
  }
  // Peers for which `is_neighbour(peer)` does not hold are neighbours no longer.
  template <typename IsNeighbour>
  void forget_others(IsNeighbour is_neighbour) {
    std::erase_if(readies_, [&](const auto& entry) { return !is_neighbour(entry.first); });
    eager_.drop_if([&](const RoundKey&, Generation, PeerId from) { return !is_neighbour(from); });
  }
  void clear();

  [[nodiscard]] std::size_t size() const;
  // Whether a neighbour has announced this round.
  [[nodiscard]] bool has(const RoundKey& key) const;
  // The rounds that neighbours have announced, and the attempts, in the order of keys.
  [[nodiscard]] std::vector<std::pair<RoundKey, Generation>> announced() const;
  // Entries of attempts for which `is(key, attempt)` holds, and of neighbours that have announced no others.
  template <typename Is>
  [[nodiscard]] std::size_t count_if(Is is) const {
    std::size_t count = eager_.count_if(is);
    for (const auto& [peer, readies] : readies_) {
      std::size_t matching = 0;
      for (const auto& [key, early] : readies) matching += is(key, early.ready.attempt) ? 1 : 0;
      count += matching + (matching == readies.size() ? 1 : 0);
    }
    return count;
  }
  [[nodiscard]] std::size_t free_slots() const { return eager_.free_slots(); }
  [[nodiscard]] std::size_t taken_slots() const { return eager_.taken_slots(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(readies_, eager_);
  }

 private:
  void drop_empty();

  // By neighbour. Invariant: no list is empty.
  std::map<PeerId, std::map<RoundKey, EarlyReady>> readies_;
  EagerReceiveBuffer eager_;
};

}  // namespace lockstep::peer
