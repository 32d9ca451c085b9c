// The per-element work of outer steps (core/kernels/training/outer_step.h) on arrays of Python, without the GIL.
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep::python {

void define_outer_kernels(pybind11::module_& module);

}  // namespace lockstep::python
