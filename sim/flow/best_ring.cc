#include "sim/flow/best_ring.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/flow/ring_bound.h"

namespace lockstep::sim::flow {
namespace {

constexpr std::size_t kFewHosts = 8;  // 7! = 5040 rings
constexpr std::size_t kPlayed = 4;    // of the most promising
constexpr std::size_t kMostLooks = 60'000;

using Ring = std::vector<std::uint32_t>;
// Smaller is better: the time of the lines or twice around, whichever is longer; then once around.
using Score = std::pair<std::int64_t, std::int64_t>;

class Search {
 public:
  Search(const Topology& topology, const RingRun& run) : topology_(topology), stripes_(run.stripes) {
    const auto world = static_cast<std::uint64_t>(run.ring.size());
    const std::uint64_t each = 2 * (world - 1) * run.count * size_of(run.type) / world;
    bytes_.assign(run.ring.size(), each);
  }

  void look_at_all(Ring ring) {
    std::sort(ring.begin() + 1, ring.end());
    do look(ring);
    while (std::next_permutation(ring.begin() + 1, ring.end()));
  }

  // Reverses parts and moves hosts as long as that makes it better.
  void improve(Ring ring) {
    Score best = look(ring);
    for (bool better = true; better && looks_ < kMostLooks;) {
      better = false;
      for (std::size_t i = 1; i + 1 < ring.size(); ++i) {
        for (std::size_t k = i + 1; k < ring.size(); ++k) {
          const auto at = [&](Ring& of, std::size_t n) { return of.begin() + static_cast<std::ptrdiff_t>(n); };
          Ring reversed = ring;
          std::reverse(at(reversed, i), at(reversed, k + 1));
          Ring later = ring;
          std::rotate(at(later, i), at(later, i + 1), at(later, k + 1));
          Ring sooner = ring;
          std::rotate(at(sooner, i), at(sooner, k), at(sooner, k + 1));
          for (Ring* const other : {&reversed, &later, &sooner}) {
            const Score score = look(*other);
            if (score >= best) continue;
            best = score;
            ring = *other;
            better = true;
          }
        }
      }
    }
  }

  // From each host on to the nearest one that is left.
  void improve_from_nearest(const Ring& hosts) {
    for (const std::uint32_t first : hosts) {
      Ring left = hosts;
      Ring ring = {first};
      std::erase(left, first);
      while (!left.empty()) {
        const auto next = std::min_element(left.begin(), left.end(), [&](auto a, auto b) {
          const auto far = [&](std::uint32_t to) { return std::pair(topology_.route(ring.back(), to).latency_ns, to); };
          return far(a) < far(b);
        });
        ring.push_back(*next);
        left.erase(next);
      }
      std::rotate(ring.begin(), std::min_element(ring.begin(), ring.end()), ring.end());
      improve(std::move(ring));
    }
  }

  [[nodiscard]] const std::vector<std::pair<Score, Ring>>& best() const { return best_; }

 private:
  Score look(const Ring& ring) {
    looks_ += 1;
    const RingBound bound = ring_bound(topology_, ring, bytes_, stripes_);
    const Score score{std::max(bound.lines_ns, 2 * bound.around_ns), bound.around_ns};
    const std::pair<Score, Ring> entry{score, ring};
    const auto at = std::lower_bound(best_.begin(), best_.end(), entry);
    if (at != best_.end() && *at == entry) return score;
    best_.insert(at, entry);
    if (best_.size() > kPlayed) best_.pop_back();
    return score;
  }

  Topology topology_;
  std::uint32_t stripes_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::pair<Score, Ring>> best_;
  std::size_t looks_ = 0;
};

}  // namespace

BestRing best_ring(const Topology& topology, const RingRun& run) {
  BestRing best{run.ring, ring_time(topology, run).ns, run.ring.size() <= kFewHosts};
  if (run.ring.size() < 3) return best;
  Search search(topology, run);
  if (best.every) {
    search.look_at_all(run.ring);
  } else {
    search.improve(run.ring);
    search.improve_from_nearest(run.ring);
  }
  for (const auto& [score, ring] : search.best()) {
    RingRun other = run;
    other.ring = ring;
    const std::int64_t ns = ring_time(topology, other).ns;
    if (ns < best.ns) best = {ring, ns, best.every};
  }
  return best;
}

}  // namespace lockstep::sim::flow
