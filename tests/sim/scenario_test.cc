// Scenarios: the plans that seeds draw from them, errors in invalid scenarios, and the shipped scenarios pass.
#include "sim/scenario/scenario.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include <gtest/gtest.h>

#include "sim/plan/plan_file.h"
#include "sim/scenario/keys.h"
#include "sim/world/world.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

Scenario read(const std::string& text) {
  Result<Scenario> scenario = scenario_from_text(text);
  EXPECT_TRUE(scenario.ok()) << scenario.error().text;
  return scenario.ok() ? *std::move(scenario) : Scenario{};
}

std::string error_of(const std::string& text) {
  const Result<Scenario> scenario = scenario_from_text(text);
  return scenario.ok() ? "well-formed" : scenario.error().text;
}

// Whether a [[do]] with only this line has an effect.
bool read_as_action(const std::string& line) {
  return error_of("[[do]]\n" + line).find("without an action") == std::string::npos;
}

TEST(Scenario, APlanIsNone) {
  EXPECT_FALSE(is_scenario(to_text(plan_of(3))));
  EXPECT_FALSE(is_scenario("story.why = \"a plan of the corpus\"\npeers = 2"));
  EXPECT_FALSE(is_scenario("no = = TOML"));
  EXPECT_FALSE(is_scenario("seed = 3\n[expect]\nkills = 1"));
  EXPECT_TRUE(is_scenario("story = \"an incident\""));
  EXPECT_TRUE(is_scenario("[[do]]\ncrash = \"a\""));
}

TEST(Scenario, SeedsDrawFromRanges) {
  const Scenario scenario = read(R"(
peers = [3, 6]
[[do]]
at = ["1s", "2s"]
crash = "X"
back = ["100ms", "300ms"]
[[do]]
when = "commit 2"
join = "i")");
  std::set<std::uint32_t> founders;
  std::set<std::uint32_t> victims;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Plan plan = plan_of(scenario, seed);
    EXPECT_EQ(validate_plan(plan), "");
    EXPECT_EQ(plan.peers, 9U);  // i is the ninth
    EXPECT_FALSE(takes_part(plan, 8));
    ASSERT_EQ(plan.entries.size(), 2U);
    const Entry& crash = plan.entries[0];
    EXPECT_GE(crash.after, lockstep::seconds(1));
    EXPECT_LE(crash.after, lockstep::seconds(2));
    EXPECT_GE(crash.length, milliseconds(100));
    EXPECT_LE(crash.length, milliseconds(300));
    EXPECT_LE(crash.a, plan.founders);
    EXPECT_EQ(plan.entries[1].commit, 2U);
    founders.insert(plan.founders);
    victims.insert(crash.a);
  }
  EXPECT_EQ(founders, (std::set<std::uint32_t>{3, 4, 5, 6}));
  EXPECT_GE(victims.size(), 5U);
}

TEST(Scenario, VariablesAreHostsThatDiffer) {
  const Scenario scenario =
      read("peers = 3\n[[do]]\ncut = \"X -> Y\"\nfor = \"1s\"\n[[do]]\nslow = \"Y Z\"\nfactor = 5\nfor = \"1s\"");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Plan plan = plan_of(scenario, seed);
    ASSERT_EQ(plan.entries.size(), 2U);
    const std::set<std::uint32_t> hosts = {plan.entries[0].a, plan.entries[0].b, plan.entries[1].b};
    EXPECT_EQ(hosts.size(), 3U);
    EXPECT_EQ(plan.entries[0].b, plan.entries[1].a);
  }
}

TEST(Scenario, ThenSaysTheSameInOneLine) {
  const Plan one = plan_of(read("peers = 3\n[[do]]\nat = \"1s\"\nthen = \"cut b -> c for 5s\""), 0);
  const Plan two = plan_of(read("peers = 3\n[[do]]\nat = \"1s\"\ncut = \"b -> c\"\nfor = \"5s\""), 0);
  EXPECT_EQ(one, two);
  ASSERT_EQ(one.entries.size(), 1U);
  EXPECT_EQ(one.entries[0].length, lockstep::seconds(5));
}

