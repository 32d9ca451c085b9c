// Rule 51 of docs/protocol.md: what counts as progress of a stream.
#include "core/wire/progress.h"

#include <gtest/gtest.h>

#include <utility>

namespace lockstep::wire {
namespace {

constexpr Duration kBeat = milliseconds(500);
constexpr Instant at(std::int64_t ms) { return Instant{} + milliseconds(ms); }

struct Line {
  Progress progress{Instant{}};
  std::uint64_t frames = 0;
  void bytes(std::int64_t ms, std::size_t count) { progress.came(count, frames, true, at(ms)); }
  void frame(std::int64_t ms, std::size_t count = 32) {
    bytes(ms, count);
    progress.settle(++frames);
  }
  bool look(std::int64_t ms) { return progress.is_nearly_dead(at(ms), kBeat, kLimit); }
  // At two looks, the first at this time.
  [[nodiscard]] bool is_nearly_dead(std::int64_t ms) const {
    Line copy = *this;
    EXPECT_FALSE(copy.look(ms));
    return copy.look(ms + 125);
  }
  static constexpr Duration kLimit = milliseconds(1000);
};

TEST(Progress, ABeatAndAnotherMayPassAndRoundTripsAreAdded) {
  EXPECT_EQ(Progress::limit(kBeat, {}, seconds(4)), milliseconds(1000));
  EXPECT_EQ(Progress::limit(kBeat, milliseconds(100), seconds(4)), milliseconds(1400));
  EXPECT_EQ(Progress::limit(kBeat, seconds(2), seconds(4)), seconds(4));                 // never longer than before
  EXPECT_EQ(Progress::limit(milliseconds(10), {}, seconds(4)), milliseconds(300));       // nor shorter than a busy host
  EXPECT_EQ(Progress::limit(milliseconds(10), {}, milliseconds(80)), milliseconds(80));  // unless it was told so
}

TEST(Progress, AByteNowAndThenIsNone) {
  Line line;
  line.frame(0);
  line.bytes(900, 1);
  EXPECT_FALSE(line.is_nearly_dead(999));
  EXPECT_TRUE(line.is_nearly_dead(1000));
  line.bytes(1900, 1);
  EXPECT_TRUE(line.is_nearly_dead(1900));
  EXPECT_EQ(line.progress.words(at(1900)), "2 bytes in 1900 ms, and no message came to its end");
}

TEST(Progress, ADripIsAByteInTheSecondHalfOfTheLimit) {
  for (const std::int64_t ms : {499, 500}) {
    Line line;
    line.frame(0);
    line.bytes(ms, 1);
    EXPECT_EQ(line.is_nearly_dead(1000), ms == 500);
  }
}

// A machine that stood still, for less than it notices, has read a part of what lies before it.
TEST(Progress, APartThatIsReadLateIsNotADrip) {
  Line line;
  line.frame(0);
  line.bytes(1300, 15);
  EXPECT_FALSE(line.look(1300));
  line.frame(1301, 17);
  EXPECT_FALSE(line.look(1425));
  line.bytes(2250, 1);
  EXPECT_FALSE(line.look(2301));  // a first look again
  EXPECT_TRUE(line.look(2426));
}

TEST(Progress, ASecondLookThatIsLateIsAFirstOne) {
  Line line;
  line.frame(0);
  line.bytes(900, 1);
  EXPECT_FALSE(line.look(1000));
  EXPECT_FALSE(line.look(1251));
  EXPECT_FALSE(line.look(1300));  // too early
  EXPECT_TRUE(line.look(1376));
  Line in_time;
  in_time.frame(0);
  in_time.bytes(900, 1);
  EXPECT_FALSE(in_time.look(1000));
  EXPECT_TRUE(in_time.look(1250));
}

// A quarter of a heartbeat lies between two looks, and at least 25 ms.
TEST(Progress, LooksAreAtLeastTwentyFiveMillisecondsApart) {
  for (const auto& one : {std::pair{400, 100}, std::pair{104, 26}, std::pair{100, 25}, std::pair{40, 25}}) {
    const int beat = one.first;
    const int apart = one.second;
    Line line;
    line.frame(0);
    line.bytes(900, 1);
    const auto look = [&](std::int64_t ms) {
      return line.progress.is_nearly_dead(at(ms), milliseconds(beat), Line::kLimit);
    };
    EXPECT_FALSE(look(1000));
    EXPECT_FALSE(look(1000 + apart - 1)) << beat;
    EXPECT_TRUE(look(1000 + apart)) << beat;
    EXPECT_EQ(line.progress.look_at(at(1000), milliseconds(beat), Line::kLimit), at(1000 + apart)) << beat;
  }
}

TEST(Progress, SilenceIsNotADrip) {
  Line line;
  line.frame(0);
  EXPECT_FALSE(line.is_nearly_dead(3000));
  line.bytes(3000, 20);  // a part of a message, the rest of which is behind it
  line.frame(3001, 12);
  EXPECT_FALSE(line.is_nearly_dead(3900));
}

// A sender that stands still in the middle of a large write: the last bytes of its socket have come with the others.
TEST(Progress, ASenderThatStandsStillIsNotADrip) {
  Line line;
  line.frame(0);
  line.bytes(10, 60'000);
  line.bytes(11, 17);
  EXPECT_FALSE(line.is_nearly_dead(2500));
}

TEST(Progress, ASlowLineMakesProgress) {
  Line line;
  line.frame(0);
  for (int ms = 100; ms <= 60'000; ms += 100) {  // 2 kB/s, in the middle of one segment
    line.bytes(ms, 200);
    EXPECT_FALSE(line.is_nearly_dead(ms));
  }
  const Progress::Busy busy = line.progress.take_busy();
  EXPECT_EQ(busy.bytes, 32U + 600 * 200U);
  EXPECT_EQ(busy.time, seconds(60));
  EXPECT_EQ(line.progress.take_busy().bytes, 0U);
}

TEST(Progress, FiveHundredAndTwelveBytesAreProgressWithoutAFrame) {
  for (const std::size_t bytes : {511U, 512U}) {
    Line line;
    line.bytes(100, 1);
    line.bytes(200, bytes - 1);
    EXPECT_EQ(line.progress.since(), at(bytes == 512 ? 200 : 0)) << bytes;
  }
}

// A sixteenth of a long pause is forgotten with each sign of progress.
TEST(Progress, ThePauseIsKnownFromTheFourthSignOfProgressOn) {
  Line line;
  for (const int ms : {1600, 1601, 1602}) line.frame(ms);
  EXPECT_EQ(line.progress.pause(), Duration{});
  line.frame(1603);
  EXPECT_EQ(line.progress.pause(), nanoseconds(1'600'000'000LL * 15 * 15 * 15 / 4096));
}

TEST(Progress, FramesAreProgressHoweverSmall) {
  Line line;
  for (int ms = 0; ms <= 10'000; ms += 500) line.frame(ms);
  EXPECT_EQ(line.progress.since(), at(10'000));
  EXPECT_EQ(line.progress.pause(), kBeat);
  EXPECT_EQ(Line{}.progress.pause(), Duration{});
}

TEST(Progress, AStreamThatIsOverdueIsLookedAtSooner) {
  Line line;
  line.frame(0);
  EXPECT_EQ(line.progress.look_at(at(625), kBeat, Line::kLimit), kNever);
  EXPECT_EQ(line.progress.look_at(at(626), kBeat, Line::kLimit), at(1000));
  EXPECT_EQ(line.progress.look_at(at(700), kBeat, Line::kLimit), at(1000));
  EXPECT_EQ(line.progress.look_at(at(1000), kBeat, Line::kLimit), at(1125));
  line.progress.forgive(at(1100));
  EXPECT_EQ(line.progress.look_at(at(1100), kBeat, Line::kLimit), kNever);
}

}  // namespace
}  // namespace lockstep::wire
