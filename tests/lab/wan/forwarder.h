// Carries packets between the devices of the hosts through a network, in real time: one thread.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/lab/wan/connections.h"
#include "tests/lab/wan/file.h"
#include "tests/lab/wan/network.h"
#include "tests/lab/wan/packet.h"

namespace lockstep::wan {

class Forwarder {
 public:
  // `tuns`: one for each host, the coordinator's first.
  Forwarder(std::vector<File> tuns, std::uint32_t mtu);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // The time of the topology's changes begins now. Once.
  void start(const Topology& topology);

  // Calls `body` with the network, while no packet moves.
  template <typename F>
  auto with_network(F&& body) {
    const std::lock_guard lock(mutex_);
    return std::forward<F>(body)(*network_);
  }
  // The same with the connections that go through it.
  template <typename F>
  auto with_connections(F&& body) {
    const std::lock_guard lock(mutex_);
    return std::forward<F>(body)(connections_);
  }
  // Resets the connection between two hosts that has carried most lately. False: none has carried anything.
  bool reset(std::uint32_t a, std::uint32_t b);

  // With times from the start.
  struct Reset {
    ResetRecord record;
    Duration at;
    std::optional<Duration> back_after;  // from the reset
  };
  std::vector<Reset> resets();

  // Blocks until this holds for the network, which is asked after every packet.
  template <typename P>
  void wait_until(P&& holds) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return holds(*network_); });
  }

 private:
  void run();
  void read_some(std::uint32_t host);
  void deliver();
  void write(std::uint32_t host, const Packet& packet);
  void write_resets();
  // Until a packet can be read, one is due, or the end.
  static void wait(std::vector<pollfd>& places, Instant due);

  const std::vector<File> tuns_;
  PacketPool pool_;
  Instant start_;
  std::uint64_t shut_ = 0;  // as in Topology
  std::optional<Network> network_;
  Connections connections_;
  ResetsFor resets_;  // to be written
  File end_;
  std::mutex mutex_;  // guards all of these, and the order in which devices are written to
  std::condition_variable moved_;
  std::thread thread_;
};

}  // namespace lockstep::wan
