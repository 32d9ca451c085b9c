// Peers that nobody can dial at the address that they state (rule 70 of docs/protocol.md), as processes.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/processes/coordinator_process.h"
#include "tests/processes/party.h"
#include "tests/processes/scripted_peer.h"
#include "tests/support/proxy.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

constexpr std::uint32_t kPeers = 4;

class Reach : public ::testing::TestWithParam<Streams> {
 protected:
  // Peers a to d, of which the callers state a port at which nobody listens. Returns their names, as the view says.
  std::set<std::string> callers_among(const std::set<std::uint32_t>& callers) {
    const SharedJournal log;
    CoordinatorProcess coordinator({}, log, GetParam());
    const ReservedPort nobody_listens;
    std::vector<std::unique_ptr<ScriptedPeer>> peers;
    for (std::uint32_t i = 0; i < kPeers; ++i) {
      ScriptedPeerOptions options;
      options.name = std::string(1, static_cast<char>('a' + i));
      options.founders = kPeers;
      if (callers.contains(i)) options.advertised_port = nobody_listens.port();
      peers.push_back(std::make_unique<ScriptedPeer>(options));
    }
    for (auto& peer : peers) peer->connect(coordinator.connect);
    for (auto& peer : peers) {
      const Ended joined = peer->ended();
      EXPECT_EQ(joined.status, Status::kOk) << joined.text;
    }
    std::vector<Ended> ends;
    ends.reserve(peers.size());
    for (auto& peer : peers) peer->all_reduce();
    for (auto& peer : peers) ends.push_back(peer->ended());
    expect_sum_of(kPeers, ends);
    std::set<std::string> found;
    const auto status = transport::query_status(coordinator.connect, seconds(10));
    EXPECT_TRUE(status.ok()) << status.error().text;
    if (!status.ok()) return found;
    for (const wire::Member& member : status->view.members) {
      if (member.calls_out) found.insert(member.name);
    }
    return found;
  }
};

TEST_P(Reach, OneThatNobodyCanDialTakesPart) {
  for (std::uint32_t caller = 0; caller < kPeers; ++caller) {
    EXPECT_EQ(callers_among({caller}), std::set{std::string(1, static_cast<char>('a' + caller))});
  }
}

// Both see each other in their own network, and dial the address there.
TEST_P(Reach, TwoBehindOneRouterLink) { EXPECT_EQ(callers_among({0, 2}), (std::set<std::string>{"a", "c"})); }

TEST_P(Reach, AllThatListenCanBeDialled) { EXPECT_EQ(callers_among({}), std::set<std::string>{}); }

INSTANTIATE_TEST_SUITE_P(Plain, Reach, ::testing::Values(Streams::kPlain));
INSTANTIATE_TEST_SUITE_P(Tls, Reach, ::testing::Values(Streams::kTls));

}  // namespace
}  // namespace lockstep::testing
