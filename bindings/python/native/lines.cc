#include "bindings/python/native/lines.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "bindings/python/native/call.h"
#include "bindings/python/native/convert.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/fork.h"
#include "bindings/python/native/gil.h"

namespace lockstep::python {
namespace {

constexpr std::size_t kMostLines = 10'000;  // waiting lines; further lines are counted and dropped

struct Line {
  std::uint64_t sink = 0;
  std::optional<std::string> text;  // empty: no further line follows
};

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Line> lines;
  std::uint64_t dropped = 0;
};

Queue& queue() { return OfProcess<Queue>::get(); }

void push(Line line) {
  Queue& to = queue();
  {
    const std::lock_guard lock(to.mutex);
    if (line.text && to.lines.size() >= kMostLines) {
      to.dropped += 1;
      return;
    }
    to.lines.push_back(std::move(line));
  }
  to.changed.notify_one();
}

// Waits for lines for at most `seconds`. Returns (lines, dropped): (sink, text or None) for each line, and the number
// of lines dropped since the last call.
py::tuple fetch(double seconds) {
  std::deque<Line> lines;
  std::uint64_t dropped = 0;
  {
    const WithoutGil released;
    Queue& from = queue();
    std::unique_lock lock(from.mutex);
    from.changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !from.lines.empty(); });
    lines.swap(from.lines);
    dropped = std::exchange(from.dropped, 0);
  }
  collect();  // for a main thread that waits elsewhere, while no call of the package runs
  py::list out;
  for (const Line& line : lines) {
    py::object text = py::none();
    if (line.text) {
      text = to_text(*line.text);
    }
    out.append(py::make_tuple(line.sink, text));
  }
  return py::make_tuple(out, dropped);
}

}  // namespace

Lines::Lines(const std::string& path) : file_(std::fopen(path.c_str(), "ae")) {
  if (file_ != nullptr) return;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
  throw py::error_already_set();
}

Lines::~Lines() {
  end();
  if (file_ != nullptr) std::fclose(file_);
}

void Lines::end() {
  if (file_ == nullptr && !ended_.exchange(true)) push({sink_, std::nullopt});
}

void Lines::take(void* user, const char* line) {
  const Lines& to = *static_cast<Lines*>(user);
  if (to.file_ == nullptr) return push({to.sink_, line});
  std::fprintf(to.file_, "%s\n", line);
  std::fflush(to.file_);
}

std::unique_ptr<Lines> lines_to(const py::object& where) {
  if (where.is_none()) return nullptr;
  if (PyLong_Check(where.ptr())) return std::make_unique<Lines>(py::cast<std::uint64_t>(where));
  return std::make_unique<Lines>(to_path(where, "journal"));
}

void define_lines(py::module_& module) {
  module.def("fetch_lines", &fetch, py::arg("seconds"));
  module.def("end_lines", [] { push({0, std::nullopt}); });
}

}  // namespace lockstep::python
