// S9, bounded: queues, buffers and streams stay under the declared limits, whatever a remote sends.
#pragma once

#include "core/coordinator/coordinator.h"
#include "core/peer/peer.h"
#include "core/wire/limits.h"
#include "sim/checkers/complaint.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// `members`: number of hosts of the run. `stripes`: streams between two neighbours. `strangers`: limit of a port.
inline Complaint check_bounds(const peer::Peer::Footprint& f, PeerId peer, std::size_t members, std::size_t stripes,
                              std::size_t strangers = kMaxStrangers) {
  // Extra places for streams that are expected from neighbours.
  const std::size_t most_strangers = strangers + 2 * members * stripes;
  // The limit of streams: to the coordinator and to every other member, both ways and during a replacement; strangers,
  // including those that are being closed, because a process that stood still disconnects all waiting strangers at once
  // when it wakes; and streams with the right key that no link waits for.
  const std::size_t streams = 4 + 6 * members * stripes + std::size_t{2} * kMaxStrangers;
  const auto over = [&](const char* what, std::size_t is, std::size_t limit) {
    return text_of(peer) + " has " + std::to_string(is) + " " + what + ", the limit is " + std::to_string(limit);
  };
  if (f.streams > streams) return over("streams", f.streams, streams);
  if (f.widest > stripes) return over("stripes to one neighbour", f.widest, stripes);
  if (f.strangers > most_strangers) return over("strangers", f.strangers, most_strangers);
  if (f.rounds > kMaxRoundsInFlight) return over("rounds in flight", f.rounds, kMaxRoundsInFlight);
  if (f.remembered > std::size_t{2} * kMaxRememberedOutcomes)
    return over("remembered outcomes", f.remembered, std::size_t{2} * kMaxRememberedOutcomes);
  const std::size_t queued = f.streams * kMaxQueuedControlBytes;
  if (f.queued_bytes > queued) return over("queued bytes", f.queued_bytes, queued);
  return {};
}

inline Complaint check_bounds(const coordinator::Coordinator::Footprint& f, std::size_t strangers = kMaxStrangers) {
  const auto over = [&](const char* what, std::size_t is, std::size_t limit) {
    return std::string("the coordinator has ") + std::to_string(is) + " " + what + ", the limit is " +
           std::to_string(limit);
  };
  if (f.members > kMaxMembers) return over("members", f.members, kMaxMembers);
  if (f.members + f.waiting > kMaxMembers) return over("members and waiting", f.members + f.waiting, kMaxMembers);
  if (f.strangers > strangers) return over("strangers", f.strangers, strangers);
  if (f.waits > kMaxAwaitedRounds + kMaxMembers) return over("waits", f.waits, kMaxAwaitedRounds + kMaxMembers);
  if (f.streams > kMaxMembers + kMaxStrangers) return over("streams", f.streams, kMaxMembers + kMaxStrangers);
  const std::size_t queued = f.streams * kMaxQueuedControlBytes;
  if (f.queued_bytes > queued) return over("queued bytes", f.queued_bytes, queued);
  return {};
}

}  // namespace lockstep::sim
