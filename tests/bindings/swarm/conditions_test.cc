#include "bindings/swarm/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/bindings/swarm/programs.h"

namespace lockstep::swarm {
namespace {

using testing::HasSubstr;

TEST(Conditions, SurvivesWritingAndReading) {
  Conditions conditions = scenario("peers = 4\n[[do]]\nat = \"2s\"\ncrash = \"any\"\nback = \"1s\"\n", 12);
  ASSERT_FALSE(conditions.add({.crashes = 3, .leaves = 1, .joins = 2, .cuts = 2}));
  const Result<Conditions> again = Conditions::from_text(conditions.to_text());
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(again->to_text(), conditions.to_text());
  EXPECT_EQ(again->seed(), 12U);
  EXPECT_EQ(again->founders(), 4U);
  EXPECT_EQ(again->hosts(), 6U);
  EXPECT_EQ(again->faults(), 9U);
}

TEST(Conditions, FaultsAreDescribedAndCanBeRemoved) {
  const Conditions conditions = scenario(
      "peers = 3\n[[do]]\nat = \"2s\"\ncrash = \"b\"\nback = \"1s\"\n[[do]]\nwhen = \"commit 5\"\n"
      "cut = \"a -> c\"\nfor = \"3s\"\n");
  ASSERT_EQ(conditions.faults(), 2U);
  EXPECT_EQ(conditions.fault(0), "at 2 s: crash b, back after 1 s");
  EXPECT_EQ(conditions.fault(1), "after commit 5: cut a -> c for 3 s");
  const Conditions fewer = conditions.with_faults(std::array<std::size_t, 1>{1});
  ASSERT_EQ(fewer.faults(), 1U);
  EXPECT_EQ(fewer.fault(0), conditions.fault(1));
  EXPECT_EQ(conditions.faults(), 2U);
}

TEST(Conditions, ErrorsNameTheirPlace) {
  const auto error_of = [](const std::string& toml) { return Conditions::from_scenario(toml, 1).error(); };
  EXPECT_THAT(error_of("peers = 3\n[[do]]\nat = \"2s\"\ncrahs = \"b\"\n").text,
              testing::AllOf(HasSubstr("4:1"), HasSubstr("did you mean 'crash'")));
  EXPECT_THAT(error_of("peers = 3\nwork = [\"all_reduce 8\"]\n").text,
              HasSubstr("work applies to the simulator's own"));
  EXPECT_THAT(error_of("peers = 3\n[[do]]\nat = \"2s\"\nskip = \"b\"\n").text, HasSubstr("skip is a fault"));
  EXPECT_EQ(error_of("peers = 1025").status, Status::kInvalidArgument);
}

TEST(Conditions, ChurnIsDrawnFromTheSeedAndSparesOneFounder) {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    Conditions conditions = scenario("peers = 3", seed);
    ASSERT_FALSE(conditions.add({.crashes = 20, .vanishes = 5, .leaves = 5}));
    std::array<bool, 3> ended{};
    for (std::size_t i = 0; i < conditions.faults(); ++i) {
      for (std::uint32_t host = 1; host <= 3; ++host) {
        for (const char* const what : {"crash ", "vanish ", "leave "}) {
          const bool hits = conditions.fault(i).find(what + host_name(host)) != std::string::npos;
          ended[host - 1] = ended[host - 1] || hits;
        }
      }
    }
    EXPECT_EQ(std::ranges::count(ended, true), 2) << conditions.to_text();
  }
}

TEST(Conditions, RefusesImpossibleChurn) {
  Conditions alone = scenario("peers = 1");
  EXPECT_THAT(alone.add({.crashes = 1})->text, HasSubstr("at least two founders"));
  EXPECT_THAT(alone.add({.joins = 1024})->text, HasSubstr("at most 1024 hosts"));
  EXPECT_FALSE(alone.add({.joins = 3}));
  EXPECT_EQ(alone.hosts(), 4U);
}

}  // namespace
}  // namespace lockstep::swarm
