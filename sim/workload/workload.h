// The simulated application: a training loop per peer. Admit, tell each other where they are, broadcast or sync the
// state, then steps of several collectives in flight at once, launched in another order on every peer. Control flow
// depends only on what all peers see alike: outcomes. A peer that has lost the run starts again as a newcomer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/input.h"
#include "sim/engine/dice.h"
#include "sim/engine/memory.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/program.h"

namespace lockstep::sim {

// Most pieces of the largest tensor that programs share.
inline constexpr std::uint64_t kStatePieces = 12;
// Transfers of a step: so many pairs of peers, and of each pair so many small tensors, which are more than go early.
inline constexpr std::uint64_t kTransferPairs = 4;
inline constexpr std::uint64_t kManyTransfers = 80;
inline constexpr std::uint64_t kSmallTransfer = 600;  // elements

// The progress of a program, kept on its host. A process that starts there may begin with it.
struct Checkpoint {
  std::uint64_t step = 0;
  std::uint64_t state = 1;
  Lineage lineage;
  bool lets_go = false;  // a state that was ahead of the run has been given up
  bool operator==(const Checkpoint&) const = default;
};

// The world, as an application uses it.
class AppHost {
 public:
  virtual ~AppHost() = default;
  [[nodiscard]] virtual Instant app_now() const = 0;
  // Calls on_event(what) after this time.
  virtual void app_after(std::uint32_t process, Duration delay, std::uint64_t what) = 0;
  // Called only from on_event(), never from within a completion.
  virtual void app_command(std::uint32_t process, peer::Input input) = 0;
  // The coordinator knows the run token of the process no more, unless the coordinator stands still.
  virtual void app_revoked(std::uint32_t process) = 0;
  // Likewise: from now on the run token of the process is for one peer at a time.
  virtual void app_restricted(std::uint32_t process) = 0;
  virtual Memory& memory_of(std::uint32_t process) = 0;
  virtual Call& app_call(std::uint32_t process, CallKind kind) = 0;
  virtual void app_launched(Call& call) = 0;
  virtual void app_transfers(const Call& call) = 0;
  // Whether the other side has called, so that this send will end.
  [[nodiscard]] virtual bool app_is_awaited(const Call& send) const = 0;
  virtual Call& app_made(std::uint32_t process, CallId call) = 0;
  [[nodiscard]] virtual const Call* contribution(PeerId peer, const RoundKey& round) = 0;
  virtual Checkpoint& app_checkpoint(std::uint32_t host) = 0;
  // The application and its gang have come to the end of the program: the host calls finish().
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

  // The contents of the tensors of a call.
  struct Contents {
    std::optional<std::uint64_t> drawn{};  // from this; otherwise from the plan
    CallId left_by{};                      // the earlier sync or prefetch whose memory the call takes over; 0: none
    std::uint64_t changed = 0;             // bytes of the first tensor that are other ones
    bool watches = false;                  // its state beside the call, though the plan does not say so
    std::uint64_t drift = 0;               // as in SharedState
    bool refused = false;                  // the application's side refuses the call
  };

  // Scripted: does nothing but connect by itself.
  void launch(ring::Request request, std::uint64_t count_here, const Contents& contents);
  CallId share(CallKind kind, ring::Request request, const Contents& contents);
  void leaves() { leaving_ = true; }

  // The application has reached the end of its program.
  void finish() {
    finished_ = true;
    leave();
  }
  // Actions that the nemesis asks for.
  void leave() override;
  void stop_call(CallId call) override;
  void abandon() override;
  void misuse(const Entry& entry);

  [[nodiscard]] std::uint64_t state() const { return state_; }
  [[nodiscard]] bool done() const { return finished_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }

  // Limits of the entries that the library holds for this program: its tags, and the pieces of its state.
  [[nodiscard]] std::size_t tags() const { return uses_.tags(); }
  [[nodiscard]] std::size_t pieces_of_state() const { return shared_.pieces; }

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
    kAbandon,
    kTransfer,
    kStopSends
  };

