#include "sim/predict/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/wire/limits.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/flow/best_ring.h"
#include "sim/flow/ring_bound.h"
#include "sim/predict/half_line.h"
#include "sim/predict/rehearsal.h"
#include "sim/scenario/hosts.h"
#include "sim/workload/call.h"

namespace lockstep::sim {
namespace {

using wire::Collective;

constexpr std::uint32_t kCoordinator = 0;  // its host
constexpr double kInUse = 0.5;             // a resource that is used less is no bottleneck
// A gain below the difference between the model and the core is no reason to lay another ring.
constexpr double kHardlyBetter = 0.98;

std::uint64_t bytes_of(const Work& work, std::uint32_t peers) {
  const std::uint64_t bytes = work.collective == Collective::kBarrier ? 0 : work.count * size_of(work.type);
  return work.collective == Collective::kAllGather ? bytes * peers : bytes;
}

// The bus bandwidth as nccl-tests define it: the rate on every line in a ring without waste.
double bus_bandwidth(const Work& work, std::uint64_t bytes, std::uint32_t peers, Duration time) {
  if (time.ns == 0 || peers < 2) return 0;
  const double part = wire::has_root(work.collective) ? 1 : (peers - 1.0) / peers;
  const double phases = work.collective == Collective::kAllReduce ? 2 : 1;
  return static_cast<double>(bytes) * part * phases / time.seconds();
}

std::string hosts_text(const HostSet& hosts) {
  std::string text;
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    if (hosts.test(host)) text += (text.empty() ? "" : " ") + letter_of(host);
  }
  return text;
}

std::string text_of(const flow::Topology::Name& name) {
  using Kind = flow::Topology::Name::Kind;
  const bool many = name.hosts.count() > 1;
  switch (name.kind) {
    case Kind::kUp: return "what " + hosts_text(name.hosts) + (many ? " can send together" : " can send");
    case Kind::kDown: return "what " + hosts_text(name.hosts) + (many ? " can receive together" : " can receive");
    case Kind::kWay: break;
  }
  return "the way " + letter_of(name.from) + " -> " + letter_of(name.to);
}

Bottleneck bottleneck_of(const flow::RingTime& time, flow::Topology& topology) {
  Bottleneck bottleneck;
  bottleneck.busy = time.busy;
  bottleneck.waits = time.busy < kInUse;
  if (time.busy == 0) return bottleneck;
  if (time.busiest != flow::kNoResource) {
    bottleneck.what = text_of(topology.names()[time.busiest]);
  } else {
    bottleneck.what = std::string(time.by_loss ? "the losses" : "the window") + " of a stream " + letter_of(time.from) +
                      " -> " + letter_of(time.to);
  }
  return bottleneck;
}

bool is_lossy(flow::Topology& topology, const std::vector<std::uint32_t>& ring) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    if (topology.route(ring[i], ring[(i + 1) % ring.size()]).loss_cap < flow::kMostRate) return true;
  }
  return false;
}

// The ring that members compute (core/peer/cohort.h).
ring::Distance distance_of(flow::Topology& topology, const std::vector<std::uint32_t>& ring) {
  const bool near = std::all_of(ring.begin(), ring.end(), [&](std::uint32_t host) {
    return nanoseconds(topology.route(host, kCoordinator).round_trip_ns) < kFarCoordinator;
  });
  return near ? ring::Distance::kNear : ring::Distance::kFar;
}

flow::RingRun run_of(const Plan& plan, const Work& work, flow::Topology& topology) {
  flow::RingRun run;
  run.ring.resize(plan.founders);
  std::iota(run.ring.begin(), run.ring.end(), 1U);
  run.collective = work.collective;
  run.count = work.count;
  run.type = work.type;
  run.stripes = plan.links.stripes;
  run.segmenting = {plan.links.segment_bytes, distance_of(topology, run.ring), work.formats};
  run.kernel_ns_per_kib = plan.delays.kernel_ns_per_kib;
  run.window_bytes = plan.network.window_bytes;
  run.before = 1;
  return run;
}

