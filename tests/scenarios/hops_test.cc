// The hops of the calls of a training loop among far members (docs/costs.md). Their number does not grow with the
// members.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"

namespace lockstep {
namespace {

constexpr Duration kHop = milliseconds(40);
constexpr std::uint64_t kElements = 1024;  // f32: 4 KiB
constexpr std::uint64_t kMib = (1U << 20U) / sizeof(float);

// A call, launched on one host.
using Launch = std::function<CallId(sim::World& world, std::uint32_t host)>;

// Members that are 40 ms away from each other and from the coordinator. Lines are so fast, and windows so large, that
// bytes take no time.
class FarMembers {
 public:
  explicit FarMembers(std::uint32_t members, std::uint32_t newcomers = 0)
      : members_(members), cluster_(Cluster::of(members + newcomers)) {
    cluster_.plan([&](sim::Plan& plan) {
      plan.founders = members;
      plan.heartbeat = seconds(1);
      plan.network.latency_lo_ns = plan.network.latency_hi_ns = kHop.ns;
      plan.network.jitter_ns = 0;
      plan.network.rate_bytes_per_s = 100'000'000'000;
      plan.network.window_bytes = std::uint64_t{64} << 20U;
      plan.network.short_permille = plan.network.pieces_permille = plan.network.apart_permille = 0;
      plan.network.busy_permille = 0;
    });
    for (std::uint32_t host = 1; host <= members; ++host) cluster_.start(host);
    for (std::uint32_t host = 1; host <= members; ++host) cluster_.run_until_ended(host, CallId{1});
    settle();
    for (std::uint32_t host = members + 1; host <= members + newcomers; ++host) cluster_.start(host);
    if (newcomers > 0) settle();
  }

  // After an admission: newcomers take part in the calls that follow.
  void count_newcomers(std::uint32_t newcomers) { members_ += newcomers; }

  // From one launch on all members at once to the end on the last of them, in hops.
  double hops(const Launch& launch) {
    std::vector<CallId> calls;
    for (std::uint32_t host = 1; host <= members_; ++host) calls.push_back(launch(cluster_.world(), host));
    Duration longest{};
    for (std::uint32_t host = 1; host <= members_; ++host) {
      const CallId id = calls[host - 1];
      if (!cluster_.run_until_ended(host, id)) {
        ADD_FAILURE() << "the call of host " << host << " does not end";
        return 0;
      }
      const peer::Outcome& outcome = cluster_.outcome(host, id);
      EXPECT_EQ(outcome.status, Status::kOk) << outcome.text;
      const sim::Call& call = *cluster_.world().call(host, id);
      longest = std::max(longest, call.ended - call.made);
    }
    EXPECT_FALSE(cluster_.world().failure());
    return longest.seconds() / kHop.seconds();
  }

 private:
  // Until links between all pairs are open, all members know it, and all see the newcomers.
  void settle() { cluster_.run_for(seconds(3)); }

  std::uint32_t members_;  // that launch calls
  Cluster cluster_;
};

CallId barrier(sim::World& world, std::uint32_t host) {
  ring::Request request;
  request.collective = wire::Collective::kBarrier;
  request.tag = Tag{1};
  return world.launch(host, request);
}

CallId small_all_reduce(sim::World& world, std::uint32_t host) {
  return world.launch(host, all_reduce(Tag{2}, kElements));
}

// Of a collective without a choice of the caller. The root is in the middle of the group.
Launch call_of(wire::Collective collective, std::uint32_t members, std::uint64_t elements) {
  return [=](sim::World& world, std::uint32_t host) {
    ring::Request request;
    request.collective = collective;
    request.type = DataType::kF32;
    request.tag = Tag{5};
    request.retry = false;
    request.tensors.push_back({{}, {}, elements});
    if (wire::has_root(collective)) request.root = world.peer_on(members / 2);
    return world.launch(host, request);
  };
}

// A state of one tensor; the newest revision wins.
CallId sync_state(sim::World& world, std::uint32_t host, std::uint64_t content, std::uint64_t revision) {
  auto state = std::make_shared<state::Statement>();
  state->revision = revision;
  state->manifest.tensors = {{"weights", DataType::kF32, kElements, false}};
  ring::Request request;
  request.collective = wire::Collective::kSync;
  request.tag = Tag{3};
  request.tensors.push_back({{}, {}, state->manifest.tensors[0].bytes()});
  request.state = state;
  return world.launch(host, request, {.drawn = content});
}

CallId sync_of_equal_states(sim::World& world, std::uint32_t host) { return sync_state(world, host, 7, 5); }

CallId admit(sim::World& world, std::uint32_t host) { return world.admit(host); }

// `launch_of(members)`. What kernels, timers and bytes take is a small part of a hop.
void expect_hops_in_a_grid(const std::function<Launch(std::uint32_t)>& launch_of, double stated) {
  for (const std::uint32_t members : {65U, 66U, 100U}) {
    if (kSanitized && members > 65) continue;
    SCOPED_TRACE(members);
    FarMembers far(members);
    for (int call = 0; call < 2; ++call) {
      const double hops = far.hops(launch_of(members));
      EXPECT_GE(hops, stated);
      EXPECT_LE(hops, stated + 0.1);
    }
  }
}

class Hops : public testing::TestWithParam<std::uint32_t> {
 protected:
  // What kernels, timers and bytes take is a small part of a hop.
  static void expect_hops(double measured, double stated) {
    EXPECT_GE(measured, stated);
    EXPECT_LE(measured, stated + 0.1);
  }

