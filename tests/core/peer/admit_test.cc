// Another member has called admit: what becomes of the calls that wait for it.
#include <gtest/gtest.h>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// A round of three is open. `low` calls admit without having launched it.
struct Admission {
  explicit Admission(bool auto_admit) : run(true, auto_admit), call(run.launch(wire::Collective::kBarrier)) {}

  void low_admits(std::uint32_t at_least) {
    run.coordinator->say(wire::Admitting{kLow, CohortId{1}, at_least, {}});
    run.me.run();
  }
  void pending(std::uint32_t count) {
    run.coordinator->say(wire::Pending{count});
    run.me.run();
  }
  [[nodiscard]] const wire::Admit* admit() const { return run.coordinator->last<wire::Admit>(); }
  [[nodiscard]] const wire::StopRound* stop() const { return run.coordinator->last<wire::StopRound>(); }

  Peer3 run;
  CallId call;
};

TEST(Admitting, WithoutAutoAdmitTheCallIsRefused) {
  Admission given(false);
  given.low_admits(1);
  ASSERT_NE(given.stop(), nullptr);
  EXPECT_EQ(given.stop()->status, Status::kCohortClosed);
  EXPECT_EQ(given.admit(), nullptr);
}

TEST(Admitting, WithAutoAdmitTheCallGoesOnInTheNextCohort) {
  Admission given(true);
  given.low_admits(3);
  ASSERT_NE(given.admit(), nullptr);
  EXPECT_TRUE(given.admit()->by_itself);
  EXPECT_EQ(given.admit()->open.size(), 1U);
  EXPECT_EQ(given.stop(), nullptr);
}

// Nobody knows when there will be so many.
TEST(Admitting, WithAutoAdmitACallDoesNotWaitForOneThatWaitsForMoreMembers) {
  Admission given(true);
  given.low_admits(4);
  EXPECT_EQ(given.admit(), nullptr);
  ASSERT_NE(given.stop(), nullptr);
  EXPECT_EQ(given.stop()->status, Status::kCohortClosed);
  EXPECT_NE(given.stop()->text.find("p1 has called admit"), std::string::npos) << given.stop()->text;
  given.pending(1);
  ASSERT_NE(given.admit(), nullptr) << "now there are so many";
  EXPECT_TRUE(given.admit()->by_itself);
}

// It is not stopped again in the cohort in which it goes on.
TEST(Admitting, ACallThatWasToBeRefusedGoesOnIfTheAdmissionComesFirst) {
  Admission given(true);
  given.low_admits(4);
  given.pending(1);
  ASSERT_NE(given.admit(), nullptr);
  wire::Propose admission = given.run.proposal(view_of(2, 2, {kLow, kMe, kHigh, PeerId{11, 11}}));
  admission.verdicts.push_back({Peer3::key(), Generation{1}, Status::kCohortClosed, 0, "closed"});
  given.run.install(admission);
  EXPECT_EQ(given.run.me.outcome(given.call), nullptr) << "it goes on";
  EXPECT_EQ(given.run.coordinator->count<wire::StopRound>(), 1U);
}

// An admission that others brought about may let in fewer than a call wants.
TEST(Admitting, WithAutoAdmitACallOfAdmitIsSaidAgainUntilThereAreEnough) {
  Peer3 run(true, true);
  const CallId call = run.me.admit(4);
  run.me.run();
  ASSERT_EQ(run.coordinator->count<wire::Admit>(), 1U);
  run.install(run.proposal(view_of(2, 2, {kLow, kMe, kHigh})));
  EXPECT_EQ(run.me.outcome(call), nullptr);
  ASSERT_EQ(run.coordinator->count<wire::Admit>(), 2U);
  EXPECT_EQ(run.coordinator->last<wire::Admit>()->cohort, CohortId{2});
  EXPECT_EQ(run.coordinator->last<wire::Admit>()->at_least, 4U);
  run.install(run.proposal(view_of(3, 3, {kLow, kMe, kHigh, PeerId{11, 11}})));
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kOk);
}

}  // namespace
}  // namespace lockstep::peer