  using Lend = std::function<BufferRef(std::uint64_t bytes)>;
  void lend_tensors(const Call& call, ring::Request& request, std::uint64_t here, const Lend& lend) const;
  Call& lend_memory(CallKind kind, ring::Request& request, std::uint64_t here, const Contents& contents);
  void later(Do what, std::uint64_t index, std::int64_t delay_ns);
  std::int64_t pause(std::uint64_t at_most);
  void connect();
  void sync();
  void share_state();
  [[nodiscard]] std::shared_ptr<state::Statement> statement() const;
  [[nodiscard]] std::size_t count_pieces() const;
  [[nodiscard]] static ring::Request request_of(std::shared_ptr<const state::Statement> state);
  void sync_state();
  void go_back();
  void go_ahead();
  void let_go();
  [[nodiscard]] bool all_vote() const;
  [[nodiscard]] state::Strategy strategy();
  void fill_state(const ring::Request& request);
  void watch(Call& call, ring::Request& request, std::uint64_t drift);
  // Changes a value, or else a byte of the compared tensors.
  static void drift_value(std::uint64_t drift, state::Statement& state);
  void drift_byte(std::uint64_t drift, const ring::Request& of);
  // The difference that this peer brings to a sync; 0: none. With some the state is of an older revision.
  [[nodiscard]] std::uint64_t stray(state::Statement& state) const;
  [[nodiscard]] std::uint64_t piece_content(std::uint64_t tensor, std::uint64_t piece, const Checkpoint& at) const;
  [[nodiscard]] bool same_since_synced(const state::Manifest& manifest, std::uint32_t tensor) const;
  void publish();
  [[nodiscard]] bool publishes_again() const;
  void prefetch();
  [[nodiscard]] bool take_prefetched();
  void state_synced(const Call& call);
  [[nodiscard]] std::uint64_t ops_of_step() const;
  [[nodiscard]] bool admits_early() const;
  void begin_step();
  void launch_op(std::uint64_t index);
  void transfer();
  void send_to_next();
  CallId transfer(CallKind kind, peer::Transfer what);
  void stop_sends();
  void admit();
  void do_leave();
  void synced(const Call& call);
  void stepped(const Call& call);
  void step_is_over();
  [[nodiscard]] ring::Request given_request(const Work& work, std::uint64_t op) const;
  void add_blocks(ring::Request& request) const;
  ring::Request request_of(std::uint64_t op);
  void encode(ring::Request& request, std::uint64_t op);
  [[nodiscard]] std::optional<OddElement> odd_element(const ring::Request& request) const;
  [[nodiscard]] std::uint64_t drift_of_launch() const;
  // No fault is planned, the plan states the program, or honest peers may stop few calls.
  [[nodiscard]] bool is_calm() const {
    return plan_.entries.empty() || !plan_.program.work.empty() || plan_.program.stops_at_once != 0;
  }

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
  std::uint64_t state_ = 1;
  bool finished_ = false;
  std::vector<CallId> endless_;  // sends without a time-out

  // How programs come to the same step after an admission: an all-gather, then a broadcast or a sync of the state.
  struct Syncing {
    std::vector<PeerId> roots;  // contributors of the last all-gather
    PeerId source;              // root of the broadcast
    bool sharing = false;       // the broadcast is in progress
    std::uint64_t step = 0;     // at the last success
    std::uint32_t failed = 0;   // failures since then
  };
  Syncing in_sync_;

  // The state that programs share (StatePlan::shared).
  struct SharedState {
    std::size_t pieces = 0;      // of the state; they stay as many
    bool stateless = false;      // a sync failed while it wrote to the state, or the state was prefetched in part
    bool was_blank = false;      // in that sync
    CallId torn_by;              // the failed sync, if its memory still exists
    bool restored = false;       // a checkpoint was loaded since
    std::uint64_t furthest = 0;  // step of a sync
    Lineage lineage;
    std::optional<Checkpoint> went_back_from;  // the last time
    std::optional<Checkpoint> synced;          // the end of the last sync
    std::vector<std::uint64_t> watched;        // fingerprints of the last call that watched
    std::uint64_t drift = 0;                   // the difference in the watched state; 0: none
    CallId prefetched;                         // the first sync continues what it left; 0: none
    bool is_first_sync = true;
    bool half = false;  // until the first sync the memory holds parts of two states
    CallId published;   // the last
  };
  SharedState shared_;

  // Admission while the operations of a step are in flight: it ends before them or after.
  enum class EarlyAdmission : std::uint8_t { kNo, kAsked, kDone };
  struct Step {
    std::uint32_t pending = 0;  // operations that have not ended
    bool must_admit = false;
    EarlyAdmission early = EarlyAdmission::kNo;
    bool wait_for_world = false;
    std::vector<std::pair<CallId, std::uint64_t>> results;
    std::set<CallId> transfers;  // that the step waits for, and that have not ended
  };
  Step in_step_;

  // Misuses that a fault asks of the next collective.
  struct Misuse {
    Duration timeout;
    bool mismatch = false;
    bool refuse = false;
    bool skip = false;
  };
  Misuse next_;
};

}  // namespace lockstep::sim
