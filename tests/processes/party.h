// A coordinator and some peers, one process each, joined and ready.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/processes/coordinator_process.h"
#include "tests/processes/scripted_peer.h"

namespace lockstep::testing {

struct Party {
  explicit Party(std::uint32_t world, const coordinator::CoordinatorOptions& machine = {}) : coordinator(machine) {
    for (std::uint32_t i = 0; i < world; ++i) {
      ScriptedPeerOptions options;
      options.name = std::string(1, static_cast<char>('a' + i));
      options.founders = world;
      peers.push_back(std::make_unique<ScriptedPeer>(options));
    }
    for (auto& peer : peers) peer->connect(coordinator.address);
    for (auto& peer : peers) {
      const Ended joined = peer->ended();
      EXPECT_EQ(joined.status, Status::kOk) << joined.text;
    }
  }
  // Whatever the test did, the promises must hold in the peers' journals.
  ~Party() {
    sim::Audit audit;
    for (const auto& peer : peers) {
      const std::string wrong = peer->journal.tell(audit);
      EXPECT_EQ(wrong, "");
    }
    for (const sim::Failure& failure : audit.judge()) ADD_FAILURE() << failure.promise << ": " << failure.text;
  }
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  ScriptedPeer& operator[](std::size_t i) { return *peers[i]; }

  // The peers in [0, count) reduce; returns their results.
  std::vector<Ended> all_reduce(std::size_t count, const ReduceOrder& order = {}) {
    for (std::size_t i = 0; i < count; ++i) peers[i]->all_reduce(order);
    std::vector<Ended> ends;
    for (std::size_t i = 0; i < count; ++i) ends.push_back(peers[i]->ended());
    return ends;
  }

  CoordinatorProcess coordinator;
  std::vector<std::unique_ptr<ScriptedPeer>> peers;
};

inline void expect_sum_of(std::uint32_t world, const std::vector<Ended>& ends) {
  for (const Ended& end : ends) {
    EXPECT_TRUE(end.came) << "no answer: the peer hangs or is gone";
    EXPECT_EQ(end.status, Status::kOk) << end.text;
    EXPECT_EQ(end.world, world);
    EXPECT_EQ(end.first, world);
  }
}

}  // namespace lockstep::testing
