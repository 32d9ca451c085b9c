// Watched states (rule 40): the fingerprint that a peer sends with Done, and its answers after states differ.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/peer/small.h"

namespace lockstep::peer {
namespace {

constexpr std::uint32_t kPieceBytes = 64;
constexpr std::uint64_t kTensorBytes = 160;  // three pieces

// A round of three, as in peer_commit_test.cc. The watched state has two tensors, a value, and a tensor that may
// differ.
struct Watching : Small {
  explicit Watching(bool watches = true) : Small(kOwner) {
    for (BufferRef& tensor : tensors) tensor = me.hold(kTensorBytes, 1);
    if (watches) watch();
  }

  void watch(std::uint64_t revision = 4, std::uint64_t value = 9, std::set<std::uint32_t> unchanged = {},
             std::string name = "w") {
    auto state = std::make_shared<state::Statement>();
    state->manifest = {{{std::move(name), DataType::kU8, kTensorBytes, false},
                        {"own", DataType::kU8, kTensorBytes, true},
                        {"b", DataType::kU8, kTensorBytes, false}},
                       {{"step", state::ValueType::kUint}},
                       kPieceBytes};
    state->values = {value};
    state->revision = revision;
    state->unchanged = std::move(unchanged);
    watched = std::make_shared<Watched>(Watched{std::move(state), {tensors[0], tensors[1], tensors[2]}});
  }
  // The fingerprint that the peer sends with Done.
  std::uint64_t fingerprint(std::uint64_t tag) {
    call(tag);
    offered(tag);
    const auto* said = coordinator->last<wire::Done>();
    EXPECT_TRUE(said != nullptr && said->key == key(tag));
    return said == nullptr ? 0 : said->state_fingerprint;
  }
  // The other members are done; `high` reports this fingerprint.
  void others_are_done(std::uint64_t fingerprint, std::uint64_t tag = 7) {
    wire::Done done = *coordinator->last<wire::Done>();
    ASSERT_EQ(done.key, key(tag));
    low->say(done);
    done.state_fingerprint = fingerprint;
    high->say(done);
    me.run();
  }

