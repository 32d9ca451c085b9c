// Collectives of one size between real peers on a topology: a box, a coordinator, `lockstep bench` on each peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/lab/wan/disturbance.h"
#include "tests/lab/wan/forwarder.h"
#include "tests/lab/wan/programs.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {

struct BenchOptions {
  std::string lockstep = LOCKSTEP_CLI;
  std::string collective = "all_reduce";
  std::vector<std::uint32_t> hosts;  // who takes part, by rank; empty: all peers, in the order of their names
  std::uint32_t iterations = 5;
  std::uint32_t warmup = 1;
  std::string congestion_control;  // of the peers' streams; empty: Lockstep's choice
  std::uint32_t resets = 0;        // of streams, in every second call
  std::string security = "tls";    // "tls", "insecure" or "none": what the programs are told of it
  std::vector<std::string> more;   // options of `lockstep bench`
  std::optional<Duration> limit;   // from the start of the coordinator to the end of the peers
};

struct Measured {
  nlohmann::json timing;  // as `lockstep bench --json` says it: of an all-reduce out of place, of a sync in place
  nlohmann::json lines;   // what each has carried
  std::vector<Forwarder::Reset> resets;
  std::optional<Effect> effect;  // of resets, if there were to be any

  [[nodiscard]] double median_s() const { return timing.at("median_us").get<double>() * 1e-6; }
  [[nodiscard]] double least_s() const { return timing.at("least_us").get<double>() * 1e-6; }
  [[nodiscard]] double most_s() const { return timing.at("most_us").get<double>() * 1e-6; }
};

// Throws Failure when a program fails, the time limit is over, or somebody interrupts.
Measured measure(const BenchOptions& options, Programs& programs, const Topology& topology, std::uint64_t bytes);

}  // namespace lockstep::wan
