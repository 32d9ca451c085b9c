#include "transport/connector.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/error.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/status.h"
#include "transport/address.h"
#include "transport/driver_mutant.h"
#include "transport/tcp_info.h"

namespace lockstep::transport {
namespace {

using asio::ip::tcp;

// TCP keepalive: the first probe after 10 s without a byte, then three probes 5 s apart. The protocol's own heartbeats
// detect a dead peer earlier; keepalive covers streams without heartbeats.
constexpr int kKeepIdleSeconds = 10;
constexpr int kKeepIntervalSeconds = 5;
constexpr int kKeepProbes = 3;
// The kernel ends a stream whose bytes stay unacknowledged (or whose window stays closed) this long. Longer than any
// silence that core tolerates, so that core decides first: core knows which peer to blame.
constexpr int kUserTimeoutMs = 30'000;

// Paths with at least this round trip are paced: their queues do not hold a window that is sent in one burst. Shorter
// paths do not need pacing, which costs a timer.
constexpr Duration kPacedRoundTrip = milliseconds(5);

// Connections that may wait to be accepted; the kernel's limit (net.core.somaxconn) is 4096 by default.
constexpr int kBacklog = 1024;
// The most connections that are accepted before other work gets a turn.
constexpr int kAcceptsPerTurn = 16;
// Without free descriptors or memory, a waiting connection stays readable; retrying at once would use a whole core.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

template <typename Int>
bool set(Socket& socket, int level, int option, Int value) {
  return ::setsockopt(socket.native_handle(), level, option, &value, sizeof(value)) == 0;
}

// Without pacing, a sender that was idle for less than its timeout sends its whole window in one burst, as at the
// beginning of every collective. With CUBIC or Reno, the kernel spreads the window over the round trip as soon as any
// limit on the rate is set (sk_pacing_status of Linux, net/core/sock.c).
void pace(Socket& socket) {
  set(socket, SOL_SOCKET, SO_MAX_PACING_RATE, std::numeric_limits<std::uint64_t>::max() - 1);
}

bool out_of_something(const std::error_code& error) {
  for (const int what : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    if (is_errno(error, what)) return true;
  }
  return false;
}

// The port is in use or needs privileges: another port may work.
bool another_port_may_do(const std::error_code& error) {
  return is_errno(error, EADDRINUSE) || is_errno(error, EACCES);
}

Error cannot_listen(const ListenPlan& plan, const std::string& host, const std::error_code& error) {
  const std::string where = plan.first_port == plan.last_port
                                ? fmt::format("{}:{}", host, plan.first_port)
                                : fmt::format("any of the ports {} to {} of {}", plan.first_port, plan.last_port, host);
  std::string_view advice = "check the address";
  if (is_errno(error, EADDRINUSE)) {
    advice = "end the program that listens there, or choose another port (0: any free one)";
  } else if (is_errno(error, EACCES)) {
    advice = "ports below 1024 need privileges; choose a higher one";
  } else if (is_errno(error, EADDRNOTAVAIL)) {
    advice = "it is not an address of this machine";
  } else if (out_of_something(error)) {
    advice = "raise the limit of open files (ulimit -n)";
  }
  return {Status::kUnreachable, fmt::format("cannot listen on {} ({}): {}", where, error.message(), advice)};
}

// A dial that ends so fails in the same way each time.
std::error_code rejected() { return {EKEYREJECTED, asio::error::get_system_category()}; }

std::string host_text(const tcp::endpoint& endpoint) {
  return endpoint.address().is_v6() ? fmt::format("[{}]", endpoint.address().to_string())
                                    : endpoint.address().to_string();
}

// To learn that a socket is open, asio watches it for room to write, and keeps watching: room to write would then
// needlessly wake every later wait for bytes to read. Assigning the descriptor to the socket again ends the watch.
std::error_code give_anew(Socket& socket) {
  std::error_code error;
  const auto protocol = socket.local_endpoint(error).protocol();
  if (error) return error;
  const int descriptor = socket.release(error);
  if (error) return error;
  socket.assign(protocol, descriptor, error);
  if (error) {
    const ForkLock lock;
    disown(descriptor);
    ::close(descriptor);
  } else {
    socket.non_blocking(true, error);
  }
  return error;
}

}  // namespace

Connector::Connector(asio::io_context& io, Options options, Log log)
    : io_(io),
      congestion_control_(std::move(options.congestion_control), log),
      log_(std::move(log)),
      acceptor_(io),
      pause_(io),
      handshakes_(io, log_) {}

void Connector::dial(Socket& socket, const io::Dial& effect, OnDialled done) {
  const auto fail_later = [&](std::error_code error, std::string text) {
    asio::post(io_, [done = std::move(done), failure = Failure{error, std::move(text)}] { done(failure, {}); });
  };
  if (effect.to.family == io::Address::Family::kNone) {
    const std::error_code error = asio::error::address_family_not_supported;
    return fail_later(error, error.message());
  }
  if (!may_be_plain(effect.to)) {
    return fail_later(rejected(),
                      "a plain stream to another machine is refused: connect with the run token that the coordinator "
                      "prints, or with the files of a certificate if it uses certificates, or allow plain streams "
                      "(insecure)");
  }
  const tcp::endpoint endpoint = to_endpoint(effect.to);
  std::error_code error;
  socket.open(endpoint.protocol(), error);  // asio does not set close-on-exec; configure() does
  if (error) return fail_later(error, error.message());
  configure(socket);
  const auto side = effect.to_coordinator ? tls::Session::Side::kDialsCoordinator : tls::Session::Side::kDialsPeer;
  socket.async_connect(endpoint, [this, &socket, side, done = std::move(done)](std::error_code result) {
    // the stream was closed meanwhile, and the socket may not exist any more
    if (result == asio::error::operation_aborted) return done(Failure{result, result.message()}, {});
    // The kernel can give an unused port of its ephemeral range to this socket itself, and TCP then connects the socket
    // to itself (simultaneous open, RFC 9293, section 3.5).
    std::error_code ignored;
    if (!result && socket.local_endpoint(ignored) == socket.remote_endpoint(ignored)) {
      result = asio::error::connection_refused;
    }
    if (!result) result = give_anew(socket);
    if (result) return done(Failure{result, result.message()}, {});
    on_connected(socket, side, done);
  });
}

void Connector::on_connected(Socket& socket, tls::Session::Side side, const OnDialled& done) {
  if (!security_.credentials) return done(std::nullopt, {suit_to_path(socket), nullptr});
  const auto session = std::make_shared<tls::Session>(security_.credentials, socket.native_handle(), side);
  shake_hands(socket, *session, [this, &socket, session, side, done](std::error_code error) {
    if (!error) return done(std::nullopt, {suit_to_path(socket), session});
    const std::string words = session->words_of(error);
    const bool is_final = side == tls::Session::Side::kDialsCoordinator && session->has_refused();
    done(Failure{is_final ? rejected() : error, words}, {});
  });
}

bool Connector::may_be_plain(const io::Address& other) const {
  return security_.credentials != nullptr || security_.plain_anywhere || is_loopback(other);
}

void Connector::configure(Socket& socket) {
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);  // the process may start other programs

