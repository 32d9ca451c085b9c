// The commands of `lockstep sim` as a shell sees them: output, exit codes, and usage errors.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/plan/plan_file.h"
#include "tests/sim/calm_plan.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kQuiet = "peers = 2\nwork = [\"all_reduce 1KiB f32 sum\"]\nfaults_end = \"2s\"\n";
constexpr auto kKill = "[[do]]\nat = \"1s\"\ncrash = \"b\"\n";

// ---- goals ----

TEST(SimGoals, TooLittleCannotBeShrunkAndIsNotOfferedToBe) {
  const std::string file = file_with(std::string(kQuiet) + "[expect]\nkills = \">= 1\"\n");
  const Ran ran = run_sim({"run", file});
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.errors, AllOf(HasSubstr("goal broken"), HasSubstr("kills >= 1, but 0"), Not(HasSubstr("shrink"))));
  EXPECT_THAT(ran.errors, testing::EndsWith("\nlockstep sim run " + file + " --trace\n"));
  const Ran shrunk = run_sim({"shrink", file});
  EXPECT_EQ(shrunk.code, 15);
  EXPECT_THAT(shrunk.errors, HasSubstr("nothing to shrink: a count is too low (kills >= 1, but 0)"));
}

TEST(SimGoals, AnExceededGoalShrinksToAPlanThatStillExceedsIt) {
  const std::string file =
      file_with(std::string(kQuiet) + kKill + "[[do]]\nat = \"500ms\"\nstall = \"a\"\nfor = \"10ms\"\n" +
                "[expect]\nkills = 0\ncommits = \">= 1\"\n");
  const Ran ran = run_sim({"run", file});
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.errors, HasSubstr("to make it small: lockstep sim shrink " + file));
  const std::string folder = testing::TempDir() + "shrunk";
  std::filesystem::remove_all(folder);
  const std::string small = folder + "/small.toml";  // the folder is made
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

TEST(SimGoals, APassingRunIsNotShrunk) {
  const std::string file = file_with(to_text(calm_plan()));
  const Ran ran = run_sim({"shrink", file});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.errors, "nothing to shrink: the run breaks no promise\nlockstep sim replay " + file + "\n");
}

// ---- what is refused ----

