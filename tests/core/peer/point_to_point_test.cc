// Transfers with a neighbour that the test plays: what goes when, what happens to lies, and how calls end.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "core/kernels/checksum.h"
#include "tests/core/peer/peer3.h"
#include "tests/support/sanitized.h"

namespace lockstep::peer {
namespace {

constexpr Tag kTag{3};

wire::SendOffer offer_of(std::uint64_t number, std::uint64_t count, bool eager, Tag tag = kTag) {
  return {.number = number,
          .id = number,
          .tag = tag,
          .type = DataType::kU8,
          .count = count,
          .segment_bytes = 1024,
          .eager = eager};
}

wire::SendReport report_of(std::uint64_t number, std::uint64_t heard, std::uint64_t id, wire::SendState state,
                           Status status = Status::kOk, std::string text = {}) {
  return {number, heard, id, state, status, std::move(text)};
}

wire::Segment segment_of(std::uint64_t id, std::uint32_t index, std::uint32_t length) {
  return {wire::send_key(id), {}, wire::Phase::kTransfer, SegmentIndex{index}, length};
}

std::uint64_t checksum_of(std::size_t length) { return checksum(std::vector<std::byte>(length, std::byte{9})); }

class Transfers : public ::testing::Test {
 public:
  void says(const wire::Message& message) {
    run->low->say(message);
    run->me.run();
  }
  void sends(std::uint64_t id, std::uint32_t index, std::uint32_t length) {
    run->low->say_segment(segment_of(id, index, length), std::byte{9}, checksum_of(length));
    run->me.run();
  }
  [[nodiscard]] Status status(CallId call) const {
    return run->me.outcome(call) == nullptr ? Status::kInternal : run->me.outcome(call)->status;
  }
  [[nodiscard]] bool is_open(CallId call) const { return run->me.outcome(call) == nullptr; }
  [[nodiscard]] bool holds_nines(CallId call) const {
    const auto bytes = run->me.received(call);
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{9}; });
  }

  std::unique_ptr<Peer3> run = std::make_unique<Peer3>();
};

TEST_F(Transfers, ASmallSendGoesWithItsOfferAndEndsWithItsReport) {
  const CallId call = run->me.send(kLow, kTag, 100);
  run->me.run();
  const auto* offer = run->low->last<wire::SendOffer>();
  ASSERT_NE(offer, nullptr);
  EXPECT_TRUE(offer->eager);
  EXPECT_TRUE(is_open(call));
  says(report_of(1, 1, 1, wire::SendState::kHeld));
  EXPECT_EQ(status(call), Status::kOk);
}

// Rule 47.
TEST_F(Transfers, ALargeSendWaitsForItsReceive) {
  const CallId call = run->me.send(kLow, kTag, 3000);
  run->me.run();
  ASSERT_NE(run->low->last<wire::SendOffer>(), nullptr);
  EXPECT_FALSE(run->low->last<wire::SendOffer>()->eager);
  EXPECT_EQ(run->low->last<wire::Segment>(), nullptr);
  says(wire::SendReady{1, {0b010}});
  says(report_of(1, 1, 1, wire::SendState::kReceived));
  EXPECT_EQ(status(call), Status::kOk);
}

// Rule 47.
TEST_F(Transfers, ASmallTensorWaitsInTheEarlyBufferForItsReceive) {
  run->low->say(offer_of(1, 100, true));
  sends(1, 0, 100);
  ASSERT_NE(run->low->last<wire::SendReport>(), nullptr);
  EXPECT_EQ(run->low->last<wire::SendReport>()->state, wire::SendState::kHeld);
  const CallId other = run->me.receive(kLow, Tag{4}, 100);
  const CallId call = run->me.receive({}, kTag, 100);
  run->me.run();
  EXPECT_TRUE(is_open(other));
  EXPECT_EQ(status(call), Status::kOk);
  EXPECT_EQ(run->me.outcome(call)->transfer.partner, kLow);
  EXPECT_TRUE(holds_nines(call));
  EXPECT_EQ(run->low->last<wire::SendReport>()->state, wire::SendState::kFreed);
}

