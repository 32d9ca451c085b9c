// World, third part: processes start and end, faults begin and end, the network heals, and the run comes to its end.
#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "sim/checkers/l1_l4_ends.h"
#include "sim/checkers/s11_at_rest.h"
#include "sim/text.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kMostStarts = 10'000;  // of processes, in one run

}  // namespace

// ---- processes ----

World::Process* World::running(std::uint32_t host) {
  if (host >= hosts_.size() || hosts_[host].process == kNoProcess) return nullptr;
  Process& process = processes_[hosts_[host].process];
  return process.alive ? &process : nullptr;
}

std::vector<std::uint32_t> World::gang_of(std::uint32_t host) const {
  if (plan_.gang_size == 1) return {host};
  const std::uint32_t first = host - (host - 1) % plan_.gang_size;
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t h = first; h < first + plan_.gang_size; ++h) hosts.push_back(h);
  return hosts;
}

void World::start_host(std::uint32_t host) {
  Host& h = hosts_[host];
  Process* old = running(host);
  if (options_.guests != nullptr) return start_guest(host);
  if (h.gone || h.finished || (old != nullptr && (!old->over || old->app->done()))) return;
  if (starts_++ > kMostStarts) {
    fail("limit", "processes start again and again");
    return;
  }
  network_.host_returned(host, now_);
  const auto index = static_cast<std::uint32_t>(processes_.size());
  const GroupId group{(host - 1) % plan_.groups};
  peer::Options options;
  options.name = options_.scripted ? std::string(1, static_cast<char>('a' + (host - 1) % 26))
                                   : "h" + std::to_string(host) + "." + std::to_string(index);
  options.group = group;
  options.gang = sim::gang_of(plan_, host);
  options.gang_size = plan_.gang_size;
  options.founders = plan_.founders;
  options.auto_admit = plan_.auto_admit;
  options.stripes = static_cast<std::uint16_t>(plan_.stripes);
  options.segment_bytes = plan_.segment_bytes;
  options.unasked = plan_.unasked;
  options.turns = plan_.turns;
  options.strangers = most_strangers(plan_);
  if (plan_.aged) {
    options.first_use = first_use_of(plan_);
    options.first_serial = kLastCount - dice_.range(0, 200, Purpose::kAge, processes_.size());
  }
  options.dial_timeout = plan_.heartbeat * 10;
  options.link_heartbeat = plan_.heartbeat;
  options.link_silence = plan_.heartbeat * 8;
  options.link_timeout = plan_.heartbeat * 16;
  options.abort_grace = plan_.heartbeat * 20;
  Process& process = new_process(host, std::move(options));
  auto program = std::make_unique<App>(*this, plan_, process.index, host, process.id, group, options_.scripted);
  process.app = program.get();
  begin_process(process, std::move(program));
}

World::Process& World::new_process(std::uint32_t host, peer::Options options) {
  Process& process = processes_.emplace_back();
  process.index = static_cast<std::uint32_t>(processes_.size() - 1);
  process.host = host;
  process.id = {dice_.bits(Purpose::kIdentity, process.index, 1), dice_.bits(Purpose::kIdentity, process.index, 2)};
  by_id_.emplace(process.id, process.index);
  process.memory = std::make_unique<Memory>(plan_.mode);
  options.id = process.id;
  options.seed = dice_.bits(Purpose::kIdentity, process.index, 3);
  process.peer = std::make_unique<peer::Peer>(options, now_);
  causes_.born(process.index, options, host);
  if (options_.witness != nullptr) options_.witness->born(process.index, options, now_);
  process.peer_options = std::move(options);
  return process;
}

void World::begin_process(Process& process, std::unique_ptr<Program> program) {
  process.program = std::move(program);
  hosts_[process.host].process = process.index;
  mix(20, process.host, process.index, process.id.low);
  if (options_.witness != nullptr) options_.witness->started(process.index, process.host, process.id);
  say(process, "starts");
  process.program->begin();
  arm(process);
}