  BufferRef tensors[3];
};

TEST(Watch, APeerWithoutAWatchReportsNoFingerprint) {
  Watching w(false);
  EXPECT_EQ(w.fingerprint(7), 0U);
  EXPECT_EQ(w.me.digests, 0U);
}

TEST(Watch, DoneWaitsForTheDigestsOfTheWatchedState) {
  Watching w;
  w.me.jobs_held = true;
  w.call();
  EXPECT_EQ(w.me.digests, 6U) << "three pieces of two tensors";
  w.offered();
  EXPECT_EQ(w.coordinator->last<wire::Done>(), nullptr);
  w.me.jobs_held = false;
  w.me.run();
  ASSERT_NE(w.coordinator->last<wire::Done>(), nullptr);
  EXPECT_NE(w.coordinator->last<wire::Done>()->state_fingerprint, 0U);
  EXPECT_EQ(w.high->last<wire::Done>()->state_fingerprint, w.coordinator->last<wire::Done>()->state_fingerprint);
}

TEST(Watch, AllPartsCountExceptTensorsThatMayDiffer) {
  Watching w;
  const std::uint64_t was = w.fingerprint(1);
  EXPECT_EQ(w.fingerprint(2), was);
  w.me.change(w.tensors[1], 2);
  EXPECT_EQ(w.fingerprint(3), was) << "this tensor may differ";
  w.watch(5);
  EXPECT_NE(w.fingerprint(4), was) << "the revision";
  w.watch(4, 8);
  EXPECT_NE(w.fingerprint(5), was) << "the value";
  w.watch(4, 9, {}, "v");
  EXPECT_NE(w.fingerprint(6), was) << "the name of a tensor";
  w.watch();
  EXPECT_EQ(w.fingerprint(7), was);
  w.me.change(w.tensors[2].slice(kTensorBytes - 1, 1), 3);
  EXPECT_NE(w.fingerprint(8), was) << "the last byte";
}

TEST(Watch, UnchangedTensorsAreNotDigestedAgain) {
  Watching w;
  const std::uint64_t was = w.fingerprint(1);
  EXPECT_EQ(std::exchange(w.me.digests, 0), 6U);
  w.watch(4, 9, {0});
  EXPECT_EQ(w.fingerprint(2), was);
  EXPECT_EQ(std::exchange(w.me.digests, 0), 3U);
  w.me.change(w.tensors[2], 2);
  EXPECT_NE(w.fingerprint(3), was) << "the tensor is not declared unchanged";
  w.watch(4, 9, {0, 2});
  w.me.digests = 0;
  const std::uint64_t now = w.fingerprint(4);
  EXPECT_NE(now, was);
  EXPECT_EQ(w.me.digests, 0U);
  w.watch();
  EXPECT_EQ(w.fingerprint(5), now);
  EXPECT_EQ(w.me.digests, 6U);
}

// The call in between changed the tensor, and its digest was never computed.
TEST(Watch, UnchangedRefersToTheLastLaunch) {
  Watching w;
  (void)w.fingerprint(1);
  w.me.change(w.tensors[0], 2);
  w.me.jobs_held = true;
  w.call(2);
  w.watch(4, 9, {0, 2});
  w.me.digests = 0;
  w.call(3);
  EXPECT_EQ(w.me.digests, 6U);
}

TEST(Watch, EqualStatesCommitWithoutTheCoordinator) {
  Watching w;
  const CallId id = w.call();
  w.offered();
  w.others_are_done(w.coordinator->last<wire::Done>()->state_fingerprint);
  ASSERT_NE(w.me.outcome(id), nullptr);
  EXPECT_EQ(w.me.outcome(id)->state_difference, "");
}

TEST(Watch, APeerWithoutAWatchDelaysNoMember) {
  Watching w;
  const CallId id = w.call();
  w.offered();
  w.others_are_done(0);
  ASSERT_NE(w.me.outcome(id), nullptr);
  EXPECT_EQ(w.me.outcome(id)->status, Status::kOk);
}

TEST(Watch, TheCoordinatorJudgesDifferentStates) {
  Watching w;
  const CallId id = w.call();
  w.offered();
  w.others_are_done(77);
  EXPECT_EQ(w.me.outcome(id), nullptr);
  const wire::Done done = *w.coordinator->last<wire::Done>();
  w.coordinator->say(wire::Commit{done.key, done.attempt, done.hash, false, "they differ"});
  w.me.run();
  ASSERT_NE(w.me.outcome(id), nullptr);
  EXPECT_EQ(w.me.outcome(id)->status, Status::kOk);
  EXPECT_EQ(w.me.outcome(id)->state_difference, "they differ");
}

TEST(Watch, DifferentStatesOfOthersDelayAPeerWithoutAWatch) {
  Watching w(false);
  const CallId id = w.call();
  w.offered();
  wire::Done done = *w.coordinator->last<wire::Done>();
  for (fuzz::FarEnd* end : {w.low, w.high}) {
    done.state_fingerprint += 8;
    end->say(done);
  }
  w.me.run();
  EXPECT_EQ(w.me.outcome(id), nullptr);
}

TEST(Watch, AVerdictAlsoReportsTheDifference) {
  Watching w;
  const CallId id = w.call();
  w.offered();
  wire::Propose loss = w.loss_of(kHigh);
  loss.verdicts.push_back(
      {Small::key(), Generation{1}, Status::kOk, w.coordinator->last<wire::Done>()->hash, "they differ"});
  w.install(loss);
  ASSERT_NE(w.me.outcome(id), nullptr);
  EXPECT_EQ(w.me.outcome(id)->state_difference, "they differ");
}

TEST(Watch, AnswersForItsStateUntilTheRoundEnds) {
  Watching w;
  w.call();
  w.offered();
  w.coordinator->say(wire::AskOutline{Small::key(), Generation{1}, wire::Outlined::kContents});
  w.coordinator->say(wire::AskEntry{Small::key(), Generation{1}, false, 2});
  w.coordinator->say(wire::AskEntry{Small::key(), Generation{1}, true, 0});
  w.me.run();
  const auto* outline = w.coordinator->last<wire::StateOutline>();
  ASSERT_NE(outline, nullptr);
  ASSERT_EQ(outline->tensors.size(), 3U);
  EXPECT_NE(outline->tensors[0], 0U);
  EXPECT_EQ(outline->tensors[1], 0U);
  EXPECT_EQ(outline->tensors[2], outline->tensors[0]) << "the contents are equal";
  EXPECT_EQ(outline->values, std::vector<std::uint64_t>{9});
  EXPECT_EQ(outline->revision, 4U);
  EXPECT_EQ(w.coordinator->count<wire::StateEntry>(), 2U);
  EXPECT_EQ(w.coordinator->last<wire::StateEntry>()->text, "step uint");
  w.others_are_done(w.coordinator->last<wire::Done>()->state_fingerprint);
  w.coordinator->say(wire::AskOutline{Small::key(), Generation{1}, wire::Outlined::kContents});  // a round that is over
  w.me.run();
  EXPECT_EQ(w.coordinator->count<wire::StateOutline>(), 1U);
  w.expect_alive();
}

TEST(Watch, AQuestionBeforeDoneIsAViolation) {
  Watching w;
  w.call();
  w.coordinator->say(wire::AskOutline{Small::key(), Generation{1}, wire::Outlined::kContents});
  w.me.run();
  ASSERT_TRUE(w.me.run_over);
  EXPECT_EQ(w.me.run_over->status, Status::kProtocolError);
}

TEST(Watch, ACallWaitsForJobsThatReadTheState) {
  Watching w;
  w.me.jobs_held = true;
  const CallId id = w.call();
  w.stopped({7});
  EXPECT_EQ(w.me.outcome(id), nullptr) << "jobs read the memory of the state";
  w.me.jobs_held = false;
  w.me.run();
  ASSERT_NE(w.me.outcome(id), nullptr);
  EXPECT_EQ(w.me.outcome(id)->status, Status::kAborted);
  w.expect_alive();
}

TEST(Watch, ARetryDigestsNothingAgain) {
  Watching w;
  w.call();
  w.install(w.loss_of(kHigh));
  EXPECT_EQ(w.me.digests, 6U);
  EXPECT_FALSE(w.me.run_over);
}

TEST(Watch, APeerThatIsAloneComparesNothing) {
  Watching w;
  wire::Propose loss = w.proposal(view_of(2, 1, {kMe}));
  loss.lost = {kLow, kHigh};
  w.install(loss);
  const CallId id = w.call();
  ASSERT_NE(w.me.outcome(id), nullptr);
  EXPECT_EQ(w.me.digests, 0U);
}

TEST(Watch, RefusesAnInvalidWatch) {
  Watching w;
  const auto refused = [&](const std::shared_ptr<const Watched>& what, wire::Collective collective) {
    w.watched = what;
    const CallId id = w.launch(collective, 50);
    return w.me.outcome(id) != nullptr && w.me.outcome(id)->status == Status::kInvalidArgument;
  };
  const auto good = w.watched;
  auto blank = std::make_shared<state::Statement>(*good->state);
  blank->blank = true;
  EXPECT_TRUE(refused(std::make_shared<Watched>(Watched{blank, good->memory}), wire::Collective::kBarrier));
  EXPECT_TRUE(refused(std::make_shared<Watched>(Watched{nullptr, good->memory}), wire::Collective::kBarrier));
  EXPECT_TRUE(refused(std::make_shared<Watched>(Watched{good->state, {}}), wire::Collective::kBarrier));
  EXPECT_FALSE(refused(good, wire::Collective::kBarrier));
}

}  // namespace
}  // namespace lockstep::peer