TEST_F(Transfers, ALargeTensorLandsInItsReceiveSegmentBySegment) {
  says(offer_of(1, 2500, false));
  const CallId call = run->me.receive(kLow, kTag, 2500);
  run->me.run();
  ASSERT_NE(run->low->last<wire::SendReady>(), nullptr);
  sends(1, 2, 452);
  sends(1, 0, 1024);
  EXPECT_TRUE(is_open(call));
  sends(1, 0, 1024);  // a second time: to the sink
  sends(1, 1, 1024);
  EXPECT_EQ(status(call), Status::kOk);
  EXPECT_TRUE(holds_nines(call));
  EXPECT_EQ(run->low->last<wire::SendReport>()->state, wire::SendState::kReceived);
}

// Rule 45.
TEST_F(Transfers, RepeatedAndEarlyMessagesAreNotTaken) {
  const CallId first = run->me.receive(kLow, kTag, 8);
  const CallId second = run->me.receive(kLow, kTag, 16);
  says(offer_of(2, 16, true));  // 1 is missing
  says(offer_of(1, 8, true));
  says(offer_of(1, 8, true));
  sends(1, 0, 8);
  EXPECT_EQ(status(first), Status::kOk);
  EXPECT_TRUE(is_open(second));
  says(offer_of(2, 16, true));
  sends(2, 0, 16);
  EXPECT_EQ(status(second), Status::kOk);
}

// A link of two stripes. The sender has lost the first stream before its receiver sees that, and sends again.
class TwoCopies : public Transfers {
 public:
  TwoCopies() {
    run->low = &run->dial_in(kLow, 0, 2);
    other = &run->dial_in(kLow, 1, 2);
    says(offer_of(1, 100, true));
  }
  // All of the only segment but its last byte.
  void begins_first_copy() {
    FarEnd whole({}, {});
    whole.say_segment(segment_of(1, 0, 100), std::byte{9}, checksum_of(100));
    run->low->say_bytes(whole.said().first(whole.said().size() - 1));
    run->me.run();
  }
  void sends_second_copy() {
    other->say(offer_of(1, 100, true));
    other->say_segment(segment_of(1, 0, 100), std::byte{9}, checksum_of(100));
    run->me.run();
  }
  void expect_asked_on_the_second_stream() {
    ASSERT_NE(other->last<wire::SendReady>(), nullptr);
    EXPECT_EQ(other->last<wire::SendReady>()->id, 1U);
    EXPECT_TRUE(other->last<wire::SendReady>()->have.empty());
  }

  FarEnd* other = nullptr;
};

TEST_F(TwoCopies, AReceiveAsksAgainWhenTheFirstCopyIsLostWithItsStream) {
  const CallId call = run->me.receive(kLow, kTag, 100);
  begins_first_copy();
  sends_second_copy();
  EXPECT_EQ(other->last<wire::SendReady>(), nullptr);
  run->low->hang_up();
  run->me.run();
  expect_asked_on_the_second_stream();
  sends_second_copy();
  EXPECT_EQ(status(call), Status::kOk);
  EXPECT_TRUE(holds_nines(call));
}

TEST_F(TwoCopies, TheEarlyBufferAsksAgainWhenTheFirstCopyIsLostWithItsStream) {
  begins_first_copy();
  sends_second_copy();
  run->low->hang_up();
  run->me.run();
  expect_asked_on_the_second_stream();
  sends_second_copy();
  const CallId call = run->me.receive(kLow, kTag, 100);
  run->me.run();
  EXPECT_EQ(status(call), Status::kOk);
  EXPECT_TRUE(holds_nines(call));
}

TEST_F(TwoCopies, AReceiveAsksAgainWhenTheFirstCopyIsCorrupt) {
  const CallId call = run->me.receive(kLow, kTag, 100);
  run->me.jobs_held = true;
  run->low->say_segment(segment_of(1, 0, 100), std::byte{8}, checksum_of(100));
  run->me.run();
  sends_second_copy();
  run->me.jobs_held = false;
  run->me.run();
  EXPECT_TRUE(run->low->shown_out());
  expect_asked_on_the_second_stream();
  sends_second_copy();
  EXPECT_EQ(status(call), Status::kOk);
  EXPECT_TRUE(holds_nines(call));
}

