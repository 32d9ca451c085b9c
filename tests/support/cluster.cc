#include "tests/support/cluster.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {

Cluster::Cluster(std::uint32_t peers) {
  plan_.seed = 1;
  plan_.peers = peers;
  plan_.founders = peers;
  options_.scripted = true;
}

Cluster& Cluster::seed(std::uint64_t seed) {
  plan_.seed = seed;
  return *this;
}

Cluster& Cluster::plan(const std::function<void(sim::Plan&)>& change) {
  change(plan_);
  plan_.network.mode = plan_.mode;
  return *this;
}

Cluster& Cluster::observe(std::function<void(std::uint32_t, const std::string&)> observe) {
  options_.observe = std::move(observe);
  return *this;
}

Cluster& Cluster::trace() {
  options_.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  return *this;
}

sim::World& Cluster::world() {
  if (world_ == nullptr) world_ = std::make_unique<sim::World>(plan_, options_);
  return *world_;
}

Cluster& Cluster::start_all() {
  for (std::uint32_t host = 1; host <= plan_.peers; ++host) start(host);
  for (std::uint32_t host = 1; host <= plan_.peers; ++host) run_until_ended(host, CallId{1});
  return *this;
}

bool Cluster::run_until_ended(std::uint32_t host, CallId call, Duration limit) {
  const Instant end = world().now() + limit;
  while (world().now() < end && !world().failure()) {
    const sim::Call* c = world().call(host, call);
    if (c != nullptr && c->outcome) return true;
    run_for(milliseconds(1));
  }
  return false;
}

double Cluster::seconds_of(const ring::Request& request, Duration limit) {
  std::vector<CallId> calls;
  for (std::uint32_t host = 1; host <= plan_.peers; ++host) calls.push_back(launch(host, request));
  Duration longest;
  for (std::uint32_t host = 1; host <= plan_.peers; ++host) {
    const CallId id = calls[host - 1];
    const bool ended = run_until_ended(host, id, limit);
    EXPECT_TRUE(ended && outcome(host, id).status == Status::kOk) << "host " << host;
    if (!ended) return limit.seconds();
    const sim::Call& call = *world().call(host, id);
    longest = std::max(longest, call.ended - call.made);
  }
  EXPECT_FALSE(world().failure());
  return longest.seconds();
}

const peer::Outcome& Cluster::outcome(std::uint32_t host, CallId call) {
  const sim::Call* c = world().call(host, call);
  LOCKSTEP_ASSERT(c != nullptr && c->outcome.has_value());
  return *c->outcome;
}

ring::Request all_reduce(Tag tag, std::uint64_t count, DataType type, ReduceOp op) {
  ring::Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = type;
  request.op = op;
  request.tag = tag;
  request.tensors.push_back({{}, {}, count});
  return request;
}

}  // namespace lockstep
