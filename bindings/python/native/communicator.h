// A communicator as a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bindings/python/native/call.h"
#include "bindings/python/native/lines.h"
#include "lockstep.h"

namespace lockstep::python {

// A C handle and what must outlive it.
class Handle {
 public:
  // How the last owner destroys it. On a thread of its own: garbage collection never waits.
  enum class End : std::uint8_t { kOnAThread, kHere };

  Handle(lockstep_comm* comm, End end, std::unique_ptr<Lines> log, std::unique_ptr<Lines> journal);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  [[nodiscard]] lockstep_comm* comm() const { return comm_; }

 private:
  lockstep_comm* comm_;
  End end_;
  std::unique_ptr<Lines> log_;
  std::unique_ptr<Lines> journal_;
};

using HandlePtr = std::shared_ptr<Handle>;

// Makes a handle of keyword arguments. `create` is lockstep_comm_create(), or stands for it. Raises its error.
using Create = std::function<lockstep_status(const lockstep_comm_options& options, lockstep_comm** comm)>;
HandlePtr make_handle(const py::dict& options, Handle::End end, const Create& create);

// Waits for handles that are being destroyed. At the interpreter's exit.
void wait_for_destroyed();

void define_communicator(py::module_& module);

}  // namespace lockstep::python
