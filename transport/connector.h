// Opens all streams, dialled and accepted ones. TLS will be added here: the rest of the library handles a Socket and
// does not know what is below it.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "transport/congestion_control.h"
#include "transport/forks.h"
#include "transport/log.h"

namespace lockstep::transport {

using Socket = Owned<asio::ip::tcp::socket>;

// Where to listen: the first free port of first_port..last_port; 0: any port.
struct ListenPlan {
  // the first address that can be bound is used; empty: all addresses, IPv6 and IPv4 (ports ignored)
  std::vector<io::Address> hosts;
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
};

// Not thread-safe: used by the thread that runs `io` only.
class Connector {
 public:
  struct Options {
    std::string congestion_control;  // `name` of CongestionControl
  };
  // The path of an open stream, as the kernel reports it. All empty after an error.
  struct Path {
    Duration round_trip;             // 0: not known
    std::string congestion_control;  // in force; empty: not known
    bool paced = false;
  };
  using OnDialled = std::function<void(std::error_code, const Path&)>;
  using OnAccepted = std::function<void(Socket, const io::Address& from, const Path&)>;

  Connector(asio::io_context& io, Options options, Log log);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  ~Connector() = default;

  // Connects `socket` to `to`. `done` is never called before dial() returns.
  void dial(Socket& socket, const io::Address& to, OnDialled done);

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

  asio::io_context& io_;
  CongestionControl congestion_control_;
  Log log_;
  Owned<asio::ip::tcp::acceptor> acceptor_;
  asio::steady_timer pause_;
  OnAccepted accepted_;
  bool said_out_of_descriptors_ = false;
};

}  // namespace lockstep::transport
