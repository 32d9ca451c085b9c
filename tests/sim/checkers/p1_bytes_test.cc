#include <gtest/gtest.h>

#include <cstdint>

#include "sim/checkers/p1_bytes.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

// Seven elements on three ranks, in segments: chunks of 3, 2 and 2.
Call all_reduced(PeerId peer, std::uint64_t sent, std::uint64_t received) {
  Call call = ended_call(peer, committed({kA, kB, kC}));
  call.request.collective = wire::Collective::kAllReduce;
  call.request.type = DataType::kF32;
  call.request.tensors.push_back({{}, {}, 7});
  call.launch.segment_bytes = 64;
  call.outcome->bytes_sent = sent;
  call.outcome->bytes_received = received;
  return call;
}

constexpr std::uint64_t kFloat = 4;  // bytes

TEST(P1Bytes, EveryRankSendsAllChunksButOneInEachPhase) {
  EXPECT_FALSE(check_bytes_sent(all_reduced(kA, kFloat * (4 + 5), kFloat * (5 + 4)), 0));
  EXPECT_FALSE(check_bytes_sent(all_reduced(kB, kFloat * (5 + 5), kFloat * (4 + 5)), 0));
  EXPECT_FALSE(check_bytes_sent(all_reduced(kC, kFloat * (5 + 4), kFloat * (5 + 5)), 0));
  EXPECT_TRUE(check_bytes_sent(all_reduced(kA, kFloat * (4 + 5) + 1, kFloat * (5 + 4)), 0));
  EXPECT_TRUE(check_bytes_sent(all_reduced(kA, kFloat * (4 + 5), kFloat * (5 + 4) - 4), 0));
}

TEST(P1Bytes, ASmallTensorGoesWholeFromAllButItsOwnerAndBackToAllButTheLast) {
  const auto whole = [](PeerId peer, std::uint64_t sent, std::uint64_t received) {
    Call call = all_reduced(peer, sent, received);
    call.launch.segment_bytes = 0;
    return check_bytes_sent(call, 0);
  };
  EXPECT_FALSE(whole(kA, kFloat * 7, kFloat * 7));
  EXPECT_FALSE(whole(kB, 2 * kFloat * 7, kFloat * 7));
  EXPECT_FALSE(whole(kC, kFloat * 7, 2 * kFloat * 7));
  EXPECT_TRUE(whole(kA, 2 * kFloat * 7, kFloat * 7));
  EXPECT_TRUE(whole(kA, kFloat * (4 + 5), kFloat * (5 + 4)));
}

TEST(P1Bytes, LostBytesMayTravelAgainButNotForEver) {
  EXPECT_FALSE(check_bytes_sent(all_reduced(kA, 2 * kFloat * 9, kFloat * 9), 1));
  EXPECT_TRUE(check_bytes_sent(all_reduced(kA, 1000, kFloat * 9), 1));
  Call retried = all_reduced(kA, 2 * kFloat * 9, kFloat * 9);
  retried.outcome->retries = 1;
  EXPECT_FALSE(check_bytes_sent(retried, 0));
}

TEST(P1Bytes, OtherCollectivesSendTheBytesOfTheirShape) {
  Call call = all_reduced(kA, kFloat * 4, kFloat * 5);
  call.request.collective = wire::Collective::kReduceScatter;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kB, kFloat * 7, kFloat * 7);
  call.request.collective = wire::Collective::kBroadcast;
  call.request.root = kA;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kC, 0, kFloat * 7);  // the last of the chain
  call.request.collective = wire::Collective::kBroadcast;
  call.request.root = kA;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kA, 0, kFloat * 7);  // the root only receives
  call.request.collective = wire::Collective::kReduce;
  call.request.root = kA;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kC, kFloat * 7, kFloat * 7);
  call.request.collective = wire::Collective::kReduce;
  call.request.root = kA;
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call = all_reduced(kC, kFloat * 5, kFloat * 3);  // to itself 2
  call.request.collective = wire::Collective::kAllToAll;
  call.request.blocks = {{kA, 4}, {kC, 2}, {kB, 1}};
  call.outcome->blocks = {3, 0, 2};
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call.outcome->bytes_sent += 1;
  EXPECT_TRUE(check_bytes_sent(call, 0));
  call = all_reduced(kA, kFloat * (1 + 4), kFloat * (2 + 4));
  call.request.collective = wire::Collective::kAllGather;
  call.outcome->blocks = {1, 2, 4};  // all but its neighbour's, and all but its own
  EXPECT_FALSE(check_bytes_sent(call, 0));
  call.outcome->bytes_sent = kFloat * (1 + 2 + 4);
  EXPECT_TRUE(check_bytes_sent(call, 0));
  call = all_reduced(kA, 0, 0);
  call.request.collective = wire::Collective::kBarrier;
  EXPECT_FALSE(check_bytes_sent(call, 0));
}

}  // namespace
}  // namespace lockstep::sim
