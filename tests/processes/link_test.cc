// Links between live peers that are cut, delayed, silent or permanently broken: every peer is dialled through a proxy.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/processes/coordinator_process.h"
#include "tests/processes/party.h"
#include "tests/processes/scripted_peer.h"
#include "tests/support/proxy.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

struct ProxiedParty {
  // Peers behind proxies have no other address: nobody tells them where the others listen on this machine.
  explicit ProxiedParty(std::uint32_t world) : coordinator(machine_options(), false, DialsBack::kNo) {
    for (std::uint32_t i = 0; i < world; ++i) {
      ports.push_back(std::make_unique<ReservedPort>());
      proxies.push_back(std::make_unique<Proxy>(ports.back()->port()));
      ScriptedPeerOptions options;
      options.name = std::string(1, static_cast<char>('a' + i));
      options.founders = world;
      options.port = ports.back()->port();
      options.advertised_port = proxies.back()->port();
      options.link_heartbeat = milliseconds(100);
      options.link_silence = milliseconds(700);
      options.link_timeout = milliseconds(1500);
      peers.push_back(std::make_unique<ScriptedPeer>(options));
    }
    for (auto& proxy : proxies) proxy->start();  // no child is forked after this
    for (auto& peer : peers) peer->connect(coordinator.address);
    for (auto& peer : peers) {
      const Ended joined = peer->ended();
      EXPECT_EQ(joined.status, Status::kOk) << joined.text;
    }
    const auto status = transport::query_status(coordinator.address, seconds(10));
    EXPECT_TRUE(status.ok());
    view = status->view;
  }

  static coordinator::CoordinatorOptions machine_options() {
    coordinator::CoordinatorOptions options;
    options.link_patience = seconds(2);
    return options;
  }

  // The peer with this rank.
  [[nodiscard]] std::size_t at_rank(std::size_t rank) const {
    return static_cast<std::size_t>(view.members[rank].name.front() - 'a');
  }

  std::vector<Ended> all_reduce(const ReduceOrder& order = {}) {
    for (auto& peer : peers) peer->all_reduce(order);
    return ends();
  }
  std::vector<Ended> ends() {
    std::vector<Ended> all;
    for (auto& peer : peers) all.push_back(peer->ended());
    return all;
  }

  CoordinatorProcess coordinator;
  std::vector<std::unique_ptr<ReservedPort>> ports;
  std::vector<std::unique_ptr<ScriptedPeer>> peers;
  std::vector<std::unique_ptr<Proxy>> proxies;
  wire::View view;
};

TEST(Links, AResetInsideAFrameIsRepairedWithoutAnAbort) {
  ProxiedParty run(2);
  ReduceOrder large;
  large.count = 2'000'003;
  large.retry = false;  // otherwise a retry would hide an abort
  for (const std::uint64_t after : {std::uint64_t{1}, std::uint64_t{70'001}, std::uint64_t{1'234'567}}) {
    for (auto& proxy : run.proxies) proxy->reset_after(after);
    expect_sum_of(2, run.all_reduce(large));
  }
  EXPECT_GE(run.proxies[0]->resets() + run.proxies[1]->resets(), 3U);
}

TEST(Links, DelayCostsTimeOnly) {
  ProxiedParty run(3);
  for (auto& proxy : run.proxies) proxy->set_delay(milliseconds(30));
  ReduceOrder several;
  several.retry = false;
  several.times = 5;
  for (auto& peer : run.peers) peer->all_reduce(several);
  for (auto& peer : run.peers) {
    const Ended end = peer->ended();
    expect_sum_of(3, {end});
    EXPECT_EQ(end.retries, 0U);
  }
}

TEST(Links, TheNextRingAvoidsAPairThatIsCutOff) {
  ProxiedParty run(4);
  expect_sum_of(4, run.all_reduce());
  const std::size_t a = run.at_rank(0);
  const std::size_t b = run.at_rank(1);
  run.proxies[a]->break_for_good(run.view.members[1].id);
  run.proxies[b]->break_for_good(run.view.members[0].id);
  expect_sum_of(4, run.all_reduce());

  const auto status = transport::query_status(run.coordinator.address, seconds(10));
  ASSERT_TRUE(status.ok());
  const auto& ring = status->view.members;
  ASSERT_EQ(ring.size(), 4U);
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::string pair = ring[i].name + ring[(i + 1) % ring.size()].name;
    const std::string cut = run.view.members[0].name + run.view.members[1].name;
    EXPECT_NE(pair, cut);
    EXPECT_NE(std::string(pair.rbegin(), pair.rend()), cut);
  }
}

void expect_one_of_two_goes(ProxiedParty& run) {
  for (auto& peer : run.peers) peer->all_reduce();
  std::vector<Ended> ends = run.ends();
  std::sort(ends.begin(), ends.end(), [](const Ended& x, const Ended& y) { return x.status < y.status; });
  expect_sum_of(1, {ends[0]});
  ASSERT_TRUE(ends[1].came);
  EXPECT_TRUE(ends[1].status == Status::kEvicted || ends[1].status == Status::kOutcomeUnknown)
      << status_name(ends[1].status);
  EXPECT_NE(ends[1].text.find("evicted"), std::string::npos) << ends[1].text;
  EXPECT_NE(ends[1].text.find("link"), std::string::npos) << ends[1].text;
}

TEST(Links, OneOfTwoUnreachablePeersIsEvictedWithTheReason) {
  ProxiedParty run(2);
  expect_sum_of(2, run.all_reduce());
  for (auto& proxy : run.proxies) proxy->break_for_good();
  expect_one_of_two_goes(run);
}

TEST(Links, HalfOpenConnectionsAreDetected) {
  ProxiedParty run(2);
  expect_sum_of(2, run.all_reduce());
  for (auto& proxy : run.proxies) proxy->go_silent();
  expect_one_of_two_goes(run);
}

}  // namespace
}  // namespace lockstep::testing
