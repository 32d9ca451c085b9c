// The properties of a run's network.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/memory.h"
#include "sim/flow/options.h"

namespace lockstep::sim {

// The properties of one pair of hosts; 0: the default of all pairs.
struct LinkOptions {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::int64_t latency_ns = 0;
  std::uint64_t rate_bytes_per_s = 0;
  std::uint32_t loss_ppm = 0;  // flow fidelity only

  bool operator==(const LinkOptions&) const = default;
};

struct NetworkOptions {
  Mode mode = Mode::kToken;
  std::int64_t latency_lo_ns = 50'000;  // one way; a pair of hosts draws its own in this range
  std::int64_t latency_hi_ns = 50'000;
  std::int64_t jitter_ns = 10'000;
  std::uint64_t rate_bytes_per_s = 1'000'000'000;  // of a pair of hosts, in one direction
  std::uint64_t window_bytes = 262'144;            // sent and not yet read, per stream and direction
  bool resends = false;  // the system says that packets were sent again, whatever happens; not with flow fidelity
  std::uint64_t short_permille = 100;     // reads and writes that move less than they could
  std::uint64_t pieces_permille = 50;     // bytes that land some time before it is told
  std::uint64_t apart_permille = 100;     // token mode: payloads that are read apart from their header
  std::uint64_t busy_permille = 100;      // share of actions that a driver does later instead of at once
  std::int64_t host_delay_ns = 3'000;     // between two steps of a driver that is busy
  std::int64_t revoke_delay_ns = 50'000;  // until a loan comes back
  std::int64_t dial_gives_up_ns = 20'000'000'000;
  std::vector<LinkOptions> links{};
  flow::Options flow{};  // the second fidelity

  bool operator==(const NetworkOptions&) const = default;
};

}  // namespace lockstep::sim
