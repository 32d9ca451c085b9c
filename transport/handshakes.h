// Accepted connections whose TLS handshake is not over: strangers. A stranger costs little: there is room for some, the
// oldest of the network that has the most goes first (core/io/lobby.h), each has a few seconds, and one network may
// begin so many handshakes a second. A program that speaks no TLS learns why it is refused.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/io/lobby.h"
#include "core/io/stream.h"
#include "transport/event_log.h"
#include "transport/graceful_closer.h"
#include "transport/log.h"
#include "transport/socket.h"
#include "transport/tls/credentials.h"
#include "transport/tls/session.h"

namespace lockstep::transport {

// Goes on with the handshake whenever the socket is ready. `done` is called once, perhaps before this function returns;
// with operation_aborted after the socket was closed. Socket and session must live until then.
void shake_hands(Socket& socket, tls::Session& session, std::function<void(std::error_code)> done);

// How many handshakes a network may begin: a handshake costs some 0.2 ms of a core.
class HandshakePace {
 public:
  static constexpr std::uint32_t kBurst = 1200;  // a run of 1024 peers on one host founds at once
  static constexpr std::uint32_t kPerSecond = 200;
  static constexpr std::size_t kMostNetworks = 1024;

  // Takes one, if this network has one.
  [[nodiscard]] bool take(const io::Address& network, Instant now);

 private:
  struct Bucket {
    Duration owed;  // time that must pass before the bucket is full again
    Instant at;     // when `owed` was true
  };
  std::map<io::Address, Bucket> buckets_;  // those that are not full
};

// Not thread-safe: used by the thread that runs `io` only.
class Handshakes {
 public:
  static constexpr std::uint32_t kPlaces = 256;
  static constexpr Duration kPatience = seconds(3);

  Handshakes(asio::io_context& io, const Log& log) : timer_(io), events_(log) {}
  Handshakes(const Handshakes&) = delete;
  Handshakes& operator=(const Handshakes&) = delete;
  ~Handshakes() { end(); }

  using OnSecured = std::function<void(Socket, const io::Address& from, std::unique_ptr<tls::Session>)>;
  // `secured` is not called if the handshake fails.
  void begin(Socket socket, const io::Address& from, std::shared_ptr<const tls::Credentials> credentials,
             OnSecured secured);
  // Notes that a plain connection of another machine was closed.
  void refuse_plain(const io::Address& from);
  // Closes all connections.
  void end();

  [[nodiscard]] std::size_t size() const { return guests_.size(); }

 private:
  struct Guest;
  using GuestPtr = std::shared_ptr<Guest>;
  void on_first_bytes(const GuestPtr& guest, const std::shared_ptr<const tls::Credentials>& credentials,
                      const OnSecured& secured);
  void answer_in_plain(const GuestPtr& guest, bool wants_certificate);
  void drop(const GuestPtr& guest, Status status, const std::string& why);
  void forget(const GuestPtr& guest);
  void arm();
  void note(const io::Address& from, Status status, const std::string& why);

  asio::steady_timer timer_;
  bool is_armed_ = false;
  EventLog events_;
  HandshakePace pace_;
  io::Lobby lobby_{kPlaces};
  io::StreamNames names_ = io::StreamNames::for_accepting();  // of guests, in the order of their arrival
  std::map<StreamId, GuestPtr> guests_;
  GracefulCloser closer_;
};

}  // namespace lockstep::transport
