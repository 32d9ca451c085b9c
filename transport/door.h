// The one door through which streams are opened, dialled and accepted alike. TLS will stand here: what passes is a Socket, and
// nothing else knows what is under it.
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
#include "transport/forks.h"
#include "transport/log.h"

namespace lockstep::transport {

using Socket = Owned<asio::ip::tcp::socket>;

// Where to listen. The first free port of first_port..last_port; 0: any port.
struct ListenPlan {
  std::vector<io::Address> hosts;  // the first that can be bound; none: every address, IPv6 and IPv4 (ports ignored)
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
};

// Not thread-safe: belongs to the thread that runs `io`.
class Door {
 public:
  struct Options {
    // Empty: the system's default, but where that is a kind of BBR, CUBIC or Reno on short paths.
    std::string congestion_control;
  };
  // `round_trip`: as the kernel measured it; 0 with an error, or where it does not say.
  using OnDialled = std::function<void(std::error_code, Duration round_trip)>;
  using OnAccepted = std::function<void(Socket, io::Address from)>;

  Door(asio::io_context& io, Options options, Log log);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() = default;

  // Opens `socket` to `to`; the answer never comes before dial() returns.
  void dial(Socket& socket, const io::Address& to, OnDialled done);

  // Listens until close(). Once per door. The address that is listened on, or who is in the way and what to do.
  Result<io::Address> listen(const ListenPlan& plan, OnAccepted accepted);
  void close();

 private:
  std::error_code try_listen(const asio::ip::tcp::endpoint& at, bool dual_stack);
  void wait_for_connections();
  void accept_waiting();
  void back_off(const std::error_code& error);
  // Both kinds of stream get the same options, here and nowhere else.
  void configure(Socket& socket);
  // Once the stream is open.
  void suit_to_path(Socket& socket, Duration round_trip);

  asio::io_context& io_;
  Options options_;
  Log log_;
  Owned<asio::ip::tcp::acceptor> acceptor_;
  asio::steady_timer pause_;
  OnAccepted accepted_;
  bool said_congestion_refused_ = false;
  bool said_out_of_descriptors_ = false;
};

}  // namespace lockstep::transport