void find_best_ring(const flow::Topology& topology, const flow::RingRun& run, Prediction& out) {
  const flow::BestRing best = flow::best_ring(topology, run);
  const Duration here = out.collectives[out.heaviest].schedule;
  const Duration there = nanoseconds(best.ns);
  const bool better = there.seconds() < here.seconds() * kHardlyBetter;
  out.best_ring = better ? best.ring : run.ring;
  out.best_time = better ? there : here;
  out.every_ring = best.every;
}

// A lower bound for every schedule: the bytes that lines must carry, and the hops of a chunk in each phase.
Duration bound_of(const Plan& plan, const flow::RingRun& run, flow::Topology& topology) {
  const auto world = static_cast<std::uint32_t>(run.ring.size());
  if (run.collective == Collective::kBarrier || run.count == 0 || world < 2) return {};
  Call call;
  call.request.collective = run.collective;
  call.request.type = run.type;
  call.request.formats = run.segmenting.formats;
  call.request.tensors.push_back({{}, {}, run.count});
  call.launch.segment_bytes = plan.links.segment_bytes;
  call.outcome.emplace();
  if (run.collective == Collective::kAllGather) call.outcome->blocks.assign(world, run.count);
  std::vector<std::uint64_t> sent;
  for (std::uint32_t rank = 0; rank < world; ++rank) sent.push_back(ring_bytes(call, rank, world, 0));
  const flow::RingBound bound = flow::ring_bound(topology, run.ring, sent, run.stripes);
  const int phases = run.collective == Collective::kAllReduce ? 2 : 1;
  return nanoseconds(std::max(bound.lines_ns, phases * (bound.around_ns - bound.longest_ns)));
}

std::vector<Straggler> stragglers(const Plan& plan, const flow::RingRun& run) {
  std::vector<Straggler> all;
  for (const std::uint32_t slow : run.ring) {
    Plan worse = plan;
    halve_line(worse, slow);
    Rehearsal laid(worse);
    all.push_back({slow, nanoseconds(flow::ring_time(*laid.world().topology(), run).ns)});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return all;
}

Duration seconds_of(double seconds) {
  constexpr double kMost = 9e9;
  return nanoseconds(static_cast<std::int64_t>(std::min(seconds, kMost) * 1e9));
}

// A step takes T without losses. A loss costs the time since the beginning of the step, and R until the step begins
// again. With random losses, L apart on average, the mean time to finish is (e^(T/L) - 1) (L + R), as for a job that
// restarts (Daly 2006, with nothing saved in between). Where that is 2 T, half of all time is lost.
Duration half_time(Duration step, Duration again) {
  const double t = step.seconds();
  const double r = again.seconds();
  double lo = t / 50;
  double hi = (t + r) * 1e6;
  for (int i = 0; i < 200; ++i) {
    const double mean = std::sqrt(lo * hi);
    (std::expm1(t / mean) * (mean + r) > 2 * t ? lo : hi) = mean;
  }
  return seconds_of(hi);
}

std::optional<Error> rehearse(const Plan& plan, Prediction& out, flow::Topology*& topology, Rehearsal& rehearsal) {
  if (auto error = rehearsal.begin()) return error;
  topology = rehearsal.world().topology();
  std::vector<Duration> first;
  for (int step = 0; step < 3; ++step) {
    Result<std::vector<Duration>> times = rehearsal.step();
    if (!times.ok()) return times.error();
    if (step == 0) first = *times;
    rehearsal.rest(plan.program.think);
    if (step < 2) continue;
    for (std::size_t i = 0; i < plan.program.work.size(); ++i) {
      out.step = std::max(out.step, (*times)[i]);
      if (i > 0 && plan.program.work[i] == plan.program.work[i - 1]) {
        CollectiveTime& same = out.collectives.back();
        same.times += 1;
        same.first = std::max(same.first, first[i]);
        same.again = std::max(same.again, (*times)[i]);
        continue;
      }
      CollectiveTime& added = out.collectives.emplace_back();
      added.work = plan.program.work[i];
      added.first = first[i];
      added.again = (*times)[i];
    }
  }
  return {};
}

// The last host vanishes. The remaining peers may be faster or slower without it; this difference is not part of the
// cost of the loss.
std::optional<Error> lose_one(const Plan& plan, Rehearsal& rehearsal, Prediction& out) {
  const auto longest = [](const std::vector<Duration>& times) { return *std::max_element(times.begin(), times.end()); };
  const Duration half = out.step / 2;
  const Result<std::vector<Duration>> with_loss = rehearsal.step_with_loss(plan.founders, half);
  if (!with_loss.ok()) return with_loss.error();
  for (int step = 0; step < 2; ++step) {  // the second one on streams that are warm
    rehearsal.rest(plan.program.think);
    const Result<std::vector<Duration>> times = rehearsal.step();
    if (!times.ok()) return times.error();
    out.without = longest(*times);
  }
  out.lost = plan.founders;
  // At least 0: a step may stand if all peers have completed it.
  out.loss = std::max(longest(*with_loss) - out.without, Duration{});
  // The time until the step begins again, without the lost half.
  out.half_time = half_time(out.step, std::max(out.loss - half, Duration{}));
  return {};
}

}  // namespace

