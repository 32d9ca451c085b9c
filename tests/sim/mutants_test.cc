// The list of planted bugs is well-formed, and a build that ships has none. That the simulator finds each of them is
// the business of `./run mutants`.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/mutant.h"
#include "sim/cli/command.h"
#include "sim/cli/detection.h"
#include "sim/cli/hunt.h"
#include "sim/cli/rotation.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

const std::set<std::string_view> kPromises = {"A1", "A2", "A3", "A4", "A5",  "S1",  "S2",     "S3",      "S4",
                                              "S5", "S6", "S8", "S9", "S10", "S11", "L1",     "L2",      "L3",
                                              "L4", "L5", "L6", "P1", "P3",  "T1",  "assert", "contract"};

bool is_kebab_case(std::string_view id) {
  const auto letter = [](char c) { return c == '-' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !id.empty() && std::all_of(id.begin(), id.end(), letter) && id.front() != '-' && id.back() != '-' &&
         id.find("--") == std::string_view::npos;
}

// kCommitWithoutOne: commit-without-one.
std::string kebab_case_of(std::string_view name) {
  std::string id;
  for (const char c : name.substr(1)) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !id.empty()) id += '-';
    id += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return id;
}

TEST(Mutants, AreManyAndEachIsItsOwn) {
  EXPECT_GE(kMutants.size(), 24U);
  std::set<std::string_view> ids;
  for (std::size_t i = 0; i < kMutants.size(); ++i) {
    EXPECT_TRUE(ids.insert(kMutants[i].id).second) << kMutants[i].id;
    EXPECT_EQ(static_cast<std::size_t>(kMutants[i].mutant), i + 1) << kMutants[i].id;
  }
}

TEST(Mutants, AreCalledAlikeInTheSourcesAndOnTheCommandLine) {
#define NAME(name, id, promises, rarity, bug) EXPECT_EQ(kebab_case_of(#name), id);
  LOCKSTEP_MUTANTS_ALL(NAME)
#undef NAME
  for (const MutantEntry& entry : kMutants) EXPECT_TRUE(is_kebab_case(entry.id)) << entry.id;
}

TEST(Mutants, NamePromisesThatHaveACheckerAndABudget) {
  for (const MutantEntry& entry : kMutants) {
    EXPECT_FALSE(entry.bug.empty()) << entry.id;
    EXPECT_TRUE(entry.rarity == Rarity::kCommon || entry.rarity == Rarity::kRare || entry.rarity == Rarity::kNeedle);
    std::set<std::string> named;
    for (std::size_t at = 0; at < entry.promises.size();) {
      const std::size_t end = std::min(entry.promises.find(' ', at), entry.promises.size());
      const std::string promise(entry.promises.substr(at, end - at));
      EXPECT_TRUE(kPromises.contains(promise)) << entry.id << ": " << promise;
      EXPECT_TRUE(named.insert(promise).second) << entry.id << " names " << promise << " twice";
      at = end + 1;
    }
    EXPECT_FALSE(named.empty() || named == std::set<std::string>{"assert"}) << entry.id;
  }
}

TEST(Mutants, AreNotInABuildThatShips) {
  if (kMutantsBuilt) GTEST_SKIP() << "built with LOCKSTEP_MUTANTS";
  for (const MutantEntry& entry : kMutants) {
    plant(entry.mutant);
    EXPECT_FALSE(mutant(entry.mutant));
  }
  const Ran hunt = run_sim({"mutants"});
  EXPECT_EQ(hunt.code, 2);
  EXPECT_THAT(hunt.errors, HasSubstr("this build has no planted bugs"));
  EXPECT_THAT(hunt.errors, HasSubstr("./run mutants"));
  const Ran one = run_sim({"run", "--seed", "1", "--mutant", "commit-without-one"});
  EXPECT_EQ(one.code, 2);
  EXPECT_THAT(one.errors, HasSubstr("this build has no planted bugs"));
}

TEST(Mutants, AnUnknownOneIsGuessed) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  const Ran hunt = run_sim({"mutants", "--only", "comit-without-one"});
  EXPECT_EQ(hunt.code, 2);
  EXPECT_THAT(hunt.errors, HasSubstr("did you mean 'commit-without-one'?"));
}

