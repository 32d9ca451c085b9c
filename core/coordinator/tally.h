// How many entries of a list each peer has a part in.
#pragma once

#include <cstddef>
#include <map>

#include "core/base/ids.h"

namespace lockstep::coordinator {

class Tally {
 public:
  void add(PeerId peer) { ++counts_[peer]; }
  void remove(PeerId peer) {
    const auto at = counts_.find(peer);
    if (--at->second == 0) counts_.erase(at);
  }
  [[nodiscard]] std::size_t of(PeerId peer) const {
    const auto at = counts_.find(peer);
    return at == counts_.end() ? 0 : at->second;
  }
  [[nodiscard]] std::size_t peers() const { return counts_.size(); }
  template <typename Archive>
  void archive(Archive& a) {
    a.all(counts_);
  }

 private:
  std::map<PeerId, std::size_t> counts_;
};

}  // namespace lockstep::coordinator
