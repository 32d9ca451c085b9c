// A lockstep.State for the C API. Its values are stored here from the call to its outcome.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/python/native/array.h"
#include "lockstep.h"

namespace lockstep::python {

struct StateArgs {
  std::vector<Array> arrays;
  std::vector<std::string> names;  // names of the tensors, then of the values
  std::vector<lockstep_state_tensor> tensors;
  std::vector<std::uint64_t> slots;  // 8 bytes for each value
  std::vector<lockstep_state_value> values;
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;

  // The current ints and floats, in order.
  [[nodiscard]] py::list current_values() const;
};

// `description`: from lockstep.State._describe(). `options`: the fields of lockstep_sync_state_args by name.
std::shared_ptr<StateArgs> state_args(const py::dict& description, const py::dict& options, Array::Access access);

}  // namespace lockstep::python