void World::stop_process(Process& process, Death death) {
  say(process, death == Death::kReset ? "dies" : "vanishes");
  if (options_.witness != nullptr) options_.witness->stopped(process.index, death);
  process.alive = false;
  causes_.died(process.index);
  process.timer_for = INT64_MAX;
  network_.died(process.index, death, now_);
  for (const std::uint32_t index : process.open_calls) {
    Call& call = process.calls[index];
    call.round_at_death = round_of(process, call);
  }
  process.peer.reset();
  process.renewed_peers.clear();
  if (hosts_[process.host].process == process.index) hosts_[process.host].process = kNoProcess;
}

void World::stall(Process& process, bool on) {
  if (on) {
    process.stalled += 1;
    return;
  }
  if (process.stalled == 0 || --process.stalled > 0) return;
  say(process, "wakes");
  std::int64_t after = 1;
  for (const Event& event : process.held_back) {
    queue_.push(now_ + nanoseconds(after++), event.what, event.process, event.a, event.b);
  }
  process.held_back.clear();
}

// A while after its run was over: all its calls must have ended. Its host goes on with a new process at once; the old one must
// come to rest beside it.
void World::after_run(Process& process) {
  if (!process.open_calls.empty()) {
    if (now_ - process.over_at > bound_) {
      const Call& call = process.calls[process.open_calls.front()];
      judged_ = &call;
      fail("L4", text_of(process.id) + " lost its run at " + text_of(process.over_at) + ", and call " +
                     std::to_string(call.id.value) + " (" + text_of(call.request) + ") has not ended");
      return;
    }
    queue_.push(now_ + plan_.heartbeat, What::kGiveUp, process.index, 1);
    return;
  }
  if (options_.guests != nullptr) return;  // its program comes to close(), and goes on as it likes
  Host& host = hosts_[process.host];
  if (process.app->done()) {
    host.finished = true;
  } else if (host.process == process.index && !options_.scripted) {
    const bool left = process.app->leaving();
    if (!left || host.pause.ns != 0 || healed_) {
      const Duration wait =
          left && !healed_ ? host.pause : nanoseconds(delay(process, plan_.heartbeat * 4, Purpose::kThink));
      queue_.push(now_ + wait, What::kWake, kNoProcess, process.host);
    }
    host.pause = {};
  }
  queue_.push(now_ + plan_.heartbeat * 40, What::kGiveUp, process.index, 2);
}

void World::rest(Process& process) {
  const bool timer = process.peer->deadline() != kNever;
  check("S11", check_at_rest(process.peer->footprint(), process.id, timer, network_.streams_of(process.index)));
  if (over_) return;
  stop_process(process, Death::kReset);
}

// ---- faults ----

