// A coordinator and some peers in virtual time, controlled by the test: `Cluster::of(3).seed(7)`. The machines are the
// real ones, and the checkers of every promise observe them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/world/world.h"

namespace lockstep {

class Cluster {
 public:
  static Cluster of(std::uint32_t peers) { return Cluster(peers); }

  // Call it first.
  Cluster& seed(std::uint64_t seed);
  Cluster& plan(const std::function<void(sim::Plan&)>& change);
  Cluster& observe(std::function<void(std::uint32_t, const std::string&)> observe);
  Cluster& trace();  // prints every line, for debugging

  // Starts all hosts, 1..peers, and runs until all are members.
  Cluster& start_all();
  void start(std::uint32_t host) { world().start(host); }
  void kill(std::uint32_t host) { world().begin_fault({.fault = sim::Fault::kCrash, .a = host}); }
  void run_for(Duration duration) { world().run_for(duration); }
  // Runs until this call has ended; returns false if it does not end within `limit`.
  bool run_until_ended(std::uint32_t host, CallId call, Duration limit = lockstep::seconds(60));

  // All hosts launch it now, and it succeeds, or gtest tells. Returns the seconds of the host that took longest.
  double seconds_of(const ring::Request& request, Duration limit = lockstep::seconds(200));
  CallId launch(std::uint32_t host, const ring::Request& request) { return world().launch(host, request); }
  const peer::Outcome& outcome(std::uint32_t host, CallId call);
  sim::World& world();

 private:
  explicit Cluster(std::uint32_t peers);

  sim::Plan plan_;
  sim::WorldOptions options_;
  std::unique_ptr<sim::World> world_;
};

// An all-reduce of one tensor.
ring::Request all_reduce(Tag tag, std::uint64_t count, DataType type = DataType::kF32, ReduceOp op = ReduceOp::kSum);

}  // namespace lockstep
