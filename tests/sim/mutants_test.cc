// The list of planted bugs is well-formed, and a build that ships has none. That the simulator finds each of them is the
// business of `./run mutants`.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/mutant.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

const std::set<std::string_view> kPromises = {"S1",  "S2",  "S3", "S4", "S5", "S6", "S8", "S9",
                                              "S10", "S11", "L1", "L2", "L3", "L4", "P3", "assert"};

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

}  // namespace
}  // namespace lockstep::sim
