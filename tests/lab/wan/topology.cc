#include "tests/lab/wan/topology.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace lockstep::wan {
namespace {

// Peers have 10.77.0.1 to 10.77.0.99, the coordinator 10.77.0.100.
constexpr std::uint32_t kNetwork = 10U << 24U | 77U << 16U;
constexpr std::uint32_t kCoordinator = 100;

}  // namespace

std::string address_of(std::uint32_t host) { return fmt::format("10.77.0.{}", host == 0 ? kCoordinator : host); }

std::uint32_t host_of(std::uint32_t address) {
  const std::uint32_t number = address - kNetwork;
  if (number == kCoordinator) return 0;
  return number == 0 || number > kCoordinator ? UINT32_MAX : number;
}

bool has_equal_hosts(const Topology& topology) {
  bool equal = topology.shared.empty();
  for (std::uint32_t a = 1; a <= topology.peers; ++a) {
    equal = equal && topology.up[a] == topology.up[1] && topology.down[a] == topology.down[1];
    for (std::uint32_t b = 1; b <= topology.peers; ++b) {
      if (a != b) equal = equal && topology.way(a, b) == topology.way(1, 2);
    }
  }
  return equal;
}

Result<Topology> read_topology(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) return Error{Status::kInvalidArgument, "cannot read " + path};
  Result<Topology> topology = topology_from_text(text);
  if (!topology) return Error{topology.error().status, path + ":" + topology.error().text};
  return topology;
}

}  // namespace lockstep::wan
