#include "sim/checkers/s9_stops.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lockstep::sim {
namespace {

constexpr PeerId kStopper{1, 1};

Plan with_limit(std::uint32_t stops_at_once) {
  Plan plan;
  plan.program.stops_at_once = stops_at_once;
  return plan;
}

trace::Event stop_event(trace::Kind kind, Status status, std::string text) {
  trace::Event event;
  event.kind = kind;
  event.peer = kStopper;
  event.status = status;
  event.text = std::move(text);
  return event;
}

TEST(Stops, ComplainsOfMoreRoundsThanOnePeerMayStop) {
  Stops stops(with_limit(3));
  const trace::Event ended = stop_event(trace::Kind::kRoundEnded, Status::kAborted, "aborted by h1.1: it was asked to");
  for (int n = 0; n < 3 + 1 + 1; ++n) EXPECT_FALSE(stops.noted(ended, Instant{})) << n;
  EXPECT_TRUE(stops.noted(ended, Instant{}));
  EXPECT_FALSE(stops.noted(ended, Instant{} + seconds(2)));
}

TEST(Stops, ComplainsOfAnEvictionOfAPeerThatHasCalledLittle) {
  Stops stops(with_limit(3));
  const trace::Event lost = stop_event(trace::Kind::kPeerLost, Status::kProtocolError,
                                       "h1.1: stopped more than 3 rounds, and 1 more in each second");
  for (int n = 0; n < 3; ++n) stops.called(kStopper);
  EXPECT_TRUE(stops.noted(lost, Instant{}));
  stops.called(kStopper);
  EXPECT_FALSE(stops.noted(lost, Instant{}));
}

}  // namespace
}  // namespace lockstep::sim
