// What applications do: a training loop per peer. Admit, tell each other where they are, broadcast or sync the state,
// then steps of several collectives in flight at once, launched in another order on every peer. Control flow depends only on
// what all peers see alike: outcomes. A peer that has lost the run starts again as a newcomer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/input.h"
#include "sim/call.h"
#include "sim/dice.h"
#include "sim/memory.h"
#include "sim/plan.h"
#include "sim/program.h"

namespace lockstep::sim {

// Of the largest tensor that programs share, at most.
inline constexpr std::uint64_t kStatePieces = 12;

// Where a program was, as it is kept on its host: a process that starts there may begin with it.
struct Checkpoint {
  std::uint64_t step = 0;
  std::uint64_t state = 1;
  bool operator==(const Checkpoint&) const = default;
};

// What an application can do in its world.
class AppHost {
 public:
  virtual ~AppHost() = default;
  [[nodiscard]] virtual Instant app_now() const = 0;
  // on_event(what) is called after so long.
  virtual void app_after(std::uint32_t process, Duration delay, std::uint64_t what) = 0;
  // Only from on_event(), never from within a completion.
  virtual void app_command(std::uint32_t process, peer::Input input) = 0;
  virtual Memory& memory_of(std::uint32_t process) = 0;
  virtual Call& app_call(std::uint32_t process, CallKind kind) = 0;
  virtual void app_launched(Call& call) = 0;
  virtual Call& app_made(std::uint32_t process, CallId call) = 0;
  [[nodiscard]] virtual const Call* contribution(PeerId peer, const RoundKey& round) = 0;
  virtual Checkpoint& app_checkpoint(std::uint32_t host) = 0;
  // It, and with it its gang, has come to the end of the program: finish() is called.
  virtual void app_finished(std::uint32_t process) = 0;
  // The step at which everybody leaves; far away until the run has shown that it lives.
  [[nodiscard]] virtual std::uint64_t last_step() const = 0;
};

class App final : public Program {
 public:
  App(AppHost& host, const Plan& plan, std::uint32_t process, std::uint32_t on_host, PeerId peer, GroupId group,
      bool scripted = false);

  void begin() override;
  void on_event(std::uint64_t what) override;
  void on_complete(const Call& call) override;
  void on_view(const std::shared_ptr<const wire::View>& view) override { uses_.on_view(*view); }

  // What is in the tensors of a call.
  struct Contents {
    std::optional<std::uint64_t> drawn{};  // from this; otherwise from the plan
    CallId left_by{};                      // what this sync or prefetch left there, in the same memory; 0: none
    std::uint64_t changed = 0;             // bytes of the first tensor that are other ones
    bool watches = false;                  // its state beside the call, though the plan does not say so
    std::uint64_t drift = 0;               // as in drift_
  };

  // Scripted: does nothing but connect by itself.
  void launch(peer::Request request, std::uint64_t count_here, const Contents& contents);
  CallId share(CallKind kind, peer::Request request, const Contents& contents);
  void leaves() { leaving_ = true; }

  // Its part of the program is over.
  void finish() {
    finished_ = true;
    leave();
  }
  // What the nemesis makes it do.
  void leave() override;
  void stop_call(CallId call) override;
  void abandon() override;
  void misuse(const Entry& entry);

  [[nodiscard]] std::uint64_t state() const { return state_; }
  [[nodiscard]] bool done() const { return finished_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }

 private:
  enum class Do : std::uint8_t {
    kConnect,
    kSync,
    kStep,
    kLaunch,
    kAdmit,
    kLeave,
    kStop,
    kAgain,
    kPublish,
    kPrefetch,
    kAbandon
  };

  Call& lend_memory(CallKind kind, peer::Request& request, std::uint64_t here, const Contents& contents);
  void later(Do what, std::uint64_t index, std::int64_t delay_ns);
  std::int64_t pause(std::uint64_t at_most);
  void connect();
  void sync();
  void share_state();
  [[nodiscard]] std::shared_ptr<state::Statement> statement() const;
  [[nodiscard]] static peer::Request request_of(std::shared_ptr<const state::Statement> state);
  void sync_state();
  void go_back();
  [[nodiscard]] bool all_vote() const;
  [[nodiscard]] state::Strategy strategy();
  void fill_state(const peer::Request& request);
  void watch(Call& call, peer::Request& request, std::uint64_t drift);
  void apply(std::uint64_t drift, const peer::Request& copy, state::Statement& state);
  [[nodiscard]] std::uint64_t piece_content(std::uint64_t tensor, std::uint64_t piece, const Checkpoint& at) const;
  [[nodiscard]] bool same_since_synced(const state::Manifest& manifest, std::uint32_t tensor) const;
  void publish();
  void prefetch();
  [[nodiscard]] bool take_prefetched();
  void state_synced(const Call& call);
  [[nodiscard]] std::uint64_t ops_of_step() const;
  [[nodiscard]] bool admits_early() const;
  void begin_step();
  void launch_op(std::uint64_t index);
  void admit();
  void do_leave();
  void synced(const Call& call);
  void stepped(const Call& call);
  void step_is_over();
  [[nodiscard]] peer::Request given_request(const Work& work, std::uint64_t op) const;
  peer::Request request_of(std::uint64_t op);
  void encode(peer::Request& request, std::uint64_t op);
  [[nodiscard]] std::optional<OddElement> odd_element(const peer::Request& request) const;
  [[nodiscard]] std::uint64_t drift_of_launch() const;
  // Nothing is to go wrong, or the program is given.
  [[nodiscard]] bool is_calm() const { return plan_.entries.empty() || !plan_.work.empty(); }

  AppHost& host_;
  const Plan& plan_;
  Dice dice_;
  std::uint32_t process_;
  std::uint32_t on_host_;
  PeerId peer_;
  GroupId group_;
  bool scripted_;
  std::uint64_t generation_ = 0;
  std::uint64_t draws_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t commits_ = 0;
  TagUses uses_;
  std::vector<PeerId> roots_;  // who took part in the last all-gather
  PeerId donor_;
  bool sharing_ = false;                      // the broadcast after the all-gather
  bool stateless_ = false;                    // a sync failed while it wrote to the state, or it was prefetched in part
  bool was_blank_ = false;                    // in that sync
  CallId torn_by_;                            // that sync, if its memory is still there
  bool restored_ = false;                     // it has loaded a checkpoint since
  std::uint64_t furthest_ = 0;                // step at which it has synced
  std::optional<Checkpoint> went_back_from_;  // the last time
  std::optional<Checkpoint> synced_state_;    // that the last sync ended with
  std::vector<std::uint64_t> watched_;        // what the last call that watched found: fingerprints
  std::uint64_t drift_ = 0;                   // what is other in the state that it watches; 0: nothing
  CallId prefetched_;                         // the first sync goes on with what is there; 0: none
  bool first_sync_ = true;
  std::uint64_t synced_at_ = 0;
  std::uint64_t state_ = 1;
  std::uint32_t pending_ = 0;  // operations of this step that have not ended
  std::uint32_t failed_syncs_ = 0;
  bool must_admit_ = false;
  // Admission while the step's operations are in flight: it ends before them or after.
  enum class Early : std::uint8_t { kNo, kAsked, kDone } early_ = Early::kNo;
  bool wait_for_world_ = false;
  std::vector<std::pair<CallId, std::uint64_t>> results_;
  bool finished_ = false;
  CallId stop_;
  bool half_ = false;  // until its first sync its memory holds parts of two states
  CallId published_;   // the last
  Duration next_timeout_;
  bool next_mismatch_ = false;
  bool next_skip_ = false;
};

}  // namespace lockstep::sim
