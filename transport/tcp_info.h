// Reads what the kernel reports about the path of one TCP stream (tcp(7), TCP_INFO).
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace lockstep::transport {

// Returns zeros if the kernel reports nothing.
inline tcp_info tcp_info_of(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info : tcp_info{};
}

}  // namespace lockstep::transport
