#include "sim/world.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#define XXH_INLINE_ALL  // four words at a time
#include <xxhash.h>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "sim/checkers/s11_at_rest.h"
#include "sim/checkers/s9_bounds.h"
#include "sim/liveness_bound.h"
#include "sim/text.h"

namespace lockstep::sim {
namespace {

constexpr std::uint16_t kCoordinatorPort = 4000;
constexpr std::uint32_t kIdleTimers = 1000;  // so often in one nanosecond is a machine that spins
constexpr std::uint64_t kCheckpoint = 4096;

}  // namespace

World::World(const Plan& plan, WorldOptions options)
    : plan_(plan),
      options_(std::move(options)),
      dice_(plan.seed),
      queue_(dice_),
      network_(plan_.network, plan.peers + 1, dice_, queue_, *this),
      hash_(plan.seed),
      hosts_(plan.peers + 1),
      membership_(options_.guests != nullptr ? 0 : plan.gang_size),
      at_quiet_(plan.heartbeat),
      causes_(plan, now_),
      admissions_(plan),
      recovery_(plan),
      active_(plan.entries.size()) {
  LOCKSTEP_ASSERT(flaw_of(plan).empty());
  LOCKSTEP_ASSERT(options_.renew_one_in == 0 || plan.mode == Mode::kBytes);  // tokens are known by where they lie
  queue_.watch(options_.witness);
  network_.watch(options_.witness);
  if (options_.scripted || std::any_of(plan.entries.begin(), plan.entries.end(),
                                       [](const Entry& entry) { return entry.fault == Fault::kMute; })) {
    network_.watch_answers();
  }
  report_.seed = plan.seed;
  for (std::uint32_t host = 1; host <= plan.peers; ++host) {
    hosts_[host].gone = !takes_part(plan, host);
    report_.peers += hosts_[host].gone ? 0 : 1;
  }
  report_.bytes_mode = plan.mode == Mode::kBytes;
  bound_ = liveness_bound(plan);

  Process& process = processes_.emplace_back();
  process.memory = std::make_unique<Memory>(plan.mode);
  process.port = kCoordinatorPort;
  coordinator::Options c;
  c.link_key = {dice_.bits(Purpose::kIdentity, process.index, 4), dice_.bits(Purpose::kIdentity, process.index, 5)};
  c.heartbeat = plan.heartbeat;
  c.silence = plan.heartbeat * 6;
  c.greeting = plan.heartbeat * 6;
  c.gang_leave = plan.heartbeat * 20;
  c.link_patience = plan.heartbeat * 20;
  c.strangers = most_strangers(plan);
  process.coordinator = std::make_unique<coordinator::Coordinator>(c, now_);
  process.coordinator_options = c;
  causes_.coordinator(c);
  if (options_.guests != nullptr) causes_.has_guests();
  if (options_.scripted) causes_.is_scripted();
  if (options_.witness != nullptr) options_.witness->born(0, c, now_);
  hosts_[0].process = 0;
  if (options_.witness != nullptr) options_.witness->started(0, 0, {});

  if (options_.scripted) return;
  LOCKSTEP_ASSERT(options_.guests == nullptr || plan.mode == Mode::kBytes);
  for (std::uint32_t host = 1; host <= plan.founders; ++host) start_host(host);
  for (std::uint64_t i = 0; i < plan.entries.size(); ++i) {
    const Entry& entry = plan.entries[i];
    if (entry.event != 0) {
      event_entries_.push_back(i);
    } else if (counts_from_start(entry)) {
      queue_.push(now_ + entry.after, What::kEntry, kNoProcess, i, 0);
    }
  }
  std::stable_sort(event_entries_.begin(), event_entries_.end(),
                   [&](auto a, auto b) { return plan_.entries[a].event > plan_.entries[b].event; });
  queue_.push(now_ + plan.safety, What::kHeal, kNoProcess);
}

World::~World() = default;

Report run(const Plan& plan, const WorldOptions& options) {
  Report report = World(plan, options).run();
  if (report.failure || options.until != 0) return report;
  const std::string missing = unmet(plan.expect, report);
  if (!missing.empty()) report.failure = Failure{"goal", missing, report.time_ns, report.events};
  return report;
}

void World::run_for(Duration duration) {
  const Instant end = now_ + duration;
  while (!over_ && !queue_.empty() && queue_.top().at <= end.ns) {
    const Event event = queue_.pop();
    now_ = Instant{std::max(now_.ns, event.at)};
    report_.events += 1;
    handle(event);
  }
  now_ = std::max(now_, end);
}

bool World::step_once() {
  if (over_ || queue_.empty()) return false;
  const Event event = queue_.pop();
  now_ = Instant{std::max(now_.ns, event.at)};
  report_.events += 1;
  while (!event_entries_.empty() && plan_.entries[event_entries_.back()].event <= report_.events) {
    const std::uint64_t index = event_entries_.back();
    const Duration after = plan_.entries[index].after;
    event_entries_.pop_back();
    if (after.ns == 0) {
      queue_.push_next(now_, What::kEntry, kNoProcess, index, 0);
    } else {
      queue_.push(now_ + after, What::kEntry, kNoProcess, index, 0);
    }
  }
  handle(event);
  if (report_.events % kCheckpoint == 0) report_.checkpoints.push_back(hash_);
  if (report_.events >= options_.max_events) fail("limit", "the run goes on and on: " + what_happened());
  return !over_;
}

Report World::run() {
  while (step_once()) {
    if (options_.until != 0 && report_.events >= options_.until) break;
  }
  if (options_.trace) options_.trace(text_of(now_) + " events: " + what_happened());
  return report();
}

Report World::report() {
  Report report = report_;
  report.hash = hash_;
  for (std::uint64_t i = 0; i < active_.size(); ++i) {
    if (!active_[i].begun) report.never_began.push_back(i);
  }
  report.time_ns = now_.ns;
  report.views = membership_.views();
  report.resets += network_.counts().resets;
  report.revoked_midway = network_.counts().revoked_midway;
  for (const auto& [round, committed] : rounds_) (committed ? report.commits : report.aborts) += 1;
  return report;
}

std::string World::what_happened() const {
  std::string out;
  for (std::size_t what = 0; what < kWhatCount; ++what) {
    if (happened_[what] == 0) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(happened_[what]) + " " +
           std::string(name_of(static_cast<What>(what)));
  }
  return out;
}

void World::handle(const Event& event) {
  if (event.process != kNoProcess) {
    Process& process = processes_[event.process];
    if (!process.alive) return;
    if (process.stalled > 0) {
      process.held_back.push_back(event);
      if (options_.witness != nullptr) options_.witness->held_back(event);
      return;
    }
  }
  if (options_.witness != nullptr) options_.witness->happens(event, now_);
  happened_[static_cast<std::size_t>(event.what)] += 1;
  mix(static_cast<std::uint64_t>(event.what) | std::uint64_t{event.process} << 8U, static_cast<std::uint64_t>(now_.ns),
      event.a, event.b);
  switch (event.what) {
    case What::kArrive:
    case What::kSyn:
    case What::kDialExpires:
    case What::kLand:
    case What::kTold:
    case What::kTake:
    case What::kTaken:
    case What::kRevoked:
    case What::kClosed:
    case What::kOpened:
    case What::kAccepted:
    case What::kFlow: network_.handle(event, now_); break;
    case What::kTimer:
      if (event.b == processes_[event.process].timer_serial) on_timer(processes_[event.process]);
      break;
    case What::kJobRuns: run_job_now(processes_[event.process], event.a); break;
    case What::kJobDone: {
      Process& process = processes_[event.process];
      run_job_now(process, event.a);
      Job& job = process.jobs[event.a];
      job.busy = false;
      step(process, peer::JobDone{job.job.token, job.result});
      break;
    }
    case What::kResolved:
      step(processes_[event.process],
           peer::Resolved{std::vector<io::Address>{Network::address_of(0, kCoordinatorPort)}});
      break;
    case What::kListening: {
      Process& process = processes_[event.process];
      process.port = static_cast<std::uint16_t>(20'000 + process.index % 40'000);
      step(process, peer::Listening{process.port});
      break;
    }
    case What::kApp:
      if (processes_[event.process].strangers) {
        processes_[event.process].strangers->on_wake(event.a);
        judge_strangers(processes_[event.process]);
      } else if (event.b == 1) {
        release(processes_[event.process], event.a);
      } else {
        processes_[event.process].program->on_event(event.a);
      }
      break;
    case What::kWake:
      if (options_.guests != nullptr) returning_ -= 1;
      start_host(static_cast<std::uint32_t>(event.a));
      break;
    case What::kGuest: on_guest_event(event); break;
    case What::kEntry: event.b == 0 ? begin_entry(event.a) : end_entry(event.a); break;
    case What::kHeal: heal(); break;
    case What::kGiveUp:
      if (event.process == kNoProcess) {
        watch();
      } else if (event.a == 1) {
        after_run(processes_[event.process]);
      } else {
        rest(processes_[event.process]);
      }
      break;
  }
  const std::uint32_t touched =
      event.what == What::kArrive ? network_.process_at(static_cast<Network::End>(event.a)) : event.process;
  if (touched != kNoProcess) {
    const std::string& trespass = processes_[touched].memory->trespass();
    if (!trespass.empty()) fail("S4", text_of(processes_[touched].id) + ": " + trespass);
  }
}

// ---- machines ----

void World::tell(std::uint32_t index, io::Input input) {
  Process& process = processes_[index];
  std::visit(overloaded{
                 [&](const io::ReadDone& in) { mix(1, in.stream.value, in.bytes, index); },
                 [&](const io::WriteDone& in) { mix(2, in.stream.value, in.bytes, index); },
                 [&](const io::Revoked& in) { mix(3, in.stream.value, in.bytes, index); },
                 [&](const auto& in) { mix(4, in.stream.value, 0, index); },
             },
             input);
  if (options_.trace_streams && options_.trace) {
    std::visit(
        overloaded{
            [&](const io::ReadDone& in) {
              say(process, "  stream " + std::to_string(in.stream.value) + " read " + std::to_string(in.bytes));
            },
            [&](const io::WriteDone& in) {
              say(process, "  stream " + std::to_string(in.stream.value) + " wrote " + std::to_string(in.bytes));
            },
            [&](const io::Revoked& in) {
              say(process,
                  "  stream " + std::to_string(in.stream.value) + " gave back after " + std::to_string(in.bytes));
            },
            [&](const io::Closed& in) {
              say(process,
                  "  stream " + std::to_string(in.stream.value) + " closed: " + std::string(name_of(in.reason)));
            },
            [&](const io::Opened& in) { say(process, "  stream " + std::to_string(in.stream.value) + " opened"); },
            [&](const io::Accepted& in) {
              say(process, "  stream " + std::to_string(in.stream.value) + " accepted from " + in.from.text());
            },
        },
        input);
  }
  if (process.strangers) {
    process.strangers->on_input(input, now_);
  } else if (process.coordinator) {
    std::visit(
        [&]<typename T>(T& in) {
          if constexpr (std::is_same_v<T, io::Opened>) {
            fail("contract", "the coordinator does not dial");
          } else {
            step(process, coordinator::Input{std::move(in)});
          }
        },
        input);
  } else {
    std::visit([&](auto& in) { step(process, peer::Input{std::move(in)}); }, input);
  }
}

void World::step(Process& process, peer::Input&& input) {
  if (over_) return;
  if (process.quiet) look_at_quiet(process);
  peer_effects_.clear();
  if (options_.witness != nullptr) options_.witness->steps(process.index, input);
  process.peer->step(std::move(input), now_, peer_effects_);
  if (options_.witness != nullptr) options_.witness->answers(process.index, peer_effects_, *process.peer);
  for (peer::Effect& effect : peer_effects_) {
    if (options_.witness != nullptr) options_.witness->asks(process.index, effect);
    carry_out(process, effect);
  }
  if (options_.witness != nullptr) options_.witness->stepped(process.index, *process.peer, *process.program);
  process.idle_timers = 0;
  if (report_.events % 16 == 0)
    check("S9", check_bounds(process.peer->footprint(), process.id, most_processes(), process.peer_options.stripes,
                             process.peer_options.strangers));
  look_if_quiet(process);
  arm(process);
  if (options_.renew_one_in != 0) renew_sometimes(process);
}

void World::step(Process& process, coordinator::Input&& input) {
  if (over_) return;
  if (process.quiet) look_at_quiet(process);
  coordinator_effects_.clear();
  if (options_.witness != nullptr) options_.witness->steps(process.index, input);
  process.coordinator->step(std::move(input), now_, coordinator_effects_);
  if (options_.witness != nullptr) options_.witness->answers(process.index, coordinator_effects_, *process.coordinator);
  for (coordinator::Effect& effect : coordinator_effects_) {
    if (options_.witness != nullptr) options_.witness->asks(process.index, effect);
    carry_out(process, effect);
  }
  if (options_.witness != nullptr) options_.witness->stepped(process.index, *process.coordinator);
  process.idle_timers = 0;
  if (report_.events % 16 == 0)
    check("S9", check_bounds(process.coordinator->footprint(), process.coordinator_options.strangers));
  look_if_quiet(process);
  arm(process);
  if (options_.renew_one_in != 0) renew_sometimes(process);
}

// At the beginning of each quiet moment, and before the next step.
void World::look_if_quiet(Process& process) {
  if (!process.peer && !process.coordinator) return;  // it has just died
  process.quiet = process.peer ? process.peer->is_quiet() : process.coordinator->is_quiet();
  if (process.quiet) look_at_quiet(process);
}

void World::look_at_quiet(Process& process) {
  if (over_) return;
  const Holdings held = process.peer ? process.peer->holdings() : process.coordinator->holdings();
  check("S11", at_quiet_.quiet(process.index, process.peer ? text_of(process.id) : "the coordinator", held, now_,
                               process.coordinator && is_open_in_older_cohort()));
}

// A coordinator keeps the cohorts of such rounds. It does not hear of rounds that have only begun.
bool World::is_open_in_older_cohort() const {
  for (const Process& process : processes_) {
    if (!process.alive) continue;
    for (const std::uint32_t place : process.open_calls) {
      const Call& call = process.calls[place];
      if (call.kind == CallKind::kCollective && call.cohort < newest_cohort_) return true;
    }
  }
  return false;
}

void World::renew_sometimes(Process& process) {
  if (over_ || dice_.range(1, options_.renew_one_in, Purpose::kRenewal, process.index, ++steps_) != 1) return;
  if (process.coordinator) {
    renew(process, process.coordinator, process.renewed_coordinators, process.coordinator_options,
          coordinator_effects_);
  } else if (process.peer) {
    renew(process, process.peer, process.renewed_peers, process.peer_options, peer_effects_);
  }
}

template <typename Machine, typename Options, typename Effects>
void World::renew(Process& process, std::unique_ptr<Machine>& machine, std::vector<std::unique_ptr<Machine>>& former,
                  const Options& options, Effects& lent) {
  std::vector<std::byte> saved;
  machine->save(saved);
  auto fresh = std::make_unique<Machine>(options, now_);
  lent.clear();
  LOCKSTEP_ASSERT(fresh->load(saved, lent));
  for (const auto& effect : lent) network_.moved(process.index, std::get<io::Read>(effect));
  former.push_back(std::exchange(machine, std::move(fresh)));
  report_.renewals += 1;
}

// Guests may have several on one host.
std::size_t World::most_processes() const {
  return options_.guests != nullptr ? std::max<std::size_t>(plan_.peers, processes_.size()) : plan_.peers;
}

Instant World::deadline_of(const Process& process) const {
  return process.coordinator ? process.coordinator->deadline() : process.peer->deadline();
}

std::int64_t World::delay(Process& process, Duration at_most, Purpose purpose) {
  return 1 + static_cast<std::int64_t>(
                 dice_.skewed(static_cast<std::uint64_t>(at_most.ns), purpose, process.index, process.draws++));
}

// One timer event per machine, as a rule: an early one asks again.
void World::arm(Process& process) {
  const Instant deadline = deadline_of(process);
  if (deadline.ns >= process.timer_for) return;
  process.timer_for = deadline.ns;
  const std::int64_t late = delay(process, plan_.timer_delay, Purpose::kTimerDelay);
  queue_.push({std::max(deadline.ns, now_.ns) + late}, What::kTimer, process.index, 0, ++process.timer_serial);
}

void World::on_timer(Process& process) {
  process.timer_for = INT64_MAX;
  if (deadline_of(process) > now_) {
    arm(process);
    return;
  }
  const std::uint32_t idle = process.idle_timers;
  if (process.coordinator) {
    step(process, coordinator::Input{coordinator::Timer{}});
  } else {
    step(process, peer::Input{peer::Timer{}});
  }
  process.idle_timers = idle + 1;
  if (process.idle_timers > kIdleTimers && deadline_of(process) <= now_) {
    fail("contract", "deadline() stays in the past after a Timer: the machine spins");
  }
}

// ---- what happened ----

void World::mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  const std::uint64_t fields[4] = {a, b, c, d};
  hash_ = XXH3_64bits_withSeed(fields, sizeof fields, hash_);
}

