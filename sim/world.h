// Many peers and a coordinator in one thread and in virtual time: runs one plan on the machines of core, carries their
// effects out, and asks every checker after everything that happens.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/peer/peer.h"
#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/checkers/l2_admissions.h"
#include "sim/checkers/l2_causes.h"
#include "sim/checkers/p3_recovery.h"
#include "sim/checkers/s11_at_quiet.h"
#include "sim/checkers/s1_one_outcome.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/checkers/s2_flips.h"
#include "sim/checkers/s5_one_state.h"
#include "sim/checkers/s6_membership.h"
#include "sim/event.h"
#include "sim/guests.h"
#include "sim/network.h"
#include "sim/plan.h"
#include "sim/program.h"
#include "sim/report.h"
#include "sim/steady_vector.h"
#include "sim/strangers.h"
#include "sim/witness.h"
#include "sim/workload.h"

namespace lockstep::sim {

struct WorldOptions {
  std::function<void(const std::string&)> trace;  // a line for everything a person may want to know; may be empty
  bool trace_streams = false;                     // also every input and effect of a stream
  std::uint64_t max_events = 20'000'000;
  // Nothing happens by itself but what run_for() lets happen: processes are started, calls made and faults begun by hand.
  bool scripted = false;
  // What an application sees, said about a host: views, outcomes, the end of its run. No times, so that it fits a transcript.
  std::function<void(std::uint32_t host, const std::string& line)> observe;
  // Programs from outside run instead of the simulator's own; bytes mode only. Null: none. The plan says nothing of the program then,
  // nobody comes back but after the time that a fault says, and the run ends when its owner steps no more.
  Guests* guests = nullptr;
  Witness* witness = nullptr;  // looks on; may be null
  std::uint64_t until = 0;     // stop after so many events; 0: at the end
  // After one step in about so many the machine is saved, and a fresh one that loads it goes on (with real bytes only); 0: never.
  std::uint64_t renew_one_in = 0;
};

class World final : public NetworkUser, public AppHost, public StrangersHost {
 public:
  World(const Plan& plan, WorldOptions options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override;

  Report run();

  // ---- guests ----
  // One event. False: the run is over, by a failure.
  bool step_once();
  [[nodiscard]] Report report();  // of what has happened so far
  // A new process of the program that runs on the host. Its id and seed are drawn here, and times of `options` that are 0 follow from
  // the plan.
  std::uint32_t open(std::uint32_t host, peer::Options options, std::unique_ptr<Program> program);
  // A command of its program that is a call: it begins at once, and may end. Its id is that of next_call(). `buffers`: of memory_of(),
  // all that it lends; they are released when it ends.
  [[nodiscard]] CallId next_call(std::uint32_t process) const { return CallId{processes_[process].calls.size() + 1}; }
  void call(std::uint32_t index, peer::Input input, std::vector<BufferId> buffers = {});
  void stop_call(std::uint32_t index, CallId call, const std::string& why);
  void abandon(std::uint32_t index, const std::string& why);
  // Its program is done with it, and no call is open: it comes to rest by itself where the run is over to it, else it dies.
  void close(std::uint32_t index);
  // Guests::wakes(host, what) is called so much later, if a program runs there then. `what`: not 0.
  void wake(std::uint32_t host, std::uint64_t what, Duration after);
  // The program of this serial has ended. Its processes die, but for those that have left the run, which come to rest. It starts
  // again if a fault that made it leave says so.
  void guest_ends(std::uint32_t host, std::uint64_t serial);
  // Programs that will start again, come what may.
  [[nodiscard]] std::uint32_t returning() const { return returning_; }
  // Since when nothing has happened that can make a program go on: no program, no fault, no call that ended.
  [[nodiscard]] Instant quiet_since() const { return quiet_since_; }
  // Until when it can be quiet at most while calls that are open go on: what they have to move takes so long, or they have a time-out.
  [[nodiscard]] Instant quiet_until() const;
  // Whether a fault is under way that will end, or waits for its time.
  [[nodiscard]] bool fault_ahead() const;
  [[nodiscard]] std::uint64_t newest_view() const { return views_; }
  [[nodiscard]] bool alive(std::uint32_t process) const { return processes_[process].alive; }
  [[nodiscard]] bool run_is_over(std::uint32_t process) const { return processes_[process].over; }
  [[nodiscard]] PeerId peer_of(std::uint32_t process) const { return processes_[process].id; }
  [[nodiscard]] peer::Peer::Footprint footprint_of(std::uint32_t process) const;
  [[nodiscard]] const std::deque<Call>& calls_of(std::uint32_t process) const { return processes_[process].calls; }
  void count(std::uint64_t a, std::uint64_t b) { mix(23, a, b, 0); }  // into the hash

  // ---- by hand (scripted) ----
  void run_for(Duration duration);
  void start(std::uint32_t host) { start_host(host); }
  // Begins a fault; one that lasts does so until end_fault() unless `length` is set.
  std::uint64_t begin_fault(const Entry& entry);
  void end_fault(std::uint64_t index) { end_entry(index); }
  // Calls of the process that runs on the host now.
  CallId launch(std::uint32_t host, const peer::Request& request, const App::Contents& contents = {});
  CallId share(std::uint32_t host, CallKind kind, const peer::Request& request, const App::Contents& contents = {});
  CallId admit(std::uint32_t host, std::uint32_t at_least = 1, Duration timeout = {});
  CallId leave(std::uint32_t host, Duration timeout = {});
  void stop(std::uint32_t host, CallId call, const std::string& why);
  [[nodiscard]] const Call* call(std::uint32_t host, CallId id);
  [[nodiscard]] PeerId peer_on(std::uint32_t host);
  [[nodiscard]] Memory& memory_on(std::uint32_t host);
  [[nodiscard]] const std::optional<Failure>& failure() const { return report_.failure; }
  [[nodiscard]] Instant now() const { return now_; }
  // Hosts and lines, where the plan has some; else nullptr.
  [[nodiscard]] flow::Topology* topology() { return network_.topology(); }

  // NetworkUser
  void tell(std::uint32_t index, io::Input input) override;
  Memory& memory_of(std::uint32_t process) override;
  std::uint32_t listener(std::uint32_t host, std::uint16_t port) override;
  std::uint32_t host_of(std::uint32_t process) override;
  bool stalled(std::uint32_t process) override;
  bool lies_about(std::uint32_t process, const BufferRef& payload) override;
  void flipped(std::uint32_t from, std::uint32_t to) override;
  void contract_broken(std::uint32_t process, std::string what) override;

  // StrangersHost
  std::optional<io::Address> stranger_target(std::uint32_t process) override;
  void stranger_asks(std::uint32_t process, const io::Effect& effect) override;
  void stranger_wakes(std::uint32_t process, Duration after, std::uint64_t what) override;

  // AppHost
  [[nodiscard]] Instant app_now() const override { return now_; }
  void app_after(std::uint32_t process, Duration delay, std::uint64_t what) override;
  void app_command(std::uint32_t index, peer::Input input) override;
  Call& app_call(std::uint32_t index, CallKind kind) override;
  void app_launched(Call& call) override;
  Call& app_made(std::uint32_t index, CallId call) override { return processes_[index].calls[call.value - 1]; }
  [[nodiscard]] const Call* contribution(PeerId peer, const RoundKey& round) override;
  Checkpoint& app_checkpoint(std::uint32_t host) override { return hosts_[host].checkpoint; }
  void app_finished(std::uint32_t process) override;
  [[nodiscard]] std::uint64_t last_step() const override { return last_step_; }

 private:
  struct Job {
    KernelJob job;
    JobResult result;
    bool busy = false;
    bool ran = false;
  };
  struct Process {
    std::uint32_t index = 0;
    std::uint32_t host = 0;
    PeerId id;
    bool alive = true;
    bool over = false;  // the run is lost to it, or left
    bool connected = false;
    std::uint64_t commits_at_heal = 0;
    std::uint32_t stalled = 0;           // how many stalls hold it
    std::uint16_t port = 0;              // 0: does not listen
    std::int64_t timer_for = INT64_MAX;  // the deadline that its timer was set for
    std::uint64_t timer_serial = 0;      // of the timer event that counts; earlier ones were replaced
    std::uint32_t idle_timers = 0;
    std::uint32_t pending = 0;  // as it was told last
    std::uint32_t wanted = 0;   // members that its call of admit waits for; 0: there is none
    std::size_t members = 0;    // of the view that it has installed last
    std::uint64_t draws = 0;
    std::vector<Event> held_back;
    peer::Options peer_options;
    coordinator::Options coordinator_options;
    std::unique_ptr<peer::Peer> peer;
    std::unique_ptr<coordinator::Coordinator> coordinator;
    std::vector<std::unique_ptr<peer::Peer>> renewed_peers;  // their memory may still be lent for writing
    std::vector<std::unique_ptr<coordinator::Coordinator>> renewed_coordinators;
    std::unique_ptr<Memory> memory;
    std::unique_ptr<Strangers> strangers;  // then it has no machine of core, and no program
    std::uint32_t attacked = 0;            // the host
    std::unique_ptr<Program> program;
    App* app = nullptr;  // the same, unless it is a guest's
    TagUses uses;        // of a guest
    std::deque<Call> calls;
    std::vector<std::uint32_t> open_calls;
    Instant over_at;
    std::vector<Job> jobs;
    bool quiet = false;  // at the end of its last step
  };
  struct Host {
    std::uint32_t process = kNoProcess;
    bool finished = false;
    bool gone = false;  // for good, or never there: nothing starts there any more, and its streams are silent for ever
    Duration pause;     // between leaving and coming back; 0: when the network heals
    std::uint64_t kernel_factor = 1;
    Checkpoint checkpoint;
    std::uint32_t lies = 0;  // how many kSpoil last
    std::uint64_t to_miscompute = 0;
    // guests
    std::uint64_t guest = 0;  // the program that runs; 0: none
    std::uint32_t stalled = 0;
    std::vector<std::uint64_t> held_back;  // what it is to be woken up for
  };

  struct Active {
    bool begun = false;
    bool on = false;
    std::uint32_t process = kNoProcess;
    std::uint64_t guest = 0;
    std::uint64_t times = 0;
  };

  // world.cc
  void observe(const Process& process, const std::string& line);
  [[nodiscard]] static std::optional<RoundKey> round_of(const Process& process, const Call& call);
  [[nodiscard]] std::string people(const std::vector<PeerId>& peers) const;
  void handle(const Event& event);
  [[nodiscard]] std::string what_happened() const;
  void step(Process& process, peer::Input&& input);
  void step(Process& process, coordinator::Input&& input);
  void arm(Process& process);
  void look_if_quiet(Process& process);
  void look_if_it_waits(const Process& process, std::size_t members);
  void look_at_quiet(Process& process);
  [[nodiscard]] bool is_open_in_older_cohort() const;
  void renew_sometimes(Process& process);
  template <typename Machine, typename Options, typename Effects>
  void renew(Process& process, std::unique_ptr<Machine>& machine, std::vector<std::unique_ptr<Machine>>& former,
             const Options& options, Effects& lent);
  void fail(std::string promise, std::string text);
  void check(const char* promise, Complaint complaint);
  void mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d);
  void say(const Process& process, const std::string& line);
  void on_timer(Process& process);
  [[nodiscard]] std::size_t most_processes() const;
  [[nodiscard]] Instant deadline_of(const Process& process) const;
  [[nodiscard]] std::int64_t delay(Process& process, Duration at_most, Purpose purpose);

