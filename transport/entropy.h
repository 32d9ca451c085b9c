// The operating system's randomness.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/ids.h"

namespace lockstep::transport {

void fill_random(std::span<std::uint8_t> bytes);
std::uint64_t random_u64();
PeerId random_peer_id();  // never the id "nobody"
LinkKey random_link_key();

}  // namespace lockstep::transport
