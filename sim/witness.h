// Somebody who looks on while a World runs, and is told what it does as it does it. Changes nothing: a run that is watched has
// the hash of one that is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/coordinator.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "sim/call.h"
#include "sim/event.h"
#include "sim/plan.h"
#include "sim/report.h"

namespace lockstep::peer {
class Peer;
}  // namespace lockstep::peer

namespace lockstep::sim {

class Program;

// Processes are told by their number in the run (0: the coordinator), faults by their place in the plan.
class Witness {
 public:
  virtual ~Witness() = default;

  // ---- the queue ----
  // Will happen; comes of what happens now.
  virtual void queued(const Event&) {}
  // Everything that follows, until the next one, comes of this event.
  virtual void happens(const Event&, Instant) {}
  // Would happen now to a process that stands still; it is queued again when that one wakes.
  virtual void held_back(const Event&) {}

  // ---- processes ----
  virtual void started(std::uint32_t /*process*/, std::uint32_t /*host*/, PeerId) {}
  virtual void stopped(std::uint32_t /*process*/, Death) {}
  // A process that is none of the run's, beside the one that runs on that host.
  virtual void strangers_come(std::uint32_t /*process*/, std::uint32_t /*host*/, PeerId) {}
  // With these options its machine is made.
  virtual void born(std::uint32_t /*process*/, const peer::Options&, Instant) {}
  virtual void born(std::uint32_t /*process*/, const coordinator::Options&, Instant) {}
  // A machine is given an input, asks for effects (all of them, then one by one), and is as it is then.
  virtual void steps(std::uint32_t /*process*/, const peer::Input&) {}
  virtual void steps(std::uint32_t /*process*/, const coordinator::Input&) {}
  virtual void answers(std::uint32_t /*process*/, const peer::Effects&, const peer::Peer&) {}
  virtual void answers(std::uint32_t /*process*/, const coordinator::Effects&, const coordinator::Coordinator&) {}
  virtual void asks(std::uint32_t /*process*/, const peer::Effect&) {}
  virtual void asks(std::uint32_t /*process*/, const coordinator::Effect&) {}
  virtual void stepped(std::uint32_t /*process*/, const peer::Peer&, const Program&) {}
  virtual void stepped(std::uint32_t /*process*/, const coordinator::Coordinator&) {}

  // ---- calls ----
  virtual void called(const Call&) {}
  virtual void launched(const Call&) {}  // a collective; called() was said before its arguments were known

  // ---- the wire ----
  // A side of a connection (Network::End; the other side is end ^ 1) has a name in a process.
  virtual void opens(std::uint32_t /*end*/, std::uint32_t /*process*/, StreamId) {}
  // So many bytes go on the wire; `bytes` is empty where they are payload.
  virtual void sends(std::uint32_t /*end*/, std::span<const std::byte> /*bytes*/, std::size_t /*size*/) {}

  // ---- the nemesis ----
  virtual void fault_begins(std::uint64_t /*entry*/, const Entry&) {}
  virtual void fault_ends(std::uint64_t /*entry*/, const Entry&) {}
  virtual void heals() {}
  // `about`: the call that was judged; may be null.
  virtual void failed(const Failure&, const Call* /*about*/) {}
};

}  // namespace lockstep::sim
