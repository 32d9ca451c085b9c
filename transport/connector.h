// Opens all streams, dialled and accepted ones: a socket, and a TLS session if this machine has credentials. A machine
// without credentials has plain streams, to and from programs of the same machine only, unless it is told otherwise.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "transport/congestion_control.h"
#include "transport/forks.h"
#include "transport/handshakes.h"
#include "transport/log.h"
#include "transport/tls/credentials.h"
#include "transport/tls/session.h"

namespace lockstep::transport {

// Where to listen: the first free port of first_port..last_port; 0: any port.
struct ListenPlan {
  // the first address that can be bound is used; empty: all addresses, IPv6 and IPv4 (ports ignored)
  std::vector<io::Address> hosts;
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
};

// How the streams of one machine are protected.
struct Security {
  std::shared_ptr<tls::Credentials> credentials;  // null: no TLS
  bool plain_anywhere = false;                    // without TLS, other machines are dialled and accepted, too
};

// Not thread-safe: used by the thread that runs `io` only.
class Connector {
 public:
  struct Options {
    std::string congestion_control;  // `name` of CongestionControl
  };
  // The path of an open stream, as the kernel reports it.
  struct Path {
    Duration round_trip;             // 0: not known
    std::string congestion_control;  // in force; empty: not known
    bool paced = false;
  };
  struct Opened {
    Path path;
    std::shared_ptr<tls::Session> tls;  // null: a plain stream
  };
  struct Failure {
    std::error_code error;
    std::string text;
  };
  using OnDialled = std::function<void(std::optional<Failure>, Opened)>;
  using OnAccepted = std::function<void(Socket, const io::Address& from, Opened)>;

  Connector(asio::io_context& io, Options options, Log log);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  ~Connector() = default;

  // For the streams that are opened from now on.
  void secure(Security security) { security_ = std::move(security); }
  [[nodiscard]] const Security& security() const { return security_; }

  // Connects `socket` to `to`, and shakes hands. `done` is never called before dial() returns. `socket` must live until
  // then; closing it ends the attempt.
  void dial(Socket& socket, const io::Dial& effect, OnDialled done);

  // Listens until close(). Call it once. Returns the address that it listens on, or an error that names the cause and
  // what to do.
  Result<io::Address> listen(const ListenPlan& plan, OnAccepted accepted);
  void close();

 private:
  std::error_code try_listen(const asio::ip::tcp::endpoint& at, bool dual_stack);
  void wait_for_connections();
  void accept_waiting();
  void back_off(const std::error_code& error);
  // Sets the options that dialled and accepted sockets share.
  void configure(Socket& socket);
  // Sets the options that depend on the path; call it once the stream is open.
  Path suit_to_path(Socket& socket);
  void on_connected(Socket& socket, tls::Session::Side side, const OnDialled& done);
  void take(Socket socket, const io::Address& from);
  // Whether a plain stream to or from this address is allowed.
  [[nodiscard]] bool may_be_plain(const io::Address& other) const;

  asio::io_context& io_;
  CongestionControl congestion_control_;
  Log log_;
  Owned<asio::ip::tcp::acceptor> acceptor_;
  asio::steady_timer pause_;
  OnAccepted accepted_;
  bool said_out_of_descriptors_ = false;
  Security security_;
  Handshakes handshakes_;
};

}  // namespace lockstep::transport
