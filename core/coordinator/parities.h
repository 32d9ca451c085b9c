// What the members of a round say of the states that they watch, each in 64 bits: whether all hold the same, and if not, who
// differs from whom. Those who watch nothing say nothing, and count for nothing.
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

class Parities {
 public:
  void add(PeerId peer, std::uint64_t parity) {
    if (parity != 0) said_[peer] = parity;
  }

  struct Difference {
    PeerId popular;        // the first who holds what most hold; where two are as popular, what the first of all holds
    PeerId other;          // the first who differs from it
    std::size_t same = 0;  // that hold what `popular` holds
    std::size_t watch = 0;
  };
  // `members`: of the round, in rank order. Nothing: those who watch agree.
  [[nodiscard]] std::optional<Difference> difference(const std::vector<wire::Member>& members) const;

  template <typename Archive>
  void state(Archive& a) {
    a.all(said_);
  }

 private:
  std::map<PeerId, std::uint64_t> said_;
};

// "the state of c differs from that of a (2 of 3 watch the same) in tag 7"
std::string describe(const Parities::Difference& difference, const std::vector<wire::Member>& members, Tag tag);

}  // namespace lockstep::coordinator
