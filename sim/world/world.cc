#include "sim/world/world.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#define XXH_INLINE_ALL  // four words at a time
#include <xxhash.h>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "sim/checkers/a2_own_streams.h"
#include "sim/checkers/a3_strangers.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s9_bounds.h"
#include "sim/workload/liveness_bound.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

constexpr std::uint16_t kCoordinatorPort = 4000;
constexpr std::uint16_t kOtherPort = 3999;   // another coordinator listens there
constexpr std::uint32_t kIdleTimers = 1000;  // more timers in one nanosecond mean that a machine spins
constexpr std::uint64_t kCheckpoint = 4096;
constexpr std::int64_t kDialBackBeats = 3;  // as in transport/coordinator_server.cc

CallKind kind_of(const peer::Input& input) {
  if (std::holds_alternative<peer::Connect>(input)) return CallKind::kConnect;
  if (std::holds_alternative<peer::Admit>(input)) return CallKind::kAdmit;
  if (std::holds_alternative<peer::Leave>(input)) return CallKind::kLeave;
  if (std::holds_alternative<peer::Publish>(input)) return CallKind::kPublish;
  if (std::holds_alternative<peer::Prefetch>(input)) return CallKind::kPrefetch;
  if (std::holds_alternative<peer::Send>(input)) return CallKind::kSend;
  if (std::holds_alternative<peer::Receive>(input)) return CallKind::kReceive;
  LOCKSTEP_ASSERT(std::holds_alternative<peer::Launch>(input));
  return CallKind::kCollective;
}

}  // namespace

World::World(const Plan& plan, WorldOptions options)
    : plan_(plan),
      options_(std::move(options)),
      dice_(plan.seed),
      queue_(dice_),
      network_(plan_.network, plan.peers + 1, dice_, queue_, *this),
      cast_(plan.peers + 1),
      chronicle_(options_, plan.seed, now_),
      checkers_(plan, options_.guests != nullptr ? 0 : plan.gangs.size, now_),
      kernels_(plan_, dice_, now_, queue_, cast_, checkers_, chronicle_),
      judge_(plan_, options_, cast_, network_, checkers_, chronicle_),
      timers_(plan_, dice_, now_, queue_),
      ending_(plan_, options_, dice_, now_, queue_, cast_, chronicle_),
      guests_(options_, now_, queue_, network_, cast_, chronicle_),
      lives_(around(), timers_, guests_, ending_, *this),
      nemesis_(plan_, around(), lives_, guests_, ending_, *this, *this) {
  LOCKSTEP_ASSERT(validate_plan(plan).empty());
  LOCKSTEP_ASSERT(options_.renew_one_in == 0 || plan.mode == Mode::kBytes);  // tokens are known by where they lie
  queue_.watch(options_.witness);
  network_.watch(options_.witness);
  const auto has = [&](Fault fault) {
    return std::ranges::find(plan.entries, fault, &Entry::fault) != plan.entries.end();
  };
  if (options_.scripted || has(Fault::kMute)) network_.watch_answers();
  if (has(Fault::kLie)) {
    if (plan.program.stops_at_once == 0) network_.watch_words();
    cast_.tokens.expect_repairs();
  }
  for (std::uint32_t host = 1; host <= plan.peers; ++host) {
    cast_.hosts[host].gone = !takes_part(plan, host);
    chronicle_.report.peers += cast_.hosts[host].gone ? 0 : 1;
  }
  chronicle_.report.bytes_mode = plan.mode == Mode::kBytes;

  SimProcess& process = cast_.processes.emplace_back();
  process.memory = std::make_unique<Memory>(plan.mode);
  process.port = kCoordinatorPort;
  process.caller.key = key_of(process.id);
  coordinator::CoordinatorOptions c;
  c.link_key = {dice_.bits(Purpose::kIdentity, process.index, 4), dice_.bits(Purpose::kIdentity, process.index, 5)};
  c.heartbeat = plan.heartbeat;
  c.silence = plan.heartbeat * 6;
  c.greeting = plan.heartbeat * 6;
  c.gang_leave = plan.heartbeat * 20;
  c.link_patience = plan.heartbeat * 20;
  c.strangers = most_strangers(plan);
  if (plan.program.stops_at_once != 0) {
    c.stops_at_once = plan.program.stops_at_once;
    c.stops_per_second = kStopsPerSecondOfStoppers;
  }
  if (plan.links.dials_back) c.dial_back = plan.heartbeat * kDialBackBeats;
  c.secured = true;
  c.grants = cast_.tokens.grants(plan.peers + 1);
  for (const coordinator::Grant& grant : c.grants) checkers_.admitted.granted(grant.id);
  process.coordinator.start(c, now_);
  checkers_.causes.coordinator(c);
  if (options_.guests != nullptr) checkers_.causes.has_guests();
  if (options_.scripted) checkers_.causes.is_scripted();
  if (options_.witness != nullptr) options_.witness->born(0, c, now_);
  cast_.hosts[0].process = 0;
  if (options_.witness != nullptr) options_.witness->started(0, 0, {});

  if (options_.scripted) return;
  LOCKSTEP_ASSERT(options_.guests == nullptr || plan.mode == Mode::kBytes);
  for (std::uint32_t host = 1; host <= plan.founders; ++host) lives_.start(host);
  nemesis_.set_out();
  queue_.push(now_ + plan.end.safety, What::kHeal, kNoProcess);
}