void World::begin_entry(std::uint64_t index) {
  if (healed_) return;
  const Entry& entry = plan_.entries[index];
  Process* process = running(entry.a);
  if (process != nullptr && (process->over || (process->coordinator && entry.fault != Fault::kStall)))
    process = nullptr;
  if (options_.trace) {
    options_.trace(text_of(now_) + " fault " + words_of(entry) +
                   (process == nullptr && entry.a != 0 && !is_of_pair(entry.fault) && entry.fault != Fault::kJoin
                        ? " (not running)"
                        : ""));
  }
  mix(21, index, 0, 0);
  admissions_.began(entry, process != nullptr, process != nullptr && process->connected);
  recovery_.began(entry, process != nullptr || is_of_pair(entry.fault), now_);
  if (options_.witness != nullptr) options_.witness->fault_begins(index, entry);
  if (options_.guests != nullptr) options_.guests->fault_begins(index);
  Active& active = active_[index];
  if (!std::exchange(active.begun, true)) begins(entry);
  quiet_since_ = now_;
  if (entry.fault != Fault::kStrangers) forgive_strangers();
  strangers_are_deaf_ = strangers_are_deaf_ || entry.fault == Fault::kSilence || entry.fault == Fault::kVanish;
  const auto lasts = [&] {
    active.on = true;
    if (options_.scripted && entry.length.ns == 0) return;
    queue_.push(now_ + entry.length, What::kEntry, kNoProcess, index, 1);
  };
  if (options_.guests != nullptr && begin_with_guest(index)) return;
  switch (entry.fault) {
    case Fault::kCrash:
    case Fault::kVanish: {
      if (process == nullptr) return;
      causes_.began(entry);
      report_.kills += 1;
      if (entry.fault == Fault::kCrash) {
        stop_process(*process, Death::kReset);
      } else {
        for (Process& p : processes_) {
          if (p.alive && p.host == entry.a && !p.strangers) stop_process(p, Death::kSilence);
        }
        hosts_[entry.a].gone = entry.number != 0;
      }
      if (entry.length.ns != 0) queue_.push(now_ + entry.length, What::kWake, kNoProcess, entry.a);
      return;
    }
    case Fault::kStall:
      if (process == nullptr) return;
      causes_.began(entry);
      report_.stalls += 1;
      active.process = process->index;
      stall(*process, true);
      lasts();
      return;
    case Fault::kCut:
      causes_.began(entry);
      report_.cuts += 1;
      network_.cut(entry.a, entry.b);
      lasts();
      return;
    case Fault::kCutBoth:
      causes_.began(entry);
      report_.cuts += 1;
      network_.cut(entry.a, entry.b);
      network_.cut(entry.b, entry.a);
      lasts();
      return;
    case Fault::kReset: {
      std::size_t count = entry.b != entry.a ? network_.reset(entry.a, entry.b, now_) : 0;
      for (std::uint32_t host = 1; entry.b == entry.a && host < hosts_.size(); ++host) {
        count += network_.reset(entry.a, host, now_);
      }
      if (count > 0) causes_.began(entry);
      if (++active.times < entry.number) queue_.push(now_ + entry.length, What::kEntry, kNoProcess, index, 0);
      return;
    }
    case Fault::kSilence:
      if (network_.silence(entry.a, entry.b) == 0) return;
      causes_.began(entry);
      report_.silences += 1;
      return;
    case Fault::kSlow:
      causes_.began(entry);
      network_.slow(entry.a, entry.b, entry.number, now_);
      lasts();
      return;
    case Fault::kKernels:
      hosts_[entry.a].kernel_factor = std::max<std::uint64_t>(1, entry.number);
      lasts();
      return;
    case Fault::kFlip:
      network_.flip(entry.a, entry.b, std::max<std::uint64_t>(1, entry.number));
      active.on = true;
      return;
    case Fault::kMiscompute:
      if (process == nullptr) return;
      hosts_[entry.a].to_miscompute = std::max<std::uint64_t>(1, entry.number);
      active.on = true;
      return;
    case Fault::kSpoil:
      causes_.began(entry);
      hosts_[entry.a].lies += 1;
      lasts();
      return;
    case Fault::kMute:
      causes_.began(entry);
      network_.mute(entry.a, true, entry.number);
      lasts();
      return;
    case Fault::kStrangers:
      causes_.began(entry);
      begin_strangers(index);
      lasts();
      return;
    case Fault::kJoin:
      if (running(entry.a) != nullptr) return;
      report_.joins += 1;
      start_host(entry.a);
      return;
    case Fault::kLeave:
      if (process == nullptr || !process->program->connected() || process->program->leaving()) return;
      causes_.began(entry);
      report_.leaves += 1;
      for (const std::uint32_t host : gang_of(entry.a)) {  // a gang leaves whole
        Process* mate = running(host);
        if (mate == nullptr || mate->over || !mate->program->connected() || mate->program->leaving()) continue;
        hosts_[host].pause = entry.length;
        mate->program->leave();
      }
      return;
    case Fault::kAbandon:
      if (process == nullptr || process->stalled > 0) return;
      causes_.began(entry);
      report_.kills += 1;
      process->program->abandon();
      return;
    case Fault::kStop: {
      if (process == nullptr || process->stalled > 0) return;
      for (const std::uint32_t open : process->open_calls) {
        const Call& call = process->calls[open];
        if (call.stopped || (call.kind != CallKind::kCollective && call.kind != CallKind::kAdmit)) continue;
        causes_.began(entry);
        report_.misuses += 1;
        process->calls[open].stopped = true;
        process->program->stop_call(call.id);
        return;
      }
      return;
    }
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kSkip:
    case Fault::kDrift:
      if (process == nullptr || process->app == nullptr) return;
      if (plan_.auto_admit && entry.fault == Fault::kSkip) return;
      causes_.began(entry);
      report_.misuses += 1;
      process->app->misuse(entry);
      return;
  }
}

