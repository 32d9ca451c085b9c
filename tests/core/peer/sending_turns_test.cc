// A peer sends no faster than its program allows, and its neighbours take turns (rule 62 of docs/protocol.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// A member of four sends ten segments to each of the others. A segment uses up the rate for a tenth of a second.
class SlowSender : public Peer3 {
 public:
  static constexpr PeerId kMiddle{7, 7};  // between low and high
  static constexpr std::uint64_t kSegments = 10;

  SlowSender() : Peer3(slow(), {kLow, kMe, kHigh, kMiddle}) {
    for (const PeerId to : {kLow, kMiddle, kHigh}) me.send(to, Tag{1}, kSegments * 1024);
    me.run();
    ends_ = {{kLow, low}, {kMiddle, welcome(kMiddle)}, {kHigh, high}};
  }
  // These neighbours wait for their segments.
  void take(const std::vector<PeerId>& neighbours) {
    for (const PeerId id : neighbours) ends_.at(id)->say(wire::SendReady{1, {}});
    me.run();
  }
  // The neighbours that get the next segments, in order. The peer steps `steps` times more between two of them.
  std::vector<PeerId> turns(std::size_t count, int steps = 0) {
    std::vector<PeerId> turns;
    for (int ticks = 0; turns.size() < count && ticks < kMostTicks; ++ticks) {
      for (auto& [id, end] : ends_) {
        if (const std::uint64_t all = end->segments_heard(); all != std::exchange(heard_[id], all)) {
          turns.push_back(id);
          for (int i = 0; i < steps; ++i) step();
        }
      }
      me.pass(kTick);
      me.run();
    }
    return turns;
  }

 private:
  static constexpr int kMostTicks = 10'000;

  static PeerOptions slow() {
    PeerOptions slow = options();
    slow.sending.bytes_per_second = 11'000;
    return slow;
  }
  void step() {
    coordinator->say(wire::Heartbeat{});
    me.run();
  }

  std::map<PeerId, FarEnd*> ends_;
  std::map<PeerId, std::uint64_t> heard_;
};

// Each of them is the one at which sending pauses. A peer that always began with the first neighbour would send all
// segments of that one first.
TEST(SendingTurns, AreTheSameForAllNeighbours) {
  const std::vector<PeerId> twice = {kLow, SlowSender::kMiddle, kHigh, kLow, SlowSender::kMiddle, kHigh};
  SlowSender run;
  run.take({kLow, SlowSender::kMiddle, kHigh});
  EXPECT_EQ(run.turns(6), twice);
  EXPECT_EQ(run.turns(6), twice);
}

TEST(SendingTurns, StayTheSameHoweverOftenThePeerStepsMeanwhile) {
  const std::vector<PeerId> once = {kLow, SlowSender::kMiddle, kHigh};
  for (int steps = 0; steps < 4; ++steps) {
    SlowSender run;
    run.take(once);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run.turns(3, steps), once) << steps;
  }
}

TEST(SendingTurns, PassOverANeighbourThatWaitsForNothing) {
  const std::vector<std::vector<PeerId>> pairs = {
      {kLow, SlowSender::kMiddle}, {kLow, kHigh}, {SlowSender::kMiddle, kHigh}};
  for (const std::vector<PeerId>& pair : pairs) {
    SlowSender run;
    run.take(pair);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run.turns(2), pair);
  }
}

TEST(SendingTurns, ANeighbourWithoutOthersHasThemAll) {
  SlowSender run;
  run.take({kHigh});
  EXPECT_EQ(run.turns(4), std::vector<PeerId>(4, kHigh));
}

}  // namespace
}  // namespace lockstep::peer