World::~World() = default;

Lives::Around World::around() { return {plan_, options_, dice_, now_, queue_, network_, cast_, checkers_, chronicle_}; }

Report run(const Plan& plan, const WorldOptions& options) {
  Report report = World(plan, options).run();
  if (report.failure || options.until != 0) return report;
  const std::string missing = unmet(plan.expect, report);
  if (!missing.empty()) report.failure = Failure{"goal", missing, report.time_ns, report.events};
  return report;
}

void World::run_for(Duration duration) {
  const Instant end = now_ + duration;
  while (!chronicle_.over() && !queue_.empty() && queue_.top().at <= end.ns) {
    const Event event = queue_.pop();
    now_ = Instant{std::max(now_.ns, event.at)};
    chronicle_.report.events += 1;
    handle(event);
  }
  now_ = std::max(now_, end);
}

bool World::step_once() {
  if (chronicle_.over() || queue_.empty()) return false;
  const Event event = queue_.pop();
  now_ = Instant{std::max(now_.ns, event.at)};
  chronicle_.report.events += 1;
  nemesis_.begin_at_event(chronicle_.report.events);
  handle(event);
  if (chronicle_.report.events % kCheckpoint == 0) chronicle_.report.checkpoints.push_back(chronicle_.hash());
  if (chronicle_.report.events / std::max<std::uint64_t>(1, plan_.peers / kMaxDrawnPeers) >= options_.max_events)
    chronicle_.fail("limit", "the run goes on and on: " + chronicle_.what_happened());
  return !chronicle_.over();
}

Report World::run() {
  while (step_once()) {
    if (options_.until != 0 && chronicle_.report.events >= options_.until) break;
  }
  if (options_.trace) chronicle_.tell("events: " + chronicle_.what_happened());
  return report();
}

Report World::report() {
  Report report = chronicle_.report;
  report.hash = chronicle_.hash();
  report.never_began = nemesis_.never_began();
  report.time_ns = now_.ns;
  report.views = checkers_.membership.views();
  report.resets += network_.counts().resets;
  report.revoked_midway = network_.counts().revoked_midway;
  for (const auto& [round, committed] : news_.rounds) (committed ? report.commits : report.aborts) += 1;
  return report;
}

void World::handle(const Event& event) {
  if (event.process != kNoProcess && !reaches(cast_.processes[event.process], event)) return;
  if (options_.witness != nullptr) options_.witness->happens(event, now_);
  chronicle_.happened(event);
  chronicle_.mix(static_cast<std::uint64_t>(event.what) | std::uint64_t{event.process} << 8U,
                 static_cast<std::uint64_t>(now_.ns), event.a, event.b);
  dispatch(event);
  const std::uint32_t touched =
      event.what == What::kArrive ? network_.process_at(static_cast<Network::End>(event.a)) : event.process;
  if (touched != kNoProcess) {
    const std::string& trespass = cast_.processes[touched].memory->trespass();
    if (!trespass.empty()) chronicle_.fail("S4", text_of(cast_.processes[touched].id) + ": " + trespass);
  }
}

// False: the process is dead, or it stands still and the event waits until it wakes.
bool World::reaches(SimProcess& process, const Event& event) {
  if (!process.alive) return false;
  if (process.stall.count == 0) return true;
  process.stall.held_back.push_back(event);
  if (options_.witness != nullptr) options_.witness->held_back(event);
  return false;
}