void World::say(const Process& process, const std::string& line) {
  if (!options_.trace) return;
  const std::string who =
      process.coordinator ? "coordinator" : "h" + std::to_string(process.host) + " " + text_of(process.id);
  options_.trace(text_of(now_) + " " + who + " " + line);
}

void World::observe(const Process& process, const std::string& line) {
  if (options_.observe) options_.observe(process.host, line);
}

// Hosts as letters: a is host 1.
std::string World::people(const std::vector<PeerId>& peers) const {
  std::string out = "{";
  for (const PeerId& peer : peers) {
    const auto it = by_id_.find(peer);
    const std::uint32_t host = it == by_id_.end() ? 0 : processes_[it->second].host;
    out += (out.size() > 1 ? " " : "") + std::string(1, host == 0 ? '?' : static_cast<char>('a' + (host - 1) % 26));
  }
  return out + "}";
}

void World::fail(std::string promise, std::string text) {
  over_ = true;
  if (report_.failure) return;
  report_.failure = Failure{std::move(promise), std::move(text), now_.ns, report_.events};
  if (options_.witness != nullptr) options_.witness->failed(*report_.failure, judged_);
  if (options_.trace)
    options_.trace(text_of(now_) + " " + report_.failure->promise + " BROKEN: " + report_.failure->text);
}

