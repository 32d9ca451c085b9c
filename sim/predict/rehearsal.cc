#include "sim/predict/rehearsal.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/assert.h"
#include "sim/workload/liveness_bound.h"

namespace lockstep::sim {
namespace {

constexpr Duration kSlice = milliseconds(2);

WorldOptions scripted(std::size_t& seen, std::uint32_t peers) {
  WorldOptions options;
  options.scripted = true;
  options.observe = [&seen, peers](std::uint32_t, const std::string& line) {
    const auto members = static_cast<std::uint32_t>(std::count(line.begin(), line.end(), ' '));
    if (line.starts_with("view ") && members == peers + 3) seen += 1;  // "view 2 cohort 2 {a b c}"
  };
  return options;
}

std::vector<std::uint32_t> in_order_of_names(std::uint32_t peers) {
  std::vector<std::uint32_t> hosts(peers);
  std::iota(hosts.begin(), hosts.end(), 1U);
  return hosts;
}

}  // namespace

Rehearsal::Rehearsal(const Plan& plan) : Rehearsal(plan, in_order_of_names(plan.founders)) {}

Rehearsal::Rehearsal(const Plan& plan, std::vector<std::uint32_t> ring)
    : plan_(plan), ring_(std::move(ring)), world_(plan_, scripted(seen_, plan.founders)) {}

Error Rehearsal::broken() const {
  const Failure failure = world_.failure().value_or(Failure{});
  return {Status::kInternal, failure.promise + " broken: " + failure.text};
}

std::optional<Error> Rehearsal::begin() {
  const Duration round_trip = nanoseconds(2 * (plan_.network.latency_hi_ns + plan_.network.jitter_ns));
  Duration far = round_trip;
  for (const LinkOptions& link : plan_.network.links) far = std::max(far, nanoseconds(2 * link.latency_ns));
  for (const std::uint32_t host : ring_) {  // the ring is in the order of arrival
    world_.start(host);
    world_.run_for(far * 3 + milliseconds(20));
  }
  const Instant end = world_.now() + liveness_bound(plan_);
  while (seen_ < plan_.founders && !world_.failure() && world_.now() < end) world_.run_for(kSlice);
  if (world_.failure()) return broken();
  if (seen_ < plan_.founders) return Error{Status::kTimedOut, "the peers do not find each other"};
  world_.run_for(far * 3 + milliseconds(20));  // links to neighbours
  return {};
}

void Rehearsal::launch() {
  launched_.clear();
  for (std::uint32_t host = 1; host <= plan_.founders; ++host) {
    if (host == gone_) continue;
    for (std::size_t i = 0; i < plan_.program.work.size(); ++i) {
      const Work& work = plan_.program.work[i];
      ring::Request request = request_of(work);
      request.tag = Tag{i};
      request.retry = work.collective == wire::Collective::kAllReduce || work.collective == wire::Collective::kBarrier;
      if (work.collective != wire::Collective::kBarrier) request.tensors.push_back({{}, {}, work.count});
      if (wire::has_root(work.collective)) request.root = world_.peer_on(1);
      launched_.push_back({host, i, world_.launch(host, request)});
    }
  }
}

Result<std::vector<Duration>> Rehearsal::finish() {
  const Instant end = world_.now() + liveness_bound(plan_) * 4;
  const auto open = [&](const Launched& launched) {
    const Call* const call = world_.call(launched.host, launched.id);
    return call != nullptr && !call->outcome;
  };
  while (std::any_of(launched_.begin(), launched_.end(), open)) {
    if (world_.failure()) return broken();
    if (world_.now() > end) return Error{Status::kTimedOut, "a collective does not end"};
    world_.run_for(kSlice);
  }
  std::vector<Duration> times(plan_.program.work.size());
  for (const Launched& launched : launched_) {
    const Call* const call = world_.call(launched.host, launched.id);
    if (call == nullptr) continue;  // its machine is gone
    if (call->outcome->status != Status::kOk && (call->request.retry || !gone_)) {
      return Error{call->outcome->status, "a collective ends with: " + std::string(status_name(call->outcome->status))};
    }
    times[launched.work] = std::max(times[launched.work], call->ended - call->made);
  }
  return times;
}

const Call& Rehearsal::call_of(std::size_t work) {
  const Call* const call = world_.call(launched_[work].host, launched_[work].id);
  LOCKSTEP_ASSERT(call != nullptr && call->outcome);
  return *call;
}

peer::Cohort::Roster Rehearsal::roster() {
  const Call& call = call_of(0);
  return peer::Cohort::founded(*call.view, call.group).now();
}

Result<std::vector<Duration>> Rehearsal::step() {
  launch();
  return finish();
}

Result<std::vector<Duration>> Rehearsal::step_with_loss(std::uint32_t host, Duration after) {
  launch();
  world_.run_for(after);
  world_.begin_fault({.fault = Fault::kVanish, .a = host, .number = 1});
  gone_ = host;
  std::erase_if(launched_, [&](const Launched& launched) { return launched.host == host; });
  return finish();
}

}  // namespace lockstep::sim
