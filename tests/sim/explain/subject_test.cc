#include "sim/explain/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr RoundKey kGather{CohortId{2}, GroupId{0}, Tag{7}, 1};

template <typename M>
M about_the_round() {
  M message;
  message.key = kGather;
  return message;
}

trace::Event note(trace::Kind kind) {
  trace::Event event{};
  event.kind = kind;
  return event;
}

TEST(Subject, AMessageOfARoundIsAboutTheRound) {
  EXPECT_THAT(subjects_of(wire::Message{about_the_round<wire::Done>()}), ElementsAre("round c2.g0.t7.u1"));
  EXPECT_THAT(subjects_of(wire::Message{about_the_round<wire::Segment>()}), ElementsAre("round c2.g0.t7.u1"));
}

TEST(Subject, AChangeOfMembershipIsAlsoAboutTheRoundsItDecides) {
  wire::Propose propose;
  propose.verdicts.push_back(about_the_round<wire::Verdict>());
  wire::Flush flush;
  flush.open.push_back(about_the_round<wire::OpenRound>());
  EXPECT_THAT(subjects_of(wire::Message{propose}), ElementsAre("membership", "round c2.g0.t7.u1"));
  EXPECT_THAT(subjects_of(wire::Message{flush}), ElementsAre("membership", "round c2.g0.t7.u1"));
  EXPECT_THAT(subjects_of(wire::Message{wire::Install{}}), ElementsAre("membership"));
}

TEST(Subject, SignsOfLifeHaveNoSubject) {
  EXPECT_THAT(subjects_of(wire::Message{wire::Heartbeat{}}), IsEmpty());
  EXPECT_THAT(subjects_of(wire::Message{wire::LinkWelcome{}}), IsEmpty());
}

TEST(Subject, NotesAreAboutTheirRoundOrTheMembership) {
  trace::Event committed = note(trace::Kind::kCommitted);
  committed.round = kGather;
  EXPECT_THAT(subjects_of(committed), ElementsAre("round c2.g0.t7.u1"));
  EXPECT_THAT(subjects_of(note(trace::Kind::kPeerLost)), ElementsAre("membership"));
  EXPECT_THAT(subjects_of(note(trace::Kind::kLinkLost)), IsEmpty());
}

}  // namespace
}  // namespace lockstep::sim
