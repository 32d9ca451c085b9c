// What a round costs the coordinator: as many messages and bytes for each member, however many members there are.
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "core/wire/message.h"
#include "sim/explain/wire_tap.h"
#include "sim/world/witness.h"
#include "sim/world/world.h"
#include "tests/support/cluster.h"

namespace lockstep::sim {
namespace {

// The messages of rounds, to the coordinator and from it. Heartbeats, and what is said about long waits, grow with the
// time that a round takes.
class CoordinatorTraffic : public Witness {
 public:
  struct Count {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };

  void opens(std::uint32_t end, std::uint32_t process, StreamId) override { side(end).process = process; }
  void sends(std::uint32_t end, std::span<const std::byte> bytes, std::size_t size) override {
    (void)side(end ^ 1U);  // the connection has both
    Side& s = side(end);
    std::vector<WireTap::Heard> heard;
    s.tap.hear(bytes, size, heard);
    for (const WireTap::Heard& h : heard) {
      const bool of_a_round = !std::holds_alternative<wire::Heartbeat>(h.message) &&
                              !std::holds_alternative<wire::CallWaits>(h.message) &&
                              !std::holds_alternative<wire::CallAwaited>(h.message);
      s.count.messages += of_a_round ? 1 : 0;
      s.count.bytes += of_a_round ? h.end - s.heard_until : 0;
      s.heard_until = h.end;
    }
  }

  // Since the last time.
  Count take() {
    Count all;
    for (std::size_t end = 0; end < sides_.size(); ++end) {
      if (sides_[end].process == 0 || sides_[end ^ 1U].process == 0) {
        all.messages += sides_[end].count.messages;
        all.bytes += sides_[end].count.bytes;
      }
      sides_[end].count = {};
    }
    return all;
  }

 private:
  struct Side {
    std::uint32_t process = kNoProcess;
    WireTap tap;
    std::uint64_t heard_until = 0;
    Count count;
  };
  Side& side(std::uint32_t end) {
    if (end >= sides_.size()) sides_.resize(end + 1);
    return sides_[end];
  }

  std::vector<Side> sides_;
};

// Peers that are 40 ms from each other, at lines of 200 Mbit/s.
class ManyPeers {
 public:
  explicit ManyPeers(std::uint32_t peers) : peers_(peers), world_(plan(peers), options()) {
    for (std::uint32_t host = 1; host <= peers; ++host) world_.start(host);
    await(std::vector<CallId>(peers + 1, CallId{1}));
    world_.run_for(seconds(1));
  }

  // Runs one collective to its end on all members.
  CoordinatorTraffic::Count cost_of(const ring::Request& request) {
    (void)traffic_.take();
    std::vector<CallId> calls(1);
    for (std::uint32_t host = 1; host <= peers_; ++host) calls.push_back(world_.launch(host, request));
    await(calls);
    return traffic_.take();
  }

 private:
  static Plan plan(std::uint32_t peers) {
    Plan plan;
    plan.seed = 1;
    plan.peers = plan.founders = peers;
    NetworkOptions& net = plan.network;
    net.latency_lo_ns = net.latency_hi_ns = 40'000'000;
    net.rate_bytes_per_s = flow::kMostRate;
    net.window_bytes = 4U << 20U;
    net.flow.on = true;
    net.flow.up_bytes_per_s = net.flow.down_bytes_per_s = 25'000'000;
    return plan;
  }
  WorldOptions options() {
    WorldOptions options;
    options.scripted = true;
    options.witness = &traffic_;
    return options;
  }
  // `calls`: by host.
  void await(const std::vector<CallId>& calls) {
    const Instant limit = world_.now() + seconds(600);
    for (std::uint32_t host = 1; host <= peers_; ++host) {
      const auto ended = [&] {
        const Call* const call = world_.call(host, calls[host]);
        return call != nullptr && call->outcome.has_value();
      };
      while (!ended() && !world_.failure() && world_.now() < limit) world_.run_for(milliseconds(10));
      ASSERT_FALSE(world_.failure()) << world_.failure()->text;
      ASSERT_TRUE(ended()) << host;
      ASSERT_EQ(world_.call(host, calls[host])->outcome->status, Status::kOk);
    }
  }

  std::uint32_t peers_;
  CoordinatorTraffic traffic_;
  World world_;
};

TEST(ManyPeers, ARoundCostsTheCoordinatorTwoMessagesForEachMember) {
  ring::Request barrier;
  barrier.collective = wire::Collective::kBarrier;
  std::vector<std::uint64_t> bytes;
  for (const std::uint32_t peers : {16U, 256U}) {
    ManyPeers many(peers);
    for (const ring::Request& request : {all_reduce(Tag{0}, 1024, DataType::kF32, ReduceOp::kSum), barrier}) {
      const CoordinatorTraffic::Count cost = many.cost_of(request);
      EXPECT_EQ(cost.messages, 2 * peers);
      bytes.push_back(cost.bytes / peers);
    }
  }
  for (const std::uint64_t of_a_member : bytes) EXPECT_EQ(of_a_member, bytes.front());
}

}  // namespace
}  // namespace lockstep::sim
