// Nothing here depends on how fast the machine is: where time decides, it has gone by, or there is plenty of it.
#include "transport/spin.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>

namespace lockstep::transport {
namespace {

constexpr std::chrono::hours kAnHour(1);
constexpr std::chrono::nanoseconds kAnInstant(1);

class SpinTest : public ::testing::Test {
 protected:
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(io);
};

TEST_F(SpinTest, RunsOneHandlerAtATime) {
  int ran = 0;
  for (int i = 0; i < 2; ++i) asio::post(io, [&] { ++ran; });
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(spin.pays());
}

TEST_F(SpinTest, WithoutItEveryWaitIsASleep) {
  Spin spin(std::chrono::nanoseconds(0));
  EXPECT_FALSE(spin.pays());
  asio::post(io, [] {});
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_FALSE(spin.pays());
  EXPECT_EQ(spin.run_one(io, Clock::now()), 0U) << "nothing to run";
}

TEST_F(SpinTest, WhenTheTimeHasComeNothingRuns) {
  asio::post(io, [] {});
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io, Clock::now()), 0U);
  EXPECT_EQ(spin.run_one(io), 1U);
}

// The reactor must be looked at, not only what is posted.
TEST_F(SpinTest, ATimerRingsWhileItLooks) {
  asio::steady_timer timer(io, kAnInstant);
  bool rang = false;
  timer.async_wait([&](std::error_code) { rang = true; });
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_TRUE(rang);
}

TEST_F(SpinTest, ALongWaitIsFollowedByASleepAndAShortOneByALook) {
  Spin spin(kAnInstant);
  EXPECT_EQ(spin.run_one(io, Clock::now() + std::chrono::milliseconds(1)), 0U);
  EXPECT_FALSE(spin.pays());
  Spin patient(kAnHour);
  asio::steady_timer timer(io, std::chrono::milliseconds(1));
  timer.async_wait([](std::error_code) {});
  EXPECT_EQ(patient.run_one(io), 1U);
  EXPECT_TRUE(patient.pays());
}

TEST_F(SpinTest, AStoppedReactorIsNotLookedAt) {
  io.stop();
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io), 0U);
}

}  // namespace
}  // namespace lockstep::transport