void World::check(const char* promise, Complaint complaint) {
  if (complaint) fail(promise, *std::move(complaint));
}

// ---- who is where ----

Memory& World::memory_of(std::uint32_t process) { return *processes_[process].memory; }
std::uint32_t World::host_of(std::uint32_t process) { return processes_[process].host; }
bool World::stalled(std::uint32_t process) { return processes_[process].stalled > 0; }

// Of a piece always the same, however often it is asked for, and in however many parts it goes.
bool World::lies_about(std::uint32_t process, const BufferRef& payload) {
  const Process& liar = processes_[process];
  if (hosts_[liar.host].lies == 0) return false;
  for (const std::uint32_t open : liar.open_calls) {
    const Call& call = liar.calls[open];
    const bool lent = std::find(call.buffers.begin(), call.buffers.end(), payload.id) != call.buffers.end();
    if (!lent || call.request.state == nullptr) continue;
    const std::uint64_t piece = payload.offset / call.request.state->manifest.piece_bytes;
    return dice_.permille(500, Purpose::kLie, process, payload.id.value, piece);
  }
  return false;
}

std::uint32_t World::listener(std::uint32_t host, std::uint16_t port) {
  if (host >= hosts_.size() || (host == 0 && now_ < Instant{} + plan_.coordinator_after)) return kNoProcess;
  for (const Process& process : processes_) {
    if (process.alive && process.host == host && process.port == port) return process.index;
  }
  return kNoProcess;
}

