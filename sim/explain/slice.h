// The causal slice: the earlier moments that led to a given moment. Walks from effects to causes, the strongest causes
// first, until nothing is left, the rest is too far away, or the slice is long enough.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/explain/history.h"

namespace lockstep::sim {

inline constexpr std::size_t kSliceMoments = 60;
inline constexpr int kSliceRadius = 8;  // a view and the messages that made it; a round, and the end of the one before

// In the order in which they happened; `of` is the last one.
std::vector<MomentId> causal_slice(const History& history, MomentId of, std::size_t most = kSliceMoments);

// The distance of a step from effect to cause; the slice holds the moments with the smallest distance from the start.
int distance_of(Because because);

}  // namespace lockstep::sim
