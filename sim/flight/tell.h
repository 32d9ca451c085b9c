// Inputs and effects of core's machines as lines for people.
#pragma once

#include <string>

#include "core/coordinator/coordinator.h"
#include "core/flight/recording.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"

namespace lockstep::sim {

// "ReadDone{stream: 4, bytes: 152}: Ready{round: ...}": with the messages among what has landed.
std::string text_of(const flight::Record<peer::Input>& record);
std::string text_of(const flight::Record<coordinator::Input>& record);
// "Write{stream: 4, ...}: Done{round: ...}".
std::string text_of(const peer::Effect& effect);
std::string text_of(const coordinator::Effect& effect);

}  // namespace lockstep::sim
