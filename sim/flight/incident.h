// What a coordinator saw of a run, out of its flight recording, as a plan: an incident of the field that the simulator can repeat,
// change and shrink. It saw who came, went and was lost, and when; which collectives were finished; who could not reach whom. It did
// not see the network between peers, nor what they computed; the plan has something like it, and says so.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/flight/recording.h"
#include "sim/plan.h"

namespace lockstep::sim {

struct Incident {
  Plan plan;
  std::vector<std::string> hosts;  // who was there: the name of the peer on host 1, 2, ...
  std::vector<std::string> notes;  // what is not as it was
};

// An error: nothing can be learnt from this recording.
Result<Incident> incident_of(const flight::Recording& recording);

// The plan as a file, with what it was made of as comments.
std::string to_text(const Incident& incident);

}  // namespace lockstep::sim
