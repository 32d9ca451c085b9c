#include "sim/predict/bound.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/ring/grid.h"
#include "core/ring/schedule.h"
#include "sim/flow/lines_bound.h"
#include "sim/predict/shares_bound.h"

namespace lockstep::sim {
namespace {

using wire::Algorithm;
using wire::Collective;
using wire::Phase;

// A rank that collects, or hands out, bytes of the tensor: a chunk, a block, or all of it.
struct Owner {
  std::uint32_t rank = 0;
  std::uint64_t up = 0;    // bytes of a contribution
  std::uint64_t down = 0;  // bytes of a result
};

// The hops and the bytes of one call.
class Trip {
 public:
  Trip(flow::Topology& topology, const Setting& setting, Algorithm algorithm)
      : topology_(topology),
        setting_(setting),
        algorithm_(algorithm),
        world_(static_cast<std::uint32_t>(setting.hosts.size())),
        grid_(ring::grid_of(algorithm, world_)),
        through_owners_(wire::has_root(collective()) && ring::is_cut(algorithm, bytes(), world_)),
        by_rate_(setting.by_rate && algorithm == Algorithm::kDirect && world_ > 2) {
    latencies_.resize(std::size_t{world_} * world_);
    for (std::uint32_t from = 0; from < world_; ++from) {
      for (std::uint32_t to = 0; to < world_; ++to) {
        latencies_[at(from, to)] = topology.route(host(from), host(to)).latency_ns;
      }
    }
    carried_.resize(latencies_.size());
  }

  Bound bound() {
    Bound bound;
    bound.algorithm = algorithm_;
    bound.hops = hops();
    std::int64_t least_ns = INT64_MAX;
    std::int64_t most_ns = 0;
    for (const Owner& owner : owners()) {
      const std::int64_t ns = algorithm_ == Algorithm::kRing ? carry_around(owner) : carry_by_relays(owner);
      least_ns = std::min(least_ns, ns);
      most_ns = std::max(most_ns, ns);
    }
    // By rate a rank may own nothing: it is not known which ones own something.
    bound.latencies = nanoseconds(by_rate_ ? least_ns : most_ns);
    bound.last_hop = nanoseconds(shortest_ns());
    bound.agreement = nanoseconds(agreement_ns());
    add_lines(bound);
    return bound;
  }

 private:
  [[nodiscard]] Collective collective() const { return setting_.work.collective; }
  [[nodiscard]] std::uint32_t host(std::uint32_t rank) const { return setting_.hosts[rank]; }
  [[nodiscard]] std::size_t at(std::uint32_t from, std::uint32_t to) const { return std::size_t{from} * world_ + to; }
  [[nodiscard]] std::int64_t latency_ns(std::uint32_t from, std::uint32_t to) const { return latencies_[at(from, to)]; }
  [[nodiscard]] std::uint64_t bytes() const { return setting_.work.count * size_of(setting_.work.type); }
  [[nodiscard]] bool folds() const { return ring::has_phase(collective(), Phase::kReduceScatter); }
  [[nodiscard]] bool spreads() const { return ring::has_phase(collective(), Phase::kAllGather); }

  [[nodiscard]] std::uint32_t hops() const {
    const std::uint32_t phases = (folds() ? 1U : 0U) + (spreads() ? 1U : 0U);
    if (algorithm_ == Algorithm::kRing) return phases * (world_ - 1);
    return (phases + (through_owners_ ? 1 : 0)) * (grid_.rows() > 1 ? 2 : 1);
  }

  [[nodiscard]] std::uint64_t encoded(WireFormat format, std::uint64_t elements) const {
    if (setting_.work.formats.native()) return elements * size_of(setting_.work.type);
    return encoded_size(ring::format_of_chunk(format, elements), elements);
  }

  [[nodiscard]] Owner owner(std::uint32_t rank, std::uint64_t elements) const {
    return {rank, encoded(setting_.work.formats.up, elements), encoded(setting_.work.formats.down, elements)};
  }

  [[nodiscard]] std::vector<Owner> owners() const {
    const Work& work = setting_.work;
    if (wire::has_root(work.collective) && !through_owners_) return {owner(0, work.count)};
    if (ring::goes_whole(work.collective, work.count, static_cast<std::uint32_t>(size_of(work.type)),
                         setting_.segment_bytes)) {
      return {owner(grid_.owner(0), work.count)};
    }
    std::vector<Owner> owners;
    const bool all = work.collective == Collective::kAllGather || work.collective == Collective::kReduceScatter;
    const std::uint32_t number = all ? world_ : grid_.owners();
    for (std::uint32_t index = 0; index < number; ++index) {
      const std::uint64_t elements =
          work.collective == Collective::kAllGather ? work.count : ring::chunk_of(index, number, work.count).size();
      if (elements > 0) owners.push_back(owner(all ? index : grid_.owner(index), elements));
    }
    return owners;
  }

  // Returns the latency of this hop.
  std::int64_t hop(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
    carried_[at(from, to)] += bytes;
    return latency_ns(from, to);
  }

  // A piece passes all ranks to its owner, and on from the owner. Returns the latencies of its hops.
  std::int64_t carry_around(const Owner& owner) {
    std::int64_t ns = 0;
    for (std::uint32_t rank = 0; rank < world_; ++rank) {
      const std::uint32_t next = (rank + 1) % world_;
      if (folds() && rank != owner.rank) ns += hop(rank, next, owner.up);
      if (spreads() && next != owner.rank) ns += hop(rank, next, owner.down);
    }
    return ns;
  }