  // guests.cc
  void start_guest(std::uint32_t host);
  void guest_dies(std::uint32_t host);
  bool begin_with_guest(std::uint64_t index);
  void guest_wakes(const Entry& entry, const Active& active);
  void on_guest_event(const Event& event);
  void give(Process& process, Call& call, const peer::Request& request, std::vector<BufferId> buffers);
  [[nodiscard]] Complaint check_fold(const Process& process, const Call& call, const FindCall& find);
  void end_call_of_guest(Process& process, Call& call);
  void forget_old_inputs(Process& process);

  // effects.cc
  void carry_out(Process& process, peer::Effect& effect);
  void carry_out(Process& process, coordinator::Effect& effect);
  template <typename Io>
  void carry_out_io(Process& process, const Io& io);
  void tell_io(const Process& process, const io::Effect& effect);
  void start_job(Process& process, const KernelJob& job);
  void run_job_now(Process& process, std::uint64_t slot);
  void miscompute(Process& process, Job& job);
  [[nodiscard]] bool is_odd(const peer::Outcome& outcome) const;
  void completed(Process& process, peer::Complete& complete);
  void release(Process& process, std::uint64_t index);
  [[nodiscard]] Complaint check_time_of(const Process& process, const Call& call);
  [[nodiscard]] Complaint check_admission(const Call& call);
  [[nodiscard]] Complaint check_recovery(const Call& call);
  void run_over(Process& process, const peer::RunOver& over);

