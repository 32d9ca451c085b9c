// Syncs that overwrite the state of a member of the last agreement (rule 55).
#include "core/coordinator/repairs.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/rounds.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {
namespace {

constexpr Digest kGood{7, 7};
constexpr Digest kBad{9, 9};

// Members a, b and c, which have agreed on revision 6.
class RepairsOfThree : public testing::Test {
 protected:
  static constexpr PeerId kA{1, 1};
  static constexpr PeerId kB{2, 2};
  static constexpr PeerId kC{3, 3};
  static constexpr PeerId kD{4, 4};

  RepairsOfThree() {
    view_.number = ViewNumber{1};
    view_.cohort = CohortId{1};
    for (const PeerId peer : {kA, kB, kC}) view_.members.push_back({peer, {}, {}, {}, name_of(peer)});
    rounds_.admit(view_, {});
    for (const PeerId peer : {kA, kB, kC}) (void)rounds_.on_claim(peer, claim(6, kGood));
    use_ = 1;
  }

  static std::string name_of(PeerId peer) { return std::string(1, static_cast<char>('a' + peer.low - 1)); }
  [[nodiscard]] RoundKey key() const { return {view_.cohort, {}, Tag{7}, use_}; }
  [[nodiscard]] wire::Claim claim(std::uint64_t revision, Digest root, bool defined = true) const {
    wire::Claim claim{key(), attempt_, {}, {}, defined, revision, root, {}};
    claim.what.collective = wire::Collective::kSync;
    return claim;
  }
  [[nodiscard]] wire::Done done(std::string fetched, std::uint64_t hash = kGood.low) const {
    wire::Done done{key(), attempt_, {}, hash, 0, std::move(fetched)};
    done.what.collective = wire::Collective::kSync;
    return done;
  }
  // d is admitted.
  void admit_d() {
    view_.number = ViewNumber{2};
    view_.cohort = CohortId{2};
    view_.members.push_back({kD, {}, {}, {}, "d"});
    rounds_.admit(view_, {});
    attempt_ = Generation{2};
    use_ = 0;
  }
  std::vector<Rounds::Committed> lose(PeerId peer, const std::map<PeerId, std::vector<wire::OpenRound>>& open) {
    Rounds::Change change;
    change.lost = {peer};
    change.flushed = open;
    std::erase_if(view_.members, [&](const wire::Member& member) { return member.id == peer; });
    view_.number = view_.number.next();
    const auto verdicts = rounds_.verdicts(change, view_);
    for (const wire::Verdict& verdict : verdicts) verdict_ = verdict.text;
    auto committed = rounds_.install(change, view_, verdicts);
    attempt_ = Generation{view_.number.value};
    return committed;
  }
  static std::string told(const Rounds::DoneResult& result) {
    return result.committed.empty() ? "no commit" : result.committed.front().commit.state_difference;
  }

  wire::View view_;
  Rounds rounds_;
  Generation attempt_{1};
  std::uint32_t use_ = 0;
  std::string verdict_;
};

TEST_F(RepairsOfThree, AMemberWithOtherBytesIsNamedToAll) {
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, kBad));
  (void)rounds_.on_claim(kC, claim(7, kGood));
  const auto result = rounds_.on_done(kB, done("in 'w' (3 of 12 pieces)"));
  EXPECT_EQ(told(result),
            "state of revision 7 differed on b in 'w' (3 of 12 pieces) and was overwritten with that of a, c");
  EXPECT_EQ(result.committed.front().members.size(), 3U);
  EXPECT_TRUE(result.committed.front().repairs);
}

TEST_F(RepairsOfThree, AMemberWithoutTheLastStepIsBehind) {
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, kGood));
  (void)rounds_.on_claim(kC, claim(6, kBad));
  EXPECT_EQ(told(rounds_.on_done(kC, done("in 'w' (1 of 1 pieces)"))),
            "state of revision 6 on c was behind revision 7, differed in 'w' (1 of 1 pieces) and was overwritten with "
            "that of a, b");
}

TEST_F(RepairsOfThree, EqualStatesAndACommonWayBackAreNoRepairs) {
  for (const std::uint64_t revision : {7U, 3U}) {
    (void)rounds_.on_claim(kA, claim(revision, kGood));
    (void)rounds_.on_claim(kB, claim(revision, kGood));
    const auto result = rounds_.on_claim(kC, claim(revision, kGood));
    EXPECT_EQ(told(result), "") << revision;
    EXPECT_FALSE(result.committed.front().repairs);
    ++use_;
  }
}

TEST_F(RepairsOfThree, ANewcomerThatTakesTheStateOverIsNone) {
  admit_d();
  for (const PeerId peer : {kA, kB, kC}) (void)rounds_.on_claim(peer, claim(7, kGood));
  (void)rounds_.on_claim(kD, claim(0, kBad));
  EXPECT_EQ(told(rounds_.on_done(kD, done("in 'w' (12 of 12 pieces)"))), "");
}

TEST_F(RepairsOfThree, BesideANewcomerOnlyTheMemberIsNamed) {
  admit_d();
  for (const PeerId peer : {kA, kB}) (void)rounds_.on_claim(peer, claim(7, kGood));
  (void)rounds_.on_claim(kC, claim(7, kBad));
  (void)rounds_.on_claim(kD, claim(7, kBad));
  (void)rounds_.on_done(kD, done("in 'w' (12 of 12 pieces)"));
  const std::string text = told(rounds_.on_done(kC, done("in its values")));
  EXPECT_EQ(text, "state of revision 7 differed on c in its values and was overwritten with that of a, b");
}

