#include "core/peer/stream_count.h"

#include <gtest/gtest.h>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kMebibyte = 1U << 20U;

// A line that is always busy. It carries so much a second, and loses packets or not.
class BusyLine {
 public:
  explicit BusyLine(StreamCount& count) : count_(count) {}
  void pass(Duration time, std::uint64_t mib_per_s, bool loses = true) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ = now_ + kStep;
      all_.acknowledged += mib_per_s * kMebibyte / 10;
      all_.lost += loses ? 1 : 0;
      count_.written(all_, 1, now_);
    }
  }

 private:
  static constexpr Duration kStep = milliseconds(100);
  StreamCount& count_;
  Instant now_{10'000'000'000};
  io::Written all_{0, 10 * kMebibyte, 0};
};

TEST(StreamCount, GrowsWhileTheLineCarriesMore) {
  StreamCount count(2, 64, milliseconds(300), kMebibyte);
  BusyLine line(count);
  for (int times = 0; times < 50 && count.wanted() < 64; ++times) line.pass(milliseconds(500), count.wanted());
  EXPECT_EQ(count.wanted(), 64U);
  line.pass(seconds(60), 64);
  EXPECT_EQ(count.wanted(), 64U) << "the most";
}

TEST(StreamCount, GoesBackWhereMoreStreamsCarryNoMore) {
  StreamCount count(2, 64, milliseconds(300), kMebibyte);
  BusyLine line(count);
  std::uint16_t most = 0;
  for (int times = 0; times < 60; ++times) {
    line.pass(milliseconds(500), std::min<std::uint64_t>(count.wanted(), 8));
    most = std::max(most, count.wanted());
  }
  EXPECT_EQ(most, 16U) << "tried";
  line.pass(seconds(3), 8);
  EXPECT_EQ(count.wanted(), 8U);
}

// Attempts that do not pay come ever more rarely.
TEST(StreamCount, TriesMoreRarelyWhatDoesNotPay) {
  StreamCount count(2, 64, milliseconds(300), kMebibyte);
  BusyLine line(count);
  int attempts = 0;
  for (int tenths = 0; tenths < 6000; ++tenths) {  // ten minutes
    const std::uint16_t before = count.wanted();
    line.pass(milliseconds(100), 8);
    attempts += count.wanted() > before ? 1 : 0;
  }
  EXPECT_GE(attempts, 4);
  EXPECT_LE(attempts, 8);
}

TEST(StreamCount, StaysOnALineThatLosesNothing) {
  StreamCount count(2, 64, milliseconds(300), kMebibyte);
  BusyLine line(count);
  line.pass(seconds(600), 100, false);
  EXPECT_EQ(count.wanted(), 2U);
}

TEST(StreamCount, StaysAsTheCallerHasSaid) {
  for (const std::uint16_t most : std::initializer_list<std::uint16_t>{0, 3, 4}) {
    StreamCount count(4, most, milliseconds(300), kMebibyte);
    BusyLine line(count);
    line.pass(seconds(60), 100);
    EXPECT_EQ(count.wanted(), 4U) << most;
  }
}

