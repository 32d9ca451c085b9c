// The per-element work of strategies that exchange few elements or few bits (core/kernels/training) on arrays of
// Python, without the GIL.
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep::python {

void define_sparse_kernels(pybind11::module_& module);

}  // namespace lockstep::python
