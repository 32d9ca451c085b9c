// A communicator as a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>

#include "bindings/python/native/handle.h"
#include "lockstep.h"

namespace lockstep::python {

// Creates a handle from keyword arguments. `create` is lockstep_comm_create() or a replacement. Raises its error.
using Create = std::function<lockstep_status(const lockstep_comm_options& options, lockstep_comm** comm)>;
HandlePtr make_handle(const py::dict& given, Handle::End end, const Create& create);

void define_communicator(py::module_& module);

}  // namespace lockstep::python