void World::dispatch(const Event& event) {
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
    case What::kFlow: network_.handle(event, now_); return;
    case What::kTimer:
    case What::kJobRuns:
    case What::kJobDone:
    case What::kResolved:
    case What::kListening: on_driver_event(cast_.processes[event.process], event); return;
    case What::kApp: on_app_event(cast_.processes[event.process], event); return;
    case What::kWake:
      if (options_.guests != nullptr) guests_.returns(false);
      lives_.start(static_cast<std::uint32_t>(event.a));
      return;
    case What::kGuest: guests_.on_event(event); return;
    case What::kEntry: event.b == 0 ? nemesis_.begin(event.a) : nemesis_.end(event.a); return;
    case What::kHeal: heal(); return;
    case What::kGiveUp:
      if (event.process == kNoProcess) return ending_.watch(overdue());
      if (event.a == 1) return lives_.after_run(cast_.processes[event.process]);
      return lives_.rest(cast_.processes[event.process]);
  }
}

// The timer, the kernels, the resolver and the listener of a process.
void World::on_driver_event(SimProcess& process, const Event& event) {
  if (event.what == What::kTimer) {
    if (event.b == process.timer.serial) on_timer(process);
  } else if (event.what == What::kResolved) {
    resolved(process);
  } else if (event.what == What::kListening) {
    process.port = static_cast<std::uint16_t>(20'000 + process.index % 40'000);
    step(process, peer::Listening{process.port});
  } else {
    kernels_.run_now(process, event.a);
    if (event.what == What::kJobRuns) return;
    KernelRun& job = process.jobs[event.a];
    job.busy = false;
    step(process, peer::JobDone{job.job.token, job.result});
  }
}

void World::resolved(SimProcess& process) {
  std::vector<io::Address> addresses;
  const bool both =
      process.caller.meets == OtherKey::kEverywhere && dice_.permille(500, Purpose::kWrongKey, 2, process.index);
  if (both || process.caller.meets == OtherKey::kFirst) addresses.push_back(Network::address_of(0, kOtherPort));
  addresses.push_back(Network::address_of(0, kCoordinatorPort));
  checkers_.searches.looks(process.index, addresses.size());
  step(process, peer::Resolved{std::move(addresses)});
}

void World::on_app_event(SimProcess& process, const Event& event) {
  if (process.attack.strangers) {
    process.attack.strangers->on_wake(event.a);
    nemesis_.judge_strangers(process);
  } else if (event.b == 1) {
    release(process, event.a);
  } else {
    process.caller.program->on_event(event.a);
  }
}

// Faults stop, and the network heals.
void World::heal() {
  if (ending_.healed()) return;
  if (chronicle_.traces()) chronicle_.tell("faults stop, the network heals");
  if (options_.witness != nullptr) options_.witness->heals();
  nemesis_.end_all();
  ending_.heal(overdue());
}

// ---- machines ----

void World::tell(std::uint32_t index, io::Input input) {
  SimProcess& process = cast_.processes[index];
  std::visit(overloaded{
                 [&](const io::ReadDone& in) { chronicle_.mix(1, in.stream.value, in.bytes, index); },
                 [&](const io::WriteDone& in) { chronicle_.mix(2, in.stream.value, in.bytes, index); },
                 [&](const io::Revoked& in) { chronicle_.mix(3, in.stream.value, in.bytes, index); },
                 [&](const auto& in) { chronicle_.mix(4, in.stream.value, 0, index); },
             },
             input);
  if (options_.trace_streams && options_.trace) {
    std::visit(overloaded{
                   [&](const io::ReadDone& in) {
                     chronicle_.say(
                         process, "  stream " + std::to_string(in.stream.value) + " read " + std::to_string(in.bytes));
                   },
                   [&](const io::WriteDone& in) {
                     chronicle_.say(
                         process, "  stream " + std::to_string(in.stream.value) + " wrote " + std::to_string(in.bytes));
                   },
                   [&](const io::Revoked& in) {
                     chronicle_.say(process, "  stream " + std::to_string(in.stream.value) + " gave back after " +
                                                 std::to_string(in.bytes));
                   },
                   [&](const io::Closed& in) {
                     chronicle_.say(process, "  stream " + std::to_string(in.stream.value) +
                                                 " closed: " + std::string(name_of(in.reason)));
                   },
                   [&](const io::Opened& in) {
                     chronicle_.say(process, "  stream " + std::to_string(in.stream.value) + " opened");
                   },
                   [&](const io::Accepted& in) {
                     chronicle_.say(process,
                                    "  stream " + std::to_string(in.stream.value) + " accepted from " + in.from.text());
                   },
               },
               input);
  }
  check_sent(process, input);
  if (process.attack.strangers) {
    process.attack.strangers->on_input(input, now_);
  } else if (process.coordinator) {
    if (const auto* const in = std::get_if<io::Accepted>(&input)) checkers_.excluded.accepted(in->stream, in->identity);
    if (const auto* const in = std::get_if<io::ReadDone>(&input)) checkers_.excluded.reads(in->stream);
    std::visit([&](auto& in) { step(process, coordinator::Input{std::move(in)}); }, input);
  } else {
    const auto* const closed = std::get_if<io::Closed>(&input);
    const bool rejected = closed != nullptr && closed->reason == io::CloseReason::kRejected;
    if (rejected) checkers_.searches.rejected(index);
    std::visit([&](auto& in) { step(process, peer::Input{std::move(in)}); }, input);
    if (rejected) chronicle_.check("L3", checkers_.searches.goes_on(index, process.over));
  }
}

