// The lives of processes: a process starts on a host, stands still, stops, and comes to rest after its run was over to
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/peer/options.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/network/network.h"
#include "sim/plan/plan.h"
#include "sim/workload/program.h"
#include "sim/workload/workload.h"
#include "sim/world/cast.h"
#include "sim/world/checkers.h"
#include "sim/world/chronicle.h"
#include "sim/world/ending.h"
#include "sim/world/guest_programs.h"
#include "sim/world/options.h"
#include "sim/world/timers.h"

namespace lockstep::sim {

// The hosts of a gang, of which `host` is one.
std::vector<std::uint32_t> hosts_of_gang(const Plan& plan, std::uint32_t host);

class Lives {
 public:
  // The parts of the world that a life touches. They outlive the Lives.
  struct Around {
    const Plan& plan;
    const WorldOptions& options;
    const Dice& dice;
    const Instant& now;
    EventQueue& queue;
    Network& network;
    Cast& cast;
    Checkers& checkers;
    Chronicle& chronicle;
  };
  Lives(const Around& around, Timers& timers, GuestPrograms& guests, const Ending& ending, AppHost& app_host)
      : plan_(around.plan),
        options_(around.options),
        dice_(around.dice),
        now_(around.now),
        queue_(around.queue),
        network_(around.network),
        cast_(around.cast),
        checkers_(around.checkers),
        chronicle_(around.chronicle),
        timers_(timers),
        guests_(guests),
        ending_(ending),
        app_host_(app_host) {}

  // The simulator's own program starts on the host, or a guest; unless one runs there, or the host is gone.
  void start(std::uint32_t host);
  // A process without a program yet.
  SimProcess& create(std::uint32_t host, peer::PeerOptions options);
  void begin(SimProcess& process, std::unique_ptr<Program> program);
  void stop(SimProcess& process, Death death);
  // The process stands still (`on`), or goes on with all events that it has missed.
  void stall(SimProcess& process, bool on);
  // From now on the processes on the host make one message in `one_in` a lie.
  void begin_to_lie(std::uint32_t host, std::uint64_t one_in);
  void end_lies(std::uint32_t host);
  // Some time after the run was over to the process: all its calls must have ended. The host goes on with a new process
  // at once; the old process must come to rest beside it.
  void after_run(SimProcess& process);
  void rest(SimProcess& process);

 private:
  [[nodiscard]] bool lies_on(std::uint32_t host) const;
  [[nodiscard]] const SimProcess* former_of(std::uint32_t host) const;

  const Plan& plan_;
  const WorldOptions& options_;
  Dice dice_;
  const Instant& now_;
  EventQueue& queue_;
  Network& network_;
  Cast& cast_;
  Checkers& checkers_;
  Chronicle& chronicle_;
  Timers& timers_;
  GuestPrograms& guests_;
  const Ending& ending_;
  AppHost& app_host_;
  std::uint64_t starts_ = 0;
};

}  // namespace lockstep::sim
