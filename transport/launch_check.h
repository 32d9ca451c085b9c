// Converts a launch with raw pointers into a launch with named memory. Validates pointers here, and everything else
// that one peer can know alone by validate_call of core; core detects differences between peers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/peer/input.h"
#include "core/ring/request.h"
#include "transport/call.h"
#include "transport/communicator.h"
#include "transport/memory.h"

namespace lockstep::transport {

// Rejects null or overlapping memory, and memory beyond the address space. Allowed in place: an all-reduce with
// send == recv, and an all-gather whose send is inside recv (core checks the exact place once it knows the blocks). All
// other written memory must not overlap with anything; nor may the tensors and values of a state.
std::optional<Error> validate_memory(const LaunchArgs& args);

// A watched state: the arguments of a sync, and the places of its compared tensors, sorted by address.
struct Watch {
  LaunchArgs args;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> places;  // [begin, end)
};
Result<Watch> watch_of(const LaunchArgs& args);
// Rejects a call that writes to the watched state.
std::optional<Error> validate_unwatched(const LaunchArgs& args, const Watch& watch);

// Registers the buffers of memory that was validated, validates the call, and takes scratch; `loans` holds buffers and
// scratch, also after an error (kInvalidArgument, kOutOfMemory). `watch`: the watched state of the call; may be null.
Result<ring::Request> prepare(const LaunchArgs& args, std::uint32_t minimum_world, Memory& memory, ScratchPool& pool,
                              Call::Loans& loans, const Watch* watch = nullptr);
// The same for a published state: copies its tensors; `loans` owns the copy.
Result<ring::Request> snapshot(const LaunchArgs& args, Memory& memory, ScratchPool& pool, Call::Loans& loans);
// Copies results of tensors that travelled as one into the tensors of the caller.
void give_results(const Call::Loans& loans);
// The same three for a point-to-point transfer.
std::optional<Error> validate_memory(const TransferArgs& args);
std::optional<Error> validate_unwatched(const TransferArgs& args, const Watch& watch);
Result<peer::Transfer> prepare(const TransferArgs& args, Memory& memory, Call::Loans& loans);
void give_back(Call::Loans& loans, Memory& memory);

}  // namespace lockstep::transport
