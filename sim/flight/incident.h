// Makes a plan of a coordinator's flight recording: an incident that the simulator can repeat, change and shrink. The
// coordinator saw the peers that came, left and were lost, with times; the collectives that finished; and the broken
// links. It saw neither the network between peers nor their computations; the plan replaces these, and its notes say
// so.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/flight/recording.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

struct Incident {
  Plan plan;
  std::vector<std::string> hosts;  // the name of the peer on host 1, 2, ...
  std::vector<std::string> notes;  // differences between the plan and the incident
};

// An error: nothing can be learnt from this recording.
Result<Incident> incident_of(const flight::Recording& recording);

// The plan as a file, with what it was made of as comments.
std::string to_text(const Incident& incident);

}  // namespace lockstep::sim
