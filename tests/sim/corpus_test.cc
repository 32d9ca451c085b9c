// The corpus: every plan still finds its bug. And `lockstep sim corpus` itself: it reports stale plans.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/mutant.h"
#include "sim/plan/plan_file.h"
#include "sim/search/story.h"
#include "tests/sim/calm_plan.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

constexpr auto kCorpus = LOCKSTEP_SOURCE_DIR "/sim/corpus";

std::string written(const std::string& name, const std::string& text) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("corpus_" + name);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "plan.toml") << text;
  return folder.string();
}

TEST(Corpus, EveryPlanPassesAndReachesItsGoals) {
  const Ran ran = run_sim({"corpus", "run", kCorpus});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.errors;
  std::size_t plans = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    plans += entry.path().extension() == ".toml" ? 1 : 0;
  }
  EXPECT_GE(plans, 12U);
}

// A plan of the corpus or of the coverage is what the writer writes: `corpus refresh` and `cover --keep` then change
// only what they mean to change.
TEST(Corpus, EveryStoredPlanIsInTheFormOfTheWriter) {
  for (const char* folder : {kCorpus, LOCKSTEP_SOURCE_DIR "/sim/cover/plans"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".toml") continue;
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const Result<Plan> plan = plan_from_text(text);
      ASSERT_TRUE(plan.ok()) << entry.path() << ": " << plan.error().text;
      const std::string head = text.starts_with("story.") ? to_text(*story_from_text(text)) + "\n" : "";
      EXPECT_EQ(head + to_text(*plan), text) << entry.path();
    }
  }
}

TEST(Corpus, APlanThatMissesItsGoalsIsStale) {
  const std::string folder = written("stale",
                                     "story.promise = \"S2\"\nstory.why = \"a kill too many\"\n"
                                     "story.goals = { kills = 1, commits = 1 }\n" +
                                         to_text(calm_plan()));
  const Ran ran = run_sim({"corpus", "run", folder});
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.out, HasSubstr("STALE: kills 0, at least 1 is wanted"));
  EXPECT_THAT(ran.out, HasSubstr("1 plan, 0 broken, 1 stale"));
  EXPECT_EQ(ran.errors, "lockstep sim replay " + folder + "/plan.toml\n");
  const Ran stale = run_sim({"corpus", "stale", folder});
  EXPECT_EQ(stale.code, 15);
  EXPECT_THAT(stale.out, HasSubstr("a kill too many"));
}

TEST(Corpus, AnAddedPlanStatesTheGoalsThatItReaches) {
  const std::string from = written("from", to_text(calm_plan()));
  const std::string folder = written("added", "");
  for (const char* left : {"plan.toml", "new.toml"}) std::filesystem::remove(std::filesystem::path(folder) / left);
  const Ran ran = run_sim({"corpus", "add", from + "/plan.toml", "--promise", "L5", "--story", "it \"never\" was",
                           "--fixed", "abc123", "--name", "new", "--folder", folder});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  std::ifstream file(folder + "/new.toml");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Result<Story> story = story_from_text(text);
  ASSERT_TRUE(story.ok()) << story.error().text;
  EXPECT_EQ(story->why, "it \"never\" was");
  EXPECT_EQ(story->fixed, "abc123");
  EXPECT_THAT(story->goals, testing::Contains(testing::Pair("commits", 1U)));
  ASSERT_TRUE(plan_from_text(text).ok());
  EXPECT_EQ(to_text(*plan_from_text(text)), to_text(calm_plan()));
  EXPECT_EQ(run_sim({"corpus", "run", folder}).code, 0);
}

TEST(Corpus, GoalsAreReadInTheOrderInWhichTheyAreWritten) {
  Counts counts;
  counts.kills = counts.commits = counts.aborts = 2;
  Story story{.promise = "S2", .why = "it was", .fixed = "abc123", .mutant = {}, .goals = goals_of(counts)};
  const Result<Story> read = story_from_text(to_text(story));
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->goals, story.goals);
}