void World::contract_broken(std::uint32_t process, std::string what) {
  fail("contract", (process == 0 ? "coordinator" : text_of(processes_[process].id)) + " " + std::move(what));
}

// ---- applications ----

void World::app_after(std::uint32_t process, Duration delay, std::uint64_t what) {
  queue_.push(now_ + delay, What::kApp, process, what, 0);
}

void World::app_command(std::uint32_t index, peer::Input input) {
  Process& process = processes_[index];
  const auto* const admit = std::get_if<peer::Admit>(&input);
  if (admit != nullptr) {
    process.wanted = admit->at_least;
    look_if_it_waits(process, process.members + process.pending);
  }
  step(process, std::move(input));
}

// Nobody else knows of it with auto_admit, and launches calls meanwhile.
void World::look_if_it_waits(const Process& process, std::size_t members) {
  if (plan_.auto_admit && process.wanted > members) causes_.waits_for_more();
}

Call& World::app_call(std::uint32_t index, CallKind kind) {
  Process& process = processes_[index];
  Call& call = process.calls.emplace_back();
  call.kind = kind;
  call.process = index;
  call.peer = process.id;
  call.id = CallId{process.calls.size()};
  call.made = now_;
  call.view = causes_.view_of(index);
  causes_.called(call);
  process.open_calls.push_back(static_cast<std::uint32_t>(process.calls.size() - 1));
  mix(static_cast<std::uint64_t>(kind), index, call.id.value, 0);
  if (options_.witness != nullptr) options_.witness->called(call);
  if (options_.trace && kind != CallKind::kCollective) {
    say(process, name_of(kind));
  }
  return call;
}

