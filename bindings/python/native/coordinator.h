// An embedded coordinator as a Python object.
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep::python {

void define_coordinator(pybind11::module_& module);

}  // namespace lockstep::python