void World::step(SimProcess& process, peer::Input&& input) {
  if (chronicle_.over()) return;
  if (process.quiet) look_at_quiet(process);
  peer_effects_.clear();
  if (options_.witness != nullptr) options_.witness->steps(process.index, input);
  process.peer->step(std::move(input), now_, peer_effects_);
  if (options_.witness != nullptr) options_.witness->answers(process.index, peer_effects_, *process.peer);
  for (peer::Effect& effect : peer_effects_) {
    if (options_.witness != nullptr) options_.witness->asks(process.index, effect);
    carry_out(process, effect);
  }
  if (options_.witness != nullptr) options_.witness->stepped(process.index, *process.peer, *process.caller.program);
  process.timer.idle = 0;
  if (chronicle_.report.events % 16 == 0)
    chronicle_.check("S9", check_bounds(process.peer->footprint(), process.id, most_processes(),
                                        process.peer.options().largest_stripes(), process.peer.options().strangers));
  look_if_quiet(process);
  timers_.arm(process);
  if (options_.renew_one_in != 0) renew_sometimes(process);
}

void World::step(SimProcess& process, coordinator::Input&& input) {
  if (chronicle_.over()) return;
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
  process.timer.idle = 0;
  if (chronicle_.report.events % 16 == 0)
    chronicle_.check("S9", check_bounds(process.coordinator->footprint(), process.coordinator.options().strangers));
  look_if_quiet(process);
  timers_.arm(process);
  if (options_.renew_one_in != 0) renew_sometimes(process);
}

// At the beginning of each quiet moment, and before the next step.
void World::look_if_quiet(SimProcess& process) {
  if (!process.peer && !process.coordinator) return;  // the process has just died
  process.quiet = process.peer ? process.peer->is_quiet() : process.coordinator->is_quiet();
  if (process.quiet) look_at_quiet(process);
}

void World::look_at_quiet(SimProcess& process) {
  if (chronicle_.over() || checkers_.liars.any()) return;
  const Holdings held = process.peer ? process.peer->holdings() : process.coordinator->holdings();
  const bool passing = process.coordinator && cast_.is_open_before(news_.newest_cohort);
  chronicle_.check("S11", checkers_.at_quiet.quiet(process.index, process.id, held, most_held(process), now_, passing));
}

// Programs from outside are not known. Every program of the plan has one state, under one tag.
MostHeld World::most_held(const SimProcess& process) const {
  if (options_.guests != nullptr || options_.scripted) return {};
  constexpr std::size_t kStates = 2;  // a state that is known, and one that is torn
  if (!process.coordinator) {
    const App& app = *process.caller.app;
    return {app.tags() + kStates, kStates * app.pieces_of_state()};
  }
  const std::size_t hosts = plan_.peers;
  const std::size_t groups = plan_.gangs.groups;
  return {groups + hosts, 2 + 8 * hosts};
}

void World::renew_sometimes(SimProcess& process) {
  if (chronicle_.over() || dice_.range(1, options_.renew_one_in, Purpose::kRenewal, process.index, ++steps_) != 1)
    return;
  if (process.coordinator) {
    renew(process.index, process.coordinator, coordinator_effects_);
  } else if (process.peer) {
    renew(process.index, process.peer, peer_effects_);
  }
}

template <typename Machine, typename Options, typename Effects>
void World::renew(std::uint32_t process, MachineSlot<Machine, Options>& machine, Effects& lent) {
  std::vector<std::byte> saved;
  machine->save(saved);
  auto fresh = std::make_unique<Machine>(machine.options(), now_);
  lent.clear();
  LOCKSTEP_ASSERT(fresh->load(saved, lent));
  for (const auto& effect : lent) network_.moved(process, std::get<io::Read>(effect));
  machine.replace(std::move(fresh));
  chronicle_.report.renewals += 1;
}

// Guests may have several processes on one host.
std::size_t World::most_processes() const {
  return options_.guests != nullptr ? std::max<std::size_t>(plan_.peers, cast_.processes.size()) : plan_.peers;
}