TEST(Mutants, HaveARecordedRateOfDetection) {
  const Detections recorded = read_detections(LOCKSTEP_SOURCE_DIR "/sim/mutants.toml");
  for (const MutantEntry& entry : kMutants) {
    EXPECT_TRUE(recorded.contains(entry.id))
        << entry.id << ": to record its rate: ./run mutants --record --only " << entry.id;
  }
  EXPECT_EQ(recorded.size(), kMutants.size()) << "a rate of a mutant that is no more";
}

TEST(Detection, IsReadAsItWasWritten) {
  const Detections written = {{"one", {5, 40}}, {"two", {25, 25}}};
  const std::string path = file_with("");
  write_detections(written, path);
  EXPECT_EQ(read_detections(path), written);
}

TEST(Detection, AMistakeInItsFileIsNamedWithItsPlace) {
  const auto error_of = [](const std::string& text) -> std::string {
    const std::string path = file_with(text);
    try {
      (void)read_detections(path);
    } catch (const UsageError& error) {
      return std::string(error.what()).substr(path.size() + 1);
    }
    return "none";
  };
  EXPECT_EQ(error_of("one = {found = 5, seeds = 40}"), "none");
  EXPECT_EQ(error_of("one = {found = 5, seed = 40}"), "1:19: unknown key \"seed\"; did you mean 'seeds'?");
  EXPECT_THAT(error_of("one = {found = 5, seeds = 4}"), HasSubstr("must have 1 or more searches in found"));
  EXPECT_THAT(error_of("one = {found = 0, seeds = 4}"), HasSubstr("must have 1 or more searches in found"));
  EXPECT_EQ(error_of("one = 5"), "1:7: one must be like {found = 5, seeds = 40}");
  EXPECT_THAT(error_of("one = {"), HasSubstr("1:"));
}

TEST(Detection, FallsToHalfWhenTwiceAsManySeedsAreNeeded) {
  const Detection recorded = {5, 100};
  EXPECT_FALSE(fell_to_half({5, 200}, recorded));
  EXPECT_TRUE(fell_to_half({5, 201}, recorded));
  EXPECT_TRUE(fell_to_half({0, 10}, recorded));
  EXPECT_FALSE(fell_to_half({25, 900}, recorded));
}

Hunt hunted(const Quarry& quarry, std::uint32_t jobs = 1) {
  std::vector<Hunt> hunts;
  hunts.emplace_back(quarry);
  std::size_t ended = 0;
  run_hunts(hunts, jobs, [&](const Hunt&) { ended += 1; });
  EXPECT_EQ(ended, 1U);
  return std::move(hunts.front());
}

Quarry quarry_of(Mutant mutant) {
  Quarry quarry;
  quarry.entry = kMutants[static_cast<std::size_t>(mutant) - 1];
  quarry.budget = 2;
  return quarry;
}

TEST(Hunt, IsOverWhenMoreThanHalfOfItsSearchesHaveFailed) {
  if (kMutantsBuilt) GTEST_SKIP() << "built with LOCKSTEP_MUTANTS";
  const Hunt hunt = hunted(quarry_of(Mutant::kRemainderSkipped));
  EXPECT_EQ(hunt.searches(), 3);
  EXPECT_EQ(hunt.detection(), (Detection{0, 6}));
  EXPECT_EQ(hunt.median(), std::nullopt);
  EXPECT_FALSE(hunt.passed());
}

TEST(PlantedBugs, AHuntCountsTheSeedsOfFiveSearches) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  const Hunt hunt = hunted(quarry_of(Mutant::kRemainderSkipped));
  EXPECT_EQ(hunt.searches(), kSearches);
  EXPECT_EQ(hunt.median(), 1);
  EXPECT_EQ(hunt.promise(), "S2");
  EXPECT_TRUE(hunt.passed());
}

TEST(Hunt, CountsTheSameSearchesWhenTheyRunSideBySide) {
  if (kMutantsBuilt) GTEST_SKIP() << "built with LOCKSTEP_MUTANTS";
  const Hunt hunt = hunted(quarry_of(Mutant::kRemainderSkipped), 5);
  EXPECT_EQ(hunt.searches(), 3);
  EXPECT_EQ(hunt.detection(), (Detection{0, 6}));
}