// With the last fault it is known when the network may heal.
void World::begins(const Entry& entry) {
  const auto fit = static_cast<std::uint64_t>(plan_.safety.ns / std::max<std::int64_t>(1, entry.length.ns)) + 1;
  const std::uint64_t times = entry.fault == Fault::kReset ? std::clamp<std::uint64_t>(entry.number, 1, fit) : 1;
  calm_from_ = std::max(calm_from_, now_ + entry.length * static_cast<std::int64_t>(times));
  if (++begun_ < active_.size() || plan_.heal_after.ns == 0) return;
  queue_.push(calm_from_ + plan_.heal_after, What::kHeal, kNoProcess);
}

void World::end_entry(std::uint64_t index) {
  Active& active = active_[index];
  if (!active.on) return;
  active.on = false;
  const Entry& entry = plan_.entries[index];
  causes_.ended(entry);
  quiet_since_ = now_;
  if (options_.guests != nullptr) options_.guests->fault_ends(index);
  forgive_strangers();
  mix(22, index, 0, 0);
  if (options_.witness != nullptr) options_.witness->fault_ends(index, entry);
  switch (entry.fault) {
    case Fault::kStall:
      if (options_.guests != nullptr) guest_wakes(entry, active);
      if (active.process != kNoProcess && processes_[active.process].alive) stall(processes_[active.process], false);
      return;
    case Fault::kCut: network_.heal(entry.a, entry.b, now_); return;
    case Fault::kCutBoth:
      network_.heal(entry.a, entry.b, now_);
      network_.heal(entry.b, entry.a, now_);
      return;
    case Fault::kSlow: network_.slow(entry.a, entry.b, 1, now_); return;
    case Fault::kKernels: hosts_[entry.a].kernel_factor = 1; return;
    case Fault::kSpoil: hosts_[entry.a].lies -= 1; return;
    case Fault::kMute: network_.mute(entry.a, false, 0); return;
    case Fault::kStrangers: end_strangers(active); return;
    case Fault::kFlip: network_.flip(entry.a, entry.b, 0); return;
    case Fault::kMiscompute: hosts_[entry.a].to_miscompute = 0; return;
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kJoin:
    case Fault::kLeave:
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kSkip:
    case Fault::kDrift:
    case Fault::kAbandon: return;
  }
}

// ---- strangers ----

void World::begin_strangers(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  Process& process = processes_.emplace_back();
  process.index = static_cast<std::uint32_t>(processes_.size() - 1);
  causes_.strangers_born(process.index);
  process.host = entry.b;
  process.attacked = entry.a;
  process.id = {dice_.bits(Purpose::kIdentity, process.index, 1), dice_.bits(Purpose::kIdentity, process.index, 2)};
  process.memory = std::make_unique<Memory>(plan_.mode);
  Strangers::Settings settings;
  settings.process = process.index;
  settings.count = static_cast<std::uint32_t>(entry.number);
  settings.coordinator = entry.a == 0;
  settings.auto_admit = plan_.auto_admit;
  for (const Process& other : processes_) {  // ids are random: nobody has heard of one that was never in a view
    if (other.peer && causes_.view_of(other.index)) settings.known.push_back(other.id);
  }
  // What a port allows, and what its last byte takes on its way.
  const Duration allowed = plan_.heartbeat * (entry.a == 0 ? 6 : 10);
  settings.patience = allowed + plan_.heartbeat * 2 + plan_.timer_delay +
                      nanoseconds(4 * (plan_.network.latency_hi_ns + plan_.network.jitter_ns));
  // Not so often that a greeting, which follows its connection by a round trip here, finds its place taken again.
  const std::int64_t crowds = 1 + settings.count / most_strangers(plan_);
  settings.pause =
      plan_.heartbeat / 2 +
      nanoseconds(crowds * 8 * (plan_.network.latency_hi_ns + plan_.network.jitter_ns + plan_.network.host_delay_ns));
  process.strangers = std::make_unique<Strangers>(std::move(settings), dice_, *this);
  if (options_.witness != nullptr) options_.witness->strangers_come(process.index, process.host, process.id);
  active_[index].process = process.index;
  process.strangers->begin();
}