TEST(Scenario, RegionsStandForAllOfTheirHosts) {
  const Plan plan = plan_of(read(R"(
peers = 4
[regions]
eu = "coordinator a b"
us = "c d"
[[link]]
between = "eu us"
latency = "40ms"
rate = "100Mbit/s"
[[do]]
split = "eu | us"
for = "2s"
[[do]]
vanish = "us")"),
                            0);
  EXPECT_EQ(plan.network.links.size(), 6U);
  EXPECT_EQ(plan.network.links[0], (LinkOptions{0, 3, 40'000'000, 12'500'000}));
  EXPECT_EQ(plan.entries.size(), 6U + 2U);
  EXPECT_EQ(plan_from_text(to_text(plan)).ok(), true);
  EXPECT_EQ(*plan_from_text(to_text(plan)), plan);
}

TEST(Scenario, ErrorsNameTheirPlace) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"peers = \"four\"", "1:9: peers must be a number, or a range such as [3, 8]"},
      {"peers = [5, 3]", "1:9: peers: the range is empty"},
      {"peers = 0", "1:9: peers must be 1..1024"},
      {"pears = 3", "1:1: unknown key \"pears\"; did you mean 'peers'?"},
      {"net = 5", "1:7: net must be a table such as { profile = \"region\" }"},
      {"net = { profile = \"regoin\" }",
       "1:7: unknown profile 'regoin'; did you mean 'region'? (one of: rack, region, world)"},
      {"net = { profile = \"moon\" }", "1:7: unknown profile 'moon' (one of: rack, region, world)"},
      {"net = { latency = \"fast\" }", "1:19: latency must be like \"20ms\""},
      {"work = [\"all_redcue 5\"]", "1:9: unknown collective 'all_redcue'; did you mean 'all_reduce'?"},
      {"work = [\"loop ten\"]", "1:9: loop must be 1 to 1000 times, such as \"loop 10\""},
      {"mode = \"tokens\"", "1:8: mode must be \"token\" or \"bytes\""},
      {"[[do]]\ncrahs = \"a\"", "2:1: unknown key \"crahs\"; did you mean 'crash'?"},
      {"[[do]]\nat = \"1s\"", "1:1: a [[do]] without an action; write one, such as crash = \"c\""},
      {"[[do]]\ncrash = \"a\"\nleave = \"b\"", "3:9: one [[do]] does one thing: 'crash' or 'leave'"},
      {"[[do]]\ncrash = \"q\"", "2:9: there is no host q: there are a to d"},
      {"peers = 2\n[[do]]\njoin = \"d\"\n[[do]]\ncrash = \"c\"",
       "5:9: there is no host c: there are a to b, and by joining d"},
      {"[[do]]\ncrash = \"coordinator\"", "2:9: crash is for peers: the coordinator can only be stalled or cut off"},
      {"[[do]]\njoin = \"a\"",
       "2:8: a runs from the start, and no action ends it before: let another host join, such as e"},
      {"[[do]]\njoin = \"X\"",
       "2:8: a host that the seed binds runs from the start, and no action ends it before: let another host join, "
       "such as e"},
      {"[[do]]\ncut = \"b -> b\"", "2:7: the same host is on both sides"},
      {"[[do]]\nsplit = \"a X | c X\"", "2:9: the same host is on both sides"},
      {"faults_end = \"2s\"\n[[do]]\nat = \"2s\"\ncrash = \"a\"", "4:9: at 2s is too late: faults_end is 2s"},
      {"faults_end = \"2s\"\n[[do]]\nat = \"1s\"\nstop = \"a\"\ntimes = 3\nevery = \"500ms\"",
       "4:8: at 2s is too late: faults_end is 2s"},
      {"peers = 2\nminimum_world = 4\n[[do]]\njoin = \"f\"",
       "2:17: minimum_world must be at most the peers that take part"},
      {"peers = 7\ngroups = 2\nminimum_world = 4",
       "3:17: minimum_world must be at most the peers that take part, in each of the groups"},
      {"[[do]]\ncrash = 3", "2:9: crash needs a host, such as \"c\" or \"b c\""},
      {"[[do]]\ncut = \"a\"", "2:7: cut is between two: \"b -> c\", \"b <-> c\" or \"b c\""},
      {"[[do]]\nsplit = \"a b\"", "2:9: split has two sides: \"a b | c d\""},
      {"[[do]]\nthen = \"slow a b\"", "2:8: say how many times slower: factor = 100 (1 to 1000000)"},
      {"[[do]]\ncrash = \"a\"\nfactor = 3", "3:10: factor is for slow, kernels and strangers only"},
      {"[[do]]\ncrash = \"a\"\nanswers = 1", "3:11: answers is for mute only"},
      {"[[do]]\nslow = \"a b\"", "2:8: say how many times slower: factor = 100 (1 to 1000000)"},
      {"[[do]]\ncrash = \"a\"\nwhen = \"comit 3\"",
       "3:8: when must be like \"launch 20\", \"commit 6\", \"view 3\", \"event 1000\" or \"piece 4\"; did you mean "
       "'commit'?"},
      {"[[do]]\nthen = \"crush a\"",
       "2:8: then must be like \"crash c\" or \"cut b -> c for 5s\"; did you mean 'crash'?"},
      {"[[do]]\nstall = \"a\"", "2:9: say how long: for = \"5s\""},
      {"[[do]]\nsplit = \"a b | c d\"", "2:9: say how long: for = \"5s\""},
      {"[[do]]\nkernels = \"a\"\nfactor = 2\nfor = \"0s\"", "2:11: say how long: for = \"5s\""},
      {"[[do]]\nslow = \"a b\"\nfactor = 2", "2:8: say how long: for = \"5s\""},
      {"[[do]]\ntimeout = \"a\"", "2:11: say how long: for = \"5s\""},
      {"[[do]]\nthen = \"cut a -> b\"", "2:8: say how long: for = \"5s\""},
      {"[[do]]\ncrash = \"a\"\nevery = \"1s\"", "3:9: every needs how often: times = 3"},
      {"[[do]]\nreset = \"a b\"\ntimes = 1000\nevery = \"3000000000000000000ns\"",
       "4:9: every must be at most 1000000s"},
      {"[[do]]\nat = \"9000h\"\ncrash = \"a\"", "2:6: at must be at most 1000000s"},
      {"[[do]]\nat = [\"1s\", \"9000h\"]\ncrash = \"a\"", "2:13: at must be at most 1000000s"},
      {"peers = 3\nfaults_end = \"9000h\"", "2:14: faults_end must be at most 1000000s"},
      {"net = { latency = \"9000h\" }", "1:19: latency must be at most 1000000s"},
      {"net = { model = \"flow\" }\n[[line]]\nof = \"a q\"", "3:6: there is no host q: there are a to d"},
      {"peers = [2, 3]\nnet = { model = \"flow\" }\n[[line]]\nof = \"a c\"\n[[line]]\nof = \"d\"",
       "6:6: there is no host d: there are a to c"},
      {"[[do]]\nthen = \"stall a for ever\"", "2:8: 'ever' is no time, such as 5s"},
      {"[[do]]\nat = [\"3s\", \"1s\"]\ncrash = \"a\"", "2:6: at: the range is empty"},
      {"[regions]\na = \"b\"", "2:5: 'a' is a host; name the region otherwise"},
      {"[[link]]\nlatency = \"1s\"", "1:1: a [[link]] must say between = \"a b\", hosts or regions"},
      {"state_pieces = 3", "1:16: state_pieces needs share_state = true: without it there is no state"},
      {"all_vote = false", "1:12: all_vote needs share_state = true: without it there is no state"},
      {"staged = true", "1:10: staged needs share_state = true: without it there is no state"},
      {"staged = false", "1:10: staged needs share_state = true: without it there is no state"},
      {"publish = true", "1:11: publish needs share_state = true: without it there is no state"},
      {"share_state = false\nwatch = true", "2:9: watch needs share_state = true: without it there is no state"},
      {"[[do]]\nspoil = \"b\"\nfor = \"1s\"", "2:9: spoil needs share_state = true: without it there is no state"},
      {"[[do]]\ndrift = \"b\"", "2:9: drift needs share_state = true: without it there is no state"},
      {"share_state = true\n[[do]]\nthen = \"drift b\"",
       "3:8: drift needs watch = true: without it no peer watches the state"},
      {"steps_per_admit = 9999999999", "1:19: steps_per_admit must be 1..1000"},
      {"share_state = true\nstate_pieces = 9223372036854775807", "2:16: state_pieces must be 0 (drawn) .. 1000"},
      {"[expect]\ncomits = 3", "2:1: unknown key \"comits\"; did you mean 'commits'?"},
      {"[expect]\ncommits = \"many\"", "2:11: commits must be a number, or like \">= 9\""},
      {"peers = ", "1:9: Error while parsing key-value pair: encountered end-of-file"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.text), c.says) << c.text;
  EXPECT_EQ(error_of("[[do]]\ncrash = \"W\"").substr(0, 40), "2:9: 'W' is no host. Hosts are a to z or");
  EXPECT_NE(error_of("[regions]\neast = \"a b\"\n[[do]]\ncrash = \"eats\"").find("did you mean 'east'?"),
            std::string::npos);
}

