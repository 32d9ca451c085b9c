// The processes and hosts of a run, and lookups of both.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/peer/peer.h"
#include "sim/checkers/s9_rate.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/engine/memory.h"
#include "sim/engine/steady_vector.h"
#include "sim/workload/call.h"
#include "sim/workload/program.h"
#include "sim/workload/workload.h"
#include "sim/world/identities.h"
#include "sim/world/strangers.h"

namespace lockstep::sim {

// A job of the kernels of a process.
struct KernelRun {
  KernelJob job;
  JobResult result;
  Instant started;
  bool busy = false;
  bool ran = false;
};

// A machine of core that a process runs. World::renew_sometimes() replaces it with a machine that has loaded its state.
template <typename Machine, typename Options>
class MachineSlot {
 public:
  void start(Options options, Instant now) {
    options_ = std::move(options);
    machine_ = std::make_unique<Machine>(options_, now);
  }
  void replace(std::unique_ptr<Machine> fresh) { former_.push_back(std::exchange(machine_, std::move(fresh))); }
  void stop() {
    machine_.reset();
    former_.clear();
  }

  explicit operator bool() const { return machine_ != nullptr; }
  Machine* operator->() const { return machine_.get(); }
  Machine& operator*() const { return *machine_; }
  [[nodiscard]] const Options& options() const { return options_; }  // they stay when the machine stops

 private:
  Options options_;
  std::unique_ptr<Machine> machine_;
  std::vector<std::unique_ptr<Machine>> former_;  // machines that were replaced: their memory may still be lent
};

// The timer of a process.
struct ProcessTimer {
  std::int64_t deadline = INT64_MAX;  // the deadline of the machine for which the timer was set
  std::uint64_t serial = 0;           // serial number of the valid timer event; earlier ones were replaced
  std::uint32_t idle = 0;             // timers in a row without another input
};

// The pause of a process that stands still.
struct Stall {
  std::uint32_t count = 0;  // stalls in progress
  std::vector<Event> held_back;
};

// The newest numbers that a process was told about its world.
struct KnownWorld {
  std::uint32_t pending = 0;
  std::uint32_t wanted = 0;  // members that its call of admit waits for; 0: there is no such call
  std::size_t members = 0;   // of the view that it has installed last
  CohortId cohort;           // of that view
  Instant cohort_since;      // when it installed the first view of that cohort
};

// At which addresses of its coordinator a process meets another key than its run token names.
enum class OtherKey : std::uint8_t { kNowhere, kFirst, kEverywhere };

// The program of a process, and the calls that the program has made.
struct Caller {
  io::KeyDigest key;  // that its streams prove
  OtherKey meets = OtherKey::kNowhere;
  std::unique_ptr<Program> program;
  App* app = nullptr;  // the program; null if the program is a guest's
  TagUses uses;        // of a guest
  std::deque<Call> calls;
  std::vector<std::uint32_t> open_calls;  // indices in `calls`
  std::uint64_t commits_at_heal = 0;      // commits of the program when the network healed
};

// Strangers that run in a process instead of a machine of core and a program.
struct Attack {
  std::unique_ptr<Strangers> strangers;
  std::uint32_t host = 0;  // the host that they attack
};

// A process, from its start to its end, and what the world remembers of it afterwards.
struct SimProcess {
  std::uint32_t index = 0;
  std::uint32_t host = 0;
  PeerId id;
  bool alive = true;
  bool over = false;  // the process has lost the run, or has left
  bool connected = false;
  bool quiet = false;  // at the end of its last step
  Instant over_at;
  Stall stall;
  std::uint16_t port = 0;  // 0: does not listen
  ProcessTimer timer;
  KnownWorld known;
  std::uint64_t draws = 0;
  MachineSlot<peer::Peer, peer::PeerOptions> peer;
  MachineSlot<coordinator::Coordinator, coordinator::CoordinatorOptions> coordinator;
  std::unique_ptr<Memory> memory;
  std::vector<KernelRun> jobs;
  Attack attack;
  Caller caller;
  SentPayload sent;
};

// A host, on which processes start and end.
struct SimHost {
  std::uint32_t process = kNoProcess;
  bool finished = false;
  bool gone = false;  // for good, or never there: nothing starts there any more, and its streams are silent for ever
  Duration pause;     // between leaving and coming back; 0: when the network heals
  std::uint64_t kernel_factor = 1;
  Checkpoint checkpoint;
  std::uint32_t lies = 0;   // how many kSpoil last
  std::uint64_t stops = 0;  // one call in so many is stopped, because of kLie; 0: none
  std::uint64_t to_miscompute = 0;
  OtherKey next_meets = OtherKey::kNowhere;  // the process that starts there next
  // guests
  std::uint64_t guest = 0;  // the program that runs; 0: none
  std::uint32_t stalled = 0;
  std::vector<std::uint64_t> held_back;  // pending wake-ups
};

struct Cast {
  explicit Cast(std::uint32_t count_of_hosts) : hosts(count_of_hosts) {}

  // The process that runs on the host now; null: none.
  SimProcess* running(std::uint32_t host);
  // The newest call of a peer that became this round; null: none.
  [[nodiscard]] const Call* contribution(PeerId peer, const RoundKey& round) const;
  static std::optional<RoundKey> round_of(const SimProcess& process, const Call& call);
  // Whether a collective of an older cohort is open. A coordinator keeps the cohorts of such rounds. It does not hear
  // of rounds that have only begun.
  [[nodiscard]] bool is_open_before(CohortId newest) const;
  // "{a b}": hosts as letters; a is host 1.
  [[nodiscard]] std::string letters_of(const std::vector<PeerId>& peers) const;

  SteadyVector<SimProcess> processes;
  std::vector<SimHost> hosts;
  std::map<PeerId, std::uint32_t> by_id;
  Tokens tokens;
};

// A delay that is drawn for the process: 1 ns to `at_most`, mostly short.
std::int64_t draw_delay(const Dice& dice, SimProcess& process, Duration at_most, Purpose purpose);

}  // namespace lockstep::sim
