// Where the programs of a swarm run, one at a time, and the world between their turns. Whoever has the baton may touch
// everything; the others wait for it. So there is no lock here: the semaphores by which the baton goes from one to the
// next order all memory.
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
#include "sim/guests.h"
#include "sim/world.h"
#include "transport/call.h"

namespace lockstep::swarm {

// One program, and its thread.
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
  const std::uint64_t serial_;  // of its start, as the world counts
  std::atomic<std::thread::id> thread_{};
  Turn turn_;
  std::vector<Guest*> guests_;  // of the world
  bool started_ = false;        // its embedder was told
  bool exited_ = false;
  bool killed_ = false;
  bool is_to_leave_ = false;
  bool ready_ = false;
  const std::function<bool()>* waits_for_ = nullptr;
  std::uint64_t wait_ = 0;     // the newest, as all waits are counted
  bool has_limit_ = false;     // the wait
  std::uint32_t looks_ = 0;    // waits without a time, one after the other
  std::uint32_t queries_ = 0;  // at asked_at_
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

  // ---- a program, with the baton ----
  void enter(Player& player);
  void exit(Player& player, const std::optional<std::string>& failure);
  bool spend(Player& player, Duration duration);
  bool wait(Player& player, const std::function<bool()>& done, std::optional<Duration> timeout);
  // Before it calls anything. False: it was killed, and calls nothing.
  bool may_call(Player& player);
  // Looks at something that changes with time alone: whoever does that again and again lets time pass.
  void looks(Player& player);
  Guest& open(Player& player, peer::Options options, transport::Log log);
  void close(Player& player, Guest& guest);
  [[nodiscard]] bool killed(const Player& player) const { return player.killed_; }
  [[nodiscard]] std::uint32_t host_of(const Player& player) const { return player.report_.host; }
  [[nodiscard]] std::string why_killed(const Player& player) const;
  [[nodiscard]] std::uint32_t founders() const { return conditions_.founders(); }
  [[nodiscard]] Instant now() const { return world_.now(); }
  sim::World& world() { return world_; }

  // ---- what may make a program go on ----
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
  // Whoever has the baton gives it on by these.
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
  std::vector<Player*> on_host_;  // those that live, by host
  std::vector<std::uint32_t> starts_of_host_;
  std::deque<Player*> to_start_;  // their embedder is to be told
  std::vector<Player*> ready_;    // in the order in which they go on
  std::uint32_t alive_ = 0;       // that have not exited
  std::uint32_t returned_ = 0;
  std::uint64_t waits_ = 0;
  bool ending_ = false;
  bool in_vain_known_ = false;  // in_vain_at_ is that of this quiet
  Instant in_vain_since_;
  Instant in_vain_at_;
  std::atomic<bool> stop_asked_{false};
  Turn main_turn_;
  Report report_;
  sim::World world_;  // the last: it calls begins() at once
};

}  // namespace lockstep::swarm
