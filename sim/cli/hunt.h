// Several searches for one planted bug, each by a child process: an assertion ends the child, and not the hunt.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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

// The target of a hunt.
struct Quarry {
  MutantEntry entry;
  std::uint64_t budget = 0;            // seeds of a search
  std::uint32_t searches = kSearches;  // at least, unless more than half of them fail
  std::optional<Detection> recorded;   // to compare with
  bool records = false;                // its own rate is to be recorded: kMostSearches, within kEnoughSeeds
};

// Runs seeds from a first seed on, until one of the bug's promises breaks or the budget is used up.
class Search {
 public:
  // The n-th search of a hunt, 0 is the first.
  Search(const Quarry& quarry, std::uint32_t n);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search();  // ends the child

  [[nodiscard]] int out() const { return out_; }  // the descriptor to poll; -1: over
  void listen();                                  // when there is something to read
  void watch();                                   // ends a seed in which a step of core never ends
  [[nodiscard]] bool over() const { return out_ < 0; }

  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] std::uint64_t seeds() const { return seed_ - first_ + 1; }
  [[nodiscard]] double seconds() const { return seconds_; }

  // The promise that broke, its words and the seed, if found.
  [[nodiscard]] const std::string& promise() const { return promise_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  // Other promises that broke, in how many seeds, and the words and the seed of the first of them.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& others() const { return others_; }
  [[nodiscard]] const std::string& other_text() const { return other_text_; }
  [[nodiscard]] std::uint64_t other_seed() const { return other_seed_; }

 private:
  void fork_child();
  [[noreturn]] void search_here(int out) const;
  void hear(const std::string& line);
  void broke(const std::string& promise, const std::string& text);
  void child_ended(bool hangs);
  [[nodiscard]] bool names(const std::string& promise) const;

  const Quarry& quarry_;
  std::uint64_t first_;  // seed
  std::uint64_t seed_;   // under way
  pid_t pid_ = 0;
  int out_ = -1;
  std::string buffer_;
  std::string last_words_;  // of the child: what its assertion said
  bool found_ = false;
  Stopwatch since_start_;
  Stopwatch since_heard_;
  double seconds_ = 0;

  std::string promise_;
  std::string text_;
  std::map<std::string, std::uint64_t> others_;
  std::string other_text_;
  std::uint64_t other_seed_ = 0;
};

// Its searches may run side by side. They count in their order: the result does not depend on which of them ends first.
class Hunt {
 public:
  explicit Hunt(const Quarry& quarry) : quarry_(std::make_unique<Quarry>(quarry)) {}

  // Whether another search may begin now.
  [[nodiscard]] bool may_start() const;
  void start();
  // The searches that have begun and do not count yet.
  [[nodiscard]] const std::vector<std::unique_ptr<Search>>& searching() const { return searching_; }
  // Counts finished searches, in order: a search counts when all earlier searches have finished.
  void count();
  [[nodiscard]] bool over() const { return over_; }

  [[nodiscard]] const Quarry& quarry() const { return *quarry_; }
  [[nodiscard]] const Detection& detection() const { return detection_; }
  [[nodiscard]] std::uint32_t searches() const { return static_cast<std::uint32_t>(needed_.size()) + missed_; }
  // The median of the seeds that searches needed; a failed search counts as infinite. Nothing: most searches failed.
  [[nodiscard]] std::optional<std::uint64_t> median() const;
  [[nodiscard]] bool rarer() const;  // whether the rate is below half of the recorded rate
  [[nodiscard]] bool passed() const { return median().has_value() && !rarer(); }

  // Results of the first search that succeeded.
  [[nodiscard]] const std::string& promise() const { return promise_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::uint64_t seed() const { return found_at_; }
  // Other promises that broke, in how many seeds, and the words and the seed of the first of them.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& others() const { return others_; }
  [[nodiscard]] const std::string& other_text() const { return other_text_; }
  [[nodiscard]] std::uint64_t other_seed() const { return other_seed_; }
  [[nodiscard]] double seconds() const { return seconds_; }  // of all searches together

 private:
  void count(const Search& search);
  [[nodiscard]] bool wants_more() const;

  std::unique_ptr<Quarry> quarry_;  // searches refer to it
  Detection detection_;
  std::vector<std::uint64_t> needed_;  // by each search that succeeded
  std::uint32_t missed_ = 0;           // searches that failed
  bool over_ = false;
  std::vector<std::unique_ptr<Search>> searching_;

  std::string promise_;
  std::string text_;
  std::uint64_t found_at_ = 0;
  std::map<std::string, std::uint64_t> others_;
  std::string other_text_;
  std::uint64_t other_seed_ = 0;
  double seconds_ = 0;
};

// Runs hunts to their ends, with up to `jobs` searches at once; the longest by expected_seeds() begin first. `ended` is
// called for each hunt, in the order of the list.
void run_hunts(std::vector<Hunt>& hunts, std::uint32_t jobs, const std::function<void(const Hunt&)>& ended);

}  // namespace lockstep::sim
