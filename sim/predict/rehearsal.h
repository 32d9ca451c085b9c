// The step of a plan, played by the core that ships with hosts that start one after the other: how long its calls take.
// The first peer that starts is rank 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/peer/cohort.h"
#include "sim/world/world.h"

namespace lockstep::sim {

class Rehearsal {
 public:
  explicit Rehearsal(const Plan& plan);  // in the order of their names
  Rehearsal(const Plan& plan, std::vector<std::uint32_t> ring);

  // Starts all peers until each sees all others; returns the error if they do not.
  std::optional<Error> begin();
  // All calls of one step, from the launch of each to the moment at which its last peer has the result.
  Result<std::vector<Duration>> step();
  // The same; this host vanishes after so long, and the others go on without it, in later steps, too.
  Result<std::vector<Duration>> step_with_loss(std::uint32_t host, Duration after);
  // The call of this work in the last step, on the first host.
  const Call& call_of(std::size_t work);
  // What the first host knew of the members when it made that call.
  peer::Cohort::Roster roster();
  void rest(Duration duration) { world_.run_for(duration); }

  [[nodiscard]] World& world() { return world_; }

 private:
  struct Launched {
    std::uint32_t host = 0;
    std::size_t work = 0;
    CallId id{};
  };
  void launch();
  // After a loss, a call that is not tried again may fail.
  Result<std::vector<Duration>> finish();
  [[nodiscard]] Error broken() const;

  Plan plan_;
  std::vector<std::uint32_t> ring_;
  std::size_t seen_ = 0;  // peers that have installed a view of all
  World world_;
  std::vector<Launched> launched_;
  std::optional<std::uint32_t> gone_;
};

}  // namespace lockstep::sim
