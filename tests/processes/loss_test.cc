// Peers and coordinators, as processes, that are killed, stopped or leave.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/processes/party.h"

namespace lockstep::testing {
namespace {

coordinator::CoordinatorOptions impatient() {
  coordinator::CoordinatorOptions options;
  options.heartbeat = milliseconds(200);
  options.silence = seconds(1);
  return options;
}

TEST(Processes, SurvivorsCommitWithoutAKilledPeer) {
  Party run(4);
  expect_sum_of(4, run.all_reduce(4));
  for (std::size_t i = 0; i < 3; ++i) run[i].all_reduce();  // the fourth peer never launches it
  run[3].process.signal(SIGKILL);
  for (std::size_t i = 0; i < 3; ++i) expect_sum_of(3, {run[i].ended()});
  expect_sum_of(3, run.all_reduce(3));
}

TEST(Processes, AKillInMidCallEndsEquallyForAllSurvivors) {
  Party run(4);
  ReduceOrder large;
  large.count = 1'000'003;
  large.times = 60;
  large.in_place = true;
  for (std::size_t i = 0; i < 4; ++i) run[i].all_reduce(large);
  ASSERT_TRUE(run[3].is_going());
  run[3].process.signal(SIGKILL);
  for (std::size_t i = 0; i < 3; ++i) expect_sum_of(3, {run[i].ended(seconds(100))});
}

TEST(Processes, WithoutRetryTheInputIsRestoredAndTheCallFails) {
  Party run(3);
  ReduceOrder once;
  once.retry = false;
  once.in_place = true;
  once.count = 100'000;
  for (std::size_t i = 0; i < 2; ++i) run[i].all_reduce(once);
  for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(run[i].is_launched());
  run[2].process.signal(SIGKILL);
  for (std::size_t i = 0; i < 2; ++i) {
    const Ended end = run[i].ended();
    EXPECT_EQ(end.status, Status::kPeerLost) << end.text;
    EXPECT_TRUE(end.intact);
    EXPECT_NE(end.text.find('c'), std::string::npos) << end.text;
  }
  expect_sum_of(2, run.all_reduce(2, once));
}

TEST(Processes, AStoppedPeerIsEvictedInTime) {
  Party run(3, impatient());
  run[2].process.signal(SIGSTOP);
  const Instant start = monotonic_now();
  expect_sum_of(2, run.all_reduce(2));
  EXPECT_GE(monotonic_now() - start, milliseconds(700));  // because of silence, not of a broken stream
  run[2].all_reduce();
  run[2].process.signal(SIGCONT);
  const Ended stranger = run[2].ended();
  ASSERT_TRUE(stranger.came);
  EXPECT_TRUE(stranger.status == Status::kEvicted || stranger.status == Status::kNotConnected ||
              stranger.status == Status::kOutcomeUnknown)
      << status_name(stranger.status) << ": " << stranger.text;
  EXPECT_NE(stranger.text, "");
  // The peer rejoins as a newcomer.
  ScriptedPeer again({.name = "c again"});
  again.connect(run.coordinator.address);
  for (std::size_t i = 0; i < 2; ++i) run[i].admit(3);
  EXPECT_EQ(again.ended().status, Status::kOk);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(run[i].ended().status, Status::kOk);
  again.all_reduce();
  expect_sum_of(3, run.all_reduce(2));
  expect_sum_of(3, {again.ended()});
}

TEST(Processes, ALeaverCausesNoErrors) {
  Party run(3);
  ReduceOrder strict;
  strict.retry = false;
  expect_sum_of(3, run.all_reduce(3, strict));
  run[2].leave();
  EXPECT_EQ(run[2].ended().status, Status::kOk);
  expect_sum_of(2, run.all_reduce(2, strict));
}

TEST(Processes, PeersReportALostCoordinatorAndDoNotHang) {
  Party run(2);
  expect_sum_of(2, run.all_reduce(2));
  run[0].all_reduce();  // the other peer never launches it
  run.coordinator.process.signal(SIGKILL);
  const Ended lost = run[0].ended();
  ASSERT_TRUE(lost.came);
  EXPECT_TRUE(lost.status == Status::kOutcomeUnknown || lost.status == Status::kNotConnected) << lost.text;
  EXPECT_NE(lost.text.find("coordinator"), std::string::npos) << lost.text;
  EXPECT_NE(lost.text.find(run.coordinator.address), std::string::npos) << lost.text;
  // Launched before or after the peer notices the loss: the first call may have been decided, the second not.
  run[1].all_reduce();
  const Ended other = run[1].ended();
  EXPECT_TRUE(other.status == Status::kOutcomeUnknown || other.status == Status::kNotConnected) << other.text;
  run[1].all_reduce();
  EXPECT_EQ(run[1].ended().status, Status::kNotConnected);
}

// A stopped coordinator answers nothing: its peers give up after the silence that the coordinator has stated.
TEST(Processes, PeersGiveUpASilentCoordinator) {
  Party run(2, impatient());
  run[0].all_reduce();
  run.coordinator.process.signal(SIGSTOP);
  const Ended lost = run[0].ended();
  ASSERT_TRUE(lost.came);
  EXPECT_NE(lost.text.find("silent"), std::string::npos) << status_name(lost.status) << ": " << lost.text;
}

TEST(Processes, DifferentArgumentsFailOnAllPeersAndNameBoth) {
  Party run(2);
  run[0].all_reduce({.count = 1000});
  run[1].all_reduce({.count = 999});
  for (std::size_t i = 0; i < 2; ++i) {
    const Ended end = run[i].ended();
    EXPECT_EQ(end.status, Status::kMismatch) << end.text;
    EXPECT_NE(end.text.find("1000 on a"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("999 on b"), std::string::npos) << end.text;
    EXPECT_TRUE(end.intact);
  }
  run[0].all_reduce({.type = DataType::kF32});
  run[1].all_reduce({.type = DataType::kF64});
  for (std::size_t i = 0; i < 2; ++i) {
    const Ended end = run[i].ended();
    EXPECT_EQ(end.status, Status::kMismatch) << end.text;
    EXPECT_NE(end.text.find("float32"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("float64"), std::string::npos) << end.text;
  }
  expect_sum_of(2, run.all_reduce(2));
}

// An honest mistake that once cost a healthy peer its membership: the segments of one peer were invalid for the other.
TEST(Processes, DifferentSegmentSizesFailOnAllPeersAndNameBoth) {
  CoordinatorProcess coordinator;
  std::vector<std::unique_ptr<ScriptedPeer>> peers;
  for (const std::uint32_t bytes : {4096U, 8192U}) {
    peers.push_back(std::make_unique<ScriptedPeer>(
        ScriptedPeerOptions{.name = std::to_string(bytes), .founders = 2, .segment_bytes = bytes}));
  }
  for (auto& peer : peers) peer->connect(coordinator.address);
  for (auto& peer : peers) EXPECT_EQ(peer->ended().status, Status::kOk);
  for (int n = 0; n < 2; ++n) {  // twice: both peers are still members
    for (auto& peer : peers) peer->all_reduce({.count = 100'000});
    for (auto& peer : peers) {
      const Ended end = peer->ended();
      EXPECT_EQ(end.status, Status::kMismatch) << end.text;
      EXPECT_NE(end.text.find("segment_bytes"), std::string::npos) << end.text;
      EXPECT_NE(end.text.find("8192 on 8192"), std::string::npos) << end.text;
    }
  }
}

TEST(Processes, TheErrorNamesAnUnknownHostOrARefusedPort) {
  ScriptedPeer lost({.name = "lost"});
  lost.connect("no-such-host.invalid:4000", seconds(2));
  const Ended unknown = lost.ended();
  EXPECT_EQ(unknown.status, Status::kUnreachable);
  EXPECT_NE(unknown.text.find("no-such-host.invalid"), std::string::npos) << unknown.text;

  std::string gone;
  {
    const CoordinatorProcess coordinator;
    gone = coordinator.address;
  }
  ScriptedPeer late({.name = "late"});
  late.connect(gone, milliseconds(200));
  const Ended refused = late.ended();
  EXPECT_EQ(refused.status, Status::kUnreachable);
  EXPECT_NE(refused.text.find(gone), std::string::npos) << refused.text;
  EXPECT_NE(refused.text.find("refused"), std::string::npos) << refused.text;
}

}  // namespace
}  // namespace lockstep::testing
