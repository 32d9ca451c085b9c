// Rule 54 of docs/protocol.md at a peer: when it tells the coordinator that it waits, and what it answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

using wire::CallStage;
using wire::Collective;

const Duration kLong = PeerOptions{}.link_heartbeat * kLongWaitBeats;

struct LongWaits : testing::Test, Peer3 {
  // In steps that are short enough for each timer to be on time.
  void pass(Duration time) {
    for (Duration left = time; left.ns > 0;) {
      const Duration step = std::min(left, milliseconds(10));
      me.pass(step);
      me.run();
      left = left - step;
    }
  }
  [[nodiscard]] std::vector<wire::CallWaits> said() const { return coordinator->all<wire::CallWaits>(); }
  void asks(const RoundKey& round, Generation attempt = Generation{1}) {
    coordinator->say(wire::CallAwaited{round, attempt, Collective::kBarrier, 0, {}});
    me.run();
  }
};

TEST_F(LongWaits, ACallThatWaitsIsToldOnce) {
  launch(Collective::kAllReduce);
  pass(kLong / 2);
  pass(kLong / 2 - kTick);
  EXPECT_TRUE(said().empty());
  pass(kTick);
  ASSERT_EQ(said().size(), 1U);
  EXPECT_EQ(said()[0].key, key());
  EXPECT_EQ(said()[0].stage, CallStage::kCalled);
  EXPECT_EQ(said()[0].collective, Collective::kAllReduce);
  EXPECT_EQ(said()[0].age, kLong);
  pass(kLong * 4);
  EXPECT_EQ(said().size(), 1U);
}

TEST_F(LongWaits, ACallThatEndsInTimeIsNotTold) {
  launch(Collective::kBarrier);
  pass(kLong - kTick);
  const auto* done = coordinator->last<wire::Done>();
  ASSERT_NE(done, nullptr);
  coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false, {}});
  me.run();
  pass(kLong * 4);
  EXPECT_TRUE(said().empty());
}

TEST_F(LongWaits, TheOldestComeFirstAndTheOthersWithTheNextLook) {
  for (std::uint64_t tag = 0; tag < kMaxWaitsTold + 3; ++tag) launch(Collective::kAllReduce, tag);
  pass(kLong);
  ASSERT_EQ(said().size(), kMaxWaitsTold);
  EXPECT_EQ(said().back().key, key(kMaxWaitsTold - 1));
  pass(kLong);
  EXPECT_EQ(said().size(), kMaxWaitsTold + 3);
}

TEST_F(LongWaits, EachAttemptIsTold) {
  launch(Collective::kAllReduce);
  pass(kLong);
  ASSERT_EQ(said().size(), 1U);
  install(loss_of(kHigh));
  pass(kLong);
  ASSERT_EQ(said().size(), 2U);
  EXPECT_EQ(said()[1].attempt, Generation{2});
  EXPECT_EQ(said()[1].age, kLong + kLong / 2) << "since the launch";
}

// The call has waited for the next cohort.
TEST_F(LongWaits, ACallThatBeginsLateIsToldAfterAHeartbeat) {
  const Duration heartbeat = PeerOptions{}.link_heartbeat;
  me.admit();
  launch(Collective::kAllReduce);
  pass(kLong);
  install(proposal(view_of(2, 2, {kLow, kMe, kHigh})));
  pass(heartbeat - kTick);
  EXPECT_TRUE(said().empty());
  pass(kTick);
  ASSERT_EQ(said().size(), 1U);
  EXPECT_EQ(said()[0].age, kLong + heartbeat) << "since the launch";
}

TEST_F(LongWaits, LooksAreThreeHeartbeatsApart) {
  constexpr Duration kLater = milliseconds(200);
  launch(Collective::kAllReduce, 7);
  pass(kLater);
  launch(Collective::kAllReduce, 8);
  pass(kLong - kLater);
  EXPECT_EQ(said().size(), 1U);
  pass(kLong / 2 - kTick);
  EXPECT_EQ(said().size(), 1U);
  pass(kTick);
  ASSERT_EQ(said().size(), 2U);
  EXPECT_EQ(said()[1].key, key(8));
  EXPECT_EQ(said()[1].age, kLong + kLong / 2 - kLater);
}

// A call was told that had moved a byte since, because the other calls had brought the next look forward.
TEST_F(LongWaits, ACallThatHasMovedAByteInThreeHeartbeatsIsNotToldBesideOthers) {
  constexpr std::uint32_t kPiece = 1024;
  constexpr std::uint64_t kAll = std::uint64_t{30} * kPiece / sizeof(float);
  launch(Collective::kAllReduce, 7, kAll, kAll);
  const std::uint64_t right = checksum(std::vector<std::byte>(kPiece, std::byte{1}));
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (std::uint64_t tag = 100; tag < 103; ++tag) {
      launch(Collective::kBarrier, tag);
      pass(milliseconds(400));
    }
    low->say_segment({key(7), AttemptId{1}, wire::Phase::kReduceScatter, SegmentIndex{20 + i}, kPiece}, std::byte{1},
                     right);
  }
  EXPECT_FALSE(said().empty());
  for (const wire::CallWaits& told : said()) EXPECT_NE(told.key, key(7));
}

