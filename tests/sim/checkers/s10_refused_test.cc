#include <gtest/gtest.h>

#include "sim/checkers/s10_refused.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

// `a` refuses the round, `b` calls it.
class S10Refused : public testing::Test {
 protected:
  S10Refused() : refusals_(Plan{}), a_(ended_call(kA, end(Status::kInvalidArgument, kWhyRefused))) {
    a_.refused = true;
    for (const PeerId id : {kA, kB})
      founding_.members.push_back({.id = id, .group = GroupId{0}, .gang = {}, .address = {}, .name = {}});
    refusals_.began({.fault = Fault::kRefuse, .a = 1});
  }

  static peer::Outcome end(Status status, std::string text) {
    peer::Outcome outcome = aborted(status);
    outcome.text = std::move(text);
    return outcome;
  }
  Complaint judge(const peer::Outcome& outcome, Duration took = {}) {
    Call b = ended_call(kB, outcome);
    b.ended = b.made + took;
    return refusals_.ended(b, &founding_, [&](PeerId peer, const RoundKey&) { return peer == kA ? &a_ : nullptr; });
  }

  Refusals refusals_;
  Call a_;
  wire::View founding_;
};

constexpr const char* kTold = "h1 refused its barrier with tag 5: out has another dtype";

TEST_F(S10Refused, TheOthersEndSoonWithTheReason) {
  EXPECT_FALSE(judge(end(Status::kInvalidArgument, kTold)));
  EXPECT_TRUE(judge(end(Status::kInvalidArgument, "h1 refused its barrier with tag 5: no")));
  EXPECT_TRUE(judge(end(Status::kAborted, kTold)));
  EXPECT_TRUE(judge(end(Status::kInvalidArgument, kTold), lockstep::seconds(600)));
}

TEST_F(S10Refused, ATimeOutIsNoAnswer) { EXPECT_TRUE(judge(end(Status::kTimedOut, "h2 timed out after 2 s"))); }

TEST_F(S10Refused, OtherFaultsMayEndTheRoundInAnotherWay) {
  refusals_.began({.fault = Fault::kCrash, .a = 2});
  EXPECT_FALSE(judge(end(Status::kPeerLost, "lost h2"), lockstep::seconds(600)));
}

TEST_F(S10Refused, TheCallerKeepsItsReason) {
  const auto none = [](PeerId, const RoundKey&) -> const Call* { return nullptr; };
  EXPECT_FALSE(refusals_.ended(a_, &founding_, none));
  a_.outcome->text = "another";
  EXPECT_TRUE(refusals_.ended(a_, &founding_, none));
}

}  // namespace
}  // namespace lockstep::sim
