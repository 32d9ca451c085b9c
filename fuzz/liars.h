// Two plays, told by bytes: one honest machine, others that lie to it, and some truth in between so that it gets
// somewhere. No assertion may fire; what fuzz/hosts.h checks must hold; and in the end the honest have what they were
// promised.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::fuzz {

// Liars join a run of two honest peers. When they are gone, the two commit, all their calls are over and nothing is
// left.
void play_against_coordinator(std::span<const std::uint8_t> bytes);

// One honest peer among lying neighbours, with a coordinator that mostly tells the truth. When the coordinator is gone,
// all its calls are over and no stream is left.
void play_against_peer(std::span<const std::uint8_t> bytes);

}  // namespace lockstep::fuzz
