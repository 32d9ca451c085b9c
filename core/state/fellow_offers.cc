#include "core/state/fellow_offers.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/wire/limits.h"

namespace lockstep::state {

std::vector<std::vector<std::uint32_t>> FellowOffers::tell(PeerId fellow, const std::vector<PieceIndex>& here) {
  std::vector<std::vector<std::uint32_t>> messages;
  std::size_t& told = told_[fellow];
  LOCKSTEP_ASSERT(told <= here.size());
  while (told < here.size()) {
    const std::size_t end = std::min<std::size_t>(here.size(), told + kMaxPiecesAsked);
    std::vector<std::uint32_t>& pieces = messages.emplace_back();
    for (; told < end; ++told) pieces.push_back(here[told].value);
  }
  return messages;
}

}  // namespace lockstep::state
