// The user's own program, run as many peers in one process, through the C API, on the simulator's network and in its
// time.
//
// Every program has a thread of its own, which its embedder makes. Exactly one runs at a time: it has the baton. It
// keeps the baton until it waits (for a call that is not over, for time to pass) or exits; then the next program that
// can go on has it, in the order of the virtual time at which it could, then of its host. If none can go on, virtual
// time passes, event by event, until one can. While a program runs no virtual time passes but what it spends. So the
// same conditions and the same programs give the same run, to the last bit of its hash.
//
//   Swarm swarm(*Conditions::from_scenario("peers = 3", 7));
//   Report report = swarm.run([&](ProgramId program) {         // with the baton; must return soon
//     threads.emplace_back([&swarm, program] {
//       swarm.enter(program);                                  // blocks until it is this program's turn
//       lockstep_comm* comm;
//       swarm.open(program, nullptr, &comm);
//       lockstep_connect(comm, "swarm", LOCKSTEP_FOREVER);     // any address
//       ...
//       lockstep_comm_destroy(comm);
//       swarm.exit(program);                                   // the last thing that it does here
//     });
//   });
//
// A program whose host crashes finds every call ended at once (NOT_CONNECTED, or OUTCOME_UNKNOWN where it had begun),
// every later one refused, and killed() true: it must come to its exit() soon. Its memory is its own again from that
// moment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/swarm/conditions.h"
#include "core/base/time.h"
#include "lockstep.h"

namespace lockstep::swarm {

// One start of the program on one host: 1, 2, ... in the order of their starts.
struct ProgramId {
  std::uint32_t value = 0;
  auto operator<=>(const ProgramId&) const = default;
};

// How a program ended.
enum class End : std::uint8_t {
  kRunning,   // it has not, or was ended with the run
  kReturned,  // exit() without a failure
  kFailed,    // exit() with one
  kKilled,    // its host crashed or vanished
  kLeft,      // the conditions made it leave
  kTooLate,   // it still waited to be let in when all others had returned
};
const char* name_of(End end);  // "running", "returned", "failed", "killed", "left", "too late"

struct ProgramReport {
  ProgramId program;
  std::uint32_t host = 0;   // 1 .. hosts()
  std::uint32_t start = 0;  // 1: the first on its host, ...
  Duration began;           // virtual, since the run began; likewise the others
  Duration ended;
  End end = End::kRunning;
};

// A fault that began or ended, or a program that started or ended.
struct Happening {
  Duration at;
  std::string what;  // "crash c, back after 2 s", "c starts again"
};

struct Failure {
  // "S1" .. "S10": Lockstep broke a promise of its own (or the program changed memory that it had lent). "program":
  // exit() was called with a failure. "deadlock": every program waits, and nothing can end that. "limit": events
  // without end.
  std::string kind;
  std::string text;
  Duration at;
};

struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;  // of everything that happened
  Duration time;           // virtual, from the beginning to the end of the last program
  std::uint64_t events = 0;
  std::uint64_t commits = 0;  // collectives, not calls; likewise aborts
  std::uint64_t aborts = 0;
  std::uint64_t retries = 0;
  std::uint64_t views = 0;
  std::vector<ProgramReport> programs;
  std::vector<Happening> happenings;
  std::vector<std::size_t> never_began;  // faults of the conditions that the run did not live to see
  std::optional<Failure> failure;        // the first
  bool interrupted = false;
};

class Stage;

class Swarm {
 public:
  explicit Swarm(const Conditions& conditions);
  Swarm(const Swarm&) = delete;
  Swarm& operator=(const Swarm&) = delete;
  // Only once run() has returned, or was never called. Communicators and works may outlive it.
  ~Swarm();

  // ---- the embedder ----

  // Called on the thread of run(), with the baton: start a thread that calls enter(program). What it throws ends the
  // run, and comes out of run() when all programs have exited.
  using Start = std::function<void(ProgramId program)>;
  // Asked on the thread of run() every 50 ms of real time; true ends the run.
  using Interrupt = std::function<bool()>;

  // Runs the programs until all have exited. Once. Ends sooner (all programs are killed) when a promise is broken, a
  // program fails, all wait in vain, or `interrupt` says so. When it returns every program has exited; join the threads
  // then.
  Report run(const Start& start, const Interrupt& interrupt = {});

  [[nodiscard]] std::uint32_t host_of(ProgramId program) const;

  // ---- a program, on its own thread ----

  // First. Blocks until it is its turn.
  void enter(ProgramId program);
  // A communicator in the swarm: as lockstep_comm_create(), with these differences. `founders` 0: those of the
  // conditions. `name` NULL: that of its host. Ports, hosts, congestion control and spinning mean nothing; times that
  // are 0 follow from the heartbeat of the conditions. Several one after the other (to rejoin) or beside each other are
  // allowed. To be destroyed before exit(), by this thread.
  lockstep_status open(ProgramId program, const lockstep_comm_options* options, lockstep_comm** comm);
  // Since the run began.
  [[nodiscard]] Duration now(ProgramId program) const;
  // What the program computes takes so long; others run meanwhile. False: it was killed, perhaps before the end.
  bool spend(ProgramId program, Duration duration);
  // Its host crashed, or the run is over: every call fails from now on.
  [[nodiscard]] bool killed(ProgramId program) const;
  // Last: gives the baton back for ever. `failure`: what went wrong in the program; ends the run, unless it was killed.
  void exit(ProgramId program, const std::optional<std::string>& failure = std::nullopt);

 private:
  std::shared_ptr<Stage> stage_;
};

}  // namespace lockstep::swarm
