#include "sim/search/shrink.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/plan/plan_file.h"
#include "sim/search/simpler.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kOtherSeeds = 3;    // for what needs luck with the order of events
constexpr std::uint64_t kSoonerSeeds = 12;  // in one of them the promise may break after fewer collectives

class Shrinker {
 public:
  Shrinker(const Trial& trial, const ShrinkOptions& options) : trial_(trial), options_(options) {}

  std::optional<Shrunk> shrink(const Plan& plan) {
    best_.plan = plan;
    std::optional<Broken> broken = run(plan);
    if (!broken) return {};
    best_.broken = *std::move(broken);
    do {
      descend();
    } while (with_other_seeds());
    best_.done = !spent();
    return best_;
  }

 private:
  [[nodiscard]] bool spent() const {
    return best_.runs >= options_.max_runs || (best_.runs > 0 && options_.stop && options_.stop());
  }

  std::optional<Broken> run(const Plan& plan) {
    tried_.insert(to_text(plan));
    best_.runs += 1;
    std::optional<Broken> broken = trial_(plan);
    if (options_.tell) options_.tell(best_.plan, best_.runs);
    return broken;
  }

  bool accept(const Plan& candidate, std::uint64_t most_launches = UINT64_MAX) {
    if (spent() || !is_lawful(candidate) || tried_.contains(to_text(candidate))) return false;
    std::optional<Broken> broken = run(candidate);
    if (!broken || broken->promise != best_.broken.promise || broken->launches > most_launches) return false;
    best_.plan = candidate;
    best_.broken = *std::move(broken);
    if (options_.better) options_.better(best_.plan);
    return true;
  }

  void cut() {
    if (best_.broken.at.ns != INT64_MAX) accept(cut_after(best_.plan, best_.broken.at, best_.broken.launches));
  }

  // Delta debugging (Zeller and Hildebrandt 2002), complements only: removes everything, halves, quarters, ..., single
  // entries. Goes from the back, so that a removal does not move entries that are still to be tried.
  void fewer_entries() {
    std::size_t parts = 1;
    while (!best_.plan.entries.empty() && !spent()) {
      const std::size_t size = best_.plan.entries.size();
      parts = std::min(parts, size);
      bool fewer = false;
      for (std::size_t part = parts; part-- > 0;) {
        fewer |= accept(without_entries(best_.plan, size * part / parts, size * (part + 1) / parts));
      }
      if (!fewer && parts == size) return;
      if (!fewer) parts *= 2;
    }
  }

  bool take_any_of(Candidates (*candidates)(const Plan&)) {
    bool any = false;
    for (bool again = true; again && !spent();) {
      const Candidates simpler = candidates(best_.plan);
      again = std::any_of(simpler.begin(), simpler.end(), [&](const Plan& plan) { return accept(plan); });
      any = any || again;
    }
    return any;
  }

  // With the seed that it has, until nothing helps any more.
  void descend() {
    for (bool again = true; again && !spent();) {
      cut();
      fewer_entries();
      again = take_any_of(fewer_peers);
      again |= take_any_of(plainer_world);
      again |= take_any_of(smaller_program);
      again |= take_any_of(calmer_network);
      again |= take_any_of(rounder_numbers);
    }
  }

  // A smaller world has another order of events; with a little luck one that breaks the promise again.
  bool with_other_seeds() {
    for (Plan candidate : one_thing_less(best_.plan)) {
      for (std::uint64_t seed = 1; seed <= kOtherSeeds; ++seed) {
        candidate.seed = seed;
        if (accept(candidate)) return true;
      }
    }
    bool sooner = false;
    for (std::uint64_t seed = 1; seed <= kSoonerSeeds && best_.broken.launches > best_.plan.peers; ++seed) {
      Plan candidate = best_.plan;
      candidate.seed = seed;
      sooner |= accept(candidate, best_.broken.launches - 1);
    }
    return sooner;
  }

  const Trial& trial_;
  const ShrinkOptions& options_;
  Shrunk best_;
  std::set<std::string> tried_;
};

}  // namespace

std::optional<Shrunk> shrink(const Plan& plan, const Trial& trial, const ShrinkOptions& options) {
  return Shrinker(trial, options).shrink(plan);
}

}  // namespace lockstep::sim
