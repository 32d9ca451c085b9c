// No test depends on the speed of the machine: where time matters, it has passed already or is plentiful.
#include "transport/spin.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <system_error>
#include <vector>

namespace lockstep::transport {
namespace {

constexpr std::chrono::hours kAnHour(1);
constexpr std::chrono::nanoseconds kAnInstant(1);

class SpinTest : public ::testing::Test {
 protected:
  asio::io_context io{1};
  Crowd crowd;
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(io);
};

TEST_F(SpinTest, RunsOneHandlerAtATime) {
  int ran = 0;
  for (int i = 0; i < 2; ++i) asio::post(io, [&] { ++ran; });
  Spin spin(kAnHour, crowd);
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(spin.pays());
}

TEST_F(SpinTest, ASpinOfZeroAlwaysSleeps) {
  Spin spin(std::chrono::nanoseconds(0), crowd);
  EXPECT_FALSE(spin.pays());
  asio::post(io, [] {});
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_FALSE(spin.pays());
  EXPECT_EQ(spin.run_one(io, Clock::now()), 0U) << "nothing to run";
}

TEST_F(SpinTest, RunsNothingAfterTheDeadline) {
  asio::post(io, [] {});
  Spin spin(kAnHour, crowd);
  EXPECT_EQ(spin.run_one(io, Clock::now()), 0U);
  EXPECT_EQ(spin.run_one(io), 1U);
}

// A poll must include the reactor, not only posted handlers.
TEST_F(SpinTest, ATimerFiresWhileItPolls) {
  asio::steady_timer timer(io, kAnInstant);
  bool rang = false;
  timer.async_wait([&](std::error_code) { rang = true; });
  Spin spin(kAnHour, crowd);
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_TRUE(rang);
}

TEST_F(SpinTest, SleepsAfterALongWaitAndPollsAfterAShortOne) {
  Spin spin(kAnInstant, crowd);
  EXPECT_EQ(spin.run_one(io, Clock::now() + std::chrono::milliseconds(1)), 0U);
  EXPECT_FALSE(spin.pays());
  Spin patient(kAnHour, crowd);
  asio::steady_timer timer(io, std::chrono::milliseconds(1));
  timer.async_wait([](std::error_code) {});
  EXPECT_EQ(patient.run_one(io), 1U);
  EXPECT_TRUE(patient.pays());
}

TEST_F(SpinTest, DoesNotPollAStoppedReactor) {
  io.stop();
  Spin spin(kAnHour, crowd);
  EXPECT_EQ(spin.run_one(io), 0U);
}

TEST_F(SpinTest, DoesNotPollWhileOthersWantTheCore) {
  crowd.yielded(Clock::now() - kAnHour, Clock::now());
  Spin spin(kAnHour, crowd);
  EXPECT_EQ(spin.run_one(io, Clock::now() + std::chrono::milliseconds(1)), 0U) << "a poll would last an hour";
}

class CrowdTest : public ::testing::Test {
 protected:
  // A yield that took a slice of time. Returns how long nobody polls then.
  std::chrono::milliseconds pause_after_a_slice(std::chrono::milliseconds later) {
    const auto before = free_ + later;
    free_ = before + kSlice;
    crowd.yielded(before, free_);
    std::chrono::milliseconds pause(0);
    for (; crowd.wants_the_core(free_); free_ += std::chrono::milliseconds(1)) ++pause;
    return pause;
  }
  static constexpr std::chrono::milliseconds kSlice{1};
  Crowd crowd;

 private:
  Clock::time_point free_ = Clock::now();  // the end of the last pause
};

TEST_F(CrowdTest, YieldsAmongPeersDoNotCount) {
  const auto now = Clock::now();
  crowd.yielded(now, now + std::chrono::microseconds(100));
  EXPECT_FALSE(crowd.wants_the_core(now + std::chrono::microseconds(100)));
}

TEST_F(CrowdTest, PausesGrowWhileTheCrowdRemains) {
  using std::chrono::milliseconds;
  std::vector<milliseconds> pauses(8);
  for (milliseconds& pause : pauses) pause = pause_after_a_slice(milliseconds(1));
  EXPECT_EQ(pauses,
            (std::vector<milliseconds>{milliseconds(20), milliseconds(40), milliseconds(80), milliseconds(160),
                                       milliseconds(320), milliseconds(640), milliseconds(1000), milliseconds(1000)}));
}

TEST_F(CrowdTest, ForgetsACrowdThatHasGone) {
  using std::chrono::milliseconds;
  EXPECT_EQ(pause_after_a_slice(milliseconds(0)), milliseconds(20));
  EXPECT_EQ(pause_after_a_slice(milliseconds(0)), milliseconds(40));
  EXPECT_EQ(pause_after_a_slice(milliseconds(200)), milliseconds(20));
}

}  // namespace
}  // namespace lockstep::transport