  // Members of the group when the measured calls are over.
  static std::uint32_t members() { return GetParam(); }
};

TEST_P(Hops, ABarrierHasTwo) {
  FarMembers far(members());
  for (int call = 0; call < 2; ++call) expect_hops(far.hops(barrier), 2);
}

TEST_P(Hops, ASyncOfEqualStatesHasTwo) {
  FarMembers far(members());
  for (int call = 0; call < 2; ++call) expect_hops(far.hops(sync_of_equal_states), 2);
}

TEST_P(Hops, AnAdmitHasFour) {
  FarMembers far(members());
  for (int call = 0; call < 2; ++call) expect_hops(far.hops(admit), 4);
}

// An outer step of DiLoCo is one all-reduce.
TEST_P(Hops, AnOuterStepOfASmallModelHasThree) {
  FarMembers far(members());
  for (int call = 0; call < 2; ++call) expect_hops(far.hops(small_all_reduce), 3);
}

// A chunk of a MiB is no multiple of a segment; there is room for all contributions at once.
TEST_P(Hops, AnAllReduceOfAMibHasThreeOrFour) {
  FarMembers far(members());
  const auto mib = [](sim::World& world, std::uint32_t host) {
    return world.launch(host, all_reduce(Tag{4}, (1U << 20U) / sizeof(float)));
  };
  for (int call = 0; call < 2; ++call) {
    const double hops = far.hops(mib);
    EXPECT_GE(hops, 3);
    EXPECT_LE(hops, 4.1);
  }
}

// With more members than keep links between all pairs, contributions and results go by relays (rule 59).
TEST(HopsInAGrid, AnAllReduceHasSix) {
  expect_hops_in_a_grid([](std::uint32_t) { return small_all_reduce; }, 6);
}

// Sizes to the relays and on, ready, blocks to the relays and on, done, commit.
TEST(HopsInAGrid, AnAllGatherHasSeven) {
  expect_hops_in_a_grid([](std::uint32_t n) { return call_of(wire::Collective::kAllGather, n, kElements); }, 7);
}

// Ready, to the relays and on, done, commit.
TEST(HopsInAGrid, ABroadcastHasFive) {
  expect_hops_in_a_grid([](std::uint32_t n) { return call_of(wire::Collective::kBroadcast, n, kElements); }, 5);
}

// Two more to the owners of chunks.
TEST(HopsInAGrid, ABroadcastOfAMibHasSeven) {
  expect_hops_in_a_grid([](std::uint32_t n) { return call_of(wire::Collective::kBroadcast, n, kMib); }, 7);
}

// To the relays, to the root, done, commit: a small contribution needs no ready.
TEST(HopsInAGrid, AReduceHasFour) {
  expect_hops_in_a_grid([](std::uint32_t n) { return call_of(wire::Collective::kReduce, n, kElements); }, 4);
}

// To the relays, to the owners, to the relays in the root's row, to the root, done, commit.
TEST(HopsInAGrid, AReduceOfAMibHasSix) {
  expect_hops_in_a_grid([](std::uint32_t n) { return call_of(wire::Collective::kReduce, n, kMib); }, 6);
}

// To the relays, to the owners, done, commit.
TEST(HopsInAGrid, AReduceScatterHasFour) {
  expect_hops_in_a_grid([](std::uint32_t n) { return call_of(wire::Collective::kReduceScatter, n, kElements); }, 4);
}

// The calls of DiLoCo's outer step when a newcomer waits: each needs the result of the one before.
TEST_P(Hops, AnOuterStepThatAdmitsANewcomerHasTwentyOne) {
  FarMembers far(members() - 1, 1);
  expect_hops(far.hops(small_all_reduce), 3);
  expect_hops(far.hops(admit), 4);
  far.count_newcomers(1);
  const auto sync = [](std::uint64_t content_of_newcomer) {
    return [content_of_newcomer](sim::World& world, std::uint32_t host) {
      const bool is_newcomer = host == members();
      return sync_state(world, host, is_newcomer ? content_of_newcomer : 7, is_newcomer ? 0 : 5);
    };
  };
  expect_hops(far.hops(sync(7)), 6);  // the settings: equal bytes, which the newcomer has at an older revision
  expect_hops(far.hops(sync(8)), 8);  // the state, which the newcomer fetches
}

INSTANTIATE_TEST_SUITE_P(Members, Hops,
                         testing::ValuesIn(kSanitized ? std::vector<std::uint32_t>{4, 8, 16}
                                                      : std::vector<std::uint32_t>{4, 8, 16, 32, 60}));

}  // namespace
}  // namespace lockstep
