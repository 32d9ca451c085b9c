#include "sim/checkers/s9_rate.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

class S9Rate : public testing::Test {
 protected:
  static constexpr std::uint64_t kRate = 1000;    // bytes a second
  static constexpr std::uint64_t kSegment = 100;  // bytes
  static constexpr std::uint64_t kAhead = 20;     // bytes that go in 20 ms
  static constexpr StreamId kStream{2};
  static constexpr StreamId kOther{4};

  void lend(StreamId stream, std::uint64_t control, std::uint64_t largest, Duration at = {}) {
    sent_.lent(stream, control, largest, Instant{} + at);
  }
  Complaint written(StreamId stream, std::uint64_t bytes, Duration at = {}, std::uint64_t segment_bytes = kSegment) {
    return sent_.written(stream, bytes, kRate, segment_bytes, Instant{} + at);
  }
  // One write of payload alone.
  Complaint sends(std::uint64_t bytes, Duration at = {}, std::uint64_t largest = kSegment) {
    lend(kStream, 0, largest, at);
    return written(kStream, bytes, at);
  }

  SentPayload sent_;
};

TEST_F(S9Rate, OneSegmentGoesWholeAndAPeerMayBeAheadOfItsTime) {
  EXPECT_FALSE(sends(kSegment + kAhead));
  EXPECT_TRUE(sends(1));
}

TEST_F(S9Rate, EachSecondAllowsTheBytesOfTheRate) {
  EXPECT_FALSE(sends(0));
  EXPECT_FALSE(sends(kRate + kSegment + kAhead, seconds(1)));
  EXPECT_TRUE(sends(1, seconds(1)));
  EXPECT_FALSE(sends(kRate - 1, seconds(2)));
  EXPECT_TRUE(sends(2, seconds(2) + milliseconds(1)));
}

TEST_F(S9Rate, TimeCountsFromTheFirstWrite) {
  EXPECT_FALSE(sends(kSegment + kAhead, seconds(60)));
  EXPECT_TRUE(sends(1, seconds(60)));
}

TEST_F(S9Rate, AWholeTensorMayBeLargerThanASegment) {
  constexpr std::uint64_t kTensor = 7 * kSegment;
  EXPECT_FALSE(sends(kTensor + kAhead, {}, kTensor));
  EXPECT_TRUE(sends(1));
}

// The rest of a tensor, in a write of its own, is smaller.
TEST_F(S9Rate, AWholeTensorGoesInSeveralWrites) {
  constexpr std::uint64_t kTensor = 7 * kSegment;
  EXPECT_FALSE(sends(1, {}, kTensor));
  EXPECT_FALSE(sends(kTensor - 1 + kAhead, {}, kTensor - 1));
  EXPECT_TRUE(sends(1));
}

TEST_F(S9Rate, TheLibraryChoosesSegmentsOfAtMost256KiB) {
  constexpr std::uint64_t kMost = 262'144 + kAhead;
  lend(kStream, 0, kSegment);
  EXPECT_FALSE(written(kStream, kMost, {}, 0));
  lend(kStream, 0, kSegment);
  EXPECT_TRUE(written(kStream, 1, {}, 0));
}

TEST_F(S9Rate, ControlMessagesAreNotLimited) {
  lend(kStream, 5000, kSegment);
  EXPECT_FALSE(written(kStream, 4000)) << "a part of them";
  lend(kStream, 1000, kSegment);
  EXPECT_FALSE(written(kStream, 1000 + kSegment + kAhead));
  lend(kStream, 0, kSegment);
  EXPECT_TRUE(written(kStream, 1));
}

TEST_F(S9Rate, AllStreamsShareTheRate) {
  lend(kStream, 10, kSegment);
  lend(kOther, 30, kSegment);
  EXPECT_FALSE(written(kOther, 30 + kSegment));
  EXPECT_FALSE(written(kStream, 10 + kAhead));
  lend(kOther, 0, kSegment);
  EXPECT_TRUE(written(kOther, 1));
}

}  // namespace
}  // namespace lockstep::sim
