// A launch with raw pointers into one with named memory, or what is wrong with it. What differs between peers is core's to
// notice; here stands what is wrong on this peer alone.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/result.h"
#include "core/peer/request.h"
#include "transport/call.h"
#include "transport/communicator.h"
#include "transport/memory.h"

namespace lockstep::transport {

// Null or overlapping memory, counts that cannot be, values out of range.
// In place is allowed: all-reduce with send == recv; all-gather whose send lies inside recv (where exactly, core checks when it
// knows the blocks). Everything else that is written must not overlap with anything.
std::optional<Error> check(const LaunchArgs& args);

// Registers the buffers of checked arguments and takes the scratch; `loans` holds both, also after an error (kOutOfMemory).
Result<peer::Request> prepare(const LaunchArgs& args, std::uint32_t minimum_world, Memory& memory, ScratchPool& pool,
                              Call::Loans& loans);
// The same of a state that is published, from a copy of its tensors, taken here: `loans` owns it.
Result<peer::Request> snapshot(const LaunchArgs& args, Memory& memory, ScratchPool& pool, Call::Loans& loans);
void give_back(Call::Loans& loans, Memory& memory);

}  // namespace lockstep::transport
