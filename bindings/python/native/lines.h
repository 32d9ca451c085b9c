// Log and journal lines on their way from the library's threads to Python. A thread of the library never waits for the
// GIL: it queues the line, and a Python thread (lockstep/_lines.py) fetches it.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "bindings/python/native/journal_file.h"
#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

// The destination of one communicator's or coordinator's lines. Outlives its owner.
class Lines {
 public:
  // Delivers lines to Python under this number.
  explicit Lines(std::uint64_t sink) : sink_(sink) {}
  // Appends lines to a file. Raises OSError.
  explicit Lines(const std::string& path) : file_(std::make_unique<JournalFile>(path)) {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines();
  // These lines are a journal. Its end before the end of its peer is told in the log, which may be null.
  void report_to(Lines* log);
  // Reports to Python that no line follows. A second call does nothing.
  void end();

  // A lockstep_log_fn; `user` is the Lines.
  static void take(void* user, const char* line);

 private:
  void take(const char* line);
  // A line that the program should see.
  void warn(const std::string& line);
  void report(const std::string& why);

  std::uint64_t sink_ = 0;
  std::atomic<bool> ended_{false};
  std::unique_ptr<JournalFile> file_;
  bool is_journal_ = false;
  Lines* log_ = nullptr;  // of the journal's peer
  bool stopped_ = false;  // a line of the journal was lost, and no further one is taken
};

// From an argument `log` or `journal`: None, the number of a sink, or the path of a file.
std::unique_ptr<Lines> lines_to(const py::object& where);

void define_lines(py::module_& module);

}  // namespace lockstep::python
