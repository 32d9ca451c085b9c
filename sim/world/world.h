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
#include "sim/checkers/complaint.h"
#include "sim/engine/event.h"
#include "sim/engine/steady_vector.h"
#include "sim/network/network.h"
#include "sim/plan/plan.h"
#include "sim/plan/report.h"
#include "sim/workload/call.h"
#include "sim/workload/program.h"
#include "sim/workload/workload.h"
#include "sim/world/call_judge.h"
#include "sim/world/cast.h"
#include "sim/world/checkers.h"
#include "sim/world/chronicle.h"
#include "sim/world/ending.h"
#include "sim/world/guest_programs.h"
#include "sim/world/guests.h"
#include "sim/world/kernels.h"
#include "sim/world/lives.h"
#include "sim/world/nemesis.h"
#include "sim/world/options.h"
#include "sim/world/strangers.h"
#include "sim/world/timers.h"
#include "sim/world/witness.h"

namespace lockstep::sim {

class World final : public NetworkUser, public AppHost, public StrangersHost {
 public:
  World(const Plan& plan, WorldOptions options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override;

  Report run();

  // ---- guests ----
  // Takes one event. False: the run is over, by a failure.
  bool step_once();
  [[nodiscard]] Report report();  // report of the events so far
  // Makes a process of the program that runs on the host. The world draws its id and seed. A time of `options` that is
  // 0 follows from the plan.
  std::uint32_t open(std::uint32_t host, peer::PeerOptions options, std::unique_ptr<Program> program);
  // Makes a call, which begins at once and may end at once. Its id is next_call(). `buffers`: the buffers of
  // memory_of() that the call lends; the world releases them when the call ends.
  [[nodiscard]] CallId next_call(std::uint32_t process) const {
    return CallId{cast_.processes[process].caller.calls.size() + 1};
  }
  void call(std::uint32_t index, peer::Input input, std::vector<BufferId> buffers = {});
  void stop_call(std::uint32_t index, CallId call, const std::string& why);
  void abandon(std::uint32_t index, const std::string& why);
  // The program is done with the process, and no call is open. The process comes to rest where its run is over;
  // otherwise it dies.
  void close(std::uint32_t index);
  // Calls Guests::wakes(host, what) after this time, if a program runs there then. `what`: not 0.
  void wake(std::uint32_t host, std::uint64_t what, Duration after) { guests_.wake(host, what, after); }
  // The program of this serial has ended. Its processes die; processes that have left the run come to rest. The program
  // starts again if a fault that made it leave says so.
  void guest_ends(std::uint32_t host, std::uint64_t serial);
  // The number of programs that will certainly start again.
  [[nodiscard]] std::uint32_t returning() const { return guests_.returning(); }
  // The last time at which something happened that can make a program go on: a start, a fault, the end of a call.
  [[nodiscard]] Instant quiet_since() const { return guests_.quiet_since(); }
  // The latest time until which the run can be quiet while open calls go on: their data takes that long, or they have a
  // time-out.
  [[nodiscard]] Instant quiet_until() const;
  // Whether a fault is in progress, or waits for its time.
  [[nodiscard]] bool fault_ahead() const { return nemesis_.is_ahead(); }
  [[nodiscard]] std::uint64_t newest_view() const { return news_.views; }
  [[nodiscard]] bool alive(std::uint32_t process) const { return cast_.processes[process].alive; }
  [[nodiscard]] bool run_is_over(std::uint32_t process) const { return cast_.processes[process].over; }
  [[nodiscard]] PeerId peer_of(std::uint32_t process) const { return cast_.processes[process].id; }
  [[nodiscard]] peer::Peer::Footprint footprint_of(std::uint32_t process) const;
  [[nodiscard]] peer::Lifecycle lifecycle_of(std::uint32_t process) const;
  [[nodiscard]] const std::deque<Call>& calls_of(std::uint32_t process) const {
    return cast_.processes[process].caller.calls;
  }
  void count(std::uint64_t a, std::uint64_t b) { chronicle_.mix(23, a, b, 0); }  // into the hash

  // ---- by hand (scripted) ----
  void run_for(Duration duration);
  void start(std::uint32_t host) { lives_.start(host); }
  // Begins a fault. A fault without a `length` lasts until end_fault().
  std::uint64_t begin_fault(const Entry& entry);
  void end_fault(std::uint64_t index) { nemesis_.end(index); }
  // Calls of the process that runs on the host now.
  CallId launch(std::uint32_t host, const ring::Request& request, const App::Contents& contents = {});
  CallId share(std::uint32_t host, CallKind kind, const ring::Request& request, const App::Contents& contents = {});
  CallId admit(std::uint32_t host, std::uint32_t at_least = 1, Duration timeout = {});
  CallId leave(std::uint32_t host, Duration timeout = {});
  void stop(std::uint32_t host, CallId call, const std::string& why);
  [[nodiscard]] const Call* call(std::uint32_t host, CallId id);
  [[nodiscard]] PeerId peer_on(std::uint32_t host);
  [[nodiscard]] Memory& memory_on(std::uint32_t host);
  [[nodiscard]] const std::optional<Failure>& failure() const { return chronicle_.report.failure; }
  [[nodiscard]] Instant now() const { return now_; }
  // Hosts and lines, where the plan has some; else nullptr.
  [[nodiscard]] flow::Topology* topology() { return network_.topology(); }

  // NetworkUser
  void tell(std::uint32_t index, io::Input input) override;
  Memory& memory_of(std::uint32_t process) override;
  std::uint32_t listener(std::uint32_t host, std::uint16_t port, std::uint32_t dialler) override;
  bool rejects(std::uint32_t host, std::uint16_t port, std::uint32_t dialler) override;
  std::uint32_t host_of(std::uint32_t process) override;
  io::Identity proves(std::uint32_t from, StreamId stream, std::uint32_t to) override;
  bool stalled(std::uint32_t process) override;
  bool lies_about(std::uint32_t process, const BufferRef& payload) override;
  void flipped(std::uint32_t from, std::uint32_t to) override;
  void let_go(std::uint32_t process, std::uint32_t other, Instant ended) override {
    checkers_.causes.let_go(process, other, ended);
  }
  void contract_broken(std::uint32_t process, std::string what) override;

  // StrangersHost
  std::optional<Target> stranger_target(std::uint32_t process) override;
  void stranger_hears(std::uint32_t process, const wire::Message& message, bool answers) override;
  void stranger_asks(std::uint32_t process, const io::Effect& effect) override;
  void stranger_wakes(std::uint32_t process, Duration after, std::uint64_t what) override;

  // AppHost
  [[nodiscard]] Instant app_now() const override { return now_; }
  void app_after(std::uint32_t process, Duration delay, std::uint64_t what) override;
  void app_command(std::uint32_t index, peer::Input input) override;
  void app_revoked(std::uint32_t index) override;
  void app_restricted(std::uint32_t index) override;
  Call& app_call(std::uint32_t index, CallKind kind) override;
  void app_launched(Call& call) override;
  void app_transfers(const Call& call) override { checkers_.transfers.called(call); }
  [[nodiscard]] bool app_is_awaited(const Call& send) const override {
    return checkers_.transfers.is_awaited(
        send, [this](PeerId peer) { return checkers_.causes.excuses().life(cast_.by_id.at(peer)).gone(); });
  }
  [[nodiscard]] bool is_gone(PeerId peer) const;
  [[nodiscard]] Ending::Overdue overdue() const;
  Call& app_made(std::uint32_t index, CallId call) override {
    return cast_.processes[index].caller.calls[call.value - 1];
  }
  [[nodiscard]] const Call* contribution(PeerId peer, const RoundKey& round) override {
    return cast_.contribution(peer, round);
  }
  Checkpoint& app_checkpoint(std::uint32_t host) override { return cast_.hosts[host].checkpoint; }
  void app_finished(std::uint32_t process) override;
  [[nodiscard]] std::uint64_t last_step() const override { return ending_.last_step(); }

 private:
  // First events of the run, on any host.
  struct News {
    std::map<RoundKey, bool> rounds;  // with a verdict; true: committed
    std::uint64_t commits = 0;
    std::uint64_t views = 0;   // the newest that was installed
    CohortId newest_cohort;    // that was installed
    std::uint64_t pieces = 0;  // of states, that have come
  };

  [[nodiscard]] Lives::Around around();

  // world.cc
  void handle(const Event& event);
  bool reaches(SimProcess& process, const Event& event);
  void dispatch(const Event& event);
  void on_driver_event(SimProcess& process, const Event& event);
  void resolved(SimProcess& process);
  void on_app_event(SimProcess& process, const Event& event);
  void step(SimProcess& process, peer::Input&& input);
  void step(SimProcess& process, coordinator::Input&& input);
  void look_if_quiet(SimProcess& process);
  void look_if_it_waits(const SimProcess& process, std::size_t members);
  void look_at_quiet(SimProcess& process);
  [[nodiscard]] MostHeld most_held(const SimProcess& process) const;
  void renew_sometimes(SimProcess& process);
  template <typename Machine, typename Options, typename Effects>
  void renew(std::uint32_t process, MachineSlot<Machine, Options>& machine, Effects& lent);
  void on_timer(SimProcess& process);
  [[nodiscard]] std::size_t most_processes() const;

  void end_call_of_guest(SimProcess& process, Call& call);
  void heal();

  // effects.cc
  void carry_out(SimProcess& process, peer::Effect& effect);
  void carry_out(SimProcess& process, coordinator::Effect& effect);
  void on_told_wait(const trace::Event& event);  // L6
  // Whether the lies of members explain a report that is wrong.
  [[nodiscard]] bool is_lied_about(PeerId by, const trace::Event& event) const;
  template <typename Io>
  void carry_out_io(SimProcess& process, const Io& io);
  void check_sent(SimProcess& process, const io::Input& input);
  void tell_io(const SimProcess& process, const io::Effect& effect);
  void completed(SimProcess& process, peer::Complete& complete);
  void tell_end(const SimProcess& process, const Call& call);
  bool count_round(const Call& call);
  void keep_results(SimProcess& process, Call& call);
  void release(SimProcess& process, std::uint64_t index);
  void look_for_transfers(const SimProcess& process);
  [[nodiscard]] std::vector<std::vector<PeerId>> untold_rounds(const SimProcess& process) const;
  void run_over(SimProcess& process, const peer::RunOver& over);

  Plan plan_;
  WorldOptions options_;
  Dice dice_;
  EventQueue queue_;
  Network network_;
  Instant now_;
  Cast cast_;
  Chronicle chronicle_;
  Checkers checkers_;
  Kernels kernels_;
  CallJudge judge_;
  Timers timers_;
  Ending ending_;
  GuestPrograms guests_;
  Lives lives_;
  Nemesis nemesis_;
  News news_;
  peer::Effects peer_effects_;
  coordinator::Effects coordinator_effects_;
  std::uint64_t steps_ = 0;  // of all machines, where they are renewed
};

// Runs a plan from its beginning to its end, and checks its expectations.
Report run(const Plan& plan, const WorldOptions& options = {});

}  // namespace lockstep::sim
