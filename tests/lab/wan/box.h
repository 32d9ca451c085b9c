// A WAN in a box: a namespace for each host of a topology, joined by a forwarder. Nothing of it outlives the object,
// nor the process, however that ends.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/result.h"
#include "tests/lab/wan/forwarder.h"
#include "tests/lab/wan/net_space.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

class Box {
 public:
  // Needs the right to make network namespaces and TUN devices; the error says which is missing. Hosts can be entered
  // at once; no packet moves before start(). A child that is forked without exec must be so before start(), which
  // starts a thread.
  static Result<std::unique_ptr<Box>> make(Topology topology);

  void start() { forwarder_.start(topology_); }

  [[nodiscard]] const Topology& topology() const { return topology_; }
  // 0: the coordinator's.
  [[nodiscard]] const NetSpace& host(std::uint32_t number) const { return hosts_[number]; }
  [[nodiscard]] Forwarder& forwarder() { return forwarder_; }

  // One way, from now on.
  void cut(std::uint32_t from, std::uint32_t to) {
    forwarder_.with_network([&](Network& network) { network.way(from, to).cut(); });
  }
  void heal(std::uint32_t from, std::uint32_t to) {
    forwarder_.with_network([&](Network& network) { network.way(from, to).heal(); });
  }

 private:
  Box(Topology topology, std::vector<NetSpace> hosts, std::vector<File> tuns)
      : topology_(std::move(topology)), hosts_(std::move(hosts)), forwarder_(std::move(tuns), topology_.mtu) {}

  const Topology topology_;
  const std::vector<NetSpace> hosts_;
  Forwarder forwarder_;
};

}  // namespace lockstep::wan
