// S11: at rest nothing is left over: timers, streams, memory.
#pragma once

#include "core/coordinator/coordinator.h"
#include "core/peer/peer.h"
#include "sim/checkers/complaint.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// Some time after a peer's run is over and its calls are completed.
inline Complaint check_at_rest(const peer::Peer::Footprint& f, PeerId peer, bool timer, std::size_t streams) {
  if (f.streams == 0 && f.rounds == 0 && f.calls == 0 && f.queued_bytes == 0 && f.remembered == 0 && !timer &&
      streams == 0) {
    return {};
  }
  return text_of(peer) + " is at rest and keeps " + std::to_string(f.streams) + " streams, " +
         std::to_string(f.rounds) + " rounds, " + std::to_string(f.calls) + " calls, " +
         std::to_string(f.queued_bytes) + " queued bytes, " + std::to_string(f.remembered) + " remembered" +
         (timer ? ", a timer" : "") + "; the network knows " + std::to_string(streams) + " streams of it";
}

inline Complaint check_at_rest(const coordinator::Coordinator::Footprint& f) {
  if (f.streams == 0 && f.members == 0 && f.waiting == 0 && f.rounds == 0 && f.queued_bytes == 0 && f.published == 0 &&
      f.waits == 0) {
    return {};
  }
  return "the run is over and the coordinator keeps " + std::to_string(f.streams) + " streams, " +
         std::to_string(f.members) + " members, " + std::to_string(f.waiting) + " waiting, " +
         std::to_string(f.rounds) + " rounds, " + std::to_string(f.queued_bytes) + " queued bytes, " +
         std::to_string(f.published) + " states published or wanted, " + std::to_string(f.waits) + " waits";
}

}  // namespace lockstep::sim