  // Small messages (done, commit) must not wait for the acknowledgement of earlier ones; large writes fill whole
  // segments anyway.
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  // SO_SNDBUF and SO_RCVBUF stay unset: setting them disables the kernel's automatic tuning. asio sends with
  // MSG_NOSIGNAL, so there is no SIGPIPE.
  congestion_control_.set_named(socket.native_handle());
}

Connector::Path Connector::suit_to_path(Socket& socket) {
  const Duration round_trip = microseconds(tcp_info_of(socket.native_handle()).tcpi_rtt);  // 0: not known
  const bool paced = round_trip >= kPacedRoundTrip;
  if (paced) pace(socket);
  return {round_trip, congestion_control_.suit_to_path(socket.native_handle(), round_trip), paced};
}

Result<io::Address> Connector::listen(const ListenPlan& plan, OnAccepted accepted) {
  LOCKSTEP_ASSERT(!acceptor_.is_open());
  accepted_ = std::move(accepted);

  struct Candidate {
    tcp::endpoint at;
    bool dual_stack;
  };
  std::vector<Candidate> candidates;
  for (const io::Address& host : plan.hosts) candidates.push_back({to_endpoint(host), false});
  if (candidates.empty()) {
    candidates.push_back({{asio::ip::address_v6::any(), 0}, true});
    candidates.push_back({{asio::ip::address_v4::any(), 0}, false});  // machines without IPv6
  }

  ListenPlan ports = plan;
  if (ports.last_port < ports.first_port) ports.last_port = ports.first_port;
  std::error_code error;
  std::string host;
  for (Candidate& candidate : candidates) {
    for (std::uint32_t port = ports.first_port; port <= ports.last_port; ++port) {
      candidate.at.port(static_cast<std::uint16_t>(port));
      error = try_listen(candidate.at, candidate.dual_stack);
      host = host_text(candidate.at);
      if (!error) {
        wait_for_connections();
        std::error_code ignored;
        return to_address(acceptor_.local_endpoint(ignored));
      }
      if (!another_port_may_do(error) || planted(DriverMutant::kOnePortOfMany)) break;
    }
    // A port that is in use on all addresses is not free on one of them.
    if (candidate.dual_stack && another_port_may_do(error)) break;
  }
  return cannot_listen(ports, host, error);
}

