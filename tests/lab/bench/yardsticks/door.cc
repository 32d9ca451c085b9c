#include "tests/lab/bench/yardsticks/door.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace lockstep::bench {
namespace {

sockaddr_in loopback(in_port_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port;
  return address;
}

}  // namespace

void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

Door::Door() : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket, raw, size) != 0 || ::listen(socket, SOMAXCONN) != 0 || ::getsockname(socket, raw, &size) != 0) {
    fail("cannot listen");
  }
  port = address.sin_port;
}

int connect_to(const Door& door) {
  const int stream = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(door.port);
  if (::connect(stream, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("cannot connect");
  const int on = 1;
  ::setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return stream;
}

int accept_at(const Door& door) {
  const int stream = ::accept(door.socket, nullptr, nullptr);
  if (stream < 0) fail("cannot accept");
  return stream;
}

}  // namespace lockstep::bench
