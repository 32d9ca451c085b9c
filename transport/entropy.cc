#include "transport/entropy.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>

#include "core/base/assert.h"

namespace lockstep::transport {

void fill_random(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t filled = ::getrandom(bytes.data(), bytes.size(), 0);
    LOCKSTEP_ASSERT(filled > 0 || errno == EINTR);
    if (filled > 0) bytes = bytes.subspan(static_cast<std::size_t>(filled));
  }
}

std::uint64_t random_u64() {
  std::array<std::uint8_t, sizeof(std::uint64_t)> bytes{};
  fill_random(bytes);
  return std::bit_cast<std::uint64_t>(bytes);
}

PeerId random_peer_id() {
  PeerId id;
  while (id.is_nobody()) id = {random_u64(), random_u64()};
  return id;
}

LinkKey random_link_key() { return {random_u64(), random_u64()}; }

}  // namespace lockstep::transport
