// The simulator's swarm (bindings/swarm) for lockstep.sim.Swarm.
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep::python {

void define_swarm(pybind11::module_& module);

}  // namespace lockstep::python