TEST_F(LongWaits, AQuestionIsAnsweredAtOnce) {
  asks(key(7));
  ASSERT_EQ(said().size(), 1U);
  EXPECT_EQ(said()[0].stage, CallStage::kToCome);
  EXPECT_EQ(said()[0].busy, "in no call");
  launch(Collective::kAllReduce, 8);
  asks(key(7));
  EXPECT_EQ(said()[1].busy, "in all_reduce with tag 8");
  launch(Collective::kAllReduce, 7);
  asks(key(7));
  EXPECT_EQ(said()[2].stage, CallStage::kCalled);
  pass(kLong);
  EXPECT_EQ(said().size(), 4U) << "of the two calls, the one with tag 8 is news";
  asks(key(9), Generation{4});
  EXPECT_EQ(said().size(), 4U) << "of an attempt that this peer does not know";
}

TEST_F(LongWaits, ARoundThatIsOverIsCalledSo) {
  expect_alive(7);
  asks(key(7));
  ASSERT_EQ(said().size(), 1U);
  EXPECT_EQ(said()[0].stage, CallStage::kOver);
  asks(key(7, 1));
  EXPECT_EQ(said()[1].stage, CallStage::kToCome);
}

TEST_F(LongWaits, AMemberInATransferSaysSo) {
  (void)me.receive(kLow, Tag{3}, 100);
  asks(key(7));
  ASSERT_EQ(said().size(), 1U);
  EXPECT_EQ(said()[0].busy, "in recv of u8 [100] with tag 3 from p1");
  launch(Collective::kBarrier, 8);
  asks(key(7));
  EXPECT_EQ(said()[1].busy, "in barrier with tag 8");
}

// Rule 43. Rank 1 sends the first segment of a small all-reduce. The others send nothing before they have received, so
// whoever keeps the call in a queue upstream would not hear of it.
TEST(SilentRounds, ASmallRoundThatMovesNothingIsAnnouncedToUpstream) {
  for (const std::vector<PeerId>& ring : {std::vector{kMe, kHigh, kLow}, std::vector{kHigh, kLow, kMe}}) {
    Peer3 run(options(), ring);
    const auto pass = [&](Duration time) {
      run.me.pass(time);
      run.me.run();
    };
    run.launch(Collective::kAllReduce, 7, 1, 3);
    EXPECT_EQ(run.low->count<wire::Ready>(), 0U);
    pass(PeerOptions{}.link_heartbeat / 4 - kTick);
    EXPECT_EQ(run.low->count<wire::Ready>(), 0U);
    pass(kTick);
    ASSERT_EQ(run.low->count<wire::Ready>(), 1U);
    EXPECT_EQ(run.low->last<wire::Ready>()->key, Peer3::key(7));
    pass(PeerOptions{}.link_heartbeat);
    EXPECT_EQ(run.low->count<wire::Ready>(), 1U) << "once";
  }
}

TEST_F(LongWaits, AMemberInAdmitSaysSo) {
  (void)me.admit(2);
  asks(key(7));
  ASSERT_EQ(said().size(), 1U);
  EXPECT_EQ(said()[0].busy, "in admit");
}

TEST_F(LongWaits, WhatTheCoordinatorSaysIsNoted) {
  coordinator->say(wire::CallAwaited{key(), Generation{1}, Collective::kBarrier, 1, "barrier waits for p9"});
  me.run();
  const auto noted = std::find_if(me.events.begin(), me.events.end(),
                                  [](const trace::Event& event) { return event.kind == trace::Kind::kCallWaits; });
  ASSERT_NE(noted, me.events.end());
  EXPECT_EQ(noted->text, "barrier waits for p9");
  EXPECT_EQ(noted->number, 1U);
}

TEST_F(LongWaits, TransfersAreListedWhileTheyWait) {
  const auto lists = [&] { return coordinator->all<wire::TransfersWait>(); };
  const CallId receive = me.receive(kLow, Tag{3}, 100);
  pass(kLong - kTick);
  const CallId send = me.send(kHigh, Tag{4}, 100'000);
  pass(kTick);
  ASSERT_EQ(lists().size(), 1U);
  EXPECT_EQ(lists()[0].transfers, (std::vector<wire::TransferWait>{{kLow, Tag{3}, true, kLong}}));
  pass(kLong);
  ASSERT_EQ(lists().size(), 2U);
  ASSERT_EQ(lists()[1].transfers.size(), 2U);
  EXPECT_EQ(lists()[1].transfers[1].other, kHigh);
  EXPECT_FALSE(lists()[1].transfers[1].receives);
  me.stop(receive);
  me.stop(send);
  me.run();
  ASSERT_EQ(lists().size(), 3U);
  EXPECT_TRUE(lists()[2].transfers.empty());
  std::vector<std::string> noted;
  for (const trace::Event& event : me.events) {
    if (event.kind == trace::Kind::kCallWaits) noted.push_back(event.text);
  }
  ASSERT_EQ(noted.size(), 2U);
  EXPECT_EQ(noted[0], "recv of u8 [100] with tag 3 from p1 has waited 3.0 s: p1 has not sent it");
}

}  // namespace
}  // namespace lockstep::peer
