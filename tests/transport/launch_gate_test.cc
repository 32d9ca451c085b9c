#include "transport/launch_gate.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "transport/call.h"

namespace lockstep::transport {
namespace {

constexpr Duration kMuchLater = seconds(30);

TEST(LaunchGate, TakesSoManyCallsAndBytes) {
  LaunchGate calls(2, 1000);
  LaunchGate::Room first = calls.take(10);
  LaunchGate::Room second = calls.take(10);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(calls.take(10));
  first = {};
  EXPECT_TRUE(calls.take(10));

  LaunchGate bytes(100, 1000);
  LaunchGate::Room most = bytes.take(990);
  EXPECT_FALSE(bytes.take(11));
  EXPECT_TRUE(bytes.take(10));
}

TEST(LaunchGate, AThreadWaitsUntilACallEnds) {
  LaunchGate gate(1, 1000);
  const Call call(CallId{1});
  LaunchGate::Room room = gate.take(1);
  std::promise<void> begun;
  std::thread waits([&] {
    begun.set_value();
    EXPECT_TRUE(gate.wait(1, std::nullopt, nullptr, call));
  });
  begun.get_future().wait();
  room = {};
  waits.join();
  EXPECT_TRUE(gate.wait(1, kMuchLater, nullptr, call));
}

TEST(LaunchGate, AWaitEndsWithItsTimeOut) {
  LaunchGate gate(0, 1000);
  const Call call(CallId{1});
  EXPECT_FALSE(gate.wait(1, milliseconds(1), nullptr, call));
  EXPECT_FALSE(gate.wait(
      1, milliseconds(1), [] { return false; }, call));
}

TEST(LaunchGate, AWaitEndsWhenItIsInterrupted) {
  LaunchGate gate(0, 1000);
  const Call call(CallId{1});
  const Interrupted interrupted = [] { return true; };
  EXPECT_THROW((void)gate.wait(1, kMuchLater, interrupted, call), LaunchInterrupted);
  EXPECT_THROW((void)gate.wait(1, std::nullopt, interrupted, call), LaunchInterrupted);
}

TEST(LaunchGate, RoomMayOutliveItsGate) {
  std::optional<LaunchGate> gate(std::in_place, 1, 1000);
  LaunchGate::Room room = gate->take(1);
  gate.reset();
  room = {};
}

}  // namespace
}  // namespace lockstep::transport
