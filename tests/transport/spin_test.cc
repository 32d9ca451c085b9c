// No test depends on the speed of the machine: where time matters, it has passed already or is plentiful.
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

TEST_F(SpinTest, ASpinOfZeroAlwaysSleeps) {
  Spin spin(std::chrono::nanoseconds(0));
  EXPECT_FALSE(spin.pays());
  asio::post(io, [] {});
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_FALSE(spin.pays());
  EXPECT_EQ(spin.run_one(io, Clock::now()), 0U) << "nothing to run";
}

TEST_F(SpinTest, RunsNothingAfterTheDeadline) {
  asio::post(io, [] {});
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io, Clock::now()), 0U);
  EXPECT_EQ(spin.run_one(io), 1U);
}

// A poll must include the reactor, not only posted handlers.
TEST_F(SpinTest, ATimerFiresWhileItPolls) {
  asio::steady_timer timer(io, kAnInstant);
  bool rang = false;
  timer.async_wait([&](std::error_code) { rang = true; });
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io), 1U);
  EXPECT_TRUE(rang);
}

TEST_F(SpinTest, SleepsAfterALongWaitAndPollsAfterAShortOne) {
  Spin spin(kAnInstant);
  EXPECT_EQ(spin.run_one(io, Clock::now() + std::chrono::milliseconds(1)), 0U);
  EXPECT_FALSE(spin.pays());
  Spin patient(kAnHour);
  asio::steady_timer timer(io, std::chrono::milliseconds(1));
  timer.async_wait([](std::error_code) {});
  EXPECT_EQ(patient.run_one(io), 1U);
  EXPECT_TRUE(patient.pays());
}

TEST_F(SpinTest, DoesNotPollAStoppedReactor) {
  io.stop();
  Spin spin(kAnHour);
  EXPECT_EQ(spin.run_one(io), 0U);
}

}  // namespace
}  // namespace lockstep::transport
