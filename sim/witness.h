// Somebody who looks on while a World runs, and is told what it does as it does it. Changes nothing: a run that is watched has
// the hash of one that is not.
#pragma once

#include "core/base/time.h"
#include "sim/call.h"
#include "sim/event.h"

namespace lockstep::sim {

class Witness {
 public:
  virtual ~Witness() = default;
  // Everything that follows, until the next one, comes of this event.
  virtual void happens(const Event&, Instant) {}
  virtual void launched(const Call&) {}
};

}  // namespace lockstep::sim
