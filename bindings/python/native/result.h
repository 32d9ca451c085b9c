// How a call ended, as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

// What a C function fills in, with room for all that it can say. One at a time per thread.
lockstep_result& blank_result();

// A copy of that.
struct Result {
  explicit Result(const lockstep_result& from);

  lockstep_result raw;
  std::vector<lockstep_peer_id> contributors;
  std::vector<std::uint64_t> blocks;
  std::string parity;
  py::object output = py::none();  // the array that holds the result, where the call made or cut one
};

// A lockstep.PeerId.
py::object to_python(const lockstep_peer_id& id);
lockstep_peer_id to_peer_id(const py::handle& id);

void define_result(py::module_& module);

}  // namespace lockstep::python
