// A TCP proxy on loopback between a peer and those that dial it: it forwards, and breaks what it is told to break. One
// thread of its own, from start() to the destructor; fork children before start().
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace lockstep::testing {

// A port of loopback that nobody else is given while this lives; the owner's child can listen on it.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

class Proxy {
 public:
  // Listens at once; forwards to `target` on loopback from start() on.
  explicit Proxy(std::uint16_t target);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void start();

  // Every piece is forwarded so much later than it came.
  void set_delay(Duration delay);
  // Forwards nothing any more, and closes nothing: half-open connections.
  void go_silent();
  // Resets a connection, the one that is in use then, once so many more bytes have been forwarded: in the middle of a
  // frame.
  void reset_after(std::uint64_t bytes);
  // Resets every connection, and each that comes later: what has not been forwarded when it returns never will be.
  void break_for_good();
  // The same for the connections that this peer has dialled.
  void break_for_good(PeerId dialler);

  [[nodiscard]] std::uint64_t resets() const;

 private:
  struct Pipe;
  void run();
  void wake() const;
  void accept_one();
  void reset_all();
  void reset_one(int from);
  void reset_broken();
  [[nodiscard]] bool is_broken(const Pipe& pipe) const;
  // Takes in what came and gives on what is due. False: the connection is to be reset.
  bool forward(int from, Pipe& pipe);

  const std::uint16_t target_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  int wake_read_ = -1;
  int wake_write_ = -1;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards what follows
  bool stopping_ = false;
  bool silent_ = false;
  bool broken_ = false;
  std::set<PeerId> broken_diallers_;
  Duration delay_;
  std::optional<std::uint64_t> reset_after_;
  std::uint64_t resets_ = 0;
  std::map<int, Pipe> pipes_;  // by the socket that is read
};

}  // namespace lockstep::testing