void World::on_timer(SimProcess& process) {
  process.timer.deadline = INT64_MAX;
  if (deadline_of(process) > now_) {
    timers_.arm(process);
    return;
  }
  const std::uint32_t idle = process.timer.idle;
  if (process.coordinator) {
    step(process, coordinator::Input{coordinator::Timer{}});
  } else {
    step(process, peer::Input{peer::Timer{}});
  }
  process.timer.idle = idle + 1;
  if (process.timer.idle > kIdleTimers && deadline_of(process) <= now_) {
    chronicle_.fail("contract", "deadline() stays in the past after a Timer: the machine spins");
  }
}

// ---- who is where ----

Memory& World::memory_of(std::uint32_t process) { return *cast_.processes[process].memory; }
std::uint32_t World::host_of(std::uint32_t process) { return cast_.processes[process].host; }
bool World::stalled(std::uint32_t process) { return cast_.processes[process].stall.count > 0; }

// The answer for a piece is always the same, however often the piece is asked for, and in however many parts it is
// sent.
bool World::lies_about(std::uint32_t process, const BufferRef& payload) {
  const SimProcess& liar = cast_.processes[process];
  if (cast_.hosts[liar.host].lies == 0) return false;
  for (const std::uint32_t open : liar.caller.open_calls) {
    const Call& call = liar.caller.calls[open];
    const bool lent = std::find(call.buffers.begin(), call.buffers.end(), payload.id) != call.buffers.end();
    if (!lent || call.request.state == nullptr) continue;
    const std::uint64_t piece = payload.offset / call.request.state->manifest.piece_bytes;
    return dice_.permille(500, Purpose::kLie, process, payload.id.value, piece);
  }
  return false;
}

std::uint32_t World::listener(std::uint32_t host, std::uint16_t port, std::uint32_t dialler) {
  if (host >= cast_.hosts.size() || (host == 0 && now_ < Instant{} + plan_.coordinator_after)) return kNoProcess;
  std::uint32_t listens = kNoProcess;
  for (const SimProcess& process : cast_.processes) {
    const bool at_port = port == kAnyPort ? process.port != 0 && !process.coordinator : process.port == port;
    if (process.alive && process.host == host && at_port) listens = process.index;
  }
  if (listens == kNoProcess || cast_.processes[dialler].attack.strangers) return listens;
  for (const SimProcess& process : cast_.processes) {  // the dial may reach somebody else
    if (process.attack.strangers && process.attack.host == host && process.attack.strangers->takes_dial()) {
      return process.index;
    }
  }
  return listens;
}

bool World::rejects(std::uint32_t host, std::uint16_t port, std::uint32_t dialler) {
  if (host != 0) return false;
  if (port == kOtherPort) return true;
  return cast_.processes[dialler].caller.meets == OtherKey::kEverywhere && now_ >= Instant{} + plan_.coordinator_after;
}

// Streams between peers prove keys alone: only the coordinator knows the secrets of tokens.
io::Identity World::proves(std::uint32_t from, StreamId stream, std::uint32_t to) {
  const SimProcess& prover = cast_.processes[from];
  io::Identity identity{prover.caller.key, cast_.tokens.of(from, prover.host), true};
  if (prover.attack.strangers) identity = prover.attack.strangers->identity_of(stream);
  if (!cast_.processes[to].coordinator || prover.coordinator) {
    identity.token = {};
    identity.proved = false;
  } else {
    checkers_.admitted.accepted(identity);
  }
  return identity;
}

void World::contract_broken(std::uint32_t process, std::string what) {
  chronicle_.fail("contract",
                  (process == 0 ? "coordinator" : text_of(cast_.processes[process].id)) + " " + std::move(what));
}

// ---- applications ----

void World::app_after(std::uint32_t process, Duration delay, std::uint64_t what) {
  queue_.push(now_ + delay, What::kApp, process, what, 0);
}

void World::app_revoked(std::uint32_t index) {
  SimProcess& coordinator = cast_.processes[0];
  if (coordinator.stall.count > 0) return;
  const std::uint32_t host = cast_.processes[index].host;
  checkers_.admitted.revoked(cast_.tokens.of(index, host), coordinator.coordinator->snapshot(now_).view.number, now_);
  const std::vector<coordinator::Grant> grants = cast_.tokens.revoke(host, plan_.peers + 1, cast_.processes.size());
  for (const coordinator::Grant& grant : grants) checkers_.admitted.granted(grant.id);
  step(coordinator, coordinator::Input{coordinator::ChangeGrants{grants}});
}