  // A piece goes to its owner, and from there to all ranks, in a grid by relays. Returns the latencies of the longest
  // way.
  std::int64_t carry_by_relays(const Owner& owner) {
    if (collective() == Collective::kBroadcast && owner.rank != 0) return carry_from_root(owner);
    std::int64_t in_ns = 0;
    std::int64_t out_ns = 0;
    for (std::uint32_t rank = 0; rank < world_; ++rank) {
      if (rank == owner.rank) continue;
      const std::uint32_t relay = grid_.parent(rank, owner.rank);
      if (folds()) in_ns = std::max(in_ns, hop(rank, relay, owner.up) + way_ns(relay, owner.rank));
      if (spreads()) out_ns = std::max(out_ns, way_ns(owner.rank, relay) + hop(relay, rank, owner.down));
    }
    if (collective() == Collective::kReduce && owner.rank != 0) {
      const std::uint32_t relay = grid_.parent(0, owner.rank);
      if (relay != owner.rank) out_ns += hop(owner.rank, relay, owner.up);
      out_ns += hop(relay, 0, owner.up);
    }
    return in_ns + out_ns;
  }

  // The relay in the root's row hands on to its row what the root sends to the owner by it.
  std::int64_t carry_from_root(const Owner& owner) {
    const std::uint32_t relay = grid_.parent(0, owner.rank);  // or the owner
    const std::int64_t to_relay_ns = hop(0, relay, owner.down);
    const std::int64_t in_ns = to_relay_ns + (relay == owner.rank ? 0 : hop(relay, owner.rank, owner.down));
    std::int64_t longest_ns = in_ns;
    for (std::uint32_t rank = 1; rank < world_; ++rank) {
      if (rank == owner.rank || rank == relay) continue;
      const std::uint32_t parent = grid_.parent(rank, owner.rank);
      const std::int64_t ns = hop(parent, rank, owner.down);
      const std::int64_t before_ns = parent == 0       ? 0
                                     : parent == relay ? to_relay_ns
                                                       : in_ns + way_ns(owner.rank, parent);
      longest_ns = std::max(longest_ns, before_ns + ns);
    }
    return longest_ns;
  }

  [[nodiscard]] std::int64_t way_ns(std::uint32_t from, std::uint32_t to) const {
    return from == to ? 0 : latency_ns(from, to);
  }

  [[nodiscard]] std::vector<flow::Transfer> transfers() const {
    std::vector<flow::Transfer> list;
    for (std::uint32_t from = 0; from < world_; ++from) {
      for (std::uint32_t to = 0; to < world_; ++to) {
        if (carried_[at(from, to)] > 0) list.push_back({host(from), host(to), carried_[at(from, to)]});
      }
    }
    return list;
  }

  [[nodiscard]] std::int64_t shortest_ns() const {
    std::int64_t ns = INT64_MAX;
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      if (carried_[i] > 0) ns = std::min(ns, latencies_[i]);
    }
    return ns;
  }

  // From the moment at which a member has all until all members have heard of it, whichever member that is.
  [[nodiscard]] std::int64_t agreement_ns() {
    const auto line_ns = [&](std::uint32_t from, std::uint32_t to) { return topology_.route(from, to).latency_ns; };
    std::int64_t least_ns = INT64_MAX;
    std::int64_t verdict_ns = 0;
    for (std::uint32_t rank = 0; rank < world_; ++rank) {
      std::int64_t farthest_ns = 0;
      for (std::uint32_t other = 0; other < world_; ++other) {
        if (other != rank) farthest_ns = std::max(farthest_ns, latency_ns(rank, other));
      }
      const std::int64_t ns = setting_.peer_commit ? farthest_ns : line_ns(host(rank), setting_.coordinator);
      least_ns = std::min(least_ns, ns);
      if (!setting_.peer_commit) verdict_ns = std::max(verdict_ns, line_ns(setting_.coordinator, host(rank)));
    }
    return least_ns + verdict_ns;
  }

  void add_lines(Bound& bound) {
    if (by_rate_) {
      const SharesBound lines = shares_bound(topology_, setting_.hosts, bytes(), setting_.stripes);
      bound.lines = nanoseconds(lines.ns);
      bound.busiest = lines.busiest;
      bound.together = lines.together;
      return;
    }
    const flow::LinesBound lines = flow::lines_bound(topology_, transfers(), setting_.stripes);
    bound.lines = nanoseconds(lines.ns);
    bound.busiest = lines.busiest;
  }

  flow::Topology& topology_;
  const Setting& setting_;
  Algorithm algorithm_;
  std::uint32_t world_;
  ring::Grid grid_;
  bool through_owners_;
  bool by_rate_;
  std::vector<std::int64_t> latencies_;  // from rank to rank
  std::vector<std::uint64_t> carried_;   // likewise, bytes
};

}  // namespace

Bound bound_of(flow::Topology& topology, const Setting& setting, wire::Algorithm algorithm) {
  LOCKSTEP_ASSERT(setting.hosts.size() > 1 && setting.work.count > 0 && wire::has_choice(setting.work.collective));
  return Trip(topology, setting, algorithm).bound();
}

const Bound& least_of(std::span<const Bound> bounds) {
  LOCKSTEP_ASSERT(!bounds.empty());
  return *std::min_element(bounds.begin(), bounds.end(), [](const Bound& a, const Bound& b) {
    return std::pair(a.whole(), a.hops) < std::pair(b.whole(), b.hops);
  });
}

}  // namespace lockstep::sim
