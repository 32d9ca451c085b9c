#include "sim/checkers/liars.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

constexpr PeerId kHonest{1, 1};
constexpr PeerId kLiar{2, 2};
constexpr PeerId kOther{3, 3};

class OneLiar : public ::testing::Test {
 protected:
  OneLiar() { liars_.lies(kLiar, "h2.2"); }

  [[nodiscard]] bool explain(PeerId by, trace::Kind kind, PeerId about, std::string text,
                             Status status = Status::kProtocolError) const {
    trace::Event event;
    event.kind = kind;
    event.peer = about;
    event.status = status;
    event.text = std::move(text);
    return liars_.explain(by, event, [](PeerId peer) { return peer == kHonest || peer == kLiar || peer == kOther; });
  }
  Liars liars_;
};

TEST_F(OneLiar, ExplainsABreachOfItsOwnAndNoOther) {
  EXPECT_TRUE(explain(kHonest, trace::Kind::kProtocolError, kLiar, "done twice"));
  EXPECT_TRUE(explain(kLiar, trace::Kind::kProtocolError, kHonest, "done twice"));
  EXPECT_TRUE(explain(kHonest, trace::Kind::kProtocolError, {}, "an unknown message"));
  EXPECT_TRUE(explain(kHonest, trace::Kind::kProtocolError, {9, 9}, "a name that nobody has"));
  EXPECT_FALSE(explain(kHonest, trace::Kind::kProtocolError, kOther, "done twice"));
  EXPECT_FALSE(explain({}, trace::Kind::kPeerLost, kOther, "h3.3: done twice"));
}

TEST_F(OneLiar, ExplainsWhatAnHonestPeerHasPassedOn) {
  EXPECT_TRUE(explain(kHonest, trace::Kind::kProtocolError, kOther, "a segment that no round expects"));
  EXPECT_TRUE(explain(kHonest, trace::Kind::kLinkReported, kOther, "again and again: a segment that no round expects"));
  EXPECT_TRUE(explain(kHonest, trace::Kind::kProtocolError, kOther, "a Ready that does not fit its round"));
  EXPECT_FALSE(explain(kHonest, trace::Kind::kLinkReported, kOther, "no stripe for 8000 ms"));
}

TEST_F(OneLiar, ExplainsALossThatNamesIt) {
  EXPECT_TRUE(explain({}, trace::Kind::kPeerLost, kOther, "it and h2.2 cannot reach each other", Status::kEvicted));
  EXPECT_FALSE(explain({}, trace::Kind::kPeerLost, kOther, "it and h2.20 cannot reach each other", Status::kEvicted));
}

TEST_F(OneLiar, CostsTheOnlyOtherMemberTheRunAndNoThird) {
  const char* const text = "the coordinator took back a round that all members had agreed on; left the run";
  const std::vector<PeerId> two = {kHonest, kLiar};
  const std::vector<PeerId> three = {kHonest, kLiar, kOther};
  const std::vector<PeerId> honest = {kHonest, kOther};
  EXPECT_TRUE(liars_.cost_the_run(kHonest, text, {honest, two}));
  EXPECT_FALSE(liars_.cost_the_run(kHonest, "the coordinator proposed a view without this peer; left the run", {two}));
  EXPECT_FALSE(liars_.cost_the_run(kHonest, text, {three}));
  EXPECT_FALSE(liars_.cost_the_run(kHonest, text, {honest}));
  EXPECT_FALSE(liars_.cost_the_run(kHonest, text, {}));
  EXPECT_TRUE(liars_.cost_the_run(kLiar, "whatever", {honest}));
}

TEST(Liars, ExplainNothingWhereNobodyLies) {
  const Liars none;
  trace::Event event;
  event.kind = trace::Kind::kProtocolError;
  EXPECT_FALSE(none.explain(kHonest, event, [](PeerId) { return true; }));
}

}  // namespace
}  // namespace lockstep::sim
