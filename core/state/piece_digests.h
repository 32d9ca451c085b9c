// The message that answers a question for digests of a state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/assert.h"
#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::state {

// Digests from the piece `first` on, as many as one message holds. `count`: pieces of the state. `digest_of(piece)`.
// `values`: of the state; they go with the first piece.
template <typename DigestOf>
[[nodiscard]] wire::PieceDigests digests_from(const RoundKey& key, AttemptId attempt, std::uint32_t first,
                                              std::uint32_t count, DigestOf digest_of,
                                              const std::vector<std::uint64_t>& values) {
  LOCKSTEP_ASSERT(first <= count);
  wire::PieceDigests answer{key, attempt, first, {}, {}};
  const std::uint32_t end = std::min(count, first + kMaxDigestsPerMessage);
  for (std::uint32_t piece = first; piece < end; ++piece) answer.digests.push_back(digest_of(piece));
  if (first == 0) answer.values = values;
  return answer;
}

}  // namespace lockstep::state
