#include "transport/entropy.h"

#include <sys/random.h>

#include <cerrno>
#include <cstddef>

#include "core/base/assert.h"

namespace lockstep::transport {

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  while (::getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
    LOCKSTEP_ASSERT(errno == EINTR);  // after boot, up to 256 bytes arrive whole (getrandom(2))
  }
  return value;
}

PeerId random_peer_id() {
  PeerId id;
  while (id.is_nobody()) id = {random_u64(), random_u64()};
  return id;
}

LinkKey random_link_key() { return {random_u64(), random_u64()}; }

}  // namespace lockstep::transport