Result<Prediction> predict(Plan plan, std::uint32_t mtu) {
  if (plan.program.work.empty()) {
    return Error{Status::kInvalidArgument,
                 "it has no work: give it some, such as work = [\"all_reduce 64MiB f32 sum\"]"};
  }
  const bool direct = std::any_of(plan.program.work.begin(), plan.program.work.end(), [](const Work& work) {
    return ring::goes_direct(request_of(work)) || wire::exchanges(work.collective);
  });
  if (direct) {
    return Error{Status::kInvalidArgument,
                 "some of its work goes direct, and only rings are predicted: measure it, with tests/lab/wan"};
  }
  for (Work& work : plan.program.work) {
    if (work.collective == wire::Collective::kAllReduce) work.algorithm = wire::Algorithm::kRing;
  }
  plan.entries.clear();
  plan.mode = plan.network.mode = Mode::kToken;
  plan.peers = plan.founders;
  plan.gangs.groups = plan.gangs.size = plan.minimum_world = 1;
  plan.network.flow.on = true;
  if (mtu != 0) leave_room_for_headers(plan, mtu);
  Prediction out;
  flow::Topology* laid = nullptr;
  Rehearsal rehearsal(plan);
  if (auto error = rehearse(plan, out, laid, rehearsal)) return *error;
  flow::Topology topology = *laid;

  for (std::size_t i = 0; i < out.collectives.size(); ++i) {
    CollectiveTime& each = out.collectives[i];
    each.bytes = bytes_of(each.work, plan.founders);
    const flow::RingRun run = run_of(plan, each.work, topology);
    // Rates are rounded to bytes per second, and messages within one packet do not wait (sim/flow/lines.h).
    each.lines = std::min(bound_of(plan, run, topology), each.again);
    each.schedule = nanoseconds(flow::ring_time(topology, run).ns);
    each.bus_bytes_per_s = bus_bandwidth(each.work, each.bytes, plan.founders, each.again) * each.times;
    if (each.schedule > out.collectives[out.heaviest].schedule) out.heaviest = i;
  }
  const flow::RingRun run = run_of(plan, out.collectives[out.heaviest].work, topology);
  out.ring = run.ring;
  out.lossy = is_lossy(topology, run.ring);
  out.bottleneck = bottleneck_of(flow::ring_time(topology, run), topology);
  find_best_ring(topology, run, out);
  out.stragglers = stragglers(plan, run);

  if (plan.founders > 2) {
    if (auto error = lose_one(plan, rehearsal, out)) return *error;
  }
  out.stops = seconds_of(out.step.seconds() / std::log(10.0));
  return out;
}

}  // namespace lockstep::sim
