// Log and journal lines on their way from the library's threads to Python. A thread of the library never waits for the
// GIL: it queues the line, and a Python thread (lockstep/_lines.py) fetches it.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

// The destination of one communicator's or coordinator's lines. Outlives its owner.
class Lines {
 public:
  // Delivers lines to Python under this number.
  explicit Lines(std::uint64_t sink) : sink_(sink) {}
  // Appends lines to a file. Raises OSError.
  explicit Lines(const std::string& path);
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines();
  // Reports to Python that no line follows. A second call does nothing.
  void end();

  // A lockstep_log_fn; `user` is the Lines.
  static void take(void* user, const char* line);

 private:
  std::uint64_t sink_ = 0;
  std::atomic<bool> ended_{false};
  std::FILE* file_ = nullptr;
};

// From an argument `log` or `journal`: None, the number of a sink, or the path of a file.
std::unique_ptr<Lines> lines_to(const py::object& where);

void define_lines(py::module_& module);

}  // namespace lockstep::python
