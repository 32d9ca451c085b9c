#include "transport/local_streams.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "transport/address.h"

namespace lockstep::transport {
namespace {

// Only an address of this machine can be bound.
bool is_of_this_machine(const io::Address& address) {
  io::Address any_port = address;
  any_port.port = 0;
  const auto endpoint = to_endpoint(any_port);
  const int probe = ::socket(endpoint.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool bound = ::bind(probe, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
  ::close(probe);
  return bound;
}

}  // namespace

void LocalStreams::add(StreamSet& set, const ListenPlan& plan, std::uint16_t port) {
  listeners_.push_back({&set, plan.hosts, port});
}

void LocalStreams::remove(StreamSet& set) {
  std::erase_if(listeners_, [&](const Listener& listener) { return listener.set == &set; });
}

StreamSet* LocalStreams::find(const io::Address& to) const {
  const auto found = std::ranges::find_if(listeners_, [&](const Listener& listener) {
    if (listener.port != to.port) return false;
    if (listener.hosts.empty()) return is_of_this_machine(to);
    return std::ranges::any_of(listener.hosts, [&](io::Address host) {
      host.port = to.port;
      return host == to;
    });
  });
  return found == listeners_.end() ? nullptr : found->set;
}

}  // namespace lockstep::transport
