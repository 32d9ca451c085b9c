#include "fuzz/chosen_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "sim/search/simpler.h"

namespace lockstep::fuzz {
namespace {

using sim::Entry;
using sim::Fault;
using sim::Plan;
using sim::Work;

constexpr std::size_t kMostFaults = 24;

std::uint32_t number(Choices& choices, std::uint32_t lo, std::uint32_t hi) {
  return lo + static_cast<std::uint32_t>(choices.below(hi - lo + 1U));
}

// Not when bytes are used up.
bool rarely(Choices& choices, std::size_t one_in) { return choices.below(one_in) + 1 == one_in; }

template <typename T>
T one_of(Choices& choices, std::initializer_list<T> values) {
  return values.begin()[choices.below(values.size())];
}

// Up to 2^(byte / 8), spread evenly over the magnitudes.
std::int64_t chosen_ns(Choices& choices, std::int64_t most) {
  const std::uint8_t how = choices.byte();
  return std::min(most, (std::int64_t{1} << how / 8U) + (std::int64_t{1} << how / 8U) / 8 * (how % 8U));
}
Duration chosen_duration(Choices& choices, Duration most) { return nanoseconds(chosen_ns(choices, most.ns)); }

std::uint64_t permille(Choices& choices) { return choices.byte() * 1000U / 255U; }

void choose_world(Choices& choices, Plan& plan) {
  plan.seed = choices.byte();
  if (rarely(choices, 8)) plan.seed = ~plan.seed;
  plan.mode = plan.network.mode = rarely(choices, 8) ? sim::Mode::kBytes : sim::Mode::kToken;
  plan.gangs.size = rarely(choices, 4) ? number(choices, 2, 3) : 1;
  const std::uint32_t most = rarely(choices, 8) ? 9 : 5;
  const std::uint32_t gangs = number(choices, plan.gangs.size == 1 ? 2 : 1, std::max(2U, most / plan.gangs.size));
  plan.peers = gangs * plan.gangs.size;
  plan.founders = number(choices, 1, gangs) * plan.gangs.size;
  // One outcome binds all groups, so all must call alike: each has as many of every gang.
  if (plan.gangs.size > 1) {
    plan.gangs.groups = rarely(choices, 3) ? 1 : plan.gangs.size;
  } else if (rarely(choices, 4)) {
    plan.gangs.groups = number(choices, 1, std::min(3U, plan.peers));
  }
  plan.auto_admit = plan.gangs.groups == 1 && rarely(choices, 8);
  plan.state.shared = !plan.auto_admit && rarely(choices, 2);
  plan.state.all_vote = !plan.state.shared || !rarely(choices, 3);
  plan.state.publish = plan.state.shared && !rarely(choices, 2);
  plan.state.watch = plan.state.shared && rarely(choices, 3);
  plan.state.pieces = plan.state.shared && rarely(choices, 4) ? number(choices, 1, 24) : 0;
  plan.state.staged_permille = one_of<std::uint32_t>(choices, {500, 0, 1000});
  if (plan.gangs.groups == 1 && rarely(choices, 8)) plan.minimum_world = number(choices, 1, plan.founders);
  plan.all_start = !rarely(choices, 8);
}

void choose_program(Choices& choices, Plan& plan) {
  plan.program.steps_per_admit = number(choices, 1, 4);
  plan.program.ops_per_step = number(choices, 1, 4);
  plan.program.max_count = one_of<std::uint64_t>(choices, {7, 64, 0, 1, 255, 1000});
  if (rarely(choices, 3)) {
    for (std::uint32_t left = number(choices, 1, 4); left > 0; --left) {
      Work work;
      work.collective = sim::kWorkCollectives[choices.below(std::size(sim::kWorkCollectives))];
      if (work.collective != wire::Collective::kBarrier) {
        work.count = (std::uint64_t{choices.byte()} << choices.below(6)) / 4;
        work.type = static_cast<DataType>(choices.below(kDataTypeCount));
        work.op = static_cast<ReduceOp>(choices.below(kReduceOpCount));
        if (!is_defined(work.type, work.op)) work.op = ReduceOp::kMax;
        Work encoded = work;
        encoded.formats.up = static_cast<WireFormat>(choices.below(kWireFormatCount));
        encoded.formats.down = static_cast<WireFormat>(choices.below(kWireFormatCount));
        if (choices.one_in(2)) encoded.algorithm = static_cast<wire::Algorithm>(choices.below(wire::kAlgorithmCount));
        if (!ring::validate_encoding(sim::request_of(encoded))) work = encoded;
      }
      plan.program.work.push_back(work);
    }
  }
  plan.links.stripes = rarely(choices, 16) ? kMaxStripes : number(choices, 1, 4);
  plan.links.turns = one_of<std::uint32_t>(choices, {0, 1, 2});
  plan.links.window = one_of<std::uint32_t>(choices, {kRoundWindow, 1, 2, 3});
  plan.links.eager_segments = one_of<std::uint32_t>(choices, {kMaxEagerSegments, 0, 1, 2});
  plan.links.segment_bytes = one_of<std::uint32_t>(choices, {0, 0, 16, 17, 64, 1024, 16'384});
}

void choose_times(Choices& choices, Plan& plan) {
  sim::NetworkOptions& net = plan.network;
  net.latency_lo_ns = chosen_ns(choices, 40'000'000);
  net.latency_hi_ns = std::min<std::int64_t>(80'000'000, net.latency_lo_ns * number(choices, 1, 40));
  net.latency_hi_ns = std::max(net.latency_hi_ns, net.latency_lo_ns);
  net.jitter_ns = chosen_ns(choices, 20'000'000);
  net.host_delay_ns = chosen_ns(choices, 100'000);
  net.revoke_delay_ns = chosen_ns(choices, 5'000'000);
  net.short_permille = permille(choices) / 2;
  net.pieces_permille = permille(choices);
  net.apart_permille = permille(choices);
  net.busy_permille = permille(choices);
  plan.delays.kernel = chosen_duration(choices, milliseconds(1));
  plan.delays.kernel_ns_per_kib = one_of<std::int64_t>(choices, {200, 0, 5000});
  plan.delays.timer = chosen_duration(choices, milliseconds(5));
  // Each live peer must be heard in time.
  plan.heartbeat = milliseconds(one_of<std::int64_t>(choices, {100, 20, 50, 200, 500}));
  const std::int64_t slow = 5 * (net.latency_hi_ns + net.jitter_ns) / 2 + 4 * plan.delays.timer.ns;
  plan.heartbeat.ns = std::max(plan.heartbeat.ns, slow);
  if (rarely(choices, 4)) net.dial_gives_up_ns = plan.heartbeat.ns * 2;
  plan.program.think = plan.heartbeat * 2 / number(choices, 1, 8);
  plan.end.safety = plan.heartbeat * number(choices, 4, 24);
  if (!rarely(choices, 4)) plan.end.heal_after = plan.heartbeat * number(choices, 0, 8) + nanoseconds(1);
  plan.end.commits_after = number(choices, 0, 3);
}

// The bytes of a step: of its largest tensor, and of all.
struct StepBytes {
  std::uint64_t largest = 0;
  std::uint64_t sum = 0;
};
StepBytes bytes_of_step(const Plan& plan) {
  if (plan.program.work.empty())
    return {plan.program.max_count * 8, plan.program.max_count * 8 * plan.program.ops_per_step};
  StepBytes bytes;
  for (const Work& work : plan.program.work) {
    bytes.largest = std::max(bytes.largest, work.count * size_of(work.type));
    bytes.sum += work.count * size_of(work.type);
  }
  return bytes;
}

std::uint32_t chosen_loss(Choices& choices) { return one_of<std::uint32_t>(choices, {0, 100, 1000, 10'000}); }

// Where streams share lines, P2 is checked. It knows nothing of headers, small windows, segments that are one packet
// and take no part in sharing, and what a gang does elsewhere.
void choose_flow(Choices& choices, Plan& plan, std::uint64_t least_rate) {
  sim::NetworkOptions& net = plan.network;
  net.latency_lo_ns = std::max<std::int64_t>(net.latency_lo_ns, 1'000'000);
  net.latency_hi_ns = std::max(net.latency_hi_ns, net.latency_lo_ns);
  net.window_bytes = std::max<std::uint64_t>(net.window_bytes, 262'144);
  if (plan.links.segment_bytes != 0) plan.links.segment_bytes = std::max(plan.links.segment_bytes, 4096U);
  const auto line = [&] { return rarely(choices, 2) ? least_rate * plan.peers * number(choices, 1, 20) : 0; };
  net.flow.up_bytes_per_s = line();
  net.flow.down_bytes_per_s = line();
  net.flow.loss_ppm = chosen_loss(choices);
  net.flow.congestion = static_cast<sim::flow::Congestion>(choices.below(sim::flow::kCongestionCount));
  net.flow.cold = !rarely(choices, 2);
  const std::uint64_t all = (std::uint64_t{2} << plan.peers) - 1;
  for (std::uint32_t left = number(choices, 0, 3); left > 0; --left) {
    const std::uint64_t hosts = (choices.byte() | std::uint64_t{choices.byte()} << 8U) & all;
    if (hosts != 0) net.flow.lines.push_back({hosts, line(), line(), chosen_loss(choices)});
  }
}

void choose_links(Choices& choices, Plan& plan, std::uint64_t least_rate) {
  sim::NetworkOptions& net = plan.network;
  for (std::uint32_t left = rarely(choices, 4) ? number(choices, 1, 3) : 0; left > 0; --left) {
    sim::LinkOptions link;
    link.a = number(choices, 0, plan.peers - 1);
    link.b = number(choices, link.a + 1, plan.peers);
    if (rarely(choices, 2)) link.latency_ns = chosen_ns(choices, net.latency_hi_ns);
    if (rarely(choices, 2)) link.rate_bytes_per_s = std::max(least_rate, net.rate_bytes_per_s / number(choices, 1, 8));
    if (net.flow.on) link.loss_ppm = chosen_loss(choices);
    net.links.push_back(link);
  }
}

// As wide and as slow as it likes, if the work of a step is done in a few heartbeats, and not in hundreds of pieces.
void choose_bandwidth(Choices& choices, Plan& plan) {
  const StepBytes step = bytes_of_step(plan);
  const std::uint64_t least_piece = step.largest / 16;
  if (plan.links.segment_bytes != 0)
    plan.links.segment_bytes = std::max(plan.links.segment_bytes, static_cast<std::uint32_t>(least_piece));
  sim::NetworkOptions& net = plan.network;
  net.window_bytes = std::max(one_of<std::uint64_t>(choices, {262'144, 2'000, 16'384}), least_piece);
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  std::uint64_t least_rate = step.sum * plan.peers * 1'000'000'000 / (4 * beat) + 50'000;
  net.rate_bytes_per_s = std::max(least_rate, std::uint64_t{1'000'000'000} >> choices.below(12));
  net.flow.on = rarely(choices, 6) && plan.gangs.size == 1;
  if (net.flow.on) {
    least_rate = std::max<std::uint64_t>(least_rate, 2'000'000);
    choose_flow(choices, plan, least_rate);
  }
  choose_links(choices, plan, least_rate);
}

// At any moment; often at that of the one before.
void choose_moment(Choices& choices, const Plan& plan, Entry& entry) {
  const std::size_t when = choices.below(8);
  if (when >= 6 && !plan.entries.empty()) {
    const Entry& before = plan.entries.back();
    entry.launch = before.launch;
    entry.commit = before.commit;
    entry.view = before.view;
    entry.event = before.event;
    entry.after = before.after;
    if (when == 7) entry.after = std::min(plan.end.safety, entry.after + chosen_duration(choices, plan.heartbeat));
    return;
  }
  if (when == 1) entry.launch = 1 + choices.below(std::size_t{12} * plan.peers);
  if (when == 2) entry.commit = 1 + choices.below(30);
  if (when == 3) entry.view = 1 + choices.below(12);
  if (when == 4) entry.event = 1 + choices.byte() + std::uint64_t{256} * choices.below(16);
  entry.after = chosen_duration(choices, plan.end.safety);
}

Entry chosen_entry(Choices& choices, const Plan& plan) {
  Entry entry;
  entry.fault = static_cast<Fault>(choices.below(sim::kFaultCount));
  choose_moment(choices, plan, entry);
  entry.a = number(choices, 0, plan.peers);
  if (sim::is_of_pair(entry.fault)) entry.b = number(choices, 0, plan.peers);
  if (rarely(choices, 8)) std::swap(entry.a, entry.b);
  if (rarely(choices, 4) && !plan.entries.empty()) entry.a = plan.entries.back().a;
  entry.length = chosen_duration(choices, plan.heartbeat * 16);
  if (rarely(choices, 8)) entry.length = {};
  if (entry.fault == Fault::kSlow || entry.fault == Fault::kKernels) entry.number = 2 + choices.below(99);
  if (entry.fault == Fault::kReset) entry.number = choices.below(21);
  if (entry.fault == Fault::kStrangers) entry.number = 1 + choices.below(24);
  if (entry.fault == Fault::kVanish && plan.gangs.size == 1 && plan.all_start)
    entry.number = rarely(choices, 3) ? 1 : 0;
  return entry;
}

}  // namespace

sim::Plan chosen_plan(Choices& choices) {
  Plan plan;
  choose_world(choices, plan);
  choose_program(choices, plan);
  choose_times(choices, plan);
  choose_bandwidth(choices, plan);
  // Who waits for one that has skipped a call, or called another, needs a time-out to get on.
  if (rarely(choices, 2)) plan.program.call_timeout = plan.heartbeat * number(choices, 40, 80);
  while (!choices.empty() && plan.entries.size() < kMostFaults) {
    const Entry entry = chosen_entry(choices, plan);
    if (!sim::validate_entry(plan, entry).empty()) continue;
    plan.entries.push_back(entry);
    const bool waits = entry.fault == Fault::kMismatch || entry.fault == Fault::kSkip;
    if ((waits && plan.program.call_timeout.ns == 0) || !sim::is_lawful(plan)) plan.entries.pop_back();
  }
  return plan;
}

}  // namespace lockstep::fuzz
