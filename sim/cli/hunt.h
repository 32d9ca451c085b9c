// Several searches for one planted bug, one after the other, each by a child process: an assertion ends the child, and not the hunt.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mutant.h"
#include "sim/cli/detection.h"
#include "sim/cli/stopwatch.h"

namespace lockstep::sim {

inline constexpr std::uint32_t kSearches = 5;       // whose median must lie within the budget
inline constexpr std::uint32_t kMostSearches = 25;  // until a rate that looks like half of the recorded one is believed
inline constexpr std::uint64_t kEnoughSeeds = 2'000;  // for a rate that is recorded: no search begins after so many

// What a hunt is to find out.
struct Quarry {
  MutantEntry entry;
  std::uint64_t budget = 0;            // seeds of a search
  std::uint32_t searches = kSearches;  // at least, unless more than half of them fail
  std::optional<Detection> recorded;   // to compare with
  bool records = false;                // its own rate is to be recorded: kMostSearches, within kEnoughSeeds
};

class Hunt {
 public:
  explicit Hunt(Quarry quarry) : quarry_(quarry) {}

  void start();
  [[nodiscard]] int out() const { return out_; }  // what to poll; -1: no search is under way
  void listen();                                  // when there is something to read
  void watch();                                   // ends a seed in which a step of core never ends
  [[nodiscard]] bool over() const { return over_; }

  [[nodiscard]] const Quarry& quarry() const { return quarry_; }
  [[nodiscard]] const Detection& detection() const { return detection_; }
  [[nodiscard]] std::uint32_t searches() const { return static_cast<std::uint32_t>(needed_.size()) + missed_; }
  // Seeds that a search needed: the median, where a search that failed needed more than any other. None: most failed.
  [[nodiscard]] std::optional<std::uint64_t> median() const;
  [[nodiscard]] bool rarer() const;  // than half of what is recorded
  [[nodiscard]] bool passed() const { return median().has_value() && !rarer(); }

  // Of the first search that succeeded.
  [[nodiscard]] const std::string& promise() const { return promise_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::uint64_t seed() const { return found_at_; }
  // What else broke, in how many seeds, and how in the first of them.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& others() const { return others_; }
  [[nodiscard]] const std::string& other_text() const { return other_text_; }
  [[nodiscard]] std::uint64_t other_seed() const { return other_seed_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  void fork_child();
  [[noreturn]] void search_here(int out) const;
  void hear(const std::string& line);
  void broke(const std::string& promise, const std::string& text);
  void child_ended(bool hangs);
  void search_ended();
  [[nodiscard]] bool wants_more() const;
  [[nodiscard]] bool names(const std::string& promise) const;
  [[nodiscard]] std::uint64_t first_seed() const;

  Quarry quarry_;
  Detection detection_;
  std::vector<std::uint64_t> needed_;  // by each search that succeeded
  std::uint32_t missed_ = 0;           // searches that failed
  bool over_ = false;

  pid_t pid_ = 0;
  int out_ = -1;
  std::string buffer_;
  std::string last_words_;  // of the child: what its assertion said
  std::uint64_t seed_ = 0;  // under way
  bool found_ = false;      // in this search
  Stopwatch since_start_;
  Stopwatch since_heard_;

  std::string promise_;
  std::string text_;
  std::uint64_t found_at_ = 0;
  std::map<std::string, std::uint64_t> others_;
  std::string other_text_;
  std::uint64_t other_seed_ = 0;
  double seconds_ = 0;
};

}  // namespace lockstep::sim