TEST_F(TwoCopies, NothingIsAskedForWhenThereIsNoSecondCopy) {
  const CallId call = run->me.receive(kLow, kTag, 100);
  begins_first_copy();
  run->low->hang_up();
  run->me.run();
  EXPECT_EQ(other->last<wire::SendReady>(), nullptr);
  sends_second_copy();
  EXPECT_EQ(status(call), Status::kOk);
  EXPECT_EQ(other->last<wire::SendReady>(), nullptr);
}

// Rule 46.
TEST_F(Transfers, DifferingCountsEndBothWithTheNamesOfBoth) {
  const CallId call = run->me.receive(kLow, kTag, 8);
  says(offer_of(1, 9, false));
  EXPECT_EQ(status(call), Status::kMismatch);
  const auto* report = run->low->last<wire::SendReport>();
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->state, wire::SendState::kRefused);
  EXPECT_EQ(report->text, run->me.outcome(call)->text);
  EXPECT_NE(report->text.find("p1 sends u8 [9], me receives u8 [8]"), std::string::npos) << report->text;
}

TEST_F(Transfers, AnAbortTellsTheOtherSide) {
  const CallId sent = run->me.send(kLow, kTag, 3000);
  run->me.run();
  run->me.stop(sent, "enough");
  run->me.run();
  EXPECT_EQ(status(sent), Status::kAborted);
  EXPECT_EQ(run->low->last<wire::SendReport>()->state, wire::SendState::kWithdrawn);
  says(report_of(1, 2, 1, wire::SendState::kRefused, Status::kAborted, "x"));
  const CallId received = run->me.receive(kLow, kTag, 2000);
  wire::SendOffer offer = offer_of(2, 2000, false);  // reports and offers share their numbers
  offer.id = 1;
  says(offer);
  EXPECT_TRUE(is_open(received));
  says(report_of(3, 2, 1, wire::SendState::kWithdrawn, Status::kTimedOut, "late"));
  EXPECT_EQ(status(received), Status::kTimedOut);
  EXPECT_EQ(run->me.outcome(received)->text, "late");
}

// Rule 48.
TEST_F(Transfers, TheLossOfThePartnerEndsATransferAndAThirdLossDoesNot) {
  const CallId with_low = run->me.receive(kLow, kTag, 8);
  const CallId with_high = run->me.send(kHigh, kTag, 8000);
  run->me.run();
  run->install(run->loss_of(kHigh));
  EXPECT_TRUE(is_open(with_low));
  EXPECT_EQ(status(with_high), Status::kPeerLost);
  EXPECT_NE(run->me.outcome(with_high)->text.find("p9 was lost"), std::string::npos);
}

// Members across the ring, for which this peer keeps links for direct calls. The other side may have no such link: a
// newcomer has not made a direct call yet (rule 44).
class TransfersAcross : public ::testing::Test {
 protected:
  static constexpr PeerId kDials{3, 3};
  static constexpr PeerId kIsDialled{7, 7};

  TransfersAcross() {
    run.me.launch(direct_all_reduce(), 12);
    run.me.run();
  }
  // The greeting of the next dial to this member. Nothing: there is none.
  const wire::Link* greeting_to(PeerId to) {
    const FarEnd* const end = next_stream_to(to);
    return end == nullptr ? nullptr : end->last<wire::Link>();
  }
  const FarEnd* next_stream_to(PeerId to) {
    run.me.pass(milliseconds(20));
    run.me.run();
    for (FarEnd* end : run.me.streams.dialling()) {
      if (end->dialled() != address_of(static_cast<std::uint8_t>(to.low))) continue;
      run.me.streams.open(*end);
      run.me.run();
      return end;
    }
    return nullptr;
  }

  Peer3 run{options(), {kLow, kMe, kHigh, kDials, kIsDialled}, true, kFar, false};
};

TEST_F(TransfersAcross, KnockAtAMemberThatDials) {
  EXPECT_EQ(greeting_to(kDials), nullptr);
  run.me.send(kDials, kTag, 100);
  const wire::Link* const knock = greeting_to(kDials);
  ASSERT_NE(knock, nullptr);
  EXPECT_EQ(knock->use, wire::LinkUse::kTransfer);
}