void World::app_restricted(std::uint32_t index) {
  SimProcess& coordinator = cast_.processes[0];
  if (coordinator.stall.count > 0) return;
  const std::uint32_t host = cast_.processes[index].host;
  cast_.tokens.restrict(host);
  const std::vector<coordinator::Grant> grants = cast_.tokens.grants(plan_.peers + 1);
  for (const coordinator::Grant& grant : grants) {
    if (grant.most_peers == 1) checkers_.excluded.is_personal(grant.id);
  }
  step(coordinator, coordinator::Input{coordinator::ChangeGrants{grants}});
}

void World::app_command(std::uint32_t index, peer::Input input) {
  SimProcess& process = cast_.processes[index];
  const auto* const admit = std::get_if<peer::Admit>(&input);
  if (admit != nullptr) {
    process.known.wanted = admit->at_least;
    look_if_it_waits(process, process.known.members + process.known.pending);
  }
  step(process, std::move(input));
}

// With auto_admit no other peer knows that this peer waits, and other peers launch calls meanwhile.
void World::look_if_it_waits(const SimProcess& process, std::size_t members) {
  if (plan_.auto_admit && process.known.wanted > members) checkers_.causes.waits_for_more();
}

Call& World::app_call(std::uint32_t index, CallKind kind) {
  SimProcess& process = cast_.processes[index];
  Call& call = process.caller.calls.emplace_back();
  call.kind = kind;
  call.process = index;
  call.peer = process.id;
  call.id = CallId{process.caller.calls.size()};
  call.made = now_;
  call.view = checkers_.causes.view_of(index);
  checkers_.causes.called(call);
  process.caller.open_calls.push_back(static_cast<std::uint32_t>(process.caller.calls.size() - 1));
  chronicle_.mix(static_cast<std::uint64_t>(kind), index, call.id.value, 0);
  if (options_.witness != nullptr) options_.witness->called(call);
  if (options_.trace && kind != CallKind::kCollective) {
    chronicle_.say(process, name_of(kind));
  }
  return call;
}

bool World::is_gone(PeerId peer) const {
  const std::uint32_t index = cast_.by_id.at(peer);
  return checkers_.causes.excuses().life(index).gone() || cast_.processes[index].caller.program->leaving();
}

Ending::Overdue World::overdue() const {
  return [this](const Call& call, Instant healed, Duration bound) -> Complaint {
    if (call.kind != CallKind::kSend && call.kind != CallKind::kReceive) return {};
    return checkers_.transfers.overdue(call, healed, now_, bound, [this](PeerId peer) { return is_gone(peer); });
  };
}

void World::app_launched(Call& call) {
  chronicle_.report.launches += 1;
  checkers_.one_state.launched(call);
  checkers_.causes.launched(call, cast_.processes[call.process].caller.program->phase() == Program::Phase::kStepping);
  if (options_.witness != nullptr) options_.witness->launched(call);
  if (options_.trace) {
    chronicle_.say(cast_.processes[call.process], "launch #" + std::to_string(chronicle_.report.launches) + " call " +
                                                      std::to_string(call.id.value) + ": " + text_of(call.request) +
                                                      " step " + std::to_string(call.told.step));
  }
  checkers_.stops.called(call.peer);
  const std::uint64_t stops = cast_.hosts[cast_.processes[call.process].host].stops;
  if (stops != 0 && dice_.range(1, stops, Purpose::kViolator, call.process, call.id.value) == 1) {
    call.stopped = true;
    cast_.processes[call.process].caller.program->stop_call(call.id);
  }
  nemesis_.begin_at(&Entry::launch, chronicle_.report.launches);
}

void World::app_finished(std::uint32_t process) {
  checkers_.causes.began({.fault = Fault::kLeave, .a = cast_.processes[process].host});
  for (const std::uint32_t host : hosts_of_gang(plan_, cast_.processes[process].host)) {
    SimProcess* mate = cast_.running(host);
    if (mate != nullptr && !mate->over) mate->caller.app->finish();
  }
}

// ---- by hand ----

std::uint64_t World::begin_fault(const Entry& entry) { return nemesis_.begin_by_hand(entry); }

CallId World::launch(std::uint32_t host, const ring::Request& request, const App::Contents& contents) {
  SimProcess* process = cast_.running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  constexpr std::uint64_t kLeastRoom = 16;  // elements of each block
  const bool has_blocks = wire::has_blocks(request.collective) && !request.tensors.empty();
  const std::uint64_t here = has_blocks ? std::max(kLeastRoom, request.tensors.front().count) : kLeastRoom;
  process->caller.app->launch(request, here, contents);
  return CallId{process->caller.calls.size()};
}

