#include "sim/checkers/s9_stops.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

constexpr PeerId kPeer{1, 1};

Plan with_limit(std::uint32_t stops_at_once) {
  Plan plan;
  plan.stops_at_once = stops_at_once;
  return plan;
}

TEST(Stops, ComplainsOfMoreRoundsThanOnePeerMayStop) {
  Stops stops(with_limit(3));
  const trace::Event ended{
      .kind = trace::Kind::kRoundEnded, .status = Status::kAborted, .text = "aborted by h1.1: it was asked to"};
  for (int n = 0; n < 3 + 1 + 1; ++n) EXPECT_FALSE(stops.noted(ended, Instant{})) << n;
  EXPECT_TRUE(stops.noted(ended, Instant{}));
  EXPECT_FALSE(stops.noted(ended, Instant{} + seconds(1)));
}

TEST(Stops, ComplainsOfAnEvictionOfAPeerThatHasCalledLittle) {
  Stops stops(with_limit(3));
  const trace::Event lost{.kind = trace::Kind::kPeerLost,
                          .peer = kPeer,
                          .status = Status::kProtocolError,
                          .text = "h1.1: stopped more than 3 rounds, and 1 more in each second"};
  for (int n = 0; n < 3; ++n) stops.called(kPeer);
  EXPECT_TRUE(stops.noted(lost, Instant{}));
  stops.called(kPeer);
  EXPECT_FALSE(stops.noted(lost, Instant{}));
}

}  // namespace
}  // namespace lockstep::sim
