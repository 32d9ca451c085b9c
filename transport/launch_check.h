// A launch with raw pointers into one with named memory, or what is wrong with it. What differs between peers is core's to
// notice; here stands what is wrong on this peer alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/peer/request.h"
#include "transport/call.h"
#include "transport/communicator.h"
#include "transport/memory.h"

namespace lockstep::transport {

// Null or overlapping memory, counts that cannot be, values out of range.
// In place is allowed: all-reduce with send == recv; all-gather whose send lies inside recv (where exactly, core checks when it
// knows the blocks). Everything else that is written must not overlap with anything; nor may the tensors and values of a state.
std::optional<Error> check(const LaunchArgs& args);

// A state that is watched: the arguments of a sync, and the places of its tensors that are compared, in the order of their
// addresses.
struct Watch {
  LaunchArgs args;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> places;  // begin, end
};
Result<Watch> watch_of(const LaunchArgs& args);
// What is watched must not be written to by the call itself.
std::optional<Error> check_apart(const LaunchArgs& args, const Watch& watch);

// Registers the buffers of checked arguments and takes the scratch; `loans` holds both, also after an error (kOutOfMemory).
// `watch`: beside the call; may be null.
Result<peer::Request> prepare(const LaunchArgs& args, std::uint32_t minimum_world, Memory& memory, ScratchPool& pool,
                              Call::Loans& loans, const Watch* watch = nullptr);
// The same of a state that is published, from a copy of its tensors, taken here: `loans` owns it.
Result<peer::Request> snapshot(const LaunchArgs& args, Memory& memory, ScratchPool& pool, Call::Loans& loans);
void give_back(Call::Loans& loans, Memory& memory);

}  // namespace lockstep::transport