CallId World::share(std::uint32_t host, CallKind kind, const ring::Request& request, const App::Contents& contents) {
  SimProcess* process = cast_.running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  return process->caller.app->share(kind, request, contents);
}

CallId World::admit(std::uint32_t host, std::uint32_t at_least, Duration timeout) {
  SimProcess* process = cast_.running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  Call& call = app_call(process->index, CallKind::kAdmit);
  call.at_least = at_least;
  const CallId id = call.id;
  step(*process, peer::Input{peer::Admit{id, at_least, timeout}});
  return id;
}

CallId World::leave(std::uint32_t host, Duration timeout) {
  SimProcess* process = cast_.running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  checkers_.causes.began({.fault = Fault::kLeave, .a = host});
  process->caller.app->leaves();
  const CallId id = app_call(process->index, CallKind::kLeave).id;
  step(*process, peer::Input{peer::Leave{id, timeout}});
  return id;
}

void World::stop(std::uint32_t host, CallId call, const std::string& why) {
  SimProcess* process = cast_.running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  checkers_.causes.began({.fault = Fault::kStop, .a = host});
  step(*process, peer::Input{peer::Stop{call, why}});
}

const Call* World::call(std::uint32_t host, CallId id) {
  SimProcess* process = cast_.running(host);
  if (process == nullptr || id.value == 0 || id.value > process->caller.calls.size()) return nullptr;
  return &process->caller.calls[id.value - 1];
}

PeerId World::peer_on(std::uint32_t host) {
  SimProcess* process = cast_.running(host);
  return process == nullptr ? PeerId{} : process->id;
}

Memory& World::memory_on(std::uint32_t host) {
  SimProcess* process = cast_.running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  return *process->memory;
}

// ---- calls of guests ----

void World::guest_ends(std::uint32_t host, std::uint64_t serial) {
  SimHost& h = cast_.hosts[host];
  if (h.guest != serial) return;
  h.guest = 0;
  h.stalled = 0;
  h.held_back.clear();
  count(host, 0);
  for (SimProcess& process : cast_.processes) {
    if (!process.alive || process.coordinator || process.host != host) continue;
    if (process.over && process.caller.open_calls.empty()) {
      close(process.index);
    } else {
      checkers_.causes.began({.fault = Fault::kCrash, .a = host});
      lives_.stop(process, Death::kReset);
    }
  }
  if (const Duration pause = std::exchange(h.pause, {}); pause.ns != 0) {
    guests_.returns(true);
    queue_.push(now_ + pause, What::kWake, kNoProcess, host);
  }
}

std::uint32_t World::open(std::uint32_t host, peer::PeerOptions options, std::unique_ptr<Program> program) {
  LOCKSTEP_ASSERT(options_.guests != nullptr && cast_.hosts[host].guest != 0);
  const auto or_beats = [&](Duration& time, std::int64_t beats) {
    if (time.ns == 0) time = plan_.heartbeat * beats;
  };
  or_beats(options.dial_timeout, 10);
  or_beats(options.link_heartbeat, 1);
  or_beats(options.link_silence, 8);
  or_beats(options.link_timeout, 16);
  or_beats(options.abort_grace, 20);
  SimProcess& process = lives_.create(host, std::move(options));
  lives_.begin(process, std::move(program));
  return process.index;
}

void World::call(std::uint32_t index, peer::Input input, std::vector<BufferId> buffers) {
  SimProcess& process = cast_.processes[index];
  LOCKSTEP_ASSERT(process.alive);
  Call& call = app_call(index, kind_of(input));
  call.of_guest = true;
  call.told_to_wait = true;
  call.group = process.peer.options().group;
  std::visit(overloaded{
                 [&](peer::Launch& launch) {
                   launch.call = call.id;
                   call.refused = launch.refused.has_value();
                   call.launch.cohort = process.caller.uses.cohort();
                   call.launch.use = process.caller.uses.launch(launch.request.tag);
                   call.launch.segment_bytes = process.peer.options().segment_bytes;
                   call.launch.by_rate_bytes = process.peer.options().direct.by_rate_bytes;
                   guests_.give(process, call, launch.request, std::move(buffers));
                   app_launched(call);
                 },
                 [&](peer::Publish& publish) {
                   publish.call = call.id;
                   guests_.give(process, call, publish.request, std::move(buffers));
                 },
                 [&](peer::Prefetch& prefetch) {
                   prefetch.call = call.id;
                   guests_.give(process, call, prefetch.request, std::move(buffers));
                 },
                 [&](peer::Admit& admit) {
                   admit.call = call.id;
                   call.request.timeout = admit.timeout;
                   call.at_least = admit.at_least;
                 },
                 [&](peer::Leave& leave) {
                   leave.call = call.id;
                   call.request.timeout = leave.timeout;
                   checkers_.causes.began({.fault = Fault::kLeave, .a = process.host});
                 },
                 [&](peer::Connect& connect) {
                   connect.call = call.id;
                   call.request.timeout = connect.timeout;
                 },
                 [](auto&) { LOCKSTEP_UNREACHABLE(); },
             },
             input);
  app_command(index, std::move(input));
}