TEST(Scenario, KeysOfAStateMayRepeatTheirDefaults) {
  EXPECT_EQ(error_of("state_pieces = 0\nall_vote = true\npublish = false\nwatch = false"), "well-formed");
}

TEST(Scenario, OnlyJoinersAreAddedToTheFounders) {
  const Scenario scenario =
      read("peers = 2\nwork = [\"all_reduce 1KiB f32 sum\"]\nfaults_end = \"3s\"\n[[do]]\nat = \"1s\"\njoin = \"z\"");
  const Plan plan = plan_of(scenario, 0);
  std::set<std::string> seen;
  WorldOptions options;
  options.trace = [&](const std::string& line) {
    if (line.ends_with(" starts"))
      seen.insert(line.substr(line.find(" h") + 1, line.find(' ', line.find(" h") + 1) - line.find(" h") - 1));
  };
  const Report report = run(plan, options);
  EXPECT_FALSE(report.failure) << report.failure->text;
  EXPECT_EQ(report.peers, 3U);
  EXPECT_EQ(report.joins, 1U);
  EXPECT_EQ(seen, (std::set<std::string>{"h1", "h2", "h26"}));
  EXPECT_EQ(*plan_from_text(to_text(plan)), plan);
}

TEST(Scenario, ACrashedHostMayJoinAgain) {
  EXPECT_EQ(error_of("[[do]]\nat = \"1s\"\ncrash = \"a\"\n[[do]]\nat = \"3s\"\njoin = \"a\""), "well-formed");
}

