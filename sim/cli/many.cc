#include "sim/cli/many.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "sim/cli/report_json.h"
#include "sim/cli/stopwatch.h"

namespace lockstep::sim {
namespace {

using One = std::function<Report(std::uint64_t seed)>;

// A child writes a line before each run ("s <seed>") and one after it ("r <report>").
class Worker {
 public:
  Worker(const ManyOptions& options, const One& one) : options_(options), one_(one) {}

  void start(std::uint64_t first) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe for a child process");
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no child process");
    if (pid_ == 0) {
      ::close(ends[0]);
      work(first, ends[1]);
    }
    ::close(ends[1]);
    out_ = ends[0];
    buffer_.clear();
    running_ = first;
  }

  [[nodiscard]] bool alive() const { return out_ >= 0; }
  [[nodiscard]] int out() const { return out_; }
  [[nodiscard]] std::uint64_t running() const { return running_; }

  // Reads the available bytes. False: the child has ended; then crashed() tells how.
  bool read() {
    char bytes[65536];
    const ssize_t n = ::read(out_, bytes, sizeof bytes);
    if (n > 0) {
      buffer_.append(bytes, static_cast<std::size_t>(n));
      return true;
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ::close(out_);
    out_ = -1;
    crashed_ = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
    return false;
  }
  [[nodiscard]] bool crashed() const { return crashed_; }

  void take_reports(const std::function<void(const Report&)>& take) {
    std::size_t at = 0;
    for (std::size_t newline = 0; (newline = buffer_.find('\n', at)) != std::string::npos; at = newline + 1) {
      const std::string line = buffer_.substr(at, newline - at);
      if (line[0] == 's') {
        running_ = std::strtoull(line.c_str() + 2, nullptr, 10);
      } else {
        const nlohmann::json json = nlohmann::json::parse(line.substr(2));
        const Report report = report_from(json);
        if (options_.takes) options_.takes(report, json.at("left"));
        take(report);
      }
    }
    buffer_.erase(0, at);
  }

  void kill() {
    if (!alive()) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(out_);
    out_ = -1;
  }

 private:
  [[noreturn]] void work(std::uint64_t first, int out) {
    const auto put = [&](const std::string& line) {
      std::size_t done = 0;
      while (done < line.size()) {
        const ssize_t n = ::write(out, line.data() + done, line.size() - done);
        if (n <= 0) _exit(0);  // the parent no longer reads
        done += static_cast<std::size_t>(n);
      }
    };
    for (std::uint64_t seed = first; seed < options_.end; seed += options_.jobs) {
      put("s " + std::to_string(seed) + "\n");
      nlohmann::json json = to_json(one_(seed));
      if (options_.leaves) json["left"] = options_.leaves();
      put("r " + json.dump() + "\n");
    }
    _exit(0);
  }

  const ManyOptions& options_;
  const One& one_;
  pid_t pid_ = 0;
  int out_ = -1;
  std::uint64_t running_ = 0;
  bool crashed_ = false;
  std::string buffer_;
};

void tell_progress(const ManyOptions& options, const ManyRuns& runs, double seconds) {
  const double rate = static_cast<double>(runs.totals.seeds) / seconds;
  const auto left = static_cast<double>(options.end - options.first - runs.totals.seeds);
  fmt::print(stderr, "\r{} {}, {:.0f} per second, {:.0f} s left, {} failures   ", runs.totals.seeds, options.unit, rate,
             rate > 0 ? left / rate : 0.0, runs.failures.size());
}

}  // namespace

ManyRuns run_many(const ManyOptions& options, const One& one) {
  ManyRuns result;
  std::vector<Worker> workers(options.jobs, Worker(options, one));
  for (std::uint64_t j = 0; j < options.jobs && options.first + j < options.end; ++j) {
    workers[j].start(options.first + j);
  }
  const bool progress = options.progress && ::isatty(2) != 0;
  const Stopwatch stopwatch;
  double told = 0;
  bool stop = false;
  const auto take = [&](const Report& report) {
    result.totals.add(report);
    if (options.hashes) result.hashes.emplace_back(report.seed, report.hash);
    if (!report.failure) return;
    result.failures.push_back(report);
    stop = stop || !options.keep_going;
  };
  while (!stop) {
    std::vector<pollfd> fds;
    for (const Worker& worker : workers) {
      if (worker.alive()) fds.push_back({worker.out(), POLLIN, 0});
    }
    if (fds.empty()) break;
    if (::poll(fds.data(), fds.size(), 1000) < 0 && errno != EINTR) break;
    for (Worker& worker : workers) {
      const auto fd = std::find_if(fds.begin(), fds.end(), [&](const pollfd& p) { return p.fd == worker.out(); });
      if (fd == fds.end() || fd->revents == 0) continue;
      const bool ended = !worker.read();
      worker.take_reports(take);
      if (!ended || !worker.crashed()) continue;
      Report report;
      report.seed = worker.running();
      report.failure = Failure{"crash", "the process died; an assertion is printed above", 0, 0};
      result.failures.push_back(report);
      stop = stop || !options.keep_going;
      if (!stop && worker.running() + options.jobs < options.end) worker.start(worker.running() + options.jobs);
    }
    if (progress && stopwatch.seconds() - told > 2) {
      told = stopwatch.seconds();
      tell_progress(options, result, told);
    }
    stop = stop || (options.limit_s > 0 && stopwatch.seconds() > options.limit_s);
  }
  for (Worker& worker : workers) worker.kill();
  if (progress) fmt::print(stderr, "\r{:60}\r", "");
  std::sort(result.failures.begin(), result.failures.end(),
            [](const Report& a, const Report& b) { return a.seed < b.seed; });
  std::sort(result.hashes.begin(), result.hashes.end());
  return result;
}

}  // namespace lockstep::sim