TEST(PlantedBugs, SearchesSideBySideCountInTheirOrder) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  Quarry quarry = quarry_of(Mutant::kCommitWithoutOne);
  quarry.budget = 200;
  const Hunt one = hunted(quarry, 1);
  const Hunt four = hunted(quarry, 4);
  EXPECT_EQ(one.detection(), four.detection());
  EXPECT_EQ(one.median(), four.median());
  EXPECT_EQ(one.seed(), four.seed());
  EXPECT_EQ(one.text(), four.text());
  EXPECT_EQ(one.others(), four.others());
}

TEST(Rotation, TheLargestComeFirstEachIntoTheLightestPart) {
  const std::vector<double> costs = {1, 9, 2, 5, 5, 3};
  EXPECT_EQ(balanced_parts(costs, 3), (std::vector<std::uint32_t>{2, 0, 2, 1, 2, 1}));
  EXPECT_EQ(balanced_parts(costs, 1), (std::vector<std::uint32_t>(6, 0)));
  EXPECT_EQ(balanced_parts({1, 1}, 4), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_TRUE(balanced_parts({}, 2).empty());
}

TEST(Rotation, ExpectsSeedsByTheRecordedRate) {
  Quarry quarry = quarry_of(Mutant::kRemainderSkipped);
  quarry.budget = 200;
  EXPECT_EQ(expected_seeds(quarry), 500);  // half of the budget in each of five searches
  quarry.recorded = Detection{4, 100};
  EXPECT_EQ(expected_seeds(quarry), 125);
  quarry.recorded = Detection{1, 1000};
  EXPECT_EQ(expected_seeds(quarry), 1000);  // no search takes more than the budget
}

TEST(Rotation, SevenPartsOfAllMutantsTakeAboutAsLong) {
  const Detections recorded = read_detections(LOCKSTEP_SOURCE_DIR "/sim/mutants.toml");
  std::vector<double> costs;
  for (const MutantEntry& entry : kMutants) {
    Quarry quarry;
    quarry.entry = entry;
    quarry.budget = static_cast<std::uint64_t>(entry.rarity);
    if (const auto at = recorded.find(entry.id); at != recorded.end()) quarry.recorded = at->second;
    costs.push_back(expected_seeds(quarry));
  }
  const std::vector<std::uint32_t> parts = balanced_parts(costs, 7);
  std::vector<double> weights(7, 0);
  for (std::size_t i = 0; i < costs.size(); ++i) weights[parts[i]] += costs[i];
  const double largest = *std::max_element(costs.begin(), costs.end());
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  EXPECT_LE(*most - *least, largest);
  // Budget: two cores, six minutes and a half, 60 seeds/s on each.
  EXPECT_LE(*most, 46'800);
}

// The rate is believed after kMostSearches only: five may be bad luck.
TEST(PlantedBugs, AHuntGoesOnWhileItsRateLooksLikeHalfOfTheRecordedOne) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  Quarry quarry = quarry_of(Mutant::kCommitWithoutOne);
  quarry.budget = 200;
  quarry.recorded = Detection{1000, 1000};
  const Hunt hunt = hunted(quarry);
  EXPECT_EQ(hunt.searches(), kMostSearches);
  EXPECT_TRUE(hunt.median().has_value());
  EXPECT_TRUE(hunt.rarer());
  EXPECT_FALSE(hunt.passed());
}

TEST(PlantedBugs, ThePartsOfAHuntCoverEveryMutantOnce) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  const std::vector<std::string> common = {
      "mutants", "--only", "commit-without-one", "--only", "remainder-skipped", "--seeds", "20", "--part"};
  std::string found;
  for (const std::string part : {"1/3", "2/3", "3/3"}) {
    std::vector<std::string> words = common;
    words.push_back(part);
    found += run_sim(words).out;
  }
  EXPECT_EQ(found.find("commit-without-one "), found.rfind("commit-without-one "));
  EXPECT_NE(found.find("remainder-skipped "), std::string::npos);
  std::vector<std::string> wrong = common;
  wrong.emplace_back("4/3");
  EXPECT_THAT(run_sim(wrong).errors, HasSubstr("--part takes I/N, as in 1/4, and not '4/3'"));
}

}  // namespace
}  // namespace lockstep::sim
