// Predictions of a plan's work on its hosts and lines: the algorithm and the time of each collective, its lower bound,
// the bottleneck, the best ring, and the cost of a straggler and of a lost machine. Times come from the released core,
// which chooses the algorithm, in token mode over the flow model of the network. Comparisons of many rings use the ring
// schedule alone over fluid streams (sim/flow/ring_model.h), which takes milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "sim/plan/plan.h"
#include "sim/predict/bound.h"
#include "sim/predict/real_lines.h"

namespace lockstep::sim {

struct CollectiveTime {
  Work work;
  std::uint32_t times = 1;                             // so many of them in one step, side by side
  std::uint64_t bytes = 0;                             // of one: the tensor, or what an all-gather gathers
  Duration first;                                      // of the slowest, by the core that ships; streams are cold
  Duration again;                                      // two steps later
  wire::Algorithm algorithm = wire::Algorithm::kAuto;  // that the core has taken; kAuto: the collective has no choice
  std::string reason;                                  // why it has; empty: no choice
  std::vector<Bound> candidates;  // of the algorithms that a caller may ask for; empty: no choice, or nothing to send
  Duration bound;                 // the lower bound: the least of the candidates'; 0: there are none
  double bus_bytes_per_s = 0;
};

// The bound of the algorithm that the collective has taken; null: it has no candidates.
const Bound* bound_of(const CollectiveTime& collective);

struct Bottleneck {
  std::string what;    // "c's way out", "the loss of b -> c"; empty: nobody sends anything
  double busy = 0;     // the part of the time in which it is in use
  bool waits = false;  // nothing is in use for long: the call waits for its hops
};

struct Straggler {
  std::uint32_t host = 0;
  Duration time;  // with half of its line; one that it shares stays as it is
};

struct Prediction {
  std::vector<CollectiveTime> collectives;
  Duration step;  // all of them, `again`
  // Facts about the longest collective, alone.
  std::size_t heaviest = 0;
  // Around the ring: by the ring schedule over warm streams, with no agreement and no driver; else by the core that
  // ships. 0: it sends nothing.
  Duration alone;
  Bottleneck bottleneck;
  std::vector<std::uint32_t> ring;  // as it is laid when hosts start in the order of their names
  bool lossy = false;               // a hop of it loses packets, and streams slow down: times are those of mean losses
  std::vector<std::uint32_t> best_ring;  // empty: it does not go around the ring
  Duration best_time;
  bool every_ring = false;  // was looked at; else the best is the best that was found
  // The dearest first. Around the ring: all hosts, by the ring schedule; else the host whose line raises the lower
  // bound most, by the core that ships.
  std::vector<Straggler> stragglers;
  std::uint32_t lost = 0;  // the host that vanishes in the midst of a step; 0: nobody can be spared
  Duration loss;           // cost of the loss: delay of the step against a step of the remaining peers
  Duration without;        // ... which takes so long
  Duration half_time;      // mean time between losses at which half of all time is lost
  Duration stops;          // ... at which nine attempts of ten do not finish
};

// The error: the core does not finish, or the plan has no work. Rates are rates of IP packets of `mtu` bytes including
// headers (real_lines.h); 0: rates of payload.
Result<Prediction> predict(Plan plan, std::uint32_t mtu = kUsualMtu);

}  // namespace lockstep::sim
