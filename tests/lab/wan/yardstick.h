// A yardstick of tests/lab/bench on a topology: the all-reduce of another library, each process on the host of a peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

enum class Library { kGloo, kOpenMpi };

// "Gloo".
std::string name_of(Library library);

struct YardstickOptions {
  std::string folder = LOCKSTEP_YARDSTICKS;  // of the programs
  std::uint64_t bytes = 0;                   // of the tensor
  std::uint32_t calls = 5;                   // to measure
  std::uint32_t warmup = 2;
  std::string congestion_control;  // of TCP between the peers; empty: the hosts'
  Duration limit = seconds(300);   // from the start of the program to its end
};

// The calls of one algorithm, on the slowest process of each call.
struct Calls {
  std::string algorithm;        // empty: the library chooses
  std::vector<double> seconds;  // in ascending order

  [[nodiscard]] double median() const;
};

// The reason why the library cannot be measured here, or nullopt.
std::optional<std::string> missing(Library library, const std::string& folder);

// A box of its own for the run; nothing is left of it. Of several algorithms the one with the least median. Throws
// Failure when a program fails, a result is wrong, the time limit is over, or somebody interrupts.
Calls run_yardstick(Library library, const YardstickOptions& options, const Topology& topology);

// `lockstep_wan enter`, the remote shell of `mpirun`: these variables tell it the network namespace of each address.
inline constexpr auto kNetworksVariable = "LOCKSTEP_WAN_NETWORKS";  // "10.77.0.1=/proc/7/fd/3,..."

}  // namespace lockstep::wan
