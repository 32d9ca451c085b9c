// S2, exact fold: a committed result is the fold of exactly the contributors' inputs, each once, in the ring's defined
// order, bit for bit equal on every peer. Every tensor has one chunk for each rank; that of rank c of n starts as the
// input of rank c+1 and ends with that of rank c. A small tensor of an all-reduce is one chunk; the ranks take turns to
// own it, tensor by tensor. Residuals are part of the inputs where there are any, and afterwards what has been lost of
// the two.
#pragma once

#include <functional>

#include "sim/checkers/complaint.h"
#include "sim/engine/memory.h"
#include "sim/workload/call.h"

namespace lockstep::sim {

// The call of this peer in the round; null: the peer never launched it.
using FindCall = std::function<const Call*(PeerId, const RoundKey&)>;

// Judges the caller's memory when its call completes with kOk.
Complaint check_exact_fold(const Call& call, const Memory& memory, const FindCall& find);

// The same of another member, whose call is still open, when a caller is `told` that the round has committed: nobody
// reports success for what another does not have.
Complaint check_receiver(const Call& theirs, const peer::Outcome& told, const Memory& memory, const FindCall& find);

}  // namespace lockstep::sim
