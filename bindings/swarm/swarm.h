// Runs the user's own program as many peers in one process, through the C API, on the simulator's network and in its
// virtual time.
//
// Every program has its own thread, which the embedder creates. Exactly one program runs at a time: it holds the baton.
// The program keeps the baton until it waits (for a call that is not over, or for time to pass) or exits. Then the next
// program that can continue gets the baton, in the order of the virtual time at which it could continue, then of its
// host. If no program can continue, virtual time advances, event by event, until one can. While a program runs, virtual
// time advances only by the time that the program spends. So equal conditions and equal programs give the same run,
// down to the last bit of its hash.
//
//   Swarm swarm(*Conditions::from_scenario("peers = 3", 7));
//   Report report = swarm.run([&](ProgramId program) {         // holds the baton; must return soon
//     threads.emplace_back([&swarm, program] {
//       swarm.enter(program);                                  // blocks until it is this program's turn
//       lockstep_comm* comm;
//       swarm.open(program, nullptr, &comm);
//       lockstep_connect(comm, "swarm", LOCKSTEP_FOREVER);     // any address
//       ...
//       lockstep_comm_destroy(comm);
//       swarm.exit(program);                                   // the last call of the program
//     });
//   });
//
// If the host of a program crashes, all calls of the program end at once (NOT_CONNECTED, or OUTCOME_UNKNOWN for calls
// that had begun), later calls are refused, and killed() is true: the program must call exit() soon. Its memory is no
// longer lent from that moment on.
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

// One start of the program on one host: 1, 2, ... in the order of the starts.
struct ProgramId {
  std::uint32_t value = 0;
  auto operator<=>(const ProgramId&) const = default;
};

// How a program ended.
enum class End : std::uint8_t {
  kRunning,   // has not ended, or was ended together with the run
  kReturned,  // exit() without a failure
  kFailed,    // exit() with a failure
  kKilled,    // its host crashed or vanished
  kLeft,      // the conditions made the program leave
  kTooLate,   // still waited for admission when all others had returned
};
const char* name_of(End end);  // "running", "returned", "failed", "killed", "left", "too late"

struct ProgramReport {
  ProgramId program;
  std::uint32_t host = 0;   // 1 .. hosts()
  std::uint32_t start = 0;  // 1 for the first start on its host
  Duration began;           // virtual time since the beginning of the run; so are the others
  Duration ended;
  End end = End::kRunning;
};

// The begin or end of a fault, or of a program.
struct Happening {
  Duration at;
  std::string what;  // "crash c, back after 2 s", "c starts again"
};

struct Failure {
  // "S1" .. "S10": Lockstep broke one of its promises (or the program changed memory that it had lent). "program":
  // exit() was called with a failure. "deadlock": every program waits, and no event can end that. "limit": too many
  // events.
  std::string kind;
  std::string text;
  Duration at;
};

struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;  // hash of all events
  Duration time;           // virtual time from the beginning to the end of the last program
  std::uint64_t events = 0;
  std::uint64_t commits = 0;  // collectives, not calls; so is aborts
  std::uint64_t aborts = 0;
  std::uint64_t retries = 0;
  std::uint64_t views = 0;
  std::vector<ProgramReport> programs;
  std::vector<Happening> happenings;
  std::vector<std::size_t> never_began;  // faults of the conditions that would have begun after the end of the run
  std::optional<Failure> failure;        // the first failure
  bool interrupted = false;
};

class Stage;

class Swarm {
 public:
  explicit Swarm(const Conditions& conditions);
  Swarm(const Swarm&) = delete;
  Swarm& operator=(const Swarm&) = delete;
  // Allowed only after run() has returned, or if run() was never called. Communicators and works may outlive the swarm.
  ~Swarm();

  // ---- the embedder ----

  // Called on the thread of run(), which holds the baton: start a thread that calls enter(program). An exception ends
  // the run and leaves run() after all programs have exited.
  using Start = std::function<void(ProgramId program)>;
  // Called on the thread of run() every 50 ms of real time; returns true to end the run.
  using Interrupt = std::function<bool()>;

  // Runs the programs until all have exited. Call it once. Ends early (and kills all programs) if a promise is broken,
  // a program fails, all programs wait in vain, or `interrupt` returns true. When run() returns, every program has
  // called exit(); join the threads then.
  Report run(const Start& start, const Interrupt& interrupt = {});

  [[nodiscard]] std::uint32_t host_of(ProgramId program) const;

  // ---- a program, on its own thread ----

  // The first call of a program. Blocks until it is its turn.
  void enter(ProgramId program);
  // Creates a communicator in the swarm. Like lockstep_comm_create(), with these differences. `founders` 0: the number
  // of the conditions. `name` NULL: the name of the host. Ports, hosts, congestion control and spinning are ignored.
  // Times that are 0 follow from the heartbeat of the conditions. A program may open several communicators, one after
  // the other (to rejoin) or at the same time. The same thread must destroy them before exit().
  lockstep_status open(ProgramId program, const lockstep_comm_options* options, lockstep_comm** comm);
  // The virtual time since the beginning of the run.
  [[nodiscard]] Duration now(ProgramId program) const;
  // Lets virtual time pass, as if the program computed; others run meanwhile. Returns false if the program was killed,
  // perhaps before the end of the time.
  bool spend(ProgramId program, Duration duration);
  // Whether the host crashed or the run is over: every call fails from now on.
  [[nodiscard]] bool killed(ProgramId program) const;
  // The last call of a program: gives the baton away. `failure`: the program's error; it ends the run, unless the
  // program was killed.
  void exit(ProgramId program, const std::optional<std::string>& failure = std::nullopt);

 private:
  std::shared_ptr<Stage> stage_;
};

}  // namespace lockstep::swarm
