// The interface of an observer of the event queue. Changes nothing.
#pragma once

namespace lockstep::sim {

struct Event;

class QueueWitness {
 public:
  virtual ~QueueWitness() = default;
  // The event will happen; its cause is the event that happens now.
  virtual void queued(const Event&) {}
};

}  // namespace lockstep::sim
