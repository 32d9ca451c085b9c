// `lockstep sim explain` as it is typed.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/base/mutant.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

TEST(Explain, APassingRunHasATimeline) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "explain";
  std::filesystem::create_directories(folder);
  const Ran ran = run_sim({"explain", "--seed", "1", "--calm", "--peers", "2", "--html", folder / "run.html", "--json",
                           folder / "run.json", "--perfetto", folder / "run.perfetto"});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("no promise was broken"));
  EXPECT_THAT(text_in(folder / "run.html"), HasSubstr("</html>"));
  const auto json = nlohmann::json::parse(text_in(folder / "run.json"));
  EXPECT_EQ(json.at("replay"), "lockstep sim run --seed 1 --peers 2 --calm");
  EXPECT_FALSE(nlohmann::json::parse(text_in(folder / "run.perfetto")).at("traceEvents").empty());
}

TEST(Explain, AnyMomentCanBeExplained) {
  const Ran ran = run_sim({"explain", "--seed", "1", "--calm", "--peers", "2", "--moment", "30"});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("what led to #30: "));
  EXPECT_THAT(ran.out, HasSubstr("   #30 "));
  const Ran none = run_sim({"explain", "--seed", "1", "--calm", "--peers", "2", "--moment", "3000000"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("--moment 3000000: this run has the moments 0 to "));
}

TEST(Explain, AGoalThatWasMissedIsTold) {
  const std::string file = file_with("peers = 2\nfaults_end = \"1s\"\n[expect]\nkills = \">= 1\"\n", "goal.toml");
  const Ran ran = run_sim({"explain", file, "--seed", "0"});
  EXPECT_EQ(ran.code, 15) << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("no promise was broken, but a goal was missed: kills >= 1, but 0\n"));
}

TEST(Explain, WhyAGoalWasMissedIsTold) {
  const std::string file =
      file_with("peers = 2\nfaults_end = \"1s\"\n[[do]]\nwhen = \"launch 99999\"\ncrash = \"a\"\n[expect]\nkills = 1\n",
                "goal.toml");
  const Ran ran = run_sim({"explain", file});
  EXPECT_EQ(ran.code, 15) << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("a goal was missed: kills == 1, but 0"));
  EXPECT_THAT(ran.errors, HasSubstr("note: never began: crash h1 at launch 99999"));
}

TEST(Explain, NoFileOverwritesAnother) {
  const std::string file = file_with("peers = 2\nfaults_end = \"1s\"\n[expect]\n");
  const std::string page = std::filesystem::path(file).parent_path() / "page";
  const std::string again = std::filesystem::path(file).parent_path() / "." / "page";
  const Ran ran = run_sim({"explain", file, "--html", page, "--json", again});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("--html and --json are the same file, " + again));
  EXPECT_FALSE(std::filesystem::exists(page));
  EXPECT_THAT(run_sim({"explain", file, "--perfetto", file}).errors, HasSubstr("the plan and --perfetto are the same"));
  EXPECT_EQ(run_sim({"explain", file, "--html", "/dev/null", "--json", "/dev/null"}).code, 0);
}

TEST(Explain, APictureThatCannotBeWrittenIsTold) {
  const Ran ran = run_sim({"explain", "--seed", "1", "--calm", "--peers", "2", "--html", "/nowhere/x.html"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/nowhere/x.html: cannot be written: No such file"));
}

// With its bug planted, a plan of the corpus is explained from the fault that it needs to the promise that it breaks.
TEST(PlantedBugs, AreExplained) {
  if (!kMutantsBuilt) GTEST_SKIP() << "no planted bugs in this build";
  const Ran ran = run_sim(
      {"explain", LOCKSTEP_SOURCE_DIR "/sim/corpus/told-before-restore.toml", "--mutant", "told-before-restore"});
  EXPECT_EQ(ran.code, 10);
  EXPECT_THAT(ran.out, HasSubstr("S4 broken"));
  EXPECT_THAT(ran.out, HasSubstr("fault: "));
  EXPECT_THAT(ran.errors, HasSubstr("told-before-restore.toml --mutant told-before-restore\n"));
  plant(Mutant::kNone);
}

}  // namespace
}  // namespace lockstep::sim