TEST_F(TransfersAcross, GreetAgainWithTheirUse) {
  const FarEnd* const stream = next_stream_to(kIsDialled);
  ASSERT_NE(stream, nullptr);
  ASSERT_NE(stream->last<wire::Link>(), nullptr);
  EXPECT_EQ(stream->last<wire::Link>()->use, wire::LinkUse::kDirect);
  run.me.send(kIsDialled, kTag, 100);
  run.me.run();
  EXPECT_EQ(stream->last<wire::Link>()->use, wire::LinkUse::kTransfer);
  EXPECT_EQ(greeting_to(kIsDialled), nullptr) << "no other stream";
}

// Neighbours want their link on both sides.
TEST_F(TransfersAcross, LeaveTheLinkOfANeighbourAlone) {
  run.me.send(kLow, kTag, 100);
  run.me.run();
  EXPECT_FALSE(run.low->shown_out());
  run.low->hang_up();
  run.me.run();
  EXPECT_EQ(greeting_to(kLow), nullptr);
}

// Rule 48.
TEST_F(Transfers, ALeaveWaitsForItsSends) {
  const CallId sent = run->me.send(kLow, kTag, 100);
  const CallId never = run->me.receive(kLow, kTag, 8);
  run->me.run();
  (void)run->me.leave();
  run->me.run();
  EXPECT_EQ(status(never), Status::kNotConnected);
  EXPECT_EQ(run->coordinator->last<wire::Leave>(), nullptr);
  says(report_of(1, 1, 1, wire::SendState::kHeld));
  EXPECT_EQ(status(sent), Status::kOk);
  EXPECT_NE(run->coordinator->last<wire::Leave>(), nullptr);
}

TEST_F(Transfers, ATimeOutNamesTheCallAndWhatItWaitsFor) {
  const CallId call = run->me.receive(kLow, kTag, 8, milliseconds(30));
  run->me.pass(milliseconds(30));
  run->me.run();
  EXPECT_EQ(status(call), Status::kTimedOut);
  EXPECT_EQ(run->me.outcome(call)->text,
            "recv of u8 [8] with tag 3 from p1: me timed out after 30 ms: p1 has not sent it");
}

