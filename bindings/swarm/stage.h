// Runs the programs of a swarm, one at a time, and the world between their turns. The holder of the baton may access
// everything; all others wait. So no lock is needed: the semaphores that pass the baton order all memory accesses.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/swarm/guest.h"
#include "bindings/swarm/swarm.h"
#include "bindings/swarm/turn.h"
#include "core/base/time.h"
#include "sim/world/guests.h"
#include "sim/world/world.h"
#include "transport/call.h"

namespace lockstep::swarm {

// One program and its thread.
class Player final : public transport::Waiter, public Host {
 public:
  Player(Stage& stage, const ProgramReport& report, std::uint64_t serial)
      : stage_(stage), report_(report), serial_(serial) {}

  // ---- transport::Waiter: calls of this program wait in virtual time ----
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] bool is_here() const override { return std::this_thread::get_id() == thread_.load(); }
  bool wait(const std::function<bool()>& done, std::optional<Duration> timeout) override;

  // ---- Host ----
  void call_ended() override;
  void run_over() override;

 private:
  friend class Stage;
  Stage& stage_;
  ProgramReport report_;
  const std::uint64_t serial_;  // number of its start, as the world counts
  std::atomic<std::thread::id> thread_{};
  Turn turn_;
  std::vector<Guest*> guests_;  // owned by the world
  bool started_ = false;        // the embedder was told
  bool exited_ = false;
  bool killed_ = false;
  bool is_to_leave_ = false;
  bool ready_ = false;
  const std::function<bool()>* waits_for_ = nullptr;
  std::uint64_t wait_ = 0;     // the newest wait; all waits are numbered
  bool has_limit_ = false;     // whether the wait has a timeout
  std::uint32_t looks_ = 0;    // consecutive waits without a timeout
  std::uint32_t queries_ = 0;  // queries at asked_at_
  Instant asked_at_;
};

class Stage final : public sim::Guests, public std::enable_shared_from_this<Stage> {
 public:
  explicit Stage(const Conditions& conditions);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() override = default;

  // ---- the embedder ----
  Report run(const Swarm::Start& start, const Swarm::Interrupt& interrupt);
  [[nodiscard]] Player& player(ProgramId program);

  // ---- a program that holds the baton ----
  void enter(Player& player);
  void exit(Player& player, const std::optional<std::string>& failure);
  bool spend(Player& player, Duration duration);
  bool wait(Player& player, const std::function<bool()>& done, std::optional<Duration> timeout);
  // Call it before every call. Returns false if the program was killed and may not call.
  bool may_call(Player& player);
  // Polls a condition that only time changes: a program that polls repeatedly lets time pass.
  void looks(Player& player);
  Guest& open(Player& player, peer::PeerOptions options, transport::Log log);
  void close(Player& player, Guest& guest);
  [[nodiscard]] bool killed(const Player& player) const { return player.killed_; }
  [[nodiscard]] std::uint32_t host_of(const Player& player) const { return player.report_.host; }
  [[nodiscard]] std::string why_killed(const Player& player) const;
  [[nodiscard]] std::uint32_t founders() const { return conditions_.founders(); }
  [[nodiscard]] Instant now() const { return world_.now(); }
  sim::World& world() { return world_; }

  // ---- events that may let a program continue ----
  void call_ended(Player& player);
  void left(Player& player);

  // ---- sim::Guests ----
  void begins(std::uint32_t host, std::uint64_t serial) override;
  void dies(std::uint32_t host) override;
  void is_to_leave(std::uint32_t host) override;
  void wakes(std::uint32_t host, std::uint64_t what) override;
  void fault_begins(std::size_t entry) override;
  void fault_ends(std::size_t entry) override;

 private:
  // The holder of the baton passes it on with these functions.
  Player* choose();
  void pass_on(Player& player);
  void give(Player* next);

  void ready(Player& player);
  void leave(Player& player);
  void kill(Player& player, End end);
  void end_run();
  void fail(std::string kind, std::string text);
  void take_failure();
  void end_those_too_late();
  void end_if_all_wait_in_vain();
  [[nodiscard]] bool is_finished() const;
  [[nodiscard]] std::string who_waits() const;
  void note(std::string what);
  [[nodiscard]] Duration since_begin() const { return world_.now() - Instant{}; }
  void end_player(Player& player);

  const Conditions conditions_;
  std::deque<Player> players_;
  std::vector<Player*> on_host_;  // live programs, by host
  std::vector<std::uint32_t> starts_of_host_;
  std::deque<Player*> to_start_;  // programs whose embedder is still to be told
  std::vector<Player*> ready_;    // in the order in which they continue
  std::uint32_t alive_ = 0;       // programs that have not exited
  std::uint32_t returned_ = 0;
  std::uint64_t waits_ = 0;
  bool ending_ = false;
  bool in_vain_known_ = false;  // in_vain_at_ belongs to the current quiet
  Instant in_vain_since_;
  Instant in_vain_at_;
  std::atomic<bool> stop_asked_{false};
  Turn main_turn_;
  Report report_;
  sim::World world_;  // last member: its constructor calls begins()
};

}  // namespace lockstep::swarm
