// Limits the bytes that the kernel keeps of one TCP stream beyond those on their way (tcp(7), TCP_NOTSENT_LOWAT). Bytes
// that are in the kernel cannot go on another stream any more. So a stream keeps about as many as one round trip
// carries: a slow stream little, and a fast one enough to stay busy until it is written to again.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>

namespace lockstep::transport {

class UnsentLimit {
 public:
  static constexpr int kLeast = 16 * 1024;
  static constexpr int kMost = 64 * 1024;

  // For a new stream, whose window is not known yet.
  static void begin(int socket) { set(socket, kMost); }

  // Sets the limit again if the window has changed a lot. Does nothing to a stream without begin().
  void suit_to(int socket, const tcp_info& info) {
    const std::uint64_t window = std::uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss;
    const int wanted = window <= 2 * std::uint64_t{kLeast}  ? kLeast
                       : window >= 2 * std::uint64_t{kMost} ? kMost
                                                            : limit_;
    if (wanted == limit_ || !has_limit(socket)) return;
    set(socket, wanted);
    limit_ = wanted;
  }

 private:
  static void set(int socket, int bytes) {
    ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
  }
  static bool has_limit(int socket) {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size) == 0 && bytes > 0 && bytes <= kMost;
  }

  int limit_ = kMost;
};

}  // namespace lockstep::transport
