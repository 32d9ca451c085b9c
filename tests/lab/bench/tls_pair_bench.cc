// What TLS takes of two processes that send a number of bytes to each other at the same time, over one TCP stream on
// loopback, and do nothing else: plain, with OpenSSL's records, with Lockstep's, and with a new key after each MiB, in
// turns. An all-reduce of two peers moves as many bytes: `lockstep bench -p 2 [--tls]` is measured beside it.
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
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "tests/lab/bench/yardsticks/door.h"
#include "tests/lab/bench/yardsticks/processes.h"
#include "transport/tls/credentials.h"
#include "transport/tls/key_pair.h"
#include "transport/tls/openssl.h"
#include "transport/tls/session.h"

namespace lockstep::bench {
namespace {

namespace tls = transport::tls;

constexpr std::size_t kPiece = std::size_t{256} << 10U;  // of one call of the system or of OpenSSL
constexpr int kWarmup = 2;

enum class End : std::uint8_t { kConnects, kAccepts };

// The other process, by plain TCP.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) { ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  virtual ~Line() { ::close(socket_); }

  // Return how many bytes went; 0: none can go now.
  virtual std::size_t send(std::span<const std::byte> bytes) {
    return counted(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  virtual std::size_t receive(std::span<std::byte> bytes) {
    return counted(::recv(socket_, bytes.data(), bytes.size(), 0));
  }
  [[nodiscard]] virtual bool has_unsent() const { return false; }

  void wait(bool sends, bool receives) const {
    pollfd stream{socket_, static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0)), 0};
    if (::poll(&stream, 1, -1) < 0 && errno != EINTR) fail("cannot wait");
  }

 protected:
  [[nodiscard]] int socket() const { return socket_; }

 private:
  static std::size_t counted(ssize_t result) {
    if (result == 0) throw std::runtime_error("the other process is gone");
    if (result < 0 && errno != EAGAIN) fail("cannot send or receive");
    return result < 0 ? 0 : static_cast<std::size_t>(result);
  }

  int socket_;
};

class OpenSslLine final : public Line {
 public:
  OpenSslLine(int socket, End end) : Line(socket) {
    const tls::KeyPair keys = tls::KeyPair::generate();
    SSL_CTX* const c = context_.get();
    SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_use_certificate(c, keys.certificate());
    SSL_CTX_use_PrivateKey(c, keys.key());
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_num_tickets(c, 0);
    SSL_CTX_set_read_ahead(c, 1);
    ssl_.reset(SSL_new(c));
    SSL_set_fd(ssl_.get(), socket);
    end == End::kAccepts ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
    while (SSL_do_handshake(ssl_.get()) != 1) wait(false, true);
  }

  std::size_t send(std::span<const std::byte> bytes) override {
    std::size_t sent = 0;
    return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent) == 1 ? sent : 0;
  }
  std::size_t receive(std::span<std::byte> bytes) override {
    std::size_t received = 0;
    return SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &received) == 1 ? received : 0;
  }

 private:
  tls::ContextPtr context_{SSL_CTX_new(TLS_method())};
  tls::SslPtr ssl_;
};

class LockstepLine final : public Line {
 public:
  LockstepLine(int socket, End end, std::uint64_t rekey_bytes)
      : Line(socket),
        session_(std::make_shared<tls::Credentials>(tls::KeyPair::generate(), rekey_bytes), socket,
                 end == End::kAccepts ? tls::Session::Side::kAccepts : tls::Session::Side::kDialsPeer) {
    for (auto step = session_.handshake(); step != tls::Session::Step::kDone; step = session_.handshake()) {
      if (step == tls::Session::Step::kFailed) throw std::runtime_error("the handshake failed");
      wait(step == tls::Session::Step::kWantsWrite, step == tls::Session::Step::kWantsRead);
    }
  }

  std::size_t send(std::span<const std::byte> bytes) override {
    std::error_code error;
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    return checked(session_.write({&buffer, 1}, bytes.size(), error), error);
  }
  std::size_t receive(std::span<std::byte> bytes) override {
    std::error_code error;
    const asio::mutable_buffer buffer(bytes.data(), bytes.size());
    return checked(session_.read({&buffer, 1}, error), error);
  }
  [[nodiscard]] bool has_unsent() const override { return session_.pending() > 0; }

 private:
  std::size_t checked(std::size_t bytes, const std::error_code& error) const {
    if (error && error != asio::error::would_block) throw std::runtime_error(session_.words_of(error));
    return bytes;
  }

  tls::Session session_;
};

void exchange(Line& line, std::span<const std::byte> out, std::span<std::byte> in) {
  while (!out.empty() || !in.empty() || line.has_unsent()) {
    const bool sends = !out.empty() || line.has_unsent();
    const std::size_t sent = sends ? line.send(out.first(std::min(out.size(), kPiece))) : 0;
    const std::size_t received = in.empty() ? 0 : line.receive(in.first(std::min(in.size(), kPiece)));
    out = out.subspan(sent);
    in = in.subspan(received);
    const bool still_sends = !out.empty() || line.has_unsent();
    if (sent == 0 && received == 0 && (still_sends || !in.empty())) line.wait(still_sends, !in.empty());
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

struct Contender {
  std::string name;
  std::unique_ptr<Line> line;
  std::vector<double> milliseconds{};
  double cpu = 0;
};

void measure(int rank, MeetingPlace& meeting, std::span<const std::byte> out, std::span<std::byte> in,
             Contender& measured) {
  using Clock = std::chrono::steady_clock;
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  exchange(*measured.line, out, in);
  const double mine = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  measured.cpu += cpu_seconds() - cpu;
  measured.milliseconds.push_back(meeting.meet(rank, mine));
}

int run(std::size_t bytes, int calls) {
  const std::vector<Door> doors(2);
  MeetingPlace meeting(2);
  return run_processes(2, [&](int rank) {
    const auto connected = [&] { return rank == 0 ? connect_to(doors[1]) : accept_at(doors[1]); };
    const End end = rank == 1 ? End::kAccepts : End::kConnects;
    std::array<Contender, 4> contenders;
    contenders[0] = {"plain", std::make_unique<Line>(connected())};
    contenders[1] = {"OpenSSL", std::make_unique<OpenSslLine>(connected(), end)};
    contenders[2] = {"Lockstep", std::make_unique<LockstepLine>(connected(), end, tls::Credentials::kRekeyBytes)};
    contenders[3] = {"a new key after each MiB", std::make_unique<LockstepLine>(connected(), end, 1U << 20U)};
    const std::vector<std::byte> out(bytes, std::byte{1});
    std::vector<std::byte> in(bytes);
    for (int call = 0; call < calls + kWarmup; ++call) {
      for (Contender& contender : contenders) {
        if (call == kWarmup) {
          contender.milliseconds.clear();
          contender.cpu = 0;
        }
        measure(rank, meeting, out, in, contender);
      }
    }
    const double gib = static_cast<double>(bytes) * calls / static_cast<double>(1U << 30U);
    for (Contender& contender : contenders) {
      const auto median = contender.milliseconds.begin() + calls / 2;
      std::ranges::nth_element(contender.milliseconds, median);
      const double both = 2 * meeting.meet(rank, contender.cpu);  // they do the same
      if (rank == 0) fmt::print("{:<25} {:8.1f} ms {:6.2f} CPU s/GiB\n", contender.name, *median, both / gib);
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