  // nemesis.cc
  void start_host(std::uint32_t host);
  Process& new_process(std::uint32_t host, peer::Options options);
  void begin_process(Process& process, std::unique_ptr<Program> program);
  void stop_process(Process& process, Death death);
  void begin_entries(std::uint64_t Entry::*which, std::uint64_t n);
  void begin_entry(std::uint64_t index);
  void end_entry(std::uint64_t index);
  void stall(Process& process, bool on);
  void begins(const Entry& entry);
  void begin_strangers(std::uint64_t index);
  void end_strangers(const Active& active);
  void judge_strangers(const Process& process);
  void forgive_strangers();
  void heal();
  void watch();
  void settle();
  void stop_waiting();
  void after_run(Process& process);
  void rest(Process& process);
  void end_when_all_are_gone();
  [[nodiscard]] std::vector<std::uint32_t> gang_of(std::uint32_t host) const;
  [[nodiscard]] bool namesakes_are_in(GangId gang) const;
  Process* running(std::uint32_t host);

  Plan plan_;
  WorldOptions options_;
  Dice dice_;
  EventQueue queue_;
  Network network_;
  Instant now_;
  std::uint64_t hash_ = 0;
  SteadyVector<Process> processes_;
  std::vector<Host> hosts_;
  std::map<PeerId, std::uint32_t> by_id_;
  std::map<RoundKey, bool> rounds_;  // committed?
  std::uint64_t commits_ = 0;        // of them
  std::uint64_t views_ = 0;          // the newest that was installed anywhere
  CohortId newest_cohort_;           // likewise
  std::uint64_t pieces_ = 0;         // of states, that have come anywhere
  peer::Effects peer_effects_;
  coordinator::Effects coordinator_effects_;
  Report report_;
  const Call* judged_ = nullptr;  // by the checkers, now
  OneOutcome one_outcome_;
  OneState one_state_;
  Membership membership_;
  AtQuiet at_quiet_;
  std::map<RoundKey, std::vector<std::uint64_t>> folded_;  // by guests, found exact: fingerprints of the results
  Causes causes_;
  Admissions admissions_;
  Recovery recovery_;
  Flips flips_;
  std::vector<Active> active_;                // by entry
  std::vector<std::uint64_t> event_entries_;  // sorted by event, the next one last
  std::size_t begun_ = 0;                     // how many of them
  bool strangers_are_deaf_ = false;           // a fault may keep from some for ever that they were shown out
  Instant calm_from_;                         // when those that have begun are over
  bool healed_ = false;
  bool over_ = false;
  bool settled_ = false;
  Instant healed_at_;
  Instant all_gone_at_{INT64_MAX};
  Duration bound_;
  std::uint64_t last_step_ = UINT64_MAX;
  std::uint64_t starts_ = 0;
  std::uint64_t guests_ = 0;     // that have begun
  std::uint32_t returning_ = 0;  // guests that will
  Instant quiet_since_;
  std::uint64_t steps_ = 0;                           // of all machines, where they are renewed
  std::array<std::uint64_t, kWhatCount> happened_{};  // for the words of a run that does not end
};

// Runs a plan from its beginning to its end, where what was expected must have come.
Report run(const Plan& plan, const WorldOptions& options = {});

}  // namespace lockstep::sim