void World::app_launched(Call& call) {
  report_.launches += 1;
  one_state_.launched(call);
  causes_.launched(call, processes_[call.process].program->phase() == Program::Phase::kStepping);
  if (options_.witness != nullptr) options_.witness->launched(call);
  if (options_.trace) {
    say(processes_[call.process], "launch #" + std::to_string(report_.launches) + " call " +
                                      std::to_string(call.id.value) + ": " + text_of(call.request) + " step " +
                                      std::to_string(call.step));
  }
  begin_entries(&Entry::launch, report_.launches);
}

// Those that wait for the n-th of something.
void World::begin_entries(std::uint64_t Entry::*which, std::uint64_t n) {
  for (std::uint64_t i = 0; i < plan_.entries.size(); ++i) {
    const Entry& entry = plan_.entries[i];
    if (entry.*which == n) queue_.push(now_ + entry.after, What::kEntry, kNoProcess, i, 0);
  }
}

void World::app_finished(std::uint32_t process) {
  causes_.began({.fault = Fault::kLeave, .a = processes_[process].host});
  for (const std::uint32_t host : gang_of(processes_[process].host)) {
    Process* mate = running(host);
    if (mate != nullptr && !mate->over) mate->app->finish();
  }
}

const Call* World::contribution(PeerId peer, const RoundKey& round) {
  const auto it = by_id_.find(peer);
  if (it == by_id_.end()) return nullptr;
  const Process& process = processes_[it->second];
  for (auto call = process.calls.rbegin(); call != process.calls.rend(); ++call) {
    if (call->kind != CallKind::kCollective || call->request.tag != round.tag) continue;
    if (round_of(process, *call) == round) return &*call;
  }
  return nullptr;
}

std::optional<RoundKey> World::round_of(const Process& process, const Call& call) {
  if (call.outcome) return call.outcome->round;
  return process.peer != nullptr ? process.peer->round_of(call.id) : call.round_at_death;
}

}  // namespace lockstep::sim