TEST(SimUsage, AnOptionWithoutEffectIsRefused) {
  const std::string plan = file_with(to_text(calm_plan()));
  const struct {
    std::vector<std::string> words;
    const char* says;
  } cases[] = {
      {{"run", plan, "--peers", "3"}, "--peers has no effect with a file"},
      {{"run", plan, "--max-peers", "3"}, "--max-peers has no effect with a file"},
      {{"run", plan, "--mode", "token"}, "--mode has no effect with a file"},
      {{"run", plan, "--calm"}, "--calm has no effect with a file"},
      {{"run", plan, "--seed", "3"}, "is a plan, which has its own seed"},
      {{"run", "--seeds", "0..2", "--seed", "1"}, "--seed has no effect with --seeds"},
      {{"run", "--seeds", "0..2", "--trace"}, "--trace has no effect with --seeds"},
      {{"run", "--seeds", "0..2", "--write-plan", "x"}, "--write-plan has no effect with --seeds"},
      {{"run", "--seeds", "0..2", "--until", "7"}, "--until has no effect with --seeds"},
      {{"run", "--jobs", "2"}, "--jobs has no effect without --seeds"},
      {{"run", "--keep-going"}, "--keep-going has no effect without --seeds"},
      {{"run", "--streams"}, "--streams has no effect without --trace"},
      {{"run", "--peers", "3", "--max-peers", "5"}, "--max-peers has no effect with --peers"},
      {{"run", "--peers", "1"}, "2 to 1024"},
      {{"run", "--seed", "-1"}, "'-1' is no number"},
      {{"run", "--until", "-1"}, "'-1' is no number"},
      {{"run", "--seed", "99999999999999999999"}, "'99999999999999999999' is more than 2^64 - 1"},
      {{"run", ""}, "an empty name names no file"},
      {{"run", "--write-plan", ""}, "an empty name names no file"},
      {{"replay", ""}, "an empty name names no file"},
      {{"explain", ""}, "an empty name names no file"},
      {{"explain", "--seed", "1", "--html", ""}, "an empty name names no file"},
      {{"predict", ""}, "an empty name names no file"},
      {{"sweep", ""}, "an empty name names no file"},
      {{"audit", ""}, "an empty name names no file"},
      {{"night", ""}, "an empty name names no file"},
      {{"run", "--seeds", "0..2", "--time", "nan"}, "'nan' is no number from 0"},
      {{"shrink", "--seed", "1", "--time", "nan"}, "'nan' is no number from 0"},
      {{"night", "/nowhere", "--hours", "nan"}, "'nan' is no number from 0"},
      {{"corpus", "refresh", "--time", "nan"}, "'nan' is no number from 0"},
      {{"run", "--seeds", "18446744073709551610..18446744073709551615"}, "B must be at most 18446744073709551359"},
      {{"det", "--first", "18446744073709551615"}, "the sum of both must be at most 18446744073709551359"},
      {{"det", "--first", "5", "--seeds", "18446744073709551615"}, "the sum of both must be at most"},
      {{"cover", "--find", "peer-input: idle x Stop", "--keep", "/nowhere/at/all"}, "there is no such folder"},
      {{"det", "--peers", "1"}, "2 to 1024"},
      {{"det", "--first", "-1"}, "'-1' is no number"},
      {{"det", "--seeds", "0"}, "--seeds"},
      {{"shrink", plan, "--calm"}, "--calm has no effect with a file"},
      {{"shrink", "--seed", "-1"}, "'-1' is no number"},
      {{"replay", plan, "--json", "--streams"}, "--streams has no effect with --json"},
      {{"replay", plan, "--until", "-1"}, "'-1' is no number"},
  };
  for (const auto& c : cases) {
    const Ran ran = run_sim(c.words);
    EXPECT_EQ(ran.code, 2) << c.says;
    EXPECT_THAT(ran.errors, HasSubstr(c.says));
    EXPECT_EQ(ran.out, "") << c.says;
  }
}

TEST(SimUsage, ADirectoryIsNoFile) {
  const std::string folder = LOCKSTEP_SOURCE_DIR "/sim/scenarios";
  for (const char* command : {"run", "replay", "shrink"}) {
    const Ran ran = run_sim({command, folder});
    EXPECT_EQ(ran.code, 2) << command;
    EXPECT_THAT(ran.errors, HasSubstr(folder + " is a directory: name a file in it (`lockstep sim sweep`"));
  }
  EXPECT_EQ(run_sim({"scenario", "check", folder}).code, 2);
  EXPECT_EQ(run_sim({"run", "/nowhere.toml"}).code, 2);
  EXPECT_EQ(run_sim({"sweep", "/nowhere.toml"}).code, 2);
  EXPECT_EQ(run_sim({"corpus", "run", "/nowhere"}).code, 2);
  EXPECT_EQ(run_sim({"run", "--write-plan", "/nowhere/plan.toml"}).code, 2);
  const Ran raw = run_sim({"run", "/proc/self/mem"});  // can be opened, but not read
  EXPECT_EQ(raw.code, 2);
  EXPECT_THAT(raw.errors, HasSubstr("/proc/self/mem: cannot be read"));
}

