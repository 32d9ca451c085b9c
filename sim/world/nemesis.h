// The nemesis: begins and ends the faults of a plan, at their moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/network/network.h"
#include "sim/plan/plan.h"
#include "sim/workload/workload.h"
#include "sim/world/cast.h"
#include "sim/world/checkers.h"
#include "sim/world/chronicle.h"
#include "sim/world/ending.h"
#include "sim/world/guest_programs.h"
#include "sim/world/lives.h"
#include "sim/world/options.h"
#include "sim/world/strangers.h"

namespace lockstep::sim {

class Nemesis {
 public:
  // `plan`: gets the faults that are begun by hand.
  Nemesis(Plan& plan, const Lives::Around& around, Lives& lives, GuestPrograms& guests, const Ending& ending,
          AppHost& app_host, StrangersHost& strangers_host);

  // ---- moments ----
  // Queues the faults that count from the start.
  void set_out();
  // Queues the faults that wait for the n-th of something: a launch, a commit, a view, a piece.
  void begin_at(std::uint64_t Entry::*which, std::uint64_t n);
  // Queues the faults that wait for the n-th event.
  void begin_at_event(std::uint64_t n);

  void begin(std::uint64_t index);
  void end(std::uint64_t index);
  void end_all();
  // Begins a fault that is not in the plan. Returns its index.
  std::uint64_t begin_by_hand(const Entry& entry);

  // Whether a fault is under way that will end, or waits for its time.
  [[nodiscard]] bool is_ahead() const;
  [[nodiscard]] std::vector<std::uint64_t> never_began() const;

  // S9 for strangers: if strangers are the only fault, a port keeps them no longer than it may.
  void judge_strangers(const SimProcess& process);

 private:
  struct Active {
    bool begun = false;
    bool on = false;
    std::uint32_t process = kNoProcess;
    std::uint64_t guest = 0;
    std::uint64_t times = 0;
  };

  bool begin_with_guest(std::uint64_t index);
  void begin_on_network(std::uint64_t index);
  void begin_on_host(std::uint64_t index, SimProcess* process);
  void begin_in_program(const Entry& entry, SimProcess* process);
  void ask_for_eviction(const Entry& entry, const SimProcess& target);
  void begin_strangers(std::uint64_t index);
  void reset_streams(std::uint64_t index);
  void leave_with_gang(const Entry& entry, const SimProcess& process);
  void stop_oldest_call(const Entry& entry, SimProcess& process);
  void lasts(std::uint64_t index);
  void begins(const Entry& entry);
  void end_strangers(const Active& active);
  void forgive_strangers();

  Plan& plan_;
  const WorldOptions& options_;
  Dice dice_;
  const Instant& now_;
  EventQueue& queue_;
  Network& network_;
  Cast& cast_;
  Checkers& checkers_;
  Chronicle& chronicle_;
  Lives& lives_;
  GuestPrograms& guests_;
  const Ending& ending_;
  AppHost& app_host_;
  StrangersHost& strangers_host_;
  std::vector<Active> active_;                // by entry
  std::vector<std::uint64_t> event_entries_;  // entries that wait for an event; sorted by event, the next one last
  std::size_t begun_ = 0;                     // entries
  bool strangers_are_deaf_ = false;           // a fault may hide from strangers for ever that they were disconnected
  Instant calm_from_;                         // end of the last fault that has begun
};

}  // namespace lockstep::sim
