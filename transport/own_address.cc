#include "transport/own_address.h"

#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>

#include "transport/address.h"

namespace lockstep::transport {
namespace {

io::Address outward_address(io::Address::Family family) {
  // addresses for documentation (RFC 5737, RFC 3849): only the route to them counts
  io::Address far;
  far.family = family;
  far.port = 9;
  io::Address own = loopback_of(family);
  if (family == io::Address::Family::kV4) {
    far.bytes = {192, 0, 2, 1};
  } else {
    far.bytes = {0x20, 0x01, 0x0d, 0xb8};
  }
  const auto to = to_endpoint(far);
  const int probe = ::socket(to.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return own;
  asio::ip::tcp::endpoint from;
  auto size = static_cast<socklen_t>(from.capacity());
  if (::connect(probe, to.data(), static_cast<socklen_t>(to.size())) == 0 &&
      ::getsockname(probe, from.data(), &size) == 0) {
    from.resize(size);
    own = to_address(from);
  }
  ::close(probe);
  return own;
}

}  // namespace

std::vector<io::Address> reachable_at(const io::Address& bound) {
  if (!is_every_address(bound)) return {bound};
  std::vector<io::Address> own = {outward_address(io::Address::Family::kV4)};
  const io::Address v6 = outward_address(io::Address::Family::kV6);
  if (bound.family == io::Address::Family::kV6 && !is_loopback(v6)) own.push_back(v6);
  for (io::Address& address : own) address.port = bound.port;
  return own;
}

}  // namespace lockstep::transport
