// The ways between hosts, one for each pair and direction: how long bytes take, and what faults do to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/dice.h"
#include "sim/flow/topology.h"
#include "sim/network/network_options.h"

namespace lockstep::sim {

struct Way {  // from one host to another
  std::int64_t latency = 0;
  std::uint64_t rate = 0;  // bytes per second
  std::int64_t busy_until = 0;
  std::uint64_t slow = 1;
  std::uint64_t piece = 0;     // goes onto the way at once, at most, so that other streams have their turns
  std::uint64_t window = 0;    // of a stream: bytes that are sent and not yet read, at most
  std::uint32_t loss_ppm = 0;  // of packets
  int cuts = 0;
  std::uint64_t drip = 0;     // bytes that each stream passes in a second; 0: no limit
  std::uint64_t to_flip = 0;  // payloads or frames
  std::uint64_t flipped = 0;
};

class Ways {
 public:
  // Draws the latency of each pair.
  Ways(const NetworkOptions& options, std::uint32_t hosts, Dice dice);

  Way& between(std::uint32_t from, std::uint32_t to) { return ways_[index_of(from, to)]; }
  [[nodiscard]] const Way& between(std::uint32_t from, std::uint32_t to) const { return ways_[index_of(from, to)]; }
  [[nodiscard]] Duration round_trip(std::uint32_t a, std::uint32_t b) const {
    return nanoseconds(between(a, b).latency) + nanoseconds(between(b, a).latency);
  }
  [[nodiscard]] bool is_cut(std::uint32_t from, std::uint32_t to) const { return between(from, to).cuts > 0; }
  void slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor);  // both ways; 1: as before

  // The lines that the hosts of these ways share, in the flow fidelity. From then on the rate of a way is the narrowest
  // of its lines, since that is what a stream fills.
  flow::Topology lay_lines(const NetworkOptions& options);

  // 0 .. hosts * hosts - 1
  [[nodiscard]] std::size_t index_of(std::uint32_t from, std::uint32_t to) const;

 private:
  void set_window(Way& way) const;

  std::uint32_t hosts_;
  std::uint64_t most_window_;
  std::vector<Way> ways_;  // hosts x hosts
};

}  // namespace lockstep::sim
