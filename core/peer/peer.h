// One peer: its place in the run, its links to neighbours, its calls. The facade that drivers see; it routes inputs to
// Session (the coordinator), Mesh (neighbours) and Rounds (calls), and never sees a socket, a clock or a tensor byte.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/holdings.h"
#include "core/base/time.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/peer/snapshot.h"

namespace lockstep::peer {

class Peer {
 public:
  Peer(const PeerOptions& options, Instant now);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // Appends to `out` what is to be done. Drivers never run time backwards.
  void step(Input input, Instant now, Effects& out);

  // When to send the next Timer; kNever when there is nothing to wait for.
  [[nodiscard]] Instant deadline() const;

  // Resources in use (promise S11): all zero at rest without a run.
  struct Footprint {
    std::size_t streams = 0;
    std::size_t strangers = 0;      // of them: have not said the key of the run
    std::size_t widest = 0;         // of links that this peer dials, the stripes of the one that has most
    std::size_t rounds = 0;         // that have begun
    std::size_t waiting = 0;        // calls in the queue (rule 43), and stopped calls that keep a place in it
    std::size_t waiting_bytes = 0;  // of the queue
    std::size_t calls = 0;
    std::size_t queued_bytes = 0;
    std::size_t remembered =
        0;  // outcomes kept for calls not yet launched, announcements of neighbours not yet matched
  };
  [[nodiscard]] Footprint footprint() const;

  // A member with nothing under way: no call, no round, no proposal, nothing to be written, and all streams up.
  [[nodiscard]] bool is_quiet() const;
  // All that it holds, counted, between two steps; it takes about as long as save().
  [[nodiscard]] Holdings holdings() const;

  // All that this peer holds, between two steps, for a recording (core/flight/). Another one of the same options that
  // loads it goes on where this one was; its loans for reading are made again, as effects, for they lie elsewhere.
  // False: these bytes are no such state, and the peer is good for nothing.
  void save(std::vector<std::byte>& out) const;
  [[nodiscard]] bool load(std::span<const std::byte> state, Effects& lent);

  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] RoundPhase phase_of(const RoundKey& round) const;
  // The round in which a collective call takes part, while it is not over; nothing while it waits for the next cohort.
  [[nodiscard]] std::optional<RoundKey> round_of(CallId call) const;
  // Whether messages that come on this stream are looked at; not once it is to be closed.
  [[nodiscard]] bool hears(StreamId stream) const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace lockstep::peer