void World::end_strangers(const Active& active) { processes_[active.process].strangers->end(); }

std::optional<io::Address> World::stranger_target(std::uint32_t process) {
  const std::uint32_t host = processes_[process].attacked;
  for (const Process& other : processes_) {
    if (other.alive && other.host == host && other.port != 0) return Network::address_of(host, other.port);
  }
  return std::nullopt;
}

void World::stranger_wakes(std::uint32_t process, Duration after, std::uint64_t what) {
  queue_.push(now_ + after, What::kApp, process, what, 0);
}

// Where nothing but strangers happens.
void World::judge_strangers(const Process& process) {
  if (strangers_are_deaf_ || options_.guests != nullptr || plan_.network.flow.on || !plan_.network.links.empty())
    return;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].on && plan_.entries[i].fault != Fault::kStrangers) return;
  }
  check("S9", process.strangers->overstayed(now_));
}

void World::forgive_strangers() {
  for (Process& process : processes_) {
    if (process.strangers) process.strangers->forgive(now_);
  }
}

// ---- by hand ----

std::uint64_t World::begin_fault(const Entry& entry) {
  plan_.entries.push_back(entry);
  active_.emplace_back();
  begin_entry(plan_.entries.size() - 1);
  return plan_.entries.size() - 1;
}

CallId World::launch(std::uint32_t host, const peer::Request& request, const App::Contents& contents) {
  Process* process = running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  process->app->launch(request, 16, contents);
  return CallId{process->calls.size()};
}

CallId World::share(std::uint32_t host, CallKind kind, const peer::Request& request, const App::Contents& contents) {
  Process* process = running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  return process->app->share(kind, request, contents);
}

CallId World::admit(std::uint32_t host, std::uint32_t at_least, Duration timeout) {
  Process* process = running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  Call& call = app_call(process->index, CallKind::kAdmit);
  call.at_least = at_least;
  const CallId id = call.id;
  step(*process, peer::Input{peer::Admit{id, at_least, timeout}});
  return id;
}

CallId World::leave(std::uint32_t host, Duration timeout) {
  Process* process = running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  causes_.began({.fault = Fault::kLeave, .a = host});
  process->app->leaves();
  const CallId id = app_call(process->index, CallKind::kLeave).id;
  step(*process, peer::Input{peer::Leave{id, timeout}});
  return id;
}

void World::stop(std::uint32_t host, CallId call, const std::string& why) {
  Process* process = running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  causes_.began({.fault = Fault::kStop, .a = host});
  step(*process, peer::Input{peer::Stop{call, why}});
}

const Call* World::call(std::uint32_t host, CallId id) {
  Process* process = running(host);
  if (process == nullptr || id.value == 0 || id.value > process->calls.size()) return nullptr;
  return &process->calls[id.value - 1];
}

PeerId World::peer_on(std::uint32_t host) {
  Process* process = running(host);
  return process == nullptr ? PeerId{} : process->id;
}

Memory& World::memory_on(std::uint32_t host) {
  Process* process = running(host);
  LOCKSTEP_ASSERT(process != nullptr);
  return *process->memory;
}

// ---- the liveness phase ----

