#include "sim/world/nemesis.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/assert.h"
#include "sim/workload/text.h"
#include "sim/world/guests.h"
#include "sim/world/identities.h"
#include "sim/world/witness.h"

namespace lockstep::sim {

Nemesis::Nemesis(Plan& plan, const Lives::Around& around, Lives& lives, GuestPrograms& guests, const Ending& ending,
                 AppHost& app_host, StrangersHost& strangers_host)
    : plan_(plan),
      options_(around.options),
      dice_(around.dice),
      now_(around.now),
      queue_(around.queue),
      network_(around.network),
      cast_(around.cast),
      checkers_(around.checkers),
      chronicle_(around.chronicle),
      lives_(lives),
      guests_(guests),
      ending_(ending),
      app_host_(app_host),
      strangers_host_(strangers_host),
      active_(plan.entries.size()) {}

// ---- moments ----

void Nemesis::set_out() {
  for (std::uint64_t i = 0; i < plan_.entries.size(); ++i) {
    const Entry& entry = plan_.entries[i];
    if (entry.event != 0) {
      event_entries_.push_back(i);
    } else if (counts_from_start(entry)) {
      queue_.push(now_ + entry.after, What::kEntry, kNoProcess, i, 0);
    }
  }
  std::stable_sort(event_entries_.begin(), event_entries_.end(),
                   [&](auto a, auto b) { return plan_.entries[a].event > plan_.entries[b].event; });
}

void Nemesis::begin_at_event(std::uint64_t n) {
  while (!event_entries_.empty() && plan_.entries[event_entries_.back()].event <= n) {
    const std::uint64_t index = event_entries_.back();
    const Duration after = plan_.entries[index].after;
    event_entries_.pop_back();
    if (after.ns == 0) {
      queue_.push_next(now_, What::kEntry, kNoProcess, index, 0);
    } else {
      queue_.push(now_ + after, What::kEntry, kNoProcess, index, 0);
    }
  }
}

std::uint64_t Nemesis::begin_by_hand(const Entry& entry) {
  plan_.entries.push_back(entry);
  active_.emplace_back();
  begin(plan_.entries.size() - 1);
  return plan_.entries.size() - 1;
}

void Nemesis::end_all() {
  for (std::uint64_t i = 0; i < plan_.entries.size(); ++i) end(i);
}

std::vector<std::uint64_t> Nemesis::never_began() const {
  std::vector<std::uint64_t> never;
  for (std::uint64_t i = 0; i < active_.size(); ++i) {
    if (!active_[i].begun) never.push_back(i);
  }
  return never;
}

void Nemesis::begin_at(std::uint64_t Entry::*which, std::uint64_t n) {
  for (std::uint64_t i = 0; i < plan_.entries.size(); ++i) {
    const Entry& entry = plan_.entries[i];
    if (entry.*which == n) queue_.push(now_ + entry.after, What::kEntry, kNoProcess, i, 0);
  }
}

void Nemesis::begin(std::uint64_t index) {
  if (ending_.healed()) return;
  const Entry& entry = plan_.entries[index];
  SimProcess* process = cast_.running(entry.a);
  if (process != nullptr && (process->over || (process->coordinator && entry.fault != Fault::kStall)))
    process = nullptr;
  if (chronicle_.traces()) {
    chronicle_.tell("fault " + words_of(entry) +
                    (process == nullptr && entry.a != 0 && !is_of_pair(entry.fault) && entry.fault != Fault::kJoin
                         ? " (not running)"
                         : ""));
  }
  chronicle_.mix(21, index, 0, 0);
  checkers_.admissions.began(entry, process != nullptr, process != nullptr && process->connected);
  checkers_.refusals.began(entry);
  checkers_.progress.began(entry, now_);
  checkers_.waits.began(entry);
  checkers_.reach.began(entry, now_);
  checkers_.recovery.began(entry, process != nullptr || is_of_pair(entry.fault), now_);
  if (options_.witness != nullptr) options_.witness->fault_begins(index, entry);
  if (options_.guests != nullptr) options_.guests->fault_begins(index);
  Active& active = active_[index];
  if (!std::exchange(active.begun, true)) begins(entry);
  guests_.disturb();
  if (entry.fault != Fault::kStrangers) forgive_strangers();
  strangers_are_deaf_ = strangers_are_deaf_ || entry.fault == Fault::kSilence || entry.fault == Fault::kVanish;
  if (options_.guests != nullptr && begin_with_guest(index)) return;
  switch (entry.fault) {
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kSlow:
    case Fault::kDrip:
    case Fault::kFlip:
    case Fault::kShut:
    case Fault::kMute: return begin_on_network(index);
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kStall:
    case Fault::kKernels:
    case Fault::kMiscompute:
    case Fault::kSpoil:
    case Fault::kLie:
    case Fault::kStrangers:
    case Fault::kJoin: return begin_on_host(index, process);
    case Fault::kLeave:
    case Fault::kAbandon:
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift: return begin_in_program(entry, process);
  }
}

// True: the fault has begun. False: the caller begins the fault as for the simulator's own program.
bool Nemesis::begin_with_guest(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  Active& active = active_[index];
  SimHost& h = cast_.hosts[entry.a];
  SimProcess* const newest = cast_.running(entry.a);
  SimProcess* const process = newest != nullptr && !newest->over && !newest->coordinator ? newest : nullptr;
  switch (entry.fault) {
    case Fault::kCrash:
    case Fault::kVanish: {
      if (h.guest == 0) return true;
      checkers_.causes.began(entry);
      chronicle_.report.kills += 1;
      const Death death = entry.fault == Fault::kCrash ? Death::kReset : Death::kSilence;
      for (SimProcess& p : cast_.processes) {
        if (p.alive && p.host == entry.a) lives_.stop(p, death);
      }
      h.gone = entry.number != 0;
      guests_.die(entry.a);
      if (entry.length.ns == 0 || h.gone) return true;
      guests_.returns(true);
      queue_.push(now_ + entry.length, What::kWake, kNoProcess, entry.a);
      return true;
    }
    case Fault::kStall:
      if (entry.a == 0) return false;
      if (h.guest == 0) return true;
      checkers_.causes.began(entry);
      chronicle_.report.stalls += 1;
      active.on = true;
      active.guest = h.guest;
      active.process = newest != nullptr ? newest->index : kNoProcess;
      h.stalled += 1;
      if (newest != nullptr) lives_.stall(*newest, true);
      queue_.push(now_ + entry.length, What::kEntry, kNoProcess, index, 1);
      return true;
    case Fault::kJoin:
      if (h.guest != 0) return true;
      chronicle_.report.joins += 1;
      guests_.start(entry.a);
      return true;
    case Fault::kLeave:
      if (h.guest == 0 || h.pause.ns != 0) return true;
      checkers_.causes.began(entry);
      chronicle_.report.leaves += 1;
      h.pause = entry.length;
      guests_.wake(entry.a, GuestPrograms::kIsToLeave, {});
      return true;
    case Fault::kAbandon:
      if (process != nullptr && process->stall.count == 0) {
        chronicle_.report.kills += 1;
        checkers_.causes.began({.fault = Fault::kAbandon, .a = process->host});
        app_host_.app_command(process->index, peer::Input{peer::Abandon{"the nemesis asked for it"}});
      }
      return true;
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift:
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kSlow:
    case Fault::kDrip:
    case Fault::kKernels:
    case Fault::kSpoil:
    case Fault::kMute:
    case Fault::kShut:
    case Fault::kLie:
    case Fault::kStrangers:
    case Fault::kFlip:
    case Fault::kMiscompute: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

// The fault ends after its length. A fault that is begun by hand without a length ends by hand.
void Nemesis::lasts(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  active_[index].on = true;
  if (options_.scripted && entry.length.ns == 0) return;
  queue_.push(now_ + entry.length, What::kEntry, kNoProcess, index, 1);
}

void Nemesis::begin_on_network(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  switch (entry.fault) {
    case Fault::kCut:
    case Fault::kCutBoth:
      checkers_.causes.began(entry);
      chronicle_.report.cuts += 1;
      network_.cut(entry.a, entry.b);
      if (entry.fault == Fault::kCutBoth) network_.cut(entry.b, entry.a);
      return lasts(index);
    case Fault::kReset: return reset_streams(index);
    case Fault::kSilence:
      if (network_.silence(entry.a, entry.b) == 0) return;
      checkers_.causes.began(entry);
      chronicle_.report.silences += 1;
      return;
    case Fault::kSlow:
      checkers_.causes.began(entry);
      network_.slow(entry.a, entry.b, entry.number, now_);
      return lasts(index);
    case Fault::kDrip:
      checkers_.causes.began(entry);
      network_.drip(entry.a, entry.b, std::max<std::uint64_t>(1, entry.number), now_);
      return lasts(index);
    case Fault::kFlip:
      network_.flip(entry.a, entry.b, std::max<std::uint64_t>(1, entry.number));
      active_[index].on = true;
      return;
    case Fault::kMute:
      checkers_.causes.began(entry);
      network_.mute(entry.a, true, entry.number);
      return lasts(index);
    case Fault::kShut:
      checkers_.causes.began(entry);
      network_.shut(entry.a, {1, entry.number == 1, entry.b});
      return lasts(index);
    default: LOCKSTEP_UNREACHABLE();
  }
}

void Nemesis::reset_streams(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  std::size_t count = entry.b != entry.a ? network_.reset(entry.a, entry.b, now_) : 0;
  for (std::uint32_t host = 1; entry.b == entry.a && host < cast_.hosts.size(); ++host) {
    count += network_.reset(entry.a, host, now_);
  }
  if (count > 0) checkers_.causes.began(entry);
  if (++active_[index].times < entry.number) queue_.push(now_ + entry.length, What::kEntry, kNoProcess, index, 0);
}

// `process`: the process on the host if it is in the run; may be null.
void Nemesis::begin_on_host(std::uint64_t index, SimProcess* process) {
  const Entry& entry = plan_.entries[index];
  Active& active = active_[index];
  switch (entry.fault) {
    case Fault::kCrash:
    case Fault::kVanish: {
      if (process == nullptr) return;
      checkers_.causes.began(entry);
      chronicle_.report.kills += 1;
      if (entry.fault == Fault::kCrash) {
        lives_.stop(*process, Death::kReset);
      } else {
        for (SimProcess& p : cast_.processes) {
          if (p.alive && p.host == entry.a && !p.attack.strangers) lives_.stop(p, Death::kSilence);
        }
        cast_.hosts[entry.a].gone = entry.number != 0;
      }
      if (entry.length.ns != 0) queue_.push(now_ + entry.length, What::kWake, kNoProcess, entry.a);
      return;
    }
    case Fault::kStall:
      if (process == nullptr) return;
      checkers_.causes.began(entry);
      chronicle_.report.stalls += 1;
      active.process = process->index;
      lives_.stall(*process, true);
      return lasts(index);
    case Fault::kKernels:
      cast_.hosts[entry.a].kernel_factor = std::max<std::uint64_t>(1, entry.number);
      return lasts(index);
    case Fault::kMiscompute:
      if (process == nullptr) return;
      cast_.hosts[entry.a].to_miscompute = std::max<std::uint64_t>(1, entry.number);
      active.on = true;
      return;
    case Fault::kSpoil:
      checkers_.causes.began(entry);
      cast_.hosts[entry.a].lies += 1;
      return lasts(index);
    case Fault::kLie:
      checkers_.causes.began(entry);
      chronicle_.waive("S5");  // a state may come from a liar
      lives_.begin_to_lie(entry.a, lies_one_in(entry));
      if (process != nullptr && dice_.permille(500, Purpose::kViolator, 2, index)) {
        app_host_.app_restricted(process->index);
      }
      return lasts(index);
    case Fault::kStrangers:
      checkers_.causes.began(entry);
      begin_strangers(index);
      return lasts(index);
    case Fault::kJoin:
      if (cast_.running(entry.a) != nullptr) return;
      chronicle_.report.joins += 1;
      lives_.start(entry.a);
      return;
    default: LOCKSTEP_UNREACHABLE();
  }
}

void Nemesis::begin_in_program(const Entry& entry, SimProcess* process) {
  if (process == nullptr) return;
  switch (entry.fault) {
    case Fault::kLeave: return leave_with_gang(entry, *process);
    case Fault::kAbandon:
      if (process->stall.count > 0) return;
      if (entry.number >= kAdminEvicts && entry.number <= kStrangerEvicts) return ask_for_eviction(entry, *process);
      checkers_.causes.began(entry);
      chronicle_.report.kills += 1;
      if (entry.number == kTokenRevoked) return app_host_.app_revoked(process->index);
      if (entry.number == kOtherKey) cast_.hosts[entry.a].next_meets = OtherKey::kEverywhere;
      if (entry.number == kOtherKeyFirst) cast_.hosts[entry.a].next_meets = OtherKey::kFirst;
      process->caller.program->abandon();
      return;
    case Fault::kStop: return stop_oldest_call(entry, *process);
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift:
      if (process->caller.app == nullptr || (plan_.auto_admit && entry.fault == Fault::kSkip)) return;
      checkers_.causes.began(entry);
      chronicle_.report.misuses += 1;
      process->caller.app->misuse(entry);
      return;
    default: LOCKSTEP_UNREACHABLE();
  }
}

// A gang leaves whole.
void Nemesis::leave_with_gang(const Entry& entry, const SimProcess& process) {
  if (!process.caller.program->connected() || process.caller.program->leaving()) return;
  checkers_.causes.began(entry);
  chronicle_.report.leaves += 1;
  for (const std::uint32_t host : hosts_of_gang(plan_, entry.a)) {
    SimProcess* mate = cast_.running(host);
    if (mate == nullptr || mate->over || !mate->caller.program->connected() || mate->caller.program->leaving())
      continue;
    cast_.hosts[host].pause = entry.length;
    mate->caller.program->leave();
  }
}

void Nemesis::stop_oldest_call(const Entry& entry, SimProcess& process) {
  if (process.stall.count > 0) return;
  for (const std::uint32_t open : process.caller.open_calls) {
    Call& call = process.caller.calls[open];
    if (call.stopped || (call.kind != CallKind::kCollective && call.kind != CallKind::kAdmit)) continue;
    checkers_.causes.began(entry);
    chronicle_.report.misuses += 1;
    call.stopped = true;
    process.caller.program->stop_call(call.id);
    return;
  }
}

// Once the last fault has begun, the time at which the network heals is known.
void Nemesis::begins(const Entry& entry) {
  const auto fit = static_cast<std::uint64_t>(plan_.end.safety.ns / std::max<std::int64_t>(1, entry.length.ns)) + 1;
  const std::uint64_t times = entry.fault == Fault::kReset ? std::clamp<std::uint64_t>(entry.number, 1, fit) : 1;
  calm_from_ = std::max(calm_from_, now_ + entry.length * static_cast<std::int64_t>(times));
  if (++begun_ < active_.size() || plan_.end.heal_after.ns == 0) return;
  queue_.push(calm_from_ + plan_.end.heal_after, What::kHeal, kNoProcess);
}

void Nemesis::end(std::uint64_t index) {
  Active& active = active_[index];
  if (!active.on) return;
  active.on = false;
  const Entry& entry = plan_.entries[index];
  checkers_.causes.ended(entry);
  checkers_.progress.ended(entry, now_);
  checkers_.reach.ended(entry);
  guests_.disturb();
  if (options_.guests != nullptr) options_.guests->fault_ends(index);
  forgive_strangers();
  chronicle_.mix(22, index, 0, 0);
  if (options_.witness != nullptr) options_.witness->fault_ends(index, entry);
  switch (entry.fault) {
    case Fault::kStall:
      if (options_.guests != nullptr) guests_.go_on(entry.a, active.guest);
      if (active.process != kNoProcess && cast_.processes[active.process].alive)
        lives_.stall(cast_.processes[active.process], false);
      return;
    case Fault::kCut: network_.heal(entry.a, entry.b, now_); return;
    case Fault::kCutBoth:
      network_.heal(entry.a, entry.b, now_);
      network_.heal(entry.b, entry.a, now_);
      return;
    case Fault::kSlow: network_.slow(entry.a, entry.b, 1, now_); return;
    case Fault::kDrip: network_.drip(entry.a, entry.b, 0, now_); return;
    case Fault::kKernels: cast_.hosts[entry.a].kernel_factor = 1; return;
    case Fault::kSpoil: cast_.hosts[entry.a].lies -= 1; return;
    case Fault::kLie: chronicle_.report.kills += 1; return lives_.end_lies(entry.a);
    case Fault::kMute: network_.mute(entry.a, false, 0); return;
    case Fault::kShut: network_.shut(entry.a, {-1, false, 0}); return;
    case Fault::kStrangers: end_strangers(active); return;
    case Fault::kFlip: network_.flip(entry.a, entry.b, 0); return;
    case Fault::kMiscompute: cast_.hosts[entry.a].to_miscompute = 0; return;
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kJoin:
    case Fault::kLeave:
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift:
    case Fault::kAbandon: return;
  }
}

// Somebody asks the coordinator to evict the process. Only an administrator may.
void Nemesis::ask_for_eviction(const Entry& entry, const SimProcess& target) {
  const bool may = entry.number == kAdminEvicts;
  if (may) {
    checkers_.causes.began(entry);
    chronicle_.report.kills += 1;
  }
  constexpr io::TokenId kTokens[] = {kAdminToken, kObserverToken, kGuestToken, kAdminToken};
  const PeerId peer = target.id;
  SimProcess& process = cast_.processes.emplace_back();
  process.index = static_cast<std::uint32_t>(cast_.processes.size() - 1);
  checkers_.causes.strangers_born(process.index);
  process.host = 1 + entry.a % plan_.peers;
  process.id = {dice_.bits(Purpose::kIdentity, process.index, 1), dice_.bits(Purpose::kIdentity, process.index, 2)};
  process.memory = std::make_unique<Memory>(plan_.mode);
  Strangers::Settings settings;
  settings.process = process.index;
  settings.coordinator = true;
  settings.pause = plan_.heartbeat * 10;
  settings.patience = kLongestTime;
  settings.asks = {
      {key_of(process.id), kTokens[entry.number - kAdminEvicts], entry.number != kStrangerEvicts}, peer, may};
  if (may) checkers_.evictions.may_ask(peer);
  process.attack.strangers = std::make_unique<Strangers>(std::move(settings), dice_, strangers_host_);
  if (options_.witness != nullptr) options_.witness->strangers_come(process.index, process.host, process.id);
  process.attack.strangers->begin();
}

void Nemesis::begin_strangers(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  SimProcess& process = cast_.processes.emplace_back();
  process.index = static_cast<std::uint32_t>(cast_.processes.size() - 1);
  checkers_.causes.strangers_born(process.index);
  process.host = entry.b;
  process.attack.host = entry.a;
  process.id = {dice_.bits(Purpose::kIdentity, process.index, 1), dice_.bits(Purpose::kIdentity, process.index, 2)};
  process.memory = std::make_unique<Memory>(plan_.mode);
  Strangers::Settings settings;
  settings.process = process.index;
  settings.count = static_cast<std::uint32_t>(entry.number);
  settings.coordinator = entry.a == 0;
  settings.auto_admit = plan_.auto_admit;
  for (const SimProcess& other : cast_.processes) {  // ids are random: nobody knows an id that was never in a view
    if (other.peer && checkers_.causes.view_of(other.index)) settings.known.push_back(other.id);
  }
  settings.key = key_of(process.id);
  settings.run = cast_.processes[0].coordinator.options().link_key;
  settings.valid = kGuestToken;
  settings.gone = kForgottenToken;
  // The time that a port allows, and the time in flight of the last byte.
  const Duration allowed = plan_.heartbeat * (entry.a == 0 ? 6 : 10);
  settings.patience = allowed + plan_.heartbeat * 2 + plan_.delays.timer +
                      nanoseconds(4 * (plan_.network.latency_hi_ns + plan_.network.jitter_ns));
  // The pause is long enough for the greeting of a peer, which follows its connection by a round trip, to find a place.
  const std::int64_t crowds = 1 + settings.count / most_strangers(plan_);
  settings.pause =
      plan_.heartbeat / 2 +
      nanoseconds(crowds * 8 * (plan_.network.latency_hi_ns + plan_.network.jitter_ns + plan_.network.host_delay_ns));
  process.attack.strangers = std::make_unique<Strangers>(std::move(settings), dice_, strangers_host_);
  if (options_.witness != nullptr) options_.witness->strangers_come(process.index, process.host, process.id);
  active_[index].process = process.index;
  process.attack.strangers->begin();
}

void Nemesis::end_strangers(const Active& active) { cast_.processes[active.process].attack.strangers->end(); }

// Judges only while strangers are the only fault.
void Nemesis::judge_strangers(const SimProcess& process) {
  if (strangers_are_deaf_ || options_.guests != nullptr || plan_.network.flow.on || !plan_.network.links.empty())
    return;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].on && plan_.entries[i].fault != Fault::kStrangers) return;
  }
  chronicle_.check("S9", process.attack.strangers->overstayed(now_));
}

void Nemesis::forgive_strangers() {
  for (SimProcess& process : cast_.processes) {
    if (process.attack.strangers) process.attack.strangers->forgive(now_);
  }
}

bool Nemesis::is_ahead() const {
  if (ending_.healed()) return false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].on || (!active_[i].begun && counts_from_start(plan_.entries[i]))) return true;
  }
  return false;
}

}  // namespace lockstep::sim
