#include "sim/predict/shares_bound.h"

#include <algorithm>
#include <vector>

#include "sim/flow/lines_bound.h"

namespace lockstep::sim {
namespace {

// A rank with the share w of S bytes sends (1 - w) S of contributions and (n-1) w S of results: S at least. It receives
// as much. All ranks together send 2(n-1) S.
class Shares {
 public:
  Shares(flow::Topology& topology, std::span<const std::uint32_t> hosts, std::uint64_t bytes, std::uint32_t stripes)
      : topology_(topology), hosts_(hosts), bytes_(bytes), stripes_(stripes) {}

  SharesBound bound() {
    SharesBound bound;
    std::uint64_t all_rates = 0;
    for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
      const std::uint64_t rate = std::min(rate_of(rank, true), rate_of(rank, false));
      bound.ns = std::max(bound.ns, flow::time_of(bytes_, rate));
      all_rates += rate;
    }
    for (flow::Resource line = 0; line < crossings_.size(); ++line) {
      const std::int64_t ns = flow::time_of(least_bytes(line), topology_.capacities()[line]);
      const bool names = ns > 0 && ns == bound.ns && bound.busiest == flow::kNoResource;  // the line of that host
      if (ns > bound.ns || names) bound = {ns, line, false};
    }
    const std::int64_t together_ns = flow::time_of(2 * (hosts_.size() - 1) * bytes_, all_rates);
    if (together_ns > bound.ns) bound = {together_ns, flow::kNoResource, true};
    return bound;
  }

 private:
  // What a rank can send to all others together, or receive from them. Counts the lines that are crossed.
  std::uint64_t rate_of(std::size_t rank, bool sends) {
    std::vector<std::uint32_t> crossed;
    std::uint64_t rate = 0;
    for (const std::uint32_t other : hosts_) {
      const std::uint32_t host = hosts_[rank];
      if (other == host) continue;
      const flow::Route route = sends ? topology_.route(host, other) : topology_.route(other, host);
      rate += std::min(route.narrowest, flow::rate_alone(route, stripes_));
      crossed.resize(topology_.capacities().size());
      for (const flow::Resource line : route.path.all()) {
        ++crossed[line];
        cross(line, rank);
      }
    }
    for (flow::Resource line = 0; line < crossed.size(); ++line) {
      if (crossed[line] == hosts_.size() - 1) rate = std::min(rate, topology_.capacities()[line]);
    }
    return rate;
  }

  // What this rank owns crosses the line: as a result that it sends, or as a contribution that it receives.
  void cross(flow::Resource line, std::size_t rank) {
    if (line >= crossings_.size()) crossings_.resize(line + 1);
    crossings_[line].resize(hosts_.size());
    ++crossings_[line][rank];
  }

  // A line carries least if the rank whose pieces cross it least owns all.
  [[nodiscard]] std::uint64_t least_bytes(flow::Resource line) const {
    const std::vector<std::uint32_t>& by_owner = crossings_[line];
    return by_owner.empty() ? 0 : bytes_ * *std::min_element(by_owner.begin(), by_owner.end());
  }

  flow::Topology& topology_;
  std::span<const std::uint32_t> hosts_;
  std::uint64_t bytes_;
  std::uint32_t stripes_;
  std::vector<std::vector<std::uint32_t>> crossings_;  // by line, by rank that owns
};

}  // namespace

SharesBound shares_bound(flow::Topology& topology, std::span<const std::uint32_t> hosts, std::uint64_t bytes,
                         std::uint32_t stripes) {
  return Shares(topology, hosts, bytes, stripes).bound();
}

}  // namespace lockstep::sim
