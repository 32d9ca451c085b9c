// The causal slice: of all that happened before a moment, what led to it. Walks from effects to causes, the strongest reasons
// first, until nothing is left, what is left is far away, or enough is told.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/explain/history.h"

namespace lockstep::sim {

inline constexpr std::size_t kSliceMoments = 60;
inline constexpr int kSliceRadius = 8;  // a view and the messages that made it; a round, and the end of the one before

// In the order in which they happened; `of` is the last one.
std::vector<MomentId> causal_slice(const History& history, MomentId of, std::size_t most = kSliceMoments);

// How far a step from effect to cause leads away from what is to be explained: the slice holds what is nearest.
int distance_of(Because because);

}  // namespace lockstep::sim
