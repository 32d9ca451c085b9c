#include "sim/world/timers.h"

#include <algorithm>

namespace lockstep::sim {

Instant deadline_of(const SimProcess& process) {
  return process.coordinator ? process.coordinator->deadline() : process.peer->deadline();
}

void Timers::arm(SimProcess& process) {
  const Instant deadline = deadline_of(process);
  if (deadline.ns >= process.timer.deadline) return;
  process.timer.deadline = deadline.ns;
  const std::int64_t late = draw_delay(dice_, process, plan_.delays.timer, Purpose::kTimerDelay);
  queue_.push({std::max(deadline.ns, now_.ns) + late}, What::kTimer, process.index, 0, ++process.timer.serial);
}

}  // namespace lockstep::sim
