// S2, exact fold: a committed result is the fold of exactly the contributors' inputs, each once, in the ring's defined order,
// bit for bit equal on every peer. Every tensor has one
// chunk for each rank; that of rank c of n starts as the input of rank c+1 and ends with that of rank c. A small tensor of an
// all-reduce is one chunk; the ranks take turns to own it, tensor by tensor. Residuals are part of the inputs where there are any, and
// afterwards what has been lost of the two.
#pragma once

#include <functional>

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/memory.h"

namespace lockstep::sim {

// The call by which this peer took part in the round; null: it never launched it.
using FindCall = std::function<const Call*(PeerId, const RoundKey&)>;

// Judges what lies in the caller's memory when its call was completed with kOk.
Complaint check_exact_fold(const Call& call, const Memory& memory, const FindCall& find);

}  // namespace lockstep::sim
