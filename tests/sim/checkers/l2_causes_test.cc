#include <gtest/gtest.h>

#include <utility>

#include "sim/checkers/l2_causes.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

TEST(L2Causes, AHealthyPeerThatIsLostFails) {
  Causes causes;
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
  causes.began({.fault = Fault::kSlow, .a = 1, .b = 2});
  causes.began({.fault = Fault::kCrash, .a = 2});
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
  EXPECT_FALSE(causes.lost(kA, {1, 2}, Status::kEvicted, "its gang"));
  causes.began({.fault = Fault::kCut, .a = 3, .b = 1});
  EXPECT_FALSE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
}

// Swarm seed 1916138: the links of one host to all others were reset until none could be opened, and the other end had to go.
TEST(L2Causes, WhatBreaksOneHostsLinksToAllTouchesAll) {
  Causes causes;
  causes.began({.fault = Fault::kReset, .a = 2, .b = 3});
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
  causes.began({.fault = Fault::kReset, .a = 2, .b = 2});
  EXPECT_FALSE(causes.lost(kA, {1}, Status::kEvicted, "evicted"));
}

TEST(L2Causes, WhoFalsifiesPiecesIsTheCauseThatTheyAreRefusedAndOfNoOtherBreach) {
  Causes causes;
  trace::Event event{.kind = trace::Kind::kProtocolError, .view = {}, .peer = kA, .round = {}, .text = {}};
  event.text = "a piece of the state whose digest is wrong";
  EXPECT_TRUE(causes.noted(kB, event));
  causes.began({.fault = Fault::kSpoil, .a = 1});
  EXPECT_FALSE(causes.noted(kB, event));
  EXPECT_TRUE(causes.lost(kB, {2}, Status::kEvicted, "it and h1 cannot reach each other")) << "their link is whole";
  event.text = "a message that neighbours do not send";
  EXPECT_TRUE(causes.noted(kB, event));
}

TEST(L2Causes, NothingIsTheCauseOfABreachOfTheProtocol) {
  Causes causes;
  causes.began({.fault = Fault::kCrash, .a = 1});
  EXPECT_TRUE(causes.lost(kA, {1}, Status::kProtocolError, "done twice"));
  trace::Event event{.kind = trace::Kind::kLinkLost, .view = {}, .peer = kA, .round = {}, .text = {}};
  EXPECT_FALSE(causes.noted(PeerId{1, 2}, event));
  event.kind = trace::Kind::kProtocolError;
  EXPECT_TRUE(causes.noted(PeerId{1, 2}, event));
  event.kind = trace::Kind::kPeerRefused;
  EXPECT_FALSE(causes.noted(PeerId{1, 2}, event));
  event.status = Status::kProtocolError;
  EXPECT_TRUE(causes.noted(PeerId{1, 2}, event));
}

TEST(L2Causes, AnAbortWithoutACauseFails) {
  Causes causes;
  const Call call = ended_call(kA, aborted(Status::kPeerLost));
  EXPECT_TRUE(causes.aborted(call, false));
  causes.began({.fault = Fault::kJoin, .a = 1});
  EXPECT_TRUE(causes.aborted(call, false));
  causes.began({.fault = Fault::kLeave, .a = 1});
  EXPECT_FALSE(causes.aborted(call, false));
}

TEST(L2Causes, ARunThatBeginsWithFewerThanACallWantsRefusesIt) {
  Call call = ended_call(kA, aborted(Status::kBelowMinimum));
  call.request.minimum_world = 3;
  EXPECT_TRUE(Causes(3).aborted(call, false));
  EXPECT_FALSE(Causes(2).aborted(call, false));
}

TEST(L2Causes, EveryStatusHasCausesOfItsOwn) {
  const std::pair<Status, Fault> causes_of[] = {
      {Status::kMismatch, Fault::kMismatch},  {Status::kAborted, Fault::kStop},
      {Status::kTimedOut, Fault::kTimeout},   {Status::kCohortClosed, Fault::kSkip},
      {Status::kBelowMinimum, Fault::kCrash}, {Status::kWorldChanged, Fault::kLeave}};
  for (const auto& [status, fault] : causes_of) {
    Causes causes;
    causes.began({.fault = Fault::kJoin, .a = 1});
    EXPECT_TRUE(causes.aborted(ended_call(kA, aborted(status)), false)) << status_name(status);
    causes.began({.fault = fault, .a = 1});
    EXPECT_FALSE(causes.aborted(ended_call(kA, aborted(status)), false)) << status_name(status);
    EXPECT_TRUE(causes.aborted(ended_call(kA, aborted(Status::kInternal)), false));
  }
  Causes nothing;
  EXPECT_TRUE(nothing.aborted(ended_call(kA, aborted(Status::kOutcomeUnknown)), false));
  EXPECT_FALSE(nothing.aborted(ended_call(kA, aborted(Status::kOutcomeUnknown)), true));
  Causes skipped;
  skipped.began({.fault = Fault::kSkip, .a = 1});
  Call small = ended_call(kA, aborted(Status::kBufferTooSmall));
  small.request.collective = peer::Collective::kAllGather;
  EXPECT_FALSE(skipped.aborted(small, false));
  EXPECT_TRUE(nothing.aborted(small, false));
  small.request.collective = peer::Collective::kAllReduce;
  EXPECT_TRUE(skipped.aborted(small, false));
  Call timed = ended_call(kA, aborted(Status::kTimedOut));
  timed.request.timeout = seconds(1);
  EXPECT_FALSE(nothing.aborted(timed, false));
}

}  // namespace
}  // namespace lockstep::sim
