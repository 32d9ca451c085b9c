// How long one collective takes on a ring of hosts, when nothing but lines, delays and kernels counts: the schedule
// that ships (core/ring), over fluid streams. No agreement, no membership: the time from the moment at which every rank
// has launched to that at which every rank has its result in hand.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ring/request.h"
#include "core/ring/schedule.h"
#include "sim/flow/lines.h"

namespace lockstep::sim::flow {

struct RingRun {
  std::vector<std::uint32_t> ring;  // hosts, in rank order
  wire::Collective collective = wire::Collective::kAllReduce;
  std::uint64_t count = 0;  // of elements; of every block in an all-gather
  DataType type = DataType::kF32;
  std::uint32_t stripes = 2;
  ring::Segmenting segmenting{};
  std::int64_t kernel_ns_per_kib = 0;
  std::uint64_t window_bytes = 4U << 20U;  // of a stream, at most
  std::uint32_t before =
      0;  // so many times, one after the other, before the one that is measured: its streams are warm
};

struct RingTime {
  std::int64_t ns = 0;
  // The bottleneck of the ring: the resource, or the own cap of a stream, that is in use the longest.
  Resource busiest = kNoResource;  // kNoResource: the stream from `from` to `to`
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool by_loss = false;  // that stream: its losses, not its window
  double busy = 0;       // the part of the time in which it is
  std::uint64_t events = 0;
};

RingTime ring_time(Topology topology, const RingRun& run);

}  // namespace lockstep::sim::flow
