#include "tests/lab/wan/box.h"

#include <utility>

#include "tests/lab/wan/tun.h"

namespace lockstep::wan {

Result<std::unique_ptr<Box>> Box::make(Topology topology) {
  std::vector<NetSpace> hosts;
  std::vector<File> tuns;
  for (std::uint32_t host = 0; host < topology.hosts(); ++host) {
    auto space = NetSpace::make();
    if (!space) return space.error();
    auto tun = space->within([&] { return open_tun(topology, host); });
    if (!tun) return tun.error();
    hosts.push_back(std::move(*space));
    tuns.push_back(std::move(*tun));
  }
  return std::unique_ptr<Box>(new Box(std::move(topology), std::move(hosts), std::move(tuns)));
}

}  // namespace lockstep::wan
