#include "sim/cli/hunt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "sim/cli/command.h"
#include "sim/cli/rotation.h"
#include "sim/plan/plan.h"
#include "sim/words/words.h"
#include "sim/world/world.h"

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

Search::Search(const Quarry& quarry, std::uint32_t n) : quarry_(quarry), first_(n * kFarApart), seed_(first_) {
  fork_child();
}

Search::~Search() {
  if (over()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(out_);
}

bool Search::names(const std::string& promise) const {
  const auto named = split_words(quarry_.entry.promises);
  return std::find(named.begin(), named.end(), promise) != named.end();
}

void Search::fork_child() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw UsageError("no pipe for a child process");
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
void Search::search_here(int out) const {
  ::dup2(out, STDERR_FILENO);
  plant(quarry_.entry.mutant);
  const std::uint64_t end = first_ + quarry_.budget;
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

void Search::hear(const std::string& line) {
  if (line.starts_with("s ")) {
    seed_ = std::strtoull(line.c_str() + 2, nullptr, 10);
  } else if (line.starts_with("f ")) {
    const std::size_t space = std::min(line.find(' ', 2), line.size());
    broke(line.substr(2, space - 2), line.substr(std::min(space + 1, line.size())));
  } else {
    last_words_ = line;
  }
}

void Search::broke(const std::string& promise, const std::string& text) {
  if (names(promise)) {
    found_ = true;
    promise_ = promise;
    text_ = text;
    return;
  }
  if (others_.empty()) {
    other_text_ = promise + ": " + text;
    other_seed_ = seed_;
  }
  others_[promise] += 1;
}

void Search::listen() {
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

void Search::watch() {
  if (out_ >= 0 && since_heard_.seconds() > kHangs) child_ended(true);
}

// The child came to its end, or an assertion, a signal or our patience ended it.
void Search::child_ended(bool hangs) {
  if (hangs) ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ::close(out_);
  out_ = -1;
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!clean) broke(hangs ? "hang" : "assert", last_words_);
  if (!clean && !found_ && seed_ + 1 < first_ + quarry_.budget) {
    seed_ += 1;
    return fork_child();
  }
  seconds_ = since_start_.seconds();
}

bool Hunt::may_start() const {
  if (over_) return false;
  const std::size_t begun = searches() + searching_.size();
  return begun < quarry_->searches || searching_.empty();
}

void Hunt::start() {
  const auto n = searches() + static_cast<std::uint32_t>(searching_.size());
  searching_.push_back(std::make_unique<Search>(*quarry_, n));
}

void Hunt::count() {
  while (!searching_.empty() && searching_.front()->over()) {
    count(*searching_.front());
    searching_.erase(searching_.begin());
    over_ = !wants_more();
    if (over_) searching_.clear();
  }
}

void Hunt::count(const Search& search) {
  detection_.seeds += search.seeds();
  seconds_ += search.seconds();
  if (others_.empty()) {
    other_text_ = search.other_text();
    other_seed_ = search.other_seed();
  }
  for (const auto& [promise, seeds] : search.others()) others_[promise] += seeds;
  if (!search.found()) {
    missed_ += 1;
    return;
  }
  detection_.found += 1;
  needed_.push_back(search.seeds());
  if (!promise_.empty()) return;
  promise_ = search.promise();
  text_ = search.text();
  found_at_ = search.seed();
}

bool Hunt::wants_more() const {
  if (missed_ * 2 > std::max(searches(), quarry_->searches)) return false;  // the median is lost
  if (searches() < quarry_->searches) return true;
  if (searches() >= kMostSearches) return false;
  if (quarry_->records) return detection_.seeds < kEnoughSeeds;
  return rarer();
}

std::optional<std::uint64_t> Hunt::median() const {
  std::vector<std::uint64_t> sorted = needed_;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = searches() == 0 ? 0 : (searches() - 1) / 2;
  if (middle >= sorted.size()) return {};
  return sorted[middle];
}

bool Hunt::rarer() const { return quarry_->recorded && fell_to_half(detection_, *quarry_->recorded); }

void run_hunts(std::vector<Hunt>& hunts, std::uint32_t jobs, const std::function<void(const Hunt&)>& ended) {
  std::vector<Hunt*> longest_first;
  longest_first.reserve(hunts.size());
  for (Hunt& hunt : hunts) longest_first.push_back(&hunt);
  std::stable_sort(longest_first.begin(), longest_first.end(), [](const Hunt* a, const Hunt* b) {
    return expected_seeds(a->quarry()) > expected_seeds(b->quarry());
  });
  std::size_t told = 0;
  for (;;) {
    std::vector<Search*> running;
    for (const Hunt& hunt : hunts) {
      for (const auto& search : hunt.searching()) {
        if (!search->over()) running.push_back(search.get());
      }
    }
    for (Hunt* const hunt : longest_first) {
      while (running.size() < jobs && hunt->may_start()) {
        hunt->start();
        running.push_back(hunt->searching().back().get());
      }
    }
    if (running.empty()) return;
    std::vector<pollfd> fds;
    fds.reserve(running.size());
    for (const Search* search : running) fds.push_back({search->out(), POLLIN, 0});
    if (::poll(fds.data(), fds.size(), 1000) < 0 && errno != EINTR) std::abort();
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (fds[i].revents != 0) {
        running[i]->listen();
      } else {
        running[i]->watch();
      }
    }
    for (Hunt& hunt : hunts) hunt.count();
    for (; told < hunts.size() && hunts[told].over(); ++told) ended(hunts[told]);
  }
}

}  // namespace lockstep::sim
