// Lines of log and journal on their way from threads of the library to Python. A thread of the library never waits for
// the GIL: it leaves the line here, and a thread of Python (lockstep/_lines.py) fetches it.
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

// Where one communicator or coordinator sends its lines. Outlives it.
class Lines {
 public:
  // To Python, under this number.
  explicit Lines(std::uint64_t sink) : sink_(sink) {}
  // To the end of a file. Raises OSError.
  explicit Lines(const std::string& path);
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines();
  // Tells Python that no line follows. Again: does nothing.
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
