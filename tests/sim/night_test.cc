// `lockstep sim night`: its files, and how the next night continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Night : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  Ran spend(const std::string& slice, const std::string& max_peers = "3") const {
    return run_sim({"night", folder_.string(), "--hours", "0", "--slice", slice, "--max-peers", max_peers});
  }
  [[nodiscard]] nlohmann::json state() const { return nlohmann::json::parse(text_in(folder_ / "state.json")); }
  const fs::path folder_ = fs::path(file_with("", "none")).parent_path() / "night";  // of this test alone
};

TEST_F(Night, GoesOnWhereTheLastOneStopped) {
  EXPECT_EQ(spend("3").code, 0);
  EXPECT_EQ(state()["next_seed"], 3);
  const Ran second = spend("2");
  EXPECT_EQ(second.code, 0);
  EXPECT_THAT(second.out, HasSubstr("goes on at seed 3"));
  const nlohmann::json two = state();
  EXPECT_EQ(two["seeds"], 5);
  fs::remove_all(folder_);
  spend("5");
  const nlohmann::json one = state();
  for (const char* const same : {"seeds", "hash", "commits", "views", "events", "next_seed", "cells"}) {
    EXPECT_EQ(one[same], two[same]) << same;
  }
}

TEST_F(Night, OfOtherSeedsMakesWayForANewOne) {
  spend("2");
  const Ran other = spend("1", "2");
  EXPECT_THAT(other.out, HasSubstr("another build, or other --max-peers"));
  EXPECT_EQ(state()["next_seed"], 1);
  EXPECT_TRUE(fs::exists(folder_ / ("before-" + state()["build"].get<std::string>()) / "report.md"));
}

TEST_F(Night, NeverRemovesAnEarlierOne) {
  for (const char* const max_peers : {"3", "2", "4"}) EXPECT_EQ(spend("1", max_peers).code, 0);
  const std::string aside = (folder_ / ("before-" + state()["build"].get<std::string>())).string();
  EXPECT_THAT(text_in(fs::path(aside) / "report.md"), HasSubstr("2 to 3 peers"));
  EXPECT_THAT(text_in(fs::path(aside + "-2") / "report.md"), HasSubstr("2 to 2 peers"));
}

TEST_F(Night, TellsWhatHappened) {
  spend("2");
  const std::string report = text_in(folder_ / "report.md");
  EXPECT_THAT(report, HasSubstr("clean; with 95 % confidence"));
  EXPECT_THAT(report, HasSubstr("| seeds | 0 .. 2"));
  EXPECT_THAT(report, HasSubstr("| commits | " + std::to_string(state()["commits"].get<std::uint64_t>())));
  EXPECT_THAT(report, HasSubstr(" open, in 1 runs\nhit in the fewest runs:\n"));
}

TEST_F(Night, AFolderThatIsNoNightIsRefused) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "state.json") << "{\"version\": 1}";
  const Ran refused = spend("1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("remove it to begin anew"));
}

}  // namespace
}  // namespace lockstep::sim