// The first attempt has overwritten a part of the state of b when c is lost; the second one completes it.
TEST_F(RepairsOfThree, AStateThatAnEarlierAttemptOverwroteInPartIsNamed) {
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, kBad));
  (void)rounds_.on_claim(kC, claim(7, kGood));
  const wire::OpenRound open{key(), attempt_, false, true, 0};
  EXPECT_TRUE(lose(kC, {{kA, {open}}, {kB, {open}}}).empty());
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, {}, false));
  EXPECT_EQ(told(rounds_.on_done(kB, done("in 'w' (3 of 12 pieces)"))),
            "state of revision 7 differed on b in 'w' (3 of 12 pieces) and was overwritten with that of a");
}

// In place: b holds the state of a and c now. It came with another one.
TEST_F(RepairsOfThree, AStateThatAnEarlierAttemptOverwroteIsNamed) {
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, kBad));
  (void)rounds_.on_claim(kC, claim(7, kGood));
  const wire::OpenRound open{key(), attempt_, false, true, 0};
  EXPECT_TRUE(lose(kC, {{kA, {open}}, {kB, {open}}}).empty());
  (void)rounds_.on_claim(kA, claim(7, kGood));
  EXPECT_EQ(told(rounds_.on_claim(kB, claim(7, kGood))),
            "state of revision 7 differed on b and was overwritten with that of a");
}

// Its holders are lost, and nothing has arrived at b: its own state is elected.
TEST_F(RepairsOfThree, AStateThatIsElectedAfterAllIsNone) {
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, kBad));
  (void)rounds_.on_claim(kC, claim(7, kGood));
  const auto open = [&] { return wire::OpenRound{key(), attempt_, false, true, 0}; };
  (void)lose(kC, {{kA, {open()}}, {kB, {open()}}});
  (void)lose(kA, {{kB, {open()}}});
  EXPECT_EQ(told(rounds_.on_claim(kB, claim(7, kBad))), "");
}

TEST_F(RepairsOfThree, ACommitByAVerdictNamesTheMember) {
  (void)rounds_.on_claim(kA, claim(7, kGood));
  (void)rounds_.on_claim(kB, claim(7, kBad));
  (void)rounds_.on_claim(kC, claim(5, kBad));
  EXPECT_TRUE(rounds_.on_done(kB, done("in 'w' (1 of 2 pieces)")).committed.empty()) << "c has not fetched yet";
  const wire::OpenRound open{key(), attempt_, true, true, kGood.low};
  const auto committed = lose(kC, {{kA, {open}}, {kB, {open}}});
  ASSERT_EQ(committed.size(), 1U);
  EXPECT_TRUE(committed.front().repairs);
  EXPECT_EQ(verdict_, "state of revision 7 differed on b in 'w' (1 of 2 pieces) and was overwritten with that of a");
  EXPECT_EQ(committed.front().commit.state_difference, verdict_);
}

// ---- the account alone ----

std::vector<wire::Member> numbered_members(std::uint64_t size) {
  std::vector<wire::Member> members;
  for (std::uint64_t i = 1; i <= size; ++i) members.push_back({{i, i}, {}, {}, {}, "p" + std::to_string(i)});
  return members;
}

TEST(Repairs, ManyAreNamedInPart) {
  const std::vector<wire::Member> members = numbered_members(10);
  std::vector<state::Claim> claims;
  wire::Elected won{{}, {}, 7, kGood, {}, {}, {}};
  std::set<PeerId> agreed;
  for (const wire::Member& member : members) {
    const bool strays = claims.size() >= 5;
    claims.push_back({member.id, {}, true, 7, strays ? kBad : kGood, {}});
    agreed.insert(member.id);
    (strays ? won.receivers : won.sources).push_back(member.id);
  }
  Repairs repairs;
  const RoundKey key{CohortId{1}, {}, Tag{7}, 0};
  repairs.elected(key, members, claims, won, agreed);
  EXPECT_EQ(repairs.describe(key), "") << "nothing is overwritten yet";
  for (const PeerId peer : won.receivers) repairs.done(key, peer, "in 'w' (1 of 1 pieces)");
  const std::string text = repairs.describe(key);
  EXPECT_NE(text.find("on p6 in 'w' (1 of 1 pieces) and was overwritten with that of p1, p2, p3 and 2 more; "),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with(" and 2 more")) << text;
  EXPECT_EQ(text.find("p9"), std::string::npos) << text;
}

TEST(Repairs, NothingStaysOfARoundThatIsOver) {
  const std::vector<wire::Member> members = numbered_members(2);
  const std::vector<state::Claim> claims = {{members[0].id, {}, true, 7, kGood, {}},
                                            {members[1].id, {}, true, 7, kBad, {}}};
  const wire::Elected won{{}, {}, 7, kGood, {}, {members[0].id}, {members[1].id}};
  Repairs repairs;
  for (std::uint32_t use = 0; use < 3; ++use) {
    repairs.elected({CohortId{1}, {}, Tag{7}, use}, members, claims, won, {members[0].id, members[1].id});
  }
  EXPECT_EQ(repairs.size(), 3U);
  repairs.forget(RoundKey{CohortId{1}, {}, Tag{7}, 0});
  EXPECT_EQ(repairs.size(), 2U);
  repairs.forget(CohortId{1});
  EXPECT_EQ(repairs.size(), 0U);
  repairs.done({CohortId{1}, {}, Tag{7}, 1}, members[1].id, "in 'w'");
  EXPECT_EQ(repairs.describe({CohortId{1}, {}, Tag{7}, 1}), "");
}

}  // namespace
}  // namespace lockstep::coordinator