TEST(Scenario, MissedExpectationsAreReported) {
  const Scenario scenario = read("[expect]\ncommits = \">= 9\"\nkills = 0\nwithin = \"2s of simulated time\"");
  Report report;
  report.commits = 7;
  report.kills = 1;
  report.time_ns = 3'000'000'000;
  EXPECT_EQ(unmet(scenario.base.expect, report),
            "commits >= 9, but 7; kills == 0, but 1; within 2.000000s, but 3.000000s");
  report.commits = 9;
  report.kills = 0;
  report.time_ns = 2'000'000'000;
  EXPECT_EQ(unmet(scenario.base.expect, report), "");
}

// ---- the reference of keys ----

TEST(ScenarioKeys, TheReferenceHasEveryKeyThatIsReadAndNoOther) {
  std::map<std::string, std::set<std::string>> told;
  for (const ScenarioKey& key : scenario_keys()) told[std::string(key.section)].emplace(key.name);
  std::map<std::string, std::set<std::string>> read;
  for (const auto& [section, names] : keys_that_are_read()) read[section] = {names.begin(), names.end()};
  EXPECT_EQ(told, read);
  for (const ScenarioKey& key : scenario_keys()) {
    EXPECT_NE(scenario_reference().find("\n" + std::string(key.name) + " = "), std::string::npos) << key.name;
  }
}