// The memory of the call belongs to its program again.
void World::end_call_of_guest(SimProcess& process, Call& call) {
  if (!chronicle_.over()) chronicle_.check("S10", check_arguments_kept(call, process.known.members));
  chronicle_.judging(nullptr);
  guests_.disturb();
  for (const BufferId buffer : std::exchange(call.buffers, {})) process.memory->release(buffer);
  process.caller.program->on_complete(call);
}

void World::stop_call(std::uint32_t index, CallId call, const std::string& why) {
  SimProcess& process = cast_.processes[index];
  LOCKSTEP_ASSERT(process.alive);
  if (process.caller.calls[call.value - 1].outcome) return;
  checkers_.causes.began({.fault = Fault::kStop, .a = process.host});
  step(process, peer::Input{peer::Stop{call, why}});
}

void World::abandon(std::uint32_t index, const std::string& why) {
  SimProcess& process = cast_.processes[index];
  LOCKSTEP_ASSERT(process.alive);
  checkers_.causes.began({.fault = Fault::kAbandon, .a = process.host});
  step(process, peer::Input{peer::Abandon{why}});
}

void World::close(std::uint32_t index) {
  SimProcess& process = cast_.processes[index];
  if (!process.alive) return;
  LOCKSTEP_ASSERT(process.caller.open_calls.empty());
  if (process.over) {
    queue_.push(now_ + plan_.heartbeat * 40, What::kGiveUp, index, 2);
    return;
  }
  checkers_.causes.began({.fault = Fault::kCrash, .a = process.host});
  lives_.stop(process, Death::kReset);
}

peer::Peer::Footprint World::footprint_of(std::uint32_t process) const {
  return cast_.processes[process].alive ? cast_.processes[process].peer->footprint() : peer::Peer::Footprint{};
}

peer::Lifecycle World::lifecycle_of(std::uint32_t process) const {
  const SimProcess& of = cast_.processes[process];
  return of.alive ? of.peer->snapshot().lifecycle : peer::Lifecycle::kOver;
}

Instant World::quiet_until() const {
  Plan plan = plan_;
  std::uint64_t most = 0;
  Instant until;
  for (const SimProcess& process : cast_.processes) {
    for (const std::uint32_t open : process.caller.open_calls) {
      const Call& call = process.caller.calls[open];
      const ring::Request& request = call.request;
      most = std::max(most,
                      request.state != nullptr ? state::staging_bytes(request.state->manifest) : input_bytes(request));
      if (request.timeout.ns > 0) {
        until = std::max(until, call.made + request.timeout + process.peer.options().abort_grace * 2);
      }
    }
  }
  plan.program.work = {{wire::Collective::kAllGather, most, DataType::kU8}};
  plan.state.shared = false;
  plan.state.watch = false;
  plan.program.think = {};
  return std::max(until, guests_.quiet_since() + liveness_bound(plan));
}

// ---- strangers ----

std::optional<StrangersHost::Target> World::stranger_target(std::uint32_t process) {
  const std::uint32_t host = cast_.processes[process].attack.host;
  for (const SimProcess& other : cast_.processes) {
    if (other.alive && other.host == host && other.port != 0) {
      return Target{Network::address_of(host, other.port), other.id};
    }
  }
  return std::nullopt;
}

void World::stranger_hears(std::uint32_t process, const wire::Message& message, bool answers) {
  const Strangers& strangers = *cast_.processes[process].attack.strangers;
  if (const auto* const reply = std::get_if<wire::EvictReply>(&message); reply != nullptr && strangers.asks()) {
    return chronicle_.check("A5", Evictions::answered(strangers.asks()->may, *reply));
  }
  if (cast_.processes[process].attack.host == 0) {
    if (const Complaint waits = Admitted::told(message)) return chronicle_.check("A1", waits);
    return chronicle_.check("A3", check_told_to_stranger(message));
  }
  chronicle_.check("A2", check_told_to_impostor(message, answers));
}

void World::stranger_wakes(std::uint32_t process, Duration after, std::uint64_t what) {
  queue_.push(now_ + after, What::kApp, process, what, 0);
}

}  // namespace lockstep::sim
