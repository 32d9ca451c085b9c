// A TCP proxy on loopback between a peer and the peers that dial it: forwards bytes, and breaks connections as told. It
// has its own thread from start() to the destructor; fork children before start().
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace lockstep::testing {

// A loopback port that the system gives to no other process while this object lives; the owner's child can listen on
// it.
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

  // Delays every piece by this time.
  void set_delay(Duration delay);
  // From now on forwards so many bytes a second on each connection, now and later: those of this dialler, or all. A
  // line of less than 100 bytes a second passes them one by one. 0: as fast as it can again.
  enum class Towards : std::uint8_t { kTarget, kDialler, kBoth };
  void drip(std::uint64_t bytes_per_second, Towards towards = Towards::kBoth, std::optional<PeerId> dialler = {});
  // Forwards nothing more and closes nothing: half-open connections.
  void go_silent();
  // Resets one connection after `bytes` more bytes were forwarded, which is usually in the middle of a frame.
  void reset_after(std::uint64_t bytes);
  // Resets all connections, now and later. Bytes that were not forwarded before the call returns never will be.
  void break_for_good();
  // The same for connections that this peer has dialled.
  void break_for_good(PeerId dialler);

  // Keeps what passes from now on.
  void listen_in();
  // All that has passed, in both directions; or what the dialler of the first connection has sent.
  [[nodiscard]] std::vector<std::byte> heard() const;
  [[nodiscard]] std::vector<std::byte> first_dialler_said() const;

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
  [[nodiscard]] static std::optional<PeerId> dialler_of(const Pipe& pipe);
  // Bytes a second of this direction; 0: no limit.
  [[nodiscard]] std::uint64_t rate_of(const Pipe& pipe) const;
  // Whether bytes may be forwarded now, and how many.
  [[nodiscard]] std::size_t allowance(Pipe& pipe, Instant now) const;
  // Reads what has arrived and forwards what is due. Returns false if the connection is to be reset.
  bool forward(int from, Pipe& pipe);

  const std::uint16_t target_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  int wake_read_ = -1;
  int wake_write_ = -1;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards the following members
  bool stopping_ = false;
  bool silent_ = false;
  bool broken_ = false;
  std::set<PeerId> broken_diallers_;
  Duration delay_;
  std::optional<std::uint64_t> reset_after_;
  std::uint64_t resets_ = 0;
  struct Drip {
    std::uint64_t rate = 0;
    Towards towards = Towards::kBoth;
    std::optional<PeerId> dialler;
  };
  std::vector<Drip> drips_;
  struct Heard {
    std::vector<std::byte> all;
    std::vector<std::byte> from_first_dialler;
    int first_dialler;  // its socket; -1: none yet
  };
  std::optional<Heard> heard_;
  std::map<int, Pipe> pipes_;  // by the socket to read from
};

}  // namespace lockstep::testing