TEST(StreamCount, ALineThatRestsTellsNothing) {
  StreamCount count(2, 64, milliseconds(300), kMebibyte);
  Instant now{10'000'000'000};
  io::Written all;
  for (int calls = 0; calls < 1000; ++calls) {  // each ends before a window does
    for (int step = 0; step < 3; ++step) {
      now = now + milliseconds(100);
      all.acknowledged += kMebibyte;
      all.outstanding = step == 2 ? 0 : kMebibyte;
      all.lost += 1;
      count.written(all, 1, now);
    }
  }
  EXPECT_EQ(count.wanted(), 2U);
}

// ---- links (rule 60 of docs/protocol.md) ----

PeerOptions wide_options() {
  PeerOptions wide = options();
  wide.most_stripes = 64;
  return wide;
}

class WideLinks : public ::testing::Test {
 protected:
  // Time in which this peer's line is busy and loses packets; it carries `mib_per_s`.
  void be_busy(Duration time, std::uint64_t mib_per_s) {
    for (Duration passed; passed < time; passed = passed + kStep) {
      written_.acknowledged += mib_per_s * kMebibyte / 10;
      written_.lost += 1;
      run_.me.streams.set_written(written_);
      run_.pass_heartbeats(kStep, silent_);
    }
  }
  // The dials to `high` that wait, each opened and welcomed.
  std::size_t welcome_all() {
    std::size_t dials = 0;
    while (FarEnd* const end = run_.welcome(kHigh)) {
      greetings_.push_back(*end->last<wire::Link>());
      dials += 1;
    }
    return dials;
  }

  static constexpr Duration kStep = milliseconds(100);
  Peer3 run_{wide_options(), {kLow, kMe, kHigh}};
  io::Written written_{0, 10 * kMebibyte, 0};
  std::vector<FarEnd*> silent_;
  std::vector<wire::Link> greetings_;
};

TEST_F(WideLinks, APeerDialsMoreStreamsOrAsksForThem) {
  be_busy(milliseconds(2100), 10);
  ASSERT_EQ(welcome_all(), 1U);
  EXPECT_EQ(greetings_.back().stripe, StripeIndex{1});
  EXPECT_EQ(greetings_.back().stripes, 2U);
  ASSERT_NE(run_.low->last<wire::Link>(), nullptr) << "which dials";
  EXPECT_EQ(run_.low->last<wire::Link>()->stripes, 2U);
  EXPECT_EQ(run_.low->last<wire::Link>()->to, kLow);
  FarEnd& second = run_.dial_in(kLow, 1, 2);
  EXPECT_NE(second.last<wire::LinkWelcome>(), nullptr);
  EXPECT_FALSE(run_.low->shown_out());
  be_busy(milliseconds(3200), 20);
  EXPECT_EQ(welcome_all(), 2U) << "twice as many pay";
  EXPECT_EQ(greetings_.back().stripes, 4U);
  run_.expect_alive();
}

// The side that dials may not want as many.
TEST_F(WideLinks, APeerAsksOnceForEachNumberOfStreamsAndAgainOnANewStream) {
  be_busy(milliseconds(2100) + milliseconds(1000), 10);
  EXPECT_EQ(run_.low->count<wire::Link>(), 1U);
  run_.low->hang_up();
  run_.me.run();
  run_.low = &run_.dial_in(kLow, 0, 1);
  be_busy(milliseconds(500), 10);
  EXPECT_EQ(run_.low->count<wire::Link>(), 1U);
}

TEST_F(WideLinks, TheOtherSideMayAskForAsManyAsThisOneAllows) {
  run_.high->say(wire::Link{kHigh, kMe, {}, 4, kKey});
  run_.me.run();
  EXPECT_EQ(welcome_all(), 3U);
  run_.high->say(wire::Link{kHigh, kMe, {}, 2, kKey});
  run_.me.run();
  EXPECT_EQ(welcome_all(), 0U) << "it has more";
  run_.high->say(wire::Link{kHigh, kMe, {}, 64, kKey});
  run_.me.run();
  EXPECT_EQ(welcome_all(), 60U);

  Peer3 fixed;
  fixed.high->say(wire::Link{kHigh, kMe, {}, 4, kKey});
  fixed.me.run();
  EXPECT_EQ(fixed.welcome(kHigh), nullptr) << "its caller has said how many";
  EXPECT_FALSE(fixed.high->shown_out());
}

// Where they come from may have no room for more.
TEST_F(WideLinks, StreamsThatCannotBeOpenedAreNoBrokenLink) {
  be_busy(milliseconds(2100), 10);
  ASSERT_FALSE(run_.me.streams.dialling().empty());
  for (int dials = 0; dials < 100; ++dials) {
    for (FarEnd* const end : run_.me.streams.dialling()) run_.me.streams.refuse(*end);
    run_.me.run();
    run_.pass_heartbeats(seconds(1));
  }
  EXPECT_EQ(run_.coordinator->last<wire::LinkBroken>(), nullptr);
  run_.expect_alive();
}

}  // namespace
}  // namespace lockstep::peer