std::error_code Connector::try_listen(const tcp::endpoint& at, bool dual_stack) {
  std::error_code error;
  const auto step = [&](auto&& action) {
    if (!error) action();
  };
  step([&] { acceptor_.open(at.protocol(), error); });
  step([&] { ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC); });
  // On Linux, reuse_address allows binding while connections of an earlier listener are in TIME_WAIT; two listeners
  // still exclude each other.
  step([&] { acceptor_.set_option(tcp::acceptor::reuse_address(true), error); });
  step([&] {
    if (at.protocol() == tcp::v6()) acceptor_.set_option(asio::ip::v6_only(!dual_stack), error);
  });
  step([&] { acceptor_.bind(at, error); });
  step([&] { acceptor_.listen(kBacklog, error); });
  step([&] { acceptor_.non_blocking(true, error); });
  if (error) {
    std::error_code ignored;
    acceptor_.close(ignored);
  }
  return error;
}

void Connector::close() {
  std::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  handshakes_.end();
}

void Connector::wait_for_connections() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](std::error_code error) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    accept_waiting();
  });
}

void Connector::accept_waiting() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    std::error_code error;
    tcp::endpoint from;
    Socket socket(io_);
    socket.accept_from(acceptor_, from, error);
    if (error == asio::error::would_block || error == asio::error::try_again) break;
    if (out_of_something(error)) return back_off(error);
    if (error) continue;  // the remote host closed the connection before accept (accept(2): treat it as a retry)
    said_out_of_descriptors_ = false;
    configure(socket);
    take(std::move(socket), to_address(from));
    if (!acceptor_.is_open()) return;
  }
  wait_for_connections();
}

void Connector::take(Socket socket, const io::Address& from) {
  if (security_.credentials) {
    handshakes_.begin(std::move(socket), from, security_.credentials,
                      [this](Socket secured, const io::Address& whom, std::unique_ptr<tls::Session> session) {
                        Path path = suit_to_path(secured);
                        accepted_(std::move(secured), whom, {std::move(path), std::move(session)});
                      });
    return;
  }
  if (!may_be_plain(from)) return handshakes_.refuse_plain(from);
  const Path path = suit_to_path(socket);
  accepted_(std::move(socket), from, {path, nullptr});
}

void Connector::back_off(const std::error_code& error) {
  if (!std::exchange(said_out_of_descriptors_, true) && log_) {
    log_(fmt::format(
        "cannot accept connections ({}): trying again every {} ms; raise the limit of open files (ulimit -n)",
        error.message(), kAcceptPause.count()));
  }
  pause_.expires_after(kAcceptPause);
  pause_.async_wait([this](std::error_code aborted) {
    if (aborted || !acceptor_.is_open()) return;
    accept_waiting();
  });
}

}  // namespace lockstep::transport