// A sender offers so many before some are received. The receive of a later one cannot end, and its text does not blame
// the sender.
TEST_F(Transfers, ATimeOutSaysThatTheSenderMayOfferNoMore) {
  for (std::uint64_t i = 1; i <= kMaxOffers; ++i) run->low->say(offer_of(i, 20'000, false));
  run->me.run();
  const Tag later{4};
  const CallId call = run->me.receive(kLow, later, 8, milliseconds(30));
  run->me.pass(milliseconds(30));
  run->me.run();
  EXPECT_EQ(run->me.outcome(call)->text,
            "recv of u8 [8] with tag 4 from p1: me timed out after 30 ms: 16384 sends of p1 wait here to be received, "
            "and it offers no more before: receive these first");
}

// A peer that takes quadratic time for them is silent for so long that it is evicted. The first 16,384 are offered, the
// others are not. Of two tries the shorter counts.
TEST(ManySends, TheLossOfTheirReceiverCostsTimeInProportion) {
  const auto time_of = [](std::size_t sends) {
    auto least = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 2; ++i) {
      Peer3 run;
      std::vector<CallId> calls;
      for (std::size_t n = 0; n < sends; ++n) calls.push_back(run.me.send(kHigh, kTag, 8));
      for (int k = 0; k < 100; ++k) run.me.run();
      const auto begin = std::chrono::steady_clock::now();
      run.install(run.loss_of(kHigh));
      least = std::min(least, std::chrono::steady_clock::now() - begin);
      EXPECT_NE(run.me.outcome(calls.back()), nullptr);
    }
    return std::chrono::duration<double>(least).count();
  };
  const double few = time_of(17'000);
  EXPECT_LT(time_of(100'000 / kShare), few * 15);
}

// S11: a program may take its time to receive.
TEST_F(Transfers, SendsThatNoReceiveHasTakenCountAsAwaited) {
  const auto others = [&] {
    const Holdings held = run->me.holdings();
    return held.entries - held.awaited - held.spare;
  };
  says(offer_of(1, 5, true));
  sends(1, 0, 5);
  const std::size_t before = others();
  for (std::uint64_t i = 2; i <= 20; ++i) {
    says(offer_of(i, 5, true));
    sends(i, 0, 5);
  }
  EXPECT_EQ(others(), before);
}

// Rule 35.
TEST_F(Transfers, ATensorThatChangesDuringItsSendEndsBothCallsWithTheReason) {
  for (const std::uint64_t count : {100U, 3000U}) {
    run = std::make_unique<Peer3>();
    const CallId call = run->me.send(kLow, kTag, count);
    run->me.run();
    if (count > 1024) says(wire::SendReady{1, {}});
    EXPECT_GT(run->low->segments_heard(), 0U);
    run->me.rewrite(call);
    run->low->hang_up();
    run->me.run();
    run->low = &run->dial_in(kLow);
    if (count > 1024) says(wire::SendReady{1, {}});
    EXPECT_EQ(run->low->segments_heard(), 0U);
    ASSERT_EQ(status(call), Status::kInvalidArgument);
    EXPECT_NE(run->me.outcome(call)->text.find("the tensor changed during the send of me"), std::string::npos);
    ASSERT_NE(run->low->last<wire::SendReport>(), nullptr);
    EXPECT_EQ(run->low->last<wire::SendReport>()->state, wire::SendState::kWithdrawn);
    EXPECT_EQ(run->low->last<wire::SendReport>()->text, run->me.outcome(call)->text);
  }
}

// Rule 35.
TEST_F(Transfers, ASegmentThatArrivesWrongThreeTimesEndsTheTransfer) {
  const CallId call = run->me.receive(kLow, kTag, 2500);
  for (int times = 0; times < 3; ++times) {
    EXPECT_TRUE(is_open(call)) << times;
    says(offer_of(1, 2500, false));
    run->low->say_segment(segment_of(1, 0, 1024), std::byte{8}, checksum_of(1024));
    run->me.run();
    EXPECT_TRUE(run->low->shown_out());
    run->low = &run->dial_in(kLow);
  }
  ASSERT_FALSE(is_open(call));
  EXPECT_EQ(status(call), Status::kInternal);
  EXPECT_NE(run->me.outcome(call)->text.find("again and again with a wrong checksum"), std::string::npos);
}

TEST_F(Transfers, LiesEndTheirStream) {
  const std::function<void(Transfers&)> lies[] = {
      [](Transfers& t) { t.says(report_of(1, 0, 1, wire::SendState::kReceived)); },
      [](Transfers& t) { t.says(report_of(1, 0, 1, wire::SendState::kFreed)); },
      [](Transfers& t) {
        t.says(wire::SendReady{1, {}});
      },
      [](Transfers& t) { t.says(wire::SendsHeard{5}); },
      [](Transfers& t) { t.says(offer_of(1, 20'000, true)); },
      [](Transfers& t) { t.says(offer_of(1, std::uint64_t{1} << 40U, false)); },
      [](Transfers& t) {
        auto offer = offer_of(1, 5, false);
        offer.id = 2;
        t.says(offer);
      },
      [](Transfers& t) {
        auto offer = offer_of(1, 5, false);
        offer.segment_bytes = 0;
        t.says(offer);
      },
      [](Transfers& t) {
        for (std::uint64_t i = 1; i <= kMaxEagerSends + 1; ++i) t.says(offer_of(i, 5, true));
      },
      [](Transfers& t) {
        for (std::uint64_t i = 1; i <= kMaxOffers + 1; ++i) t.run->low->say(offer_of(i, 5, false));
        t.run->me.run();
        t.run->me.run();
      },
      [](Transfers& t) {
        t.says(offer_of(1, 100, true));
        t.sends(1, 1, 100);
      },
      [](Transfers& t) {
        t.says(offer_of(1, 100, true));
        t.sends(1, 0, 99);
      },
  };
  for (const auto& lie : lies) {
    run = std::make_unique<Peer3>();
    const auto streams = run->me.footprint().streams;
    lie(*this);
    run->me.run();
    EXPECT_LT(run->me.footprint().streams, streams) << &lie - lies;
  }
}

}  // namespace
}  // namespace lockstep::peer