TEST(SimUsage, AFileWithoutEndIsNoPlan) {
  const Ran ran = run_sim({"replay", "/dev/zero"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/dev/zero: larger than 16000000 bytes: no plan is"));
}

// A pipe can be read once only.
TEST(SimUsage, AScenarioMayComeFromAPipe) {
  const std::string text = std::string(kQuiet) + kKill;
  const std::string file = file_with(text);
  for (const char* command : {"run", "replay", "scenario"}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    const std::string pipe = "/dev/fd/" + std::to_string(ends[0]);
    const bool check = std::string(command) == "scenario";
    const auto words = [&](const std::string& path) {
      return check ? std::vector<std::string>{command, "check", path} : std::vector<std::string>{command, path};
    };
    const Ran ran = run_sim(words(pipe));
    ::close(ends[0]);
    EXPECT_EQ(ran.code, 0) << ran.errors;
    EXPECT_EQ(ran.out, check ? pipe + ": well-formed\n" : run_sim(words(file)).out) << command;
  }
}

TEST(SimUsage, EveryFileIsChecked) {
  const std::string good = file_with(to_text(calm_plan()));
  const std::string bad = file_with("pears = 3\n", "bad.toml");
  const Ran ran = run_sim({"scenario", "check", good, "/nowhere.toml", bad, good});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, good + ": well-formed\n" + good + ": well-formed\n");
  EXPECT_EQ(ran.errors, "/nowhere.toml: No such file or directory\n" + bad +
                            ":1:1: unknown key \"pears\"; did you mean 'peers'?\n");
}

// ---- what is printed ----

TEST(SimOutput, AFewSeedsProveLittle) {
  const std::vector<std::string> calm = {"run", "--calm", "--peers", "2", "--mode", "token", "--seeds"};
  const auto with = [&](const std::string& seeds) {
    std::vector<std::string> words = calm;
    words.push_back(seeds);
    return run_sim(words).out;
  };
  EXPECT_THAT(with("0..9"), Not(HasSubstr("confidence")));
  EXPECT_THAT(with("0..110"), HasSubstr("clean: with 95 % confidence fewer than 2.7 % of seeds fail"));
}

TEST(SimOutput, OneOfSomethingIsNotMany) {
  const std::string file = file_with(std::string(kQuiet) + kKill);
  EXPECT_THAT(run_sim({"run", file}).out,
              AllOf(HasSubstr(" 1 kill,"), HasSubstr("2 peers,"), HasSubstr("0 lost runs")));
}

TEST(SimOutput, AFaultThatNeverBeganIsTold) {
  const std::string file = file_with(std::string(kQuiet) + "[[do]]\nwhen = \"launch 999999\"\ncrash = \"b\"\n");
  for (const char* command : {"run", "replay"}) {
    const Ran ran = run_sim({command, file});
    EXPECT_EQ(ran.code, 0) << ran.errors;
    EXPECT_THAT(ran.errors, HasSubstr("note: never began: crash h2 at launch 999999; faults stopped at 2 s"));
  }
}

TEST(SimOutput, ATraceSpeaksOfHostsAndOfLeavers) {
  const std::string file = file_with(std::string(kQuiet) + "[[do]]\nat = \"200ms\"\ncut = \"a -> b\"\nfor = \"1ms\"\n" +
                                     "[[do]]\nat = \"1s\"\nleave = \"b\"\nback = \"100ms\"\n");
  const Ran ran = run_sim({"run", file, "--trace"});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  EXPECT_THAT(ran.out, AllOf(HasSubstr(" fault cut h1 -> h2 for 1 ms\n"),
                             HasSubstr(" fault leave h2, back after 100 ms\n"), HasSubstr(" has left\n"),
                             HasSubstr("| left view="), Not(HasSubstr("loses the run")), Not(HasSubstr("run-lost"))));
}

TEST(SimOutput, HelpSaysDefaultsAndHasNoHoles) {
  EXPECT_THAT(run_sim({"run", "--help"}).out, AllOf(HasSubstr("default: 0"), Not(HasSubstr("\n\n\n"))));
  EXPECT_THAT(run_sim({"det", "--help"}).out, AllOf(HasSubstr("=200"), Not(HasSubstr("\n\n\n"))));
  EXPECT_THAT(run_sim({"sweep", "--help"}).out, HasSubstr("=1\n"));
}

}  // namespace
}  // namespace lockstep::sim
