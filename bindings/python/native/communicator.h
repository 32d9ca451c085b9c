// A communicator as a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "bindings/python/native/call.h"
#include "bindings/python/native/lines.h"
#include "lockstep.h"

namespace lockstep::python {

// A C handle and what must outlive it. The last owner destroys it on a thread of its own: garbage collection never waits.
class Handle {
 public:
  Handle(lockstep_comm* comm, std::unique_ptr<Lines> log, std::unique_ptr<Lines> journal);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  [[nodiscard]] lockstep_comm* comm() const { return comm_; }

 private:
  lockstep_comm* comm_;
  std::unique_ptr<Lines> log_;
  std::unique_ptr<Lines> journal_;
};

using HandlePtr = std::shared_ptr<Handle>;

// Waits for handles that are being destroyed. At the interpreter's exit.
void wait_for_destroyed();

void define_communicator(py::module_& module);

}  // namespace lockstep::python
