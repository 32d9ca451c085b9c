// The extension module lockstep._lockstep: the C API for the Python package, which alone uses it.
#include <pybind11/pybind11.h>

#include "lockstep.h"

PYBIND11_MODULE(_lockstep, module) {
  module.doc() = "Native part of lockstep; import lockstep instead.";
  module.def("version", &lockstep_version_string, "The version of the C library, for example \"0.1.0\".");
}
