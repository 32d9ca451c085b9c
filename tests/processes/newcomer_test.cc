// Over real sockets: a program joins again and again, sends signs of life and answers nothing. It delays no member, and
// honest newcomers are admitted beside it.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/processes/party.h"
#include "tests/processes/stranger.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

Stranger joined(const Party& run, std::uint64_t id) {
  Stranger stranger(port_of(run.coordinator.address));
  wire::Join join;
  join.peer = {0, id};
  join.advertised.port = 9;  // nobody listens there
  join.name = "mute";
  stranger.say(preamble());
  stranger.say_message(join);
  EXPECT_TRUE(stranger.hear<wire::Waiting>());
  return stranger;
}

// How long the members' admit takes.
Duration admission(Party& run) {
  const Instant began = monotonic_now();
  for (auto& peer : run.peers) peer->admit(1);
  for (auto& peer : run.peers) EXPECT_EQ(peer->ended().status, Status::kOk);
  return monotonic_now() - began;
}

TEST(Newcomer, ThatNeverAnswersDelaysNoAdmission) {
  constexpr std::uint64_t kTimes = 8;
  Party run(3);
  std::vector<Stranger> strangers;
  for (std::uint64_t n = 1; n <= kTimes; ++n) {
    for (Stranger& stranger : strangers) stranger.say_message(wire::Heartbeat{});
    strangers.push_back(joined(run, n));
    EXPECT_LT(admission(run), seconds(1)) << "admission " << n;
  }
  expect_sum_of(3, run.all_reduce(3));
  const auto status = transport::query_status(run.coordinator.address, seconds(10));
  ASSERT_TRUE(status.ok()) << status.error().text;
  EXPECT_EQ(status->view.members.size(), 3U);
  EXPECT_EQ(status->lost, 0U);
}

TEST(Newcomer, ThatIsHonestGetsInBesideThem) {
  Party run(3);
  Stranger first = joined(run, 1);
  admission(run);
  Stranger second = joined(run, 2);
  run.peers.push_back(std::make_unique<ScriptedPeer>(ScriptedPeerOptions{.name = "d"}));
  run.peers.back()->connect(run.coordinator.address);
  for (std::size_t i = 0; i < 3; ++i) run.peers[i]->admit(4);
  for (auto& peer : run.peers) EXPECT_EQ(peer->ended().status, Status::kOk);
  expect_sum_of(4, run.all_reduce(4));
}

}  // namespace
}  // namespace lockstep::testing
