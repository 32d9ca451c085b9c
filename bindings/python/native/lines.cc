#include "bindings/python/native/lines.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
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
  bool warns = false;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Line> lines;
  std::uint64_t dropped = 0;
};

Queue& queue() { return OfProcess<Queue>::get(); }

// False: the line was dropped.
bool push(Line line, std::size_t most = kMostLines) {
  Queue& to = queue();
  {
    const std::lock_guard lock(to.mutex);
    if (line.text && to.lines.size() >= most) {
      to.dropped += 1;
      return false;
    }
    to.lines.push_back(std::move(line));
  }
  to.changed.notify_one();
  return true;
}

// Waits for lines for at most `seconds`. Returns (lines, dropped): (sink, text or None, whether it is a warning) for
// each line, and the number of lines dropped since the last call.
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
    out.append(py::make_tuple(line.sink, text, line.warns));
  }
  return py::make_tuple(out, dropped);
}

}  // namespace

Lines::~Lines() { end(); }

void Lines::report_to(Lines* log) {
  is_journal_ = true;
  log_ = log;
}

void Lines::end() {
  if (file_ == nullptr && !ended_.exchange(true)) push({sink_, std::nullopt});
}

void Lines::take(void* user, const char* line) { static_cast<Lines*>(user)->take(line); }

void Lines::take(const char* line) {
  if (file_ != nullptr) {
    if (const auto why = file_->append(line)) report(*why);
    return;
  }
  if (stopped_ || push({sink_, line}) || !is_journal_) return;
  stopped_ = true;
  constexpr const char* kWhy = "its function was slower than its lines came";
  push({sink_, stopped_line(line, kWhy)}, SIZE_MAX);
  report(kWhy);
}

void Lines::report(const std::string& why) {
  const std::string text = "the journal has stopped: " + why + "; `lockstep sim audit` calls it incomplete";
  if (log_ != nullptr) {
    log_->warn(text);
  } else {
    std::fprintf(stderr, "lockstep: %s\n", text.c_str());
  }
}

void Lines::warn(const std::string& line) { push({sink_, line, true}, SIZE_MAX); }

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
