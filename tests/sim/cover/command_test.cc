// `lockstep sim cover`: output, usage errors, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;

// Two runs: a file's, and one seed.
Ran cover_little(std::vector<std::string> more = {}) {
  std::vector<std::string> words = {
      "cover", "sim/sweeps/two-peers.toml", "--seeds", "0..1", "--max-peers", "2", "--stride", "0", "--each", "0"};
  words.insert(words.end(), more.begin(), more.end());
  return run_sim(words);
}

TEST(Cover, ListsOpenCells) {
  const Ran ran = cover_little();
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.out, HasSubstr("peer-message: a peer, and messages that come to it\n"));
  EXPECT_THAT(ran.out, HasSubstr(" open, in 2 runs\n"));
  EXPECT_THAT(ran.errors, HasSubstr("open: coordinator-fault: settling x reset\n"));
}

TEST(Cover, IsTheSameInSeveralProcesses) {
  EXPECT_EQ(cover_little({"--json"}).out, cover_little({"--json", "--jobs", "2"}).out);
}

TEST(Cover, TellsProgramsTheSame) {
  const Ran ran = cover_little({"--json"});
  const nlohmann::json json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["runs"], 2);
  EXPECT_EQ(json["matrices"]["peer-input"]["new"]["Connect"], 2);
  EXPECT_EQ(json["wrong_reasons"].size(), 0U);
  EXPECT_GT(json["open"].size(), 100U);
}

TEST(Cover, ShowsTheCellsOfTheFirstSeeds) {
  const Ran ran = run_sim({"cover", "--curve", "--seeds", "0..3", "--max-peers", "2"});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("\n        1 "));
  EXPECT_THAT(ran.out, HasSubstr("\n        3 "));
  EXPECT_THAT(ran.out, HasSubstr(" open, in 3 runs\n"));
  const Ran files = run_sim({"cover", "sim/corpus", "--curve"});
  EXPECT_EQ(files.code, 2);
  EXPECT_THAT(files.errors, HasSubstr("files has no effect with --curve"));
}

TEST(Cover, SweepsTheGivenPlans) {
  const Ran ran = run_sim({"cover", "sim/sweeps/two-peers.toml", "--swept", "sim/sweeps/two-peers.toml", "--stride",
                           "100000", "--each", "0", "--seeds", "0..1", "--max-peers", "2", "--json"});
  const nlohmann::json json = nlohmann::json::parse(ran.out);
  EXPECT_GT(json["runs"], 20);  // each fault at the first event
  EXPECT_TRUE(json["matrices"]["peer-fault"]["joining"].contains("crash"));
}

TEST(Cover, NamesARunThatHitsACell) {
  const std::string folder = std::filesystem::path(file_with("", "none")).parent_path().string();
  const Ran ran =
      cover_little({"--find", "peer-input: new x Connect", "--find", "peer-input: over x Timer", "--keep", folder});
  const std::string plan = folder + "/peer-input-new-x-Connect.toml";
  EXPECT_THAT(ran.out, HasSubstr("peer-input: new x Connect: lockstep sim replay " + plan));
  EXPECT_THAT(ran.out, HasSubstr("peer-input: over x Timer: no run hits it"));
  EXPECT_EQ(run_sim({"replay", plan}).code, 0);
  EXPECT_THAT(cover_little({"--find", "peer-input: new x Connect"}).out,
              HasSubstr("lockstep sim run sim/sweeps/two-peers.toml --seed 0"));
}

TEST(Cover, KeepsAPlanWithNothingMoreThanTheCellsNeed) {
  const std::string folder = std::filesystem::path(file_with("", "none")).parent_path().string();
  const std::string large = folder + "/large.toml";
  const auto text_of = [](const std::string& file) {
    std::ifstream stream(file);
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  ASSERT_EQ(run_sim({"run", "--seed", "3", "--max-peers", "5", "--write-plan", large}).code, 0);
  ASSERT_THAT(text_of(large), HasSubstr("[[do]]"));
  const Ran ran = run_sim({"cover", large, "--seeds", "0..1", "--max-peers", "2", "--stride", "0", "--each", "0",
                           "--find", "peer-input: new x Connect", "--keep", folder});
  EXPECT_THAT(ran.out, HasSubstr("peer-input: new x Connect: lockstep sim replay"));
  EXPECT_THAT(text_of(folder + "/peer-input-new-x-Connect.toml"), testing::Not(HasSubstr("[[do]]")));
}

TEST(Cover, RefusesUnknownArguments) {
  const Ran cell = cover_little({"--find", "peer-input: asleep x Timer"});
  EXPECT_EQ(cell.code, 2);
  EXPECT_THAT(cell.errors, HasSubstr("no cell is called 'peer-input: asleep x Timer'"));
  const Ran keep = cover_little({"--keep", "here"});
  EXPECT_EQ(keep.code, 2);
  EXPECT_THAT(keep.errors, HasSubstr("--keep has no effect without --find"));
  const Ran file = run_sim({"cover", "sim/no-such.toml"});
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.errors, HasSubstr("sim/no-such.toml"));
}

TEST(Cover, EndsAsARunThatBreaksAPromise) {
  // Nothing can be expected of a run that ends before it begins: its goal is missed.
  const std::string file = file_with(
      "name = \"a goal that is missed\"\npeers = 2\nwork = [\"barrier\"]\nfaults_end = \"1s\"\n[expect]\ncommits = "
      "\">= 1000000\"\n");
  const Ran ran = run_sim({"cover", file, "--seeds", "0..1", "--max-peers", "2", "--stride", "0", "--each", "0"});
  EXPECT_EQ(ran.code, 15);
  EXPECT_THAT(ran.errors, HasSubstr("goal broken"));
  EXPECT_THAT(ran.errors, HasSubstr("lockstep sim run " + file + " --seed 0\n"));
}

}  // namespace
}  // namespace lockstep::sim
