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

  // For a new stream of a far path, whose window is not known yet. Any other stream has no limit.
  void begin(int socket) { set(socket, kMost); }

  [[nodiscard]] bool is_set() const { return limit_ != 0; }

  // Sets the limit again if the window has changed a lot.
  void suit_to(int socket, const tcp_info& info) {
    if (limit_ == 0) return;
    const std::uint64_t window = std::uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss;
    if (window <= 2 * std::uint64_t{kLeast}) set(socket, kLeast);
    if (window >= 2 * std::uint64_t{kMost}) set(socket, kMost);
  }

 private:
  void set(int socket, int bytes) {
    if (bytes == limit_) return;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
    limit_ = bytes;
  }

  int limit_ = 0;  // 0: none
};

}  // namespace lockstep::transport
