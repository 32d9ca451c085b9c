#include "sim/predict/predict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/flow/best_ring.h"
#include "sim/predict/candidates.h"
#include "sim/predict/half_line.h"
#include "sim/predict/rehearsal.h"
#include "sim/scenario/hosts.h"

namespace lockstep::sim {
namespace {

using wire::Collective;

constexpr double kInUse = 0.5;  // a resource that is used less is no bottleneck
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

Bottleneck bottleneck_of(const Bound& bound, Duration alone, flow::Topology& topology) {
  Bottleneck bottleneck;
  bottleneck.busy = std::min(1.0, bound.lines.seconds() / alone.seconds());
  bottleneck.waits = bottleneck.busy < kInUse;
  bottleneck.what = bound.together                       ? "what all hosts can send together"
                    : bound.busiest != flow::kNoResource ? text_of(topology.names()[bound.busiest])
                                                         : "the streams of a host";
  return bottleneck;
}

Setting setting_in(const Plan& plan, const Work& work, const peer::Cohort::Roster& roster) {
  Setting setting = setting_of(work, roster, plan.links.by_rate_bytes);
  setting.stripes = plan.links.stripes;
  setting.segment_bytes = plan.links.segment_bytes;
  return setting;
}

bool is_lossy(flow::Topology& topology, const Setting& setting, bool around) {
  const std::size_t world = setting.hosts.size();
  for (std::size_t from = 0; from < world; ++from) {
    for (std::size_t step = 1; step < (around ? 2 : world); ++step) {
      const std::uint32_t to = setting.hosts[(from + step) % world];
      if (topology.route(setting.hosts[from], to).loss_cap < flow::kMostRate) return true;
    }
  }
  return false;
}

flow::RingRun run_of(const Plan& plan, const Setting& setting, const peer::Cohort::Roster& roster) {
  flow::RingRun run;
  run.ring = setting.hosts;
  run.collective = setting.work.collective;
  run.count = setting.work.count;
  run.type = setting.work.type;
  run.stripes = plan.links.stripes;
  run.segmenting = {plan.links.segment_bytes, roster.distance, setting.work.formats};
  run.kernel_ns_per_kib = plan.delays.kernel_ns_per_kib;
  run.window_bytes = plan.network.window_bytes;
  run.before = 1;
  return run;
}

void find_best_ring(const flow::Topology& topology, const flow::RingRun& run, Prediction& out) {
  const flow::BestRing best = flow::best_ring(topology, run);
  const Duration here = out.alone;
  const Duration there = nanoseconds(best.ns);
  const bool better = there.seconds() < here.seconds() * kHardlyBetter;
  out.best_ring = better ? best.ring : run.ring;
  out.best_time = better ? there : here;
  out.every_ring = best.every;
}

std::vector<Straggler> stragglers_of_ring(const Plan& plan, const flow::RingRun& run) {
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

// The three steps: streams are cold in the first one, and warm in the last one.
struct Steps {
  std::vector<Duration> first;  // by work
  std::vector<Duration> again;
};

Result<Steps> steps_of(const Plan& plan, Rehearsal& rehearsal) {
  if (auto error = rehearsal.begin()) return *error;
  Steps steps;
  for (int step = 0; step < 3; ++step) {
    Result<std::vector<Duration>> times = rehearsal.step();
    if (!times.ok()) return times.error();
    (step == 0 ? steps.first : steps.again) = *std::move(times);
    rehearsal.rest(plan.program.think);
  }
  return steps;
}

std::optional<Error> rehearse(const Plan& plan, Prediction& out, Rehearsal& rehearsal) {
  const Result<Steps> steps = steps_of(plan, rehearsal);
  if (!steps.ok()) return steps.error();
  for (std::size_t i = 0; i < plan.program.work.size(); ++i) {
    out.step = std::max(out.step, steps->again[i]);
    if (i > 0 && plan.program.work[i] == plan.program.work[i - 1]) {
      CollectiveTime& same = out.collectives.back();
      same.times += 1;
      same.first = std::max(same.first, steps->first[i]);
      same.again = std::max(same.again, steps->again[i]);
      continue;
    }
    CollectiveTime& added = out.collectives.emplace_back();
    added.work = plan.program.work[i];
    added.first = steps->first[i];
    added.again = steps->again[i];
    added.algorithm = rehearsal.call_of(i).outcome->way.algorithm;
  }
  return {};
}

// Of this work, by the core that ships.
Result<Duration> time_alone(Plan plan, const Work& work) {
  plan.program.work = {work};
  Rehearsal rehearsal(plan);
  const Result<Steps> steps = steps_of(plan, rehearsal);
  if (!steps.ok()) return steps.error();
  return steps->again.front();
}

void add_bounds(const Plan& plan, const peer::Cohort::Roster& roster, flow::Topology& topology, Prediction& out) {
  Duration heaviest;
  for (std::size_t i = 0; i < out.collectives.size(); ++i) {
    CollectiveTime& each = out.collectives[i];
    each.bytes = bytes_of(each.work, plan.founders);
    each.reason = reason_of(each.work, each.algorithm, roster);
    each.candidates = candidates(topology, setting_in(plan, each.work, roster));
    each.bus_bytes_per_s = bus_bandwidth(each.work, each.bytes, plan.founders, each.again) * each.times;
    if (each.candidates.empty()) continue;
    // Rates are rounded to bytes per second, and messages within one packet do not wait (sim/flow/lines.h).
    each.bound = std::min(least_of(each.candidates).whole(), each.again);
    const Duration alone = bound_of(each)->whole();
    if (alone > heaviest) out.heaviest = i;
    heaviest = std::max(heaviest, alone);
  }
}

void add_facts_of_ring(const Plan& plan, const flow::RingRun& run, flow::Topology& topology, Prediction& out) {
  const flow::RingTime time = flow::ring_time(topology, run);
  out.alone = nanoseconds(time.ns);
  out.bottleneck = bottleneck_of(time, topology);
  find_best_ring(topology, run, out);
  out.stragglers = stragglers_of_ring(plan, run);
}

// The host whose line, at half of its rate, raises the lower bound most.
std::uint32_t worst_straggler(const Plan& plan, const Setting& setting, wire::Algorithm algorithm) {
  std::uint32_t worst = setting.hosts.front();
  Duration most;
  for (const std::uint32_t slow : setting.hosts) {
    Plan worse = plan;
    halve_line(worse, slow);
    Rehearsal laid(worse);
    const Duration bound = bound_of(*laid.world().topology(), setting, algorithm).whole();
    if (bound > most) worst = slow;
    most = std::max(most, bound);
  }
  return worst;
}

std::optional<Error> add_facts_by_core(const Plan& plan, const Setting& setting, flow::Topology& topology,
                                       Prediction& out) {
  const CollectiveTime& heaviest = out.collectives[out.heaviest];
  out.alone = heaviest.again;
  if (plan.program.work.size() > 1) {
    const Result<Duration> alone = time_alone(plan, heaviest.work);
    if (!alone.ok()) return alone.error();
    out.alone = *alone;
  }
  out.bottleneck = bottleneck_of(*bound_of(heaviest), out.alone, topology);
  Plan worse = plan;
  const std::uint32_t slow = worst_straggler(plan, setting, heaviest.algorithm);
  halve_line(worse, slow);
  const Result<Duration> time = time_alone(worse, heaviest.work);
  if (!time.ok()) return time.error();
  out.stragglers.push_back({slow, *time});
  return {};
}

std::optional<Error> add_facts(const Plan& plan, const peer::Cohort::Roster& roster, flow::Topology& topology,
                               Prediction& out) {
  const CollectiveTime& heaviest = out.collectives[out.heaviest];
  const Setting setting = setting_in(plan, heaviest.work, roster);
  const bool around = heaviest.algorithm == wire::Algorithm::kRing;
  out.ring = setting.hosts;
  if (heaviest.candidates.empty()) return {};
  out.lossy = is_lossy(topology, setting, around);
  if (!around) return add_facts_by_core(plan, setting, topology, out);
  add_facts_of_ring(plan, run_of(plan, setting, roster), topology, out);
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

std::optional<Error> refusal_of(const Plan& plan) {
  const std::vector<Work>& work = plan.program.work;
  if (work.empty()) {
    return Error{Status::kInvalidArgument,
                 "it has no work: give it some, such as work = [\"all_reduce 64MiB f32 sum\"]"};
  }
  if (std::any_of(work.begin(), work.end(), [](const Work& each) { return wire::exchanges(each.collective); })) {
    return Error{Status::kInvalidArgument,
                 "some of its work is a gather, a scatter or an all_to_all, which predict does not know: measure it, "
                 "with tests/lab/wan"};
  }
  return {};
}

}  // namespace

const Bound* bound_of(const CollectiveTime& collective) {
  for (const Bound& bound : collective.candidates) {
    if (bound.algorithm == collective.algorithm) return &bound;
  }
  return nullptr;
}

Result<Prediction> predict(Plan plan, std::uint32_t mtu) {
  if (auto error = refusal_of(plan)) return *error;
  plan.entries.clear();
  plan.mode = plan.network.mode = Mode::kToken;
  plan.peers = plan.founders;
  plan.gangs.groups = plan.gangs.size = plan.minimum_world = 1;
  plan.network.flow.on = true;
  if (mtu != 0) leave_room_for_headers(plan, mtu);
  Prediction out;
  Rehearsal rehearsal(plan);
  if (auto error = rehearse(plan, out, rehearsal)) return *error;
  const peer::Cohort::Roster roster = rehearsal.roster();
  flow::Topology topology = *rehearsal.world().topology();
  add_bounds(plan, roster, topology, out);
  if (auto error = add_facts(plan, roster, topology, out)) return *error;
  if (plan.founders > 2) {
    if (auto error = lose_one(plan, rehearsal, out)) return *error;
  }
  out.stops = seconds_of(out.step.seconds() / std::log(10.0));
  return out;
}

}  // namespace lockstep::sim
