#include "bindings/swarm/stage.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/assert.h"
#include "sim/plan/plan.h"
#include "sim/workload/text.h"

namespace lockstep::swarm {
namespace {

constexpr std::chrono::milliseconds kAsksEvery(50);

// The virtual time that one poll of a condition costs. A program that polls must reach the moment at which the
// condition holds. The cost grows up to a millisecond.
constexpr Duration kLook = microseconds(2);
constexpr std::uint32_t kMostLooks = 9;
constexpr std::uint32_t kFreeQueries = 256;

constexpr auto kDestroyed = "the communicator was destroyed before this call ended";

sim::WorldOptions world_options(sim::Guests& guests) {
  sim::WorldOptions options;
  options.guests = &guests;
  return options;
}

bool needs_a_program(sim::Fault fault) {
  using sim::Fault;
  return fault == Fault::kCrash || fault == Fault::kVanish || fault == Fault::kStall || fault == Fault::kLeave ||
         fault == Fault::kStop || fault == Fault::kAbandon;
}

// Promises of Lockstep that a program can break by changing memory that it has lent.
bool may_be_the_programs_fault(const std::string& promise) {
  return promise == "S2" || promise == "S3" || promise == "S5";
}

}  // namespace

// ---- one program ----

Instant Player::now() const { return stage_.now(); }
bool Player::wait(const std::function<bool()>& done, std::optional<Duration> timeout) {
  return stage_.wait(*this, done, timeout);
}
void Player::call_ended() { stage_.call_ended(*this); }
void Player::run_over() {
  if (is_to_leave_) stage_.left(*this);
}

// ---- the run ----

Stage::Stage(const Conditions& conditions)
    : conditions_(conditions),
      on_host_(conditions.plan().peers + 1U),
      starts_of_host_(conditions.plan().peers + 1U),
      world_(conditions_.plan(), world_options(*this)) {}

Player& Stage::player(ProgramId program) {
  LOCKSTEP_ASSERT(program.value >= 1 && program.value <= players_.size());
  return players_[program.value - 1];
}

Report Stage::run(const Swarm::Start& start, const Swarm::Interrupt& interrupt) {
  std::exception_ptr thrown;
  for (;;) {
    Player* const next = choose();
    if (next != nullptr) {
      give(next);
      while (!main_turn_.take_within(kAsksEvery)) {
        if (interrupt && interrupt()) stop_asked_.store(true, std::memory_order_relaxed);
      }
      continue;
    }
    if (to_start_.empty()) break;
    Player& begins = *to_start_.front();
    to_start_.pop_front();
    if (begins.killed_) {  // killed before the embedder was told of it
      end_player(begins);
      continue;
    }
    try {
      start(begins.report_.program);
      begins.started_ = true;
      ready(begins);
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
      end_player(begins);
      end_run();
    }
  }
  if (world_.failure() && !report_.failure && !report_.interrupted) take_failure();
  const sim::Report world = world_.report();
  report_.seed = conditions_.seed();
  report_.hash = world.hash;
  report_.time = since_begin();
  report_.events = world.events;
  report_.commits = world.commits;
  report_.aborts = world.aborts;
  report_.retries = world.retries;
  report_.views = world.views;
  for (const Player& player : players_) report_.programs.push_back(player.report_);
  for (const std::uint64_t entry : world.never_began) report_.never_began.push_back(entry);
  if (thrown) std::rethrow_exception(thrown);
  return report_;
}

// ---- the baton ----

// Selects the next to run: a program, or null for the thread of run() if a program is to be started or the run is over.
// Advances time until one can run.
Player* Stage::choose() {
  bool looked_for_late = false;
  for (;;) {
    if (stop_asked_.load(std::memory_order_relaxed) && !ending_) {
      report_.interrupted = true;
      end_run();
    }
    if (!to_start_.empty()) return nullptr;
    if (!ready_.empty()) {
      Player* const next = ready_.front();
      ready_.erase(ready_.begin());
      next->ready_ = false;
      return next;
    }
    if (is_finished()) return nullptr;
    LOCKSTEP_ASSERT(!ending_);  // otherwise all remaining programs would be ready
    if (!std::exchange(looked_for_late, true)) {
      end_those_too_late();
      if (!ready_.empty()) continue;
    }
    end_if_all_wait_in_vain();
    if (ending_) continue;
    if (world_.step_once()) continue;
    if (!world_.failure()) {
      fail("deadlock", "no program can continue, and no event is pending: " + who_waits());
    } else {
      take_failure();
      end_run();
    }
  }
}

bool Stage::is_finished() const {
  if (alive_ > 0) return false;
  return ending_ || returned_ > 0 || world_.returning() == 0;
}

void Stage::give(Player* next) {
  if (next != nullptr) {
    next->turn_.give();
  } else {
    main_turn_.give();
  }
}

void Stage::pass_on(Player& player) {
  Player* const next = choose();
  if (next == &player) return;
  give(next);
  player.turn_.take();
}

void Stage::enter(Player& player) {
  player.turn_.take();
  player.thread_.store(std::this_thread::get_id());
}

void Stage::exit(Player& player, const std::optional<std::string>& failure) {
  LOCKSTEP_ASSERT(player.is_here() && !player.exited_);
  if (player.is_to_leave_) leave(player);
  if (!player.killed_) {
    for (Guest* const guest : player.guests_) guest->fail_all("its program has ended");
    if (failure) {
      player.report_.end = End::kFailed;
      const std::string who = host_name(player.report_.host);
      fail("program", who + (player.report_.start > 1 ? " (start " + std::to_string(player.report_.start) + ")" : "") +
                          ": " + *failure);
    } else {
      player.report_.end = End::kReturned;
      returned_ += 1;
    }
  }
  end_player(player);
  player.thread_.store({});
  give(choose());
}

void Stage::end_player(Player& player) {
  player.exited_ = true;
  player.killed_ = true;
  alive_ -= 1;
  std::erase(ready_, &player);
  player.report_.ended = since_begin();
  Player*& here = on_host_[player.report_.host];
  if (here == &player) here = nullptr;
  if (player.report_.end != End::kRunning) {
    note(host_name(player.report_.host) + ": " + name_of(player.report_.end));
  }
  if (ending_) return;
  world_.count(player.report_.host, static_cast<std::uint64_t>(player.report_.end));
  world_.guest_ends(player.report_.host, player.serial_);
}

// In the order of the time at which they can continue, which is now; then by host.
void Stage::ready(Player& player) {
  if (player.ready_ || player.exited_ || !player.started_) return;
  player.ready_ = true;
  ready_.insert(
      std::ranges::upper_bound(ready_, player.report_.host, {}, [](const Player* of) { return of->report_.host; }),
      &player);
}

// ---- what a program does ----

bool Stage::wait(Player& player, const std::function<bool()>& done, std::optional<Duration> timeout) {
  if (done()) return true;
  if (player.killed_) return false;
  player.waits_for_ = &done;
  player.wait_ = ++waits_;
  player.has_limit_ = timeout.has_value();
  const bool looks = timeout && timeout->ns <= 0;
  player.looks_ = looks ? std::min(player.looks_ + 1, kMostLooks) : 0;
  if (timeout) world_.wake(player.report_.host, player.wait_, looks ? kLook * (1U << player.looks_) : *timeout);
  pass_on(player);
  player.waits_for_ = nullptr;
  return done();
}

bool Stage::spend(Player& player, Duration duration) {
  const std::function<bool()> never = [] { return false; };
  if (duration.ns > 0) wait(player, never, duration);
  return !player.killed_;
}

void Stage::looks(Player& player) {
  if (!player.is_here() || player.killed_) return;
  if (player.asked_at_ != world_.now()) player.queries_ = 0;
  player.asked_at_ = world_.now();
  const std::function<bool()> never = [] { return false; };
  if (++player.queries_ > kFreeQueries) wait(player, never, milliseconds(1));
}

// Makes the program's communicator leave, and waits for it.
void Stage::leave(Player& player) {
  const std::function<bool()> is_killed = [&] { return player.killed_; };
  wait(player, is_killed, std::nullopt);
}

bool Stage::may_call(Player& player) {
  if (player.is_to_leave_) leave(player);
  return !player.killed_;
}

Guest& Stage::open(Player& player, peer::PeerOptions options, transport::Log log) {
  auto guest = std::make_unique<Guest>(world_, player, std::move(log));
  Guest& opened = *guest;
  const std::uint32_t process = world_.open(player.report_.host, std::move(options), std::move(guest));
  opened.runs_as(process);
  player.guests_.push_back(&opened);
  return opened;
}

// Ends the guest as if the run were lost: the memory of its calls is returned first. If the program's thread is
// elsewhere, exit() closes it.
void Stage::close(Player& player, Guest& guest) {
  if (!player.is_here() || !may_call(player)) return;
  if (guest.has_calls()) {
    world_.abandon(guest.process(), kDestroyed);
    const std::function<bool()> is_done = [&] { return !guest.has_calls(); };
    wait(player, is_done, std::nullopt);
  }
  guest.close();
  if (!player.killed_) world_.close(guest.process());
}

std::string Stage::why_killed(const Player& player) const {
  switch (player.report_.end) {
    case End::kKilled: return "this peer is dead: its host crashed in the swarm";
    case End::kLeft: return "this peer has left: the conditions of the swarm made it leave";
    case End::kTooLate: return "this peer came too late: all other programs have ended";
    case End::kRunning:
    case End::kReturned:
    case End::kFailed: return "the run of the swarm is over";
  }
  LOCKSTEP_UNREACHABLE();
}

// ---- faults that affect programs ----

void Stage::call_ended(Player& player) {
  if (player.waits_for_ != nullptr && (*player.waits_for_)()) ready(player);
}

void Stage::wakes(std::uint32_t host, std::uint64_t what) {
  Player* const player = on_host_[host];
  if (player != nullptr && player->waits_for_ != nullptr && player->wait_ == what) ready(*player);
}

void Stage::begins(std::uint32_t host, std::uint64_t serial) {
  ProgramReport report;
  report.program = ProgramId{static_cast<std::uint32_t>(players_.size() + 1)};
  report.host = host;
  report.start = ++starts_of_host_[host];
  const bool again = report.start > 1;
  Player& player = players_.emplace_back(*this, report, serial);
  on_host_[host] = &player;
  alive_ += 1;
  to_start_.push_back(&player);
  if (serial <= conditions_.founders()) return;  // while the world is being constructed
  player.report_.began = since_begin();
  note(host_name(host) + (again ? " starts again" : " starts"));
}

void Stage::dies(std::uint32_t host) {
  if (Player* const player = on_host_[host]; player != nullptr) kill(*player, End::kKilled);
}

void Stage::left(Player& player) {
  if (!player.killed_) kill(player, End::kLeft);
}

void Stage::is_to_leave(std::uint32_t host) {
  Player* const player = on_host_[host];
  if (player == nullptr || player->killed_ || player->is_to_leave_) return;
  player->is_to_leave_ = true;
  for (Guest* const guest : player->guests_) {
    if (guest->connected() && !guest->leaving()) return guest->leave_politely();
  }
  kill(*player, End::kLeft);  // the program is not a member
}

void Stage::kill(Player& player, End end) {
  player.killed_ = true;
  player.report_.end = end;
  const std::string why = why_killed(player);
  for (Guest* const guest : player.guests_) guest->fail_all(why);
  if (on_host_[player.report_.host] == &player) on_host_[player.report_.host] = nullptr;
  if (!player.started_) return;  // the embedder was not told yet
  ready(player);
}

void Stage::fault_begins(std::size_t entry) {
  const sim::Entry& fault = conditions_.plan().entries[entry];
  const bool runs = fault.a < on_host_.size() && on_host_[fault.a] != nullptr;
  std::string what = sim::words_of(fault, host_name);
  if (needs_a_program(fault.fault) && fault.a != 0 && !runs) what += " (not running)";
  if (fault.fault == sim::Fault::kJoin && runs) what += " (is there)";
  note(std::move(what));
}

void Stage::fault_ends(std::size_t entry) {
  note("over: " + sim::words_of(conditions_.plan().entries[entry], host_name));
}

void Stage::note(std::string what) { report_.happenings.push_back({since_begin(), std::move(what)}); }

// ---- the end ----

void Stage::fail(std::string kind, std::string text) {
  if (!report_.failure && !ending_) report_.failure = Failure{std::move(kind), std::move(text), since_begin()};
  end_run();
}

void Stage::take_failure() {
  const sim::Failure& broken = *world_.failure();
  const bool lent = may_be_the_programs_fault(broken.promise);
  report_.failure =
      Failure{broken.promise, broken.text + (lent ? " (or a program changed memory that it had lent to a call)" : ""),
              nanoseconds(broken.at_ns)};
}

// Nothing can happen in the world any more: kills all programs, which then exit one by one.
void Stage::end_run() {
  if (std::exchange(ending_, true)) return;
  for (Player& player : players_) {
    if (!player.exited_ && !player.killed_) kill(player, player.report_.end);
  }
}

// All members have exited, and newcomers still wait for an admission.
void Stage::end_those_too_late() {
  if (returned_ == 0 || alive_ == 0 || world_.newest_view() == 0) return;
  const auto is_late = [](const Player& player) {
    if (player.exited_) return true;
    const auto joins = [](const Guest* guest) { return guest->phase() == sim::Program::Phase::kConnecting; };
    const auto is_in = [](const Guest* guest) { return guest->connected(); };
    return player.waits_for_ != nullptr && std::ranges::any_of(player.guests_, joins) &&
           std::ranges::none_of(player.guests_, is_in);
  };
  if (!std::ranges::all_of(players_, is_late)) return;
  for (Player& player : players_) {
    if (!player.exited_ && !player.killed_) kill(player, End::kTooLate);
  }
}

void Stage::end_if_all_wait_in_vain() {
  const Instant quiet = world_.quiet_since();
  if (!in_vain_known_ || in_vain_since_ != quiet) {
    in_vain_known_ = true;
    in_vain_since_ = quiet;
    in_vain_at_ = quiet + conditions_.plan().heartbeat * 20;  // a short limit detects this quickly
  }
  if (world_.now() <= in_vain_at_) return;
  in_vain_at_ = world_.quiet_until();
  if (world_.now() <= in_vain_at_) return;
  const auto has_limit = [](const Player& player) { return !player.exited_ && player.has_limit_; };
  if (world_.fault_ahead() || world_.returning() > 0 || std::ranges::any_of(players_, has_limit)) {
    in_vain_at_ = world_.now() + conditions_.plan().heartbeat * 20;
    return;
  }
  fail("deadlock", "no program can continue: " + who_waits());
}

std::string Stage::who_waits() const {
  std::string words;
  for (const Player& player : players_) {
    if (player.exited_) continue;
    std::string calls;
    for (const Guest* const guest : player.guests_) {
      for (const std::string& call : guest->open_calls()) calls += (calls.empty() ? "" : " and ") + call;
    }
    words += (words.empty() ? "" : "; ") + host_name(player.report_.host) + " waits for " +
             (calls.empty() ? "no open call" : calls);
  }
  for (const Player& player : players_) {
    if (player.report_.end != End::kReturned) continue;
    words +=
        "; " + host_name(player.report_.host) + " has returned at " + sim::text_of(Instant{} + player.report_.ended);
  }
  return words;
}

}  // namespace lockstep::swarm