TEST(Corpus, AddChecksThePlanFirst) {
  const std::string from = written("looked_at", to_text(calm_plan())) + "/plan.toml";
  const std::string folder = written("looked_at_into", "");
  std::filesystem::remove(folder + "/new.toml");  // of a run before
  const auto add = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"corpus", "add", from, "--story", "it was", "--name", "new", "--folder", folder};
    words.insert(words.end(), more.begin(), more.end());
    return run_sim(words);
  };
  const struct {
    std::vector<std::string> words;
    const char* says;
  } cases[] = {
      {{"--promise", "S12", "--fixed", "abc"}, "unknown promise 'S12' (one of: S1 to S11, A1 to A5, L1 to L6, P1"},
      {{"--promise", "safety", "--fixed", "abc"}, "unknown promise 'safety'"},
      {{"--promise", "L7", "--fixed", "abc"}, "unknown promise 'L7'"},
      {{"--promise", "S2", "--fixed", "abc\ndef"}, "--fixed must be one line of UTF-8, without control characters"},
      {{"--promise", "S2"}, "breaks nothing: say which commit has fixed it (--fixed), or which mutant"},
      {{"--promise", "S2", "--planted", "abort-alone"}, "unknown mutant 'abort-alone'; did you mean 'aborts-alone'?"},
  };
  for (const auto& c : cases) {
    const Ran ran = add(c.words);
    EXPECT_EQ(ran.code, 2) << c.says;
    EXPECT_THAT(ran.errors, HasSubstr(c.says));
    EXPECT_FALSE(std::filesystem::exists(folder + "/new.toml"));
  }
  for (const char* story : {"two\nlines", "a \x1b[31mterminal's", "no UTF-8: \xff"}) {
    const Ran ran = run_sim({"corpus", "add", from, "--story", story, "--name", "new", "--folder", folder, "--promise",
                             "S2", "--fixed", "abc"});
    EXPECT_EQ(ran.code, 2) << story;
    EXPECT_THAT(ran.errors, HasSubstr("--story must be one line of UTF-8, without control characters"));
    EXPECT_FALSE(std::filesystem::exists(folder + "/new.toml"));
  }
  const Ran planted = add({"--promise", "S1", "--planted", "aborts-alone"});  // it takes more than a calm plan
  EXPECT_EQ(planted.code, kMutantsBuilt ? 2 : 0) << planted.errors;
  EXPECT_THAT(planted.errors,
              HasSubstr(kMutantsBuilt ? "with aborts-alone planted nothing breaks"
                                      : "nobody has seen aborts-alone break S1 yet; ./run mutants tells"));
  std::ofstream(folder + "/new.toml") << "another's";
  const Ran twice = add({"--promise", "S2", "--fixed", "abc"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.errors, HasSubstr("new.toml is there already: say another --name"));
}

TEST(Corpus, MistakesInAStoryAreNamedWithTheirPlace) {
  const auto error = [](const std::string& text) {
    const Result<Story> story = story_from_text(text);
    return story.ok() ? "none" : story.error().text;
  };
  const std::string head = "story.promise = \"S2\"\nstory.why = \"x\"\n";
  EXPECT_EQ(error(head + "story.goals = { kill = 1 }\n"), "3:17: unknown goal \"kill\"; did you mean 'kills'?");
  EXPECT_EQ(error(head + "story.goals = { kills = 0 }\n"), "3:25: story.goals.kills must be an integer, at least 1");
  EXPECT_EQ(error(head + "story.fixd = \"x\"\n"), "3:7: unknown key \"story.fixd\"; did you mean 'fixed'?");
  EXPECT_THAT(error(head), HasSubstr("a story without goals would never be stale"));
  EXPECT_THAT(error("story.why = \"x\"\nstory.goals = { kills = 1 }\n"), HasSubstr("needs a promise"));
  EXPECT_THAT(error("peers = 3\n"), HasSubstr("there is no story"));
  const Ran none = run_sim({"corpus", "run", "/nowhere"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("/nowhere: No such file"));
}

TEST(Corpus, OnlyABuildWithPlantedBugsMakesPlansAnew) {
  if (kMutantsBuilt) GTEST_SKIP() << "this build has planted bugs";
  const Ran ran = run_sim({"corpus", "refresh", kCorpus});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("to build one that has: ./run mutants"));
}

TEST(PlantedBugs, MakeStalePlansAnew) {
  if (!kMutantsBuilt) GTEST_SKIP() << "no planted bugs in this build";
  const std::string folder = written("refresh",
                                     "story.promise = \"S2\"\nstory.why = \"elements were left out\"\n"
                                     "story.mutant = \"remainder-skipped\"\nstory.goals = { kills = 7 }\n" +
                                         to_text(calm_plan()));
  EXPECT_EQ(run_sim({"corpus", "run", folder}).code, 15);
  const Ran ran = run_sim({"corpus", "refresh", folder, "--time", "2"});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("made anew from seed "));
  EXPECT_EQ(run_sim({"corpus", "run", folder}).code, 0);
  EXPECT_THAT(run_sim({"corpus", "refresh", folder}).out, HasSubstr("0 plans made anew, 0 left"));
  EXPECT_THAT(run_sim({"corpus", "refresh", folder, "--only", "plam"}).errors, HasSubstr("did you mean 'plan'?"));
}

}  // namespace
}  // namespace lockstep::sim