void World::heal() {
  if (healed_) return;
  if (options_.trace) options_.trace(text_of(now_) + " faults stop, the network heals");
  if (options_.witness != nullptr) options_.witness->heals();
  for (std::uint64_t i = 0; i < plan_.entries.size(); ++i) end_entry(i);
  healed_ = true;
  report_.healed_at_event = report_.events;
  healed_at_ = now_;
  if (options_.guests != nullptr) return;
  for (Process& process : processes_) {
    if (process.app != nullptr) process.commits_at_heal = process.app->commits();
  }
  for (std::uint32_t host = 1; host < hosts_.size(); ++host) {
    hosts_[host].pause = {};
    if (hosts_[host].gone) continue;
    queue_.push(now_ + nanoseconds(static_cast<std::int64_t>(dice_.skewed(1'000'000, Purpose::kThink, host, 1))),
                What::kWake, kNoProcess, host);
  }
  watch();
}

// Whether a gang of this name is in, for which another one waits.
bool World::namesakes_are_in(GangId gang) const {
  if (!plan_.namesakes) return false;
  std::uint32_t members = 0;
  for (const Process& process : processes_) {
    const bool in = process.alive && !process.over && process.connected && process.app != nullptr;
    if (in && process.peer_options.gang == gang) members += 1;
  }
  return members >= plan_.gang_size;
}

void World::watch() {
  for (const Process& process : processes_) {
    if (!process.alive || process.coordinator || process.over) continue;
    for (const std::uint32_t open : process.open_calls) {
      const Call& call = process.calls[open];
      const bool alone = call.kind == CallKind::kConnect && (settled_ || namesakes_are_in(process.peer_options.gang));
      judged_ = &call;
      if (!alone) check(promise_of(call.kind), check_ends(call, healed_at_, now_, bound_));
      if (over_) return;
    }
  }
  judged_ = nullptr;
  if (now_ - healed_at_ > bound_ * 10) {
    fail("L1", "the run does not come to its end after the network healed");
    return;
  }
  settle();
  end_when_all_are_gone();
  if (!over_) queue_.push(now_ + plan_.heartbeat * 2, What::kGiveUp, kNoProcess);
}

// Once everybody is in and has seen results, everybody may leave.
void World::settle() {
  if (settled_) return;
  std::uint64_t furthest = 0;
  for (std::uint32_t host = 1; host < hosts_.size(); ++host) {
    if (hosts_[host].gone) continue;
    const Process* process = running(host);
    if (process == nullptr || process->over || !process->app->connected()) {
      if (namesakes_are_in(sim::gang_of(plan_, host))) continue;
      return;
    }
    if (process->app->commits() < process->commits_at_heal + plan_.commits_after) return;
    furthest = std::max(furthest, process->app->step());
  }
  settled_ = true;
  last_step_ = plan_.auto_admit ? 0 : furthest + 1;
  if (plan_.auto_admit) stop_waiting();
  if (options_.trace)
    options_.trace(text_of(now_) + " everybody is in: the run ends with step " + std::to_string(last_step_));
}

// With auto_admit nobody knows when the others leave: who waits for more members would do so for ever.
void World::stop_waiting() {
  for (Process& process : processes_) {
    if (process.coordinator || process.app == nullptr) continue;
    for (const std::uint32_t open : process.open_calls) {
      const Call& call = process.calls[open];
      if (call.kind == CallKind::kAdmit && call.told_to_wait) process.app->stop_call(call.id);
    }
  }
}

void World::end_when_all_are_gone() {
  if (!settled_) return;
  bool left_over = false;
  for (std::uint32_t host = 1; host < hosts_.size(); ++host) {
    if (hosts_[host].finished || hosts_[host].gone) continue;
    const Process* process = running(host);
    if (process != nullptr && !process->over && process->connected) return;
    left_over = true;
  }
  for (const Process& process : processes_) {
    if (process.alive && !process.coordinator && process.over && process.connected) return;  // comes to rest
  }
  if (all_gone_at_ == kNever) all_gone_at_ = now_;
  if (now_ - all_gone_at_ < plan_.heartbeat * (left_over ? 60 : 20)) return;
  if (!left_over) check("S11", check_at_rest(processes_[0].coordinator->footprint()));
  over_ = true;
}

}  // namespace lockstep::sim
