#include "sim/world/ending.h"

#include <algorithm>

#include "core/base/assert.h"
#include "sim/checkers/l1_l4_ends.h"
#include "sim/checkers/s11_at_rest.h"
#include "sim/workload/liveness_bound.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

Ending::Ending(const Plan& plan, const WorldOptions& options, Dice dice, const Instant& now, EventQueue& queue,
               Cast& cast, Chronicle& chronicle)
    : plan_(plan),
      options_(options),
      dice_(dice),
      now_(now),
      queue_(queue),
      cast_(cast),
      chronicle_(chronicle),
      bound_(liveness_bound(plan)) {}

void Ending::heal(const Overdue& overdue) {
  LOCKSTEP_ASSERT(!healed_);
  healed_ = true;
  chronicle_.report.healed_at_event = chronicle_.report.events;
  healed_at_ = now_;
  if (options_.guests != nullptr) return;
  for (SimProcess& process : cast_.processes) {
    if (process.caller.app != nullptr) process.caller.commits_at_heal = process.caller.app->commits();
  }
  for (std::uint32_t host = 1; host < cast_.hosts.size(); ++host) {
    cast_.hosts[host].pause = {};
    if (cast_.hosts[host].gone) continue;
    queue_.push(now_ + nanoseconds(static_cast<std::int64_t>(dice_.skewed(1'000'000, Purpose::kThink, host, 1))),
                What::kWake, kNoProcess, host);
  }
  watch(overdue);
}

// Whether a gang of this name is in the run, so that another gang of this name waits.
bool Ending::namesakes_are_in(GangId gang) const {
  if (!plan_.gangs.namesakes) return false;
  std::uint32_t members = 0;
  for (const SimProcess& process : cast_.processes) {
    const bool in = process.alive && !process.over && process.connected && process.caller.app != nullptr;
    if (in && process.peer.options().gang == gang) members += 1;
  }
  return members >= plan_.gangs.size;
}

void Ending::watch(const Overdue& overdue) {
  for (const SimProcess& process : cast_.processes) {
    if (!process.alive || process.coordinator || process.over) continue;
    for (const std::uint32_t open : process.caller.open_calls) {
      const Call& call = process.caller.calls[open];
      const bool alone = call.kind == CallKind::kConnect && (settled_ || namesakes_are_in(process.peer.options().gang));
      chronicle_.judging(&call);
      if (!alone) chronicle_.check(promise_of(call.kind), check_ends(call, healed_at_, now_, bound_));
      if (!chronicle_.over()) chronicle_.check("L1", overdue(call, healed_at_, bound_));
      if (chronicle_.over()) return;
    }
  }
  chronicle_.judging(nullptr);
  if (now_ - healed_at_ > bound_ * 10) {
    chronicle_.fail("L1", "the run does not come to its end after the network healed");
    return;
  }
  settle();
  end_when_all_are_gone();
  if (!chronicle_.over()) queue_.push(now_ + plan_.heartbeat * 2, What::kGiveUp, kNoProcess);
}

// Every peer may leave once all peers are in and have seen results.
void Ending::settle() {
  if (settled_) return;
  std::uint64_t furthest = 0;
  for (std::uint32_t host = 1; host < cast_.hosts.size(); ++host) {
    if (cast_.hosts[host].gone) continue;
    const SimProcess* process = cast_.running(host);
    if (process == nullptr || process->over || !process->caller.app->connected()) {
      if (namesakes_are_in(sim::gang_of(plan_, host))) continue;
      return;
    }
    if (process->caller.app->commits() < process->caller.commits_at_heal + plan_.end.commits_after) return;
    furthest = std::max(furthest, process->caller.app->step());
  }
  settled_ = true;
  last_step_ = plan_.auto_admit ? 0 : furthest + 1;
  if (plan_.auto_admit) stop_waiting();
  if (options_.trace) chronicle_.tell("everybody is in: the run ends with step " + std::to_string(last_step_));
}

// With auto_admit no peer knows when others leave: a peer that waits for more members would wait for ever.
void Ending::stop_waiting() {
  for (SimProcess& process : cast_.processes) {
    if (process.coordinator || process.caller.app == nullptr) continue;
    for (const std::uint32_t open : process.caller.open_calls) {
      const Call& call = process.caller.calls[open];
      if (call.kind == CallKind::kAdmit && call.told_to_wait) process.caller.app->stop_call(call.id);
    }
  }
}

void Ending::end_when_all_are_gone() {
  if (!settled_) return;
  bool left_over = false;
  for (std::uint32_t host = 1; host < cast_.hosts.size(); ++host) {
    if (cast_.hosts[host].finished || cast_.hosts[host].gone) continue;
    const SimProcess* process = cast_.running(host);
    if (process != nullptr && !process->over && process->connected) return;
    left_over = true;
  }
  for (const SimProcess& process : cast_.processes) {
    if (process.alive && !process.coordinator && process.over && process.connected) return;  // comes to rest
  }
  if (all_gone_at_ == kNever) all_gone_at_ = now_;
  if (now_ - all_gone_at_ < plan_.heartbeat * (left_over ? 60 : 20)) return;
  if (!left_over) chronicle_.check("S11", check_at_rest(cast_.processes[0].coordinator->footprint()));
  chronicle_.end();
}

}  // namespace lockstep::sim
