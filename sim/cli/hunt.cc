#include "sim/cli/hunt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "sim/cli/command.h"
#include "sim/plan.h"
#include "sim/words.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr double kHangs = 60;                       // seconds for one seed
constexpr std::uint64_t kFarApart = 1'000'000'000;  // seeds between the beginnings of two searches

void say_all(int out, const std::string& line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(out, line.data() + done, line.size() - done);
    if (n <= 0) _exit(0);
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace

bool Hunt::names(const std::string& promise) const {
  const auto named = split_words(quarry_.entry.promises);
  return std::find(named.begin(), named.end(), promise) != named.end();
}

std::uint64_t Hunt::first_seed() const { return searches() * kFarApart; }

void Hunt::start() {
  if (searches() == 0) since_start_ = Stopwatch();
  seed_ = first_seed();
  found_ = false;
  fork_child();
}

void Hunt::fork_child() {
  int ends[2];
  if (::pipe(ends) != 0) throw UsageError("no pipe for a child process");
  std::fflush(stdout);
  pid_ = ::fork();
  if (pid_ < 0) throw UsageError("no child process");
  if (pid_ == 0) {
    ::close(ends[0]);
    search_here(ends[1]);
  }
  ::close(ends[1]);
  out_ = ends[0];
  buffer_.clear();
  last_words_.clear();
  since_heard_ = Stopwatch();
}

// In the child: "s SEED" before each seed, "f PROMISE TEXT" when a promise breaks.
void Hunt::search_here(int out) const {
  ::dup2(out, STDERR_FILENO);
  plant(quarry_.entry.mutant);
  const std::uint64_t end = first_seed() + quarry_.budget;
  for (std::uint64_t seed = seed_; seed < end; ++seed) {
    say_all(out, "s " + std::to_string(seed) + "\n");
    const Report report = run(plan_of(seed));
    if (!report.failure) continue;
    std::string text = report.failure->text;
    std::replace(text.begin(), text.end(), '\n', ' ');
    say_all(out, "f " + report.failure->promise + " " + text + "\n");
    if (names(report.failure->promise)) break;
  }
  _exit(0);
}

void Hunt::hear(const std::string& line) {
  if (line.starts_with("s ")) {
    seed_ = std::strtoull(line.c_str() + 2, nullptr, 10);
  } else if (line.starts_with("f ")) {
    const std::size_t space = std::min(line.find(' ', 2), line.size());
    broke(line.substr(2, space - 2), line.substr(std::min(space + 1, line.size())));
  } else {
    last_words_ = line;
  }
}

void Hunt::broke(const std::string& promise, const std::string& text) {
  if (names(promise)) {
    found_ = true;
    if (!promise_.empty()) return;
    promise_ = promise;
    text_ = text;
    found_at_ = seed_;
    return;
  }
  if (others_.empty()) {
    other_text_ = promise + ": " + text;
    other_seed_ = seed_;
  }
  others_[promise] += 1;
}

void Hunt::listen() {
  char bytes[65536];
  const ssize_t n = ::read(out_, bytes, sizeof bytes);
  since_heard_ = Stopwatch();
  if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
  std::size_t at = 0;
  for (std::size_t newline = 0; (newline = buffer_.find('\n', at)) != std::string::npos; at = newline + 1) {
    hear(buffer_.substr(at, newline - at));
  }
  buffer_.erase(0, at);
  if (n <= 0) child_ended(false);
}

void Hunt::watch() {
  if (out_ >= 0 && since_heard_.seconds() > kHangs) child_ended(true);
}

// The child came to its end, or an assertion, a signal or our patience ended it.
void Hunt::child_ended(bool hangs) {
  if (hangs) ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ::close(out_);
  out_ = -1;
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!clean) broke(hangs ? "hang" : "assert", last_words_);
  if (!clean && !found_ && seed_ + 1 < first_seed() + quarry_.budget) {
    seed_ += 1;
    return fork_child();
  }
  search_ended();
}

void Hunt::search_ended() {
  const std::uint64_t seeds = seed_ - first_seed() + 1;
  detection_.seeds += seeds;
  if (found_) {
    detection_.found += 1;
    needed_.push_back(seeds);
  } else {
    missed_ += 1;
  }
  if (wants_more()) return start();
  over_ = true;
  seconds_ = since_start_.seconds();
}

bool Hunt::wants_more() const {
  if (missed_ * 2 > std::max(searches(), quarry_.searches)) return false;  // the median is lost
  if (searches() < quarry_.searches) return true;
  if (searches() >= kMostSearches) return false;
  if (quarry_.records) return detection_.seeds < kEnoughSeeds;
  return rarer();
}

std::optional<std::uint64_t> Hunt::median() const {
  std::vector<std::uint64_t> sorted = needed_;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = searches() == 0 ? 0 : (searches() - 1) / 2;
  if (middle >= sorted.size()) return {};
  return sorted[middle];
}

bool Hunt::rarer() const { return quarry_.recorded && fell_to_half(detection_, *quarry_.recorded); }

}  // namespace lockstep::sim
