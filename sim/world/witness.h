// The interface of an observer of a running World. An observer changes nothing: the hash of a run is the same with and
// without it.
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
#include "sim/engine/event.h"
#include "sim/engine/queue_witness.h"
#include "sim/network/network.h"
#include "sim/network/wire_witness.h"
#include "sim/plan/plan.h"
#include "sim/plan/report.h"
#include "sim/workload/call.h"

namespace lockstep::peer {
class Peer;
}  // namespace lockstep::peer

namespace lockstep::sim {

class Program;

// Processes are told by their number in the run (0: the coordinator), faults by their place in the plan.
class Witness : public QueueWitness, public WireWitness {
 public:
  // ---- the queue ----
  // Everything that follows, until the next one, comes of this event.
  virtual void happens(const Event&, Instant) {}
  // The event hits a process that stands still; the event is queued again when the process wakes.
  virtual void held_back(const Event&) {}

  // ---- processes ----
  virtual void started(std::uint32_t /*process*/, std::uint32_t /*host*/, PeerId) {}
  virtual void stopped(std::uint32_t /*process*/, Death) {}
  // A process that is none of the run's, beside the one that runs on that host.
  virtual void strangers_come(std::uint32_t /*process*/, std::uint32_t /*host*/, PeerId) {}
  // With these options its machine is made.
  virtual void born(std::uint32_t /*process*/, const peer::PeerOptions&, Instant) {}
  virtual void born(std::uint32_t /*process*/, const coordinator::CoordinatorOptions&, Instant) {}
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

  // ---- the nemesis ----
  virtual void fault_begins(std::uint64_t /*entry*/, const Entry&) {}
  virtual void fault_ends(std::uint64_t /*entry*/, const Entry&) {}
  virtual void heals() {}
  // `about`: the call that was judged; may be null.
  virtual void failed(const Failure&, const Call* /*about*/) {}
};

}  // namespace lockstep::sim
