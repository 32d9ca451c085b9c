// The commands of `lockstep sim` as a shell sees them: what they print, what they exit with, and what they refuse.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/plan_file.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kQuiet = "peers = 2\nwork = [\"all_reduce 1KiB f32 sum\"]\nfaults_end = \"2s\"\n";
constexpr auto kKill = "[[do]]\nat = \"1s\"\ncrash = \"b\"\n";

std::string calm_plan() {
  PlanOptions calm;
  calm.peers = 2;
  calm.calm = true;
  return to_text(plan_of(1, calm));
}

// ---- goals ----

TEST(SimGoals, TooLittleCannotBeShrunkAndIsNotOfferedToBe) {
  const std::string file = file_with(std::string(kQuiet) + "[expect]\nkills = \">= 1\"\n");
  const Ran ran = run_sim({"run", file});
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.errors, AllOf(HasSubstr("goal broken"), HasSubstr("kills >= 1, but 0"), Not(HasSubstr("shrink"))));
  EXPECT_THAT(ran.errors, testing::EndsWith("\nlockstep sim run " + file + " --trace\n"));
  const Ran shrunk = run_sim({"shrink", file});
  EXPECT_EQ(shrunk.code, 15);
  EXPECT_THAT(shrunk.errors, HasSubstr("nothing to shrink: too little happens (kills >= 1, but 0)"));
}

TEST(SimGoals, TooMuchIsShrunkToWhatStillExceedsIt) {
  const std::string file =
      file_with(std::string(kQuiet) + kKill + "[[do]]\nat = \"500ms\"\nstall = \"a\"\nfor = \"10ms\"\n" +
                "[expect]\nkills = 0\ncommits = \">= 1\"\n");
  const Ran ran = run_sim({"run", file});
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.errors, HasSubstr("to make it small: lockstep sim shrink " + file));
  const std::string small = file_with("", "small.toml");
  const Ran shrunk = run_sim({"shrink", file, "--out", small, "--max-runs", "60"});
  EXPECT_EQ(shrunk.code, 0) << shrunk.errors;
  EXPECT_THAT(shrunk.out, HasSubstr("kills <= 0, but 1"));
  const Result<Plan> plan = plan_from_text(text_in(small));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->entries.size(), 1U);
  EXPECT_EQ(to_text(plan->expect), "[expect]\nkills = \"<= 0\"\n");
  EXPECT_EQ(run_sim({"replay", small}).code, 15);
}

TEST(SimGoals, AreKeptInAPlanThatIsWritten) {
  const std::string file = file_with(std::string(kQuiet) + "[expect]\nkills = 1\nwithin = \"90s\"\n");
  const std::string plan = file_with("", "plan.toml");
  EXPECT_EQ(run_sim({"run", file, "--write-plan", plan}).code, 15);
  EXPECT_THAT(text_in(plan), HasSubstr("[expect]\nkills = \"== 1\"\nwithin = \"90s\"\n"));
  for (const char* command : {"run", "replay"}) {
    const Ran ran = run_sim({command, plan});
    EXPECT_EQ(ran.code, 15) << command;
    EXPECT_THAT(ran.errors, HasSubstr("kills == 1, but 0"));
  }
}

TEST(SimGoals, ARunThatFailsInNothingIsNotShrunk) {
  const std::string file = file_with(calm_plan());
  const Ran ran = run_sim({"shrink", file});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.errors, "nothing to shrink: the run breaks no promise\nlockstep sim replay " + file + "\n");
}

}  // namespace
}  // namespace lockstep::sim
