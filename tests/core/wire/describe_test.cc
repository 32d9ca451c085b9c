#include "core/wire/describe.h"

#include <gtest/gtest.h>

namespace lockstep::wire {
namespace {

Descriptor all_reduce() {
  return {.collective = Collective::kAllReduce,
          .type = DataType::kF32,
          .op = ReduceOp::kSum,
          .retry = true,
          .minimum_world = 1,
          .tensors = 1,
          .count = 10,
          .layout = 0x1234,
          .root = {},
          .algorithm = Algorithm::kAuto,
          .segment_bytes = 0};
}

TEST(Describe, ADescriptorReadsAsACall) {
  EXPECT_EQ(describe(all_reduce()), "all_reduce f32 sum, 10 elements in 1 tensor, retry");
  EXPECT_EQ(describe(Descriptor{}), "barrier, retry");

  Descriptor several = all_reduce();
  several.tensors = 2;
  several.minimum_world = 3;
  several.retry = false;
  EXPECT_EQ(describe(several),
            "all_reduce f32 sum, 10 elements in 2 tensors, layout 0000000000001234, minimum world 3, no retry");

  Descriptor asked = all_reduce();
  asked.algorithm = Algorithm::kRing;
  EXPECT_EQ(describe(asked), "all_reduce f32 sum, 10 elements in 1 tensor, ring, retry");
  asked.algorithm = Algorithm::kDirect;
  EXPECT_EQ(describe(asked), "all_reduce f32 sum, 10 elements in 1 tensor, direct, retry");

  Descriptor configured = all_reduce();
  configured.segment_bytes = 4096;
  EXPECT_EQ(describe(configured), "all_reduce f32 sum, 10 elements in 1 tensor, segments of 4096 bytes, retry");

  Descriptor broadcast = all_reduce();
  broadcast.collective = Collective::kBroadcast;
  broadcast.algorithm = Algorithm::kRing;
  broadcast.count = 1;
  broadcast.root = PeerId{0, 0x2a};
  EXPECT_EQ(describe(broadcast), "broadcast f32, 1 element in 1 tensor, root 2a, retry");

  Descriptor all_gather = all_reduce();
  all_gather.collective = Collective::kAllGather;
  all_gather.algorithm = Algorithm::kRing;
  all_gather.count = all_gather.layout = 0;
  EXPECT_EQ(describe(all_gather), "all_gather f32, 1 tensor, retry");
}

// The tensors of a state have their own names and types; only the layout distinguishes two states.
TEST(Describe, AStateIsDescribedInBytes) {
  Descriptor state;
  state.collective = Collective::kSync;
  state.tensors = 1;
  state.count = 40;
  state.layout = 0x1234;
  EXPECT_EQ(describe(state), "sync_state, 40 bytes in 1 tensor, layout 0000000000001234, retry");
  EXPECT_EQ(describe_size(state), "40 bytes in 1 tensor");
  state.type = DataType::kF32;
  EXPECT_EQ(describe(state), "sync_state f32, 40 bytes in 1 tensor, layout 0000000000001234, retry");
}

TEST(Describe, AMessageIsOneLine) {
  EXPECT_EQ(describe(Message(Heartbeat{})), "Heartbeat{}");
  const RoundKey key{CohortId{1}, GroupId{0}, Tag{7}, 2};
  EXPECT_EQ(describe(Message(Commit{key, Generation{3}, 0xbeef, true, "they differ"})),
            "Commit{key: c1 g0 t7 #2, attempt: 3, hash: 000000000000beef, admit_here: true, "
            "state_difference: \"they differ\"}");
  EXPECT_EQ(describe(Message(Done{key, Generation{3}, all_reduce(), 1})),
            "Done{key: c1 g0 t7 #2, attempt: 3, what: (all_reduce f32 sum, 10 elements in 1 tensor, retry), "
            "hash: 0000000000000001, state_fingerprint: 0000000000000000, fetched: \"\"}");
  EXPECT_EQ(describe(Message(Refused{Status::kRefused, "no\n\"way\""})),
            "Refused{status: refused, text: \"no??way?\"}");
  EXPECT_EQ(describe(Message(Waiting{{io::Address::Family::kV4, {127, 0, 0, 1}, 4000}, seconds(1), seconds(2)})),
            "Waiting{seen_from: 127.0.0.1:4000, heartbeat: 1000000000ns, silence: 2000000000ns}");
}

TEST(Describe, TheKeyOfTheRunIsNotShown) {
  EXPECT_EQ(describe(Message(Link{PeerId{0, 1}, PeerId{0, 2}, StripeIndex{3}, 4, LinkKey{5, 6}})),
            "Link{from: 1, to: 2, stripe: 3, stripes: 4, key: (secret), use: ring}");
  Propose propose;
  propose.link_key = {77777, 88888};
  const std::string line = describe(Message(propose));
  EXPECT_NE(line.find("link_key: (secret)"), std::string::npos) << line;
}

TEST(Describe, ALongListIsCut) {
  Ready ready;
  ready.have.resize(10);
  const std::string line = describe(Message(ready));
  EXPECT_NE(line.find("have: [0, 0, 0, 0, 0, 0, 0, 0, and 2 more]"), std::string::npos) << line;
}

}  // namespace
}  // namespace lockstep::wire
