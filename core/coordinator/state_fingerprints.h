// Fingerprints, of 64 bits, of the states that the members of a round watch: whether they are equal, and if not, which
// members differ. A member that watches no state does not count (rule 40 of docs/protocol.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class StateFingerprints {
 public:
  void add(PeerId peer, std::uint64_t fingerprint) {
    if (fingerprint != 0) by_peer_[peer] = fingerprint;
  }

  struct Difference {
    PeerId popular;         // first member in rank order with the most frequent fingerprint
    PeerId other;           // first member in rank order with another fingerprint
    std::size_t same = 0;   // number of members with the fingerprint of `popular`
    std::size_t watch = 0;  // number of members that watch a state
  };
  // `members`: of the round, in rank order; of equally frequent fingerprints the first one counts as the most frequent.
  // Nothing: all fingerprints are equal.
  [[nodiscard]] std::optional<Difference> difference(const std::vector<wire::Member>& members) const;

  template <typename Archive>
  void archive(Archive& a) {
    a.all(by_peer_);
  }

 private:
  std::map<PeerId, std::uint64_t> by_peer_;
};

// "the state of c differs from that of a (2 of 3 watch the same) in tag 7"
std::string describe(const StateFingerprints::Difference& difference, const std::vector<wire::Member>& members,
                     Tag tag);

}  // namespace lockstep::coordinator