TEST(ScenarioKeys, EveryExampleIsWellFormed) {
  for (const ScenarioKey& key : scenario_keys()) {
    const std::string line = std::string(key.name) + " = " + std::string(key.value) + "\n";
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), key.name) != names.end();
    };
    std::string text = line;
    if (is({"state_pieces", "all_vote", "staged", "publish", "watch"})) text += "share_state = true\n";
    if (key.section == "net") text = "[net]\nmodel = \"flow\"\n" + (key.name == "model" ? "" : line);
    if (key.name == "line") text += "net = { model = \"flow\" }\n";
    if (key.section == "line") {
      text = "[net]\nmodel = \"flow\"\n[[line]]\n" + line + (key.name == "of" ? "" : "of = \"a b\"\n");
    }
    if (key.section == "expect") text = "[expect]\n" + line;
    if (key.section == "link")
      text = "[[link]]\n" + line + (key.name == "between" ? "" : "between = \"a b\"\n") +
             (key.name == "loss" ? "[net]\nmodel = \"flow\"\n" : "");
    if (key.section == "do") {
      const bool action = read_as_action(line) && !is({"factor", "answers", "one_in"});
      text = is({"spoil", "drift"}) ? "share_state = true\nwatch = true\n[[do]]\n" + line : "[[do]]\n" + line;
      if (is({"slow", "kernels", "strangers"})) text += "factor = 2\n";
      if (is({"stall", "cut", "cut-both", "split", "slow", "kernels", "timeout", "spoil", "mute", "strangers", "factor",
              "answers", "drip", "bytes", "lie", "one_in", "shut"}))
        text += "for = \"1s\"\n";
      if (is({"every"})) text += "times = 3\n";
      if (is({"factor"})) {
        text += "slow = \"a b\"\n";
      } else if (is({"answers"})) {
        text += "mute = \"a\"\n";
      } else if (is({"one_in"})) {
        text += "lie = \"a\"\n";
      } else if (is({"bytes"})) {
        text += "drip = \"a -> b\"\n";
      } else if (!action) {
        text += "crash = \"a\"\n";
      }
    }
    EXPECT_EQ(error_of(text), "well-formed") << text;
  }
}

// ---- the shipped ones ----

constexpr auto kScenarios = LOCKSTEP_SOURCE_DIR "/sim/scenarios";

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kScenarios)) {
    files.push_back(entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of_file(const std::string& name) {
  std::ifstream file(std::filesystem::path(kScenarios) / name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_clean(const Scenario& scenario, std::uint64_t seeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Report report = run(plan_of(scenario, seed));
    EXPECT_FALSE(report.failure) << seed << ": " << report.failure->promise << ": " << report.failure->text;
  }
}

// Found with a line of 1 Mbit/s: each stream's window went over it in one piece, and the others looked dead meanwhile.
TEST(Scenario, StreamsShareASlowLine) {
  const Scenario scenario = read(
      "peers = 2\n"
      "stripes = 4\n"
      "net = { profile = \"world\", rate = \"1Mbit/s\" }\n"
      "work = [\"all_reduce 1MiB f32 sum\"]\n"
      "faults_end = \"1s\"\n");
  expect_clean(scenario, 2);
}

class Shipped : public testing::TestWithParam<std::string> {};

// Found with a slow line: a write was cut at 1 MiB, in the midst of a payload, and a token cannot be cut.
TEST(Scenario, TheLargestSegmentsAreWrittenWhole) {
  const Scenario scenario = read(
      "peers = 2\n"
      "segment_bytes = 1048576\n"
      "work = [\"all_reduce 20MiB f32 sum\"]\n"
      "faults_end = \"1s\"\n");
  expect_clean(scenario, 4);
}

// Thousands of rounds, or hundreds of peers: these take as long as half of the other scenarios together. One seed, and
// none under sanitizers, which see the same steps in the others.
bool takes_long(const std::string& name) { return name == "long-lives.toml" || name == "many-peers.toml"; }

TEST_P(Shipped, HoldsWithAnySeed) {
  const bool is_long = takes_long(GetParam());
  if (kSanitized && is_long) GTEST_SKIP() << "minutes long";
  const std::uint64_t seeds = kSanitized || is_long ? 1 : 2;
  const std::string text = text_of_file(GetParam());
  if (!is_scenario(text)) {
    const Result<Plan> plan = plan_from_text(text);
    ASSERT_TRUE(plan.ok()) << plan.error().text;
    const Report report = run(*plan);
    EXPECT_FALSE(report.failure) << report.failure->promise << ": " << report.failure->text;
    return;
  }
  const Scenario scenario = read(text);
  EXPECT_FALSE(scenario.name.empty());
  EXPECT_FALSE(scenario.story.empty()) << "which incident does it stand for?";
  EXPECT_FALSE(scenario.base.expect.empty());
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Report report = run(plan_of(scenario, seed));
    EXPECT_FALSE(report.failure) << seed << ": " << report.failure->promise << ": " << report.failure->text;
    EXPECT_EQ(unmet(scenario.base.expect, report), "")
        << "lockstep sim run sim/scenarios/" << GetParam() << " --seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Shipped, testing::ValuesIn(shipped()), [](const auto& param) {
  std::string name = param.param.substr(0, param.param.find('.'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep::sim
