// The limit of TLS with OpenSSL: two processes send a number of bytes to each other at the same time, over one TCP
// stream on loopback, and do nothing else. Plain and with TLS 1.3, in turns. An all-reduce of two peers moves as many
// bytes: `lockstep bench -p 2 [--tls]` is measured beside it.
// usage: tls_pair_bench [MiB] [calls]
// Prints for each: the median in ms, and CPU seconds of both processes for each GiB that one of them sends.
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/lab/bench/yardsticks/door.h"
#include "tests/lab/bench/yardsticks/processes.h"
#include "transport/tls/key_pair.h"
#include "transport/tls/openssl.h"

namespace lockstep::bench {
namespace {

using transport::tls::ContextPtr;
using transport::tls::KeyPair;
using transport::tls::SslPtr;

constexpr std::size_t kPiece = std::size_t{256} << 10U;  // of one call of the system or of OpenSSL
constexpr int kWarmup = 2;

// The other process.
class Line {
 public:
  Line(int socket, bool has_tls, bool accepts) : socket_(socket) {
    ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
    if (has_tls) shake_hands(accepts);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() { ::close(socket_); }

  // Return how many bytes went; 0: none can go now.
  std::size_t send(std::span<const std::byte> bytes) const {
    if (bytes.empty()) return 0;
    if (ssl_ == nullptr) return counted(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    std::size_t sent = 0;
    return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent) == 1 ? sent : 0;
  }
  std::size_t receive(std::span<std::byte> bytes) const {
    if (bytes.empty()) return 0;
    if (ssl_ == nullptr) return counted(::recv(socket_, bytes.data(), bytes.size(), 0));
    std::size_t received = 0;
    return SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &received) == 1 ? received : 0;
  }
  void wait(bool sends, bool receives) const {
    pollfd stream{socket_, static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0)), 0};
    if (::poll(&stream, 1, -1) < 0 && errno != EINTR) fail("cannot wait");
  }

 private:
  static std::size_t counted(ssize_t result) {
    if (result == 0) throw std::runtime_error("the other process is gone");
    if (result < 0 && errno != EAGAIN) fail("cannot send or receive");
    return result < 0 ? 0 : static_cast<std::size_t>(result);
  }

  void shake_hands(bool accepts) {
    const KeyPair keys = KeyPair::generate();
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX* const c = context_.get();
    SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_use_certificate(c, keys.certificate());
    SSL_CTX_use_PrivateKey(c, keys.key());
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_num_tickets(c, 0);
    SSL_CTX_set_read_ahead(c, 1);
    ssl_.reset(SSL_new(c));
    SSL_set_fd(ssl_.get(), socket_);
    if (accepts) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
    }
    while (SSL_do_handshake(ssl_.get()) != 1) wait(false, true);
  }

  int socket_;
  ContextPtr context_;
  SslPtr ssl_;
};

void exchange(const Line& line, std::span<const std::byte> out, std::span<std::byte> in) {
  while (!out.empty() || !in.empty()) {
    const std::size_t sent = line.send(out.first(std::min(out.size(), kPiece)));
    const std::size_t received = line.receive(in.first(std::min(in.size(), kPiece)));
    out = out.subspan(sent);
    in = in.subspan(received);
    if (sent == 0 && received == 0) line.wait(!out.empty(), !in.empty());
  }
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Measured {
  std::vector<double> milliseconds{};
  double cpu = 0;
};

void measure(const Line& line, int rank, MeetingPlace& meeting, std::span<const std::byte> out, std::span<std::byte> in,
             Measured& measured) {
  using Clock = std::chrono::steady_clock;
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  exchange(line, out, in);
  const double mine = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  measured.cpu += cpu_seconds() - cpu;
  measured.milliseconds.push_back(meeting.meet(rank, mine));
}

int run(std::size_t bytes, int calls) {
  const std::vector<Door> doors(2);
  MeetingPlace meeting(2);
  return run_processes(2, [&](int rank) {
    const auto connected = [&] { return rank == 0 ? connect_to(doors[1]) : accept_at(doors[1]); };
    const Line plain(connected(), false, rank == 1);
    const Line secured(connected(), true, rank == 1);
    const std::vector<std::byte> out(bytes, std::byte{1});
    std::vector<std::byte> in(bytes);
    Measured with_plain;
    Measured with_tls;
    for (int call = 0; call < calls + kWarmup; ++call) {
      if (call == kWarmup) with_plain = with_tls = {};
      measure(plain, rank, meeting, out, in, with_plain);
      measure(secured, rank, meeting, out, in, with_tls);
    }
    const double gib = static_cast<double>(bytes) * calls / static_cast<double>(1U << 30U);
    for (auto* const measured : {&with_plain, &with_tls}) {
      auto& times = measured->milliseconds;
      std::ranges::nth_element(times, times.begin() + calls / 2);
      const double both = 2 * meeting.meet(rank, measured->cpu);  // they do the same
      if (rank == 0) {
        fmt::print("{:<8} {:8.1f} ms {:6.2f} CPU s/GiB\n", measured == &with_plain ? "plain" : "OpenSSL",
                   times[static_cast<std::size_t>(calls / 2)], both / gib);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const long mebibytes = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 64;
  const long calls = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 15;
  if (mebibytes < 1 || mebibytes > 4096 || calls < 1 || calls > 1000) {
    fmt::print(stderr, "usage: tls_pair_bench [MiB, 1 to 4096] [calls, 1 to 1000]\n");
    return 2;
  }
  return lockstep::bench::run(static_cast<std::size_t>(mebibytes) << 20U, static_cast<int>(calls));
}
