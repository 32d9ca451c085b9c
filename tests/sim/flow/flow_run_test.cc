// Runs over flows: the same every time, as fast as their lines let them, and written to plan files and read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sim/plan/plan_file.h"
#include "sim/predict/predict.h"
#include "sim/predict/rehearsal.h"
#include "sim/scenario/hosts.h"
#include "sim/scenario/scenario.h"
#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

constexpr auto kFourAtHome = R"(
name = "four at home"
peers = 4
net = { model = "flow", latency = "10ms", up = "40Mbit/s", down = "200Mbit/s", slow_start = false }
work = ["all_reduce 8MiB f32 sum ring"]
)";

Scenario scenario_of(const std::string& text) {
  Result<Scenario> scenario = scenario_from_text(text);
  EXPECT_TRUE(scenario.ok()) << scenario.error().text;
  return scenario.ok() ? *std::move(scenario) : Scenario{};
}

Scenario at_home(const std::string& more = {}) { return scenario_of(kFourAtHome + more); }

// Rates are those of payload.
Prediction predicted_of(const Scenario& scenario) {
  Result<Prediction> prediction = predict(plan_of(scenario, 0), 0);
  EXPECT_TRUE(prediction.ok()) << prediction.error().text;
  return prediction.ok() ? *std::move(prediction) : Prediction{};
}

Prediction predicted(const std::string& more = {}) { return predicted_of(at_home(more)); }

// Two on each side of an ocean; the uplink of d is thin, and far away.
constexpr auto kAcross = R"(
name = "across"
peers = 4
net = { model = "flow", latency = "1ms", up = "1Gbit/s", down = "1Gbit/s" }
regions = { eu = "coordinator a b", us = "c d" }
work = ["all_reduce 16MiB f32 sum ring"]
[[link]]
between = "eu us"
latency = "45ms"
rate = "100Mbit/s"
[[line]]
of = "d"
up = "20Mbit/s"
down = "100Mbit/s"
)";

// Two rooms that share a thin line, with hosts in turn: their ring in the order of names crosses it three times each
// way.
constexpr auto kTwoRooms = R"(
name = "two rooms"
peers = 6
net = { model = "flow", latency = "200us", up = "1Gbit/s", down = "1Gbit/s" }
regions = { north = "coordinator a c e", south = "b d f" }
work = ["all_reduce 4MiB f32 sum ring"]
[[link]]
between = "north south"
latency = "12ms"
[[line]]
of = "north"
shared = true
up = "50Mbit/s"
down = "50Mbit/s"
)";

// The time that the released core takes for the third call on this ring.
double seconds_in_a_run(const Plan& plan, const std::vector<std::uint32_t>& ring) {
  Plan calm = plan;
  calm.entries.clear();
  calm.mode = calm.network.mode = Mode::kToken;
  calm.peers = calm.founders;
  calm.gangs.groups = calm.gangs.size = calm.minimum_world = 1;
  Rehearsal rehearsal(calm, ring);
  if (const auto error = rehearsal.begin()) {
    ADD_FAILURE() << error->text;
    return 0;
  }
  double seconds = 0;
  for (int step = 0; step < 3; ++step) {
    const Result<std::vector<Duration>> times = rehearsal.step();
    EXPECT_TRUE(times.ok()) << times.error().text;
    if (times.ok()) seconds = times->at(0).seconds();
  }
  return seconds;
}

// With every fault that a seed draws, in both modes.
TEST(FlowRun, SeedsHoldOverFlows) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    PlanOptions options;
    options.payload = seed % 4 == 0 ? PlanOptions::Payload::kBytes : PlanOptions::Payload::kToken;
    Plan plan = plan_of(seed, options);
    plan.network.flow = {.on = true, .up_bytes_per_s = 2'000'000, .down_bytes_per_s = 20'000'000, .loss_ppm = 100};
    plan.network.flow.lines.push_back({.hosts = 0b0110, .up_bytes_per_s = 3'000'000, .loss_ppm = 50});
    const Report report = run(plan);
    EXPECT_FALSE(report.failure) << seed << ": " << report.failure->promise << ": " << report.failure->text;
  }
}

TEST(FlowRun, APlanFileGivesTheSameRun) {
  Plan plan = calm_plan(3);
  plan.network.flow = {
      .on = true, .up_bytes_per_s = 1'000'000, .loss_ppm = 500, .congestion = flow::Congestion::kBbr, .cold = false};
  plan.network.flow.lines.push_back({.hosts = 0b0110, .down_bytes_per_s = 500'000, .loss_ppm = 7});
  plan.network.links.push_back({.a = 1, .b = 2, .loss_ppm = 9});
  const Result<Plan> again = plan_from_text(to_text(plan));
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(run(*again).hash, run(plan).hash);
  plan.network.flow.up_bytes_per_s = 100'000;
  EXPECT_NE(run(*again).hash, run(plan).hash);
}

// 2 * 3/4 * 8 MiB at 5 MB/s are 2.52 s.
TEST(FlowRun, TheCoreThatShipsIsAsFastAsItsLines) {
  const Prediction prediction = predicted();
  const CollectiveTime& all_reduce = prediction.collectives.at(0);
  EXPECT_EQ(all_reduce.algorithm, wire::Algorithm::kRing);
  EXPECT_NEAR(bound_of(all_reduce)->lines.seconds(), 2.5166, 0.001);
  EXPECT_NEAR(prediction.alone.seconds(), 2.52, 0.1);
  EXPECT_NEAR(all_reduce.again.seconds(), 2.52, 0.2);
  EXPECT_NEAR(all_reduce.bus_bytes_per_s, 5e6, 0.4e6);
  EXPECT_GT(prediction.bottleneck.busy, 0.9);
}

// In int8 a block of 256 elements is 260 bytes, in e3m0 one of 64 is 33.
TEST(Predict, AWireFormatTakesTheTimeOfItsBytes) {
  const auto seconds = [](const std::string& formats) {
    const std::string text =
        "name = \"line\"\npeers = 4\nnet = { model = \"flow\", latency = \"5ms\", up = \"50Mbit/s\" }\n"
        "work = [\"all_reduce 8MiB f32 avg" +
        formats + "\"]\n";
    const Result<Prediction> prediction = predict(plan_of(scenario_of(text), 0), 0);
    EXPECT_TRUE(prediction.ok()) << prediction.error().text;
    const CollectiveTime& all_reduce = prediction->collectives.at(0);
    EXPECT_NEAR(all_reduce.again.seconds(), all_reduce.bound.seconds(), 0.12);
    return bound_of(all_reduce)->lines.seconds();
  };
  const double native = seconds("");
  EXPECT_NEAR(seconds(" int8/int8") / native, 260.0 / 1024, 0.001);
  EXPECT_NEAR(seconds(" int8/e3m0") / native, (260.0 / 1024 + 33.0 / 256) / 2, 0.001);
}

TEST(Predict, ASlowLineIsTheBottleneckAndItsHalfCostsTheOtherHalf) {
  const Prediction prediction = predicted("[[line]]\nof = \"c\"\nup = \"10Mbit/s\"\n");
  EXPECT_EQ(prediction.bottleneck.what, "what c can send");
  EXPECT_EQ(prediction.stragglers.front().host, 3U);
  EXPECT_NEAR(prediction.stragglers.front().time.seconds() / prediction.alone.seconds(), 2, 0.1);
  EXPECT_NEAR(prediction.stragglers.back().time.seconds() / prediction.alone.seconds(), 1, 0.05);
}

TEST(Predict, TheBestRingLeavesEachRegionOnce) {
  const Prediction prediction = predicted(
      "[[line]]\nof = \"a c\"\nshared = true\nup = \"40Mbit/s\"\n"
      "[[line]]\nof = \"b d\"\nshared = true\nup = \"40Mbit/s\"\n");
  EXPECT_EQ(prediction.ring, (std::vector<std::uint32_t>{1, 2, 3, 4}));
  EXPECT_TRUE(prediction.every_ring);
  EXPECT_NEAR(prediction.alone.seconds() / prediction.best_time.seconds(), 2, 0.1);
  const std::vector<std::uint32_t>& best = prediction.best_ring;
  EXPECT_TRUE(best == (std::vector<std::uint32_t>{1, 3, 2, 4}) || best == (std::vector<std::uint32_t>{1, 3, 4, 2}) ||
              best == (std::vector<std::uint32_t>{1, 2, 4, 3}) || best == (std::vector<std::uint32_t>{1, 4, 2, 3}));
}

// Where lines are shared, where hosts are far apart, where both are so.
TEST(Predict, ABetterRingIsAsMuchBetterInARun) {
  const std::string both = std::string(kTwoRooms) + "[[line]]\nof = \"b\"\nup = \"10Mbit/s\"\ndown = \"100Mbit/s\"\n";
  for (const std::string& text : {std::string(kAcross), std::string(kTwoRooms), both}) {
    const Plan plan = plan_of(scenario_of(text), 0);
    const Prediction prediction = predicted_of(scenario_of(text));
    const double said = prediction.best_time.seconds() / prediction.alone.seconds();
    const double so = seconds_in_a_run(plan, prediction.best_ring) / seconds_in_a_run(plan, prediction.ring);
    EXPECT_NEAR(said, so, 0.03) << text;
  }
}

TEST(Predict, ARingThatIsHardlyBetterIsNone) {
  const Prediction prediction = predicted_of(scenario_of(kAcross));
  EXPECT_EQ(prediction.best_ring, prediction.ring);
  EXPECT_EQ(prediction.best_time, prediction.alone);
}

// The straggler has half of its own line; the shared line of its room and the rates of others stay.
TEST(Predict, AStragglerIsOneInARunToo) {
  struct Case {
    std::string text;
    std::uint32_t host;
    std::string line;  // that it has then
    double times;      // as long as before
  };
  const std::string room = kTwoRooms;
  const Case cases[] = {
      {room, 1, "up = \"500Mbit/s\"\ndown = \"500Mbit/s\"\n", 1},
      {kAcross, 1, "up = \"500Mbit/s\"\ndown = \"500Mbit/s\"\n", 1},
      {kAcross, 4, "up = \"10Mbit/s\"\ndown = \"50Mbit/s\"\n", 2},
  };
  for (const Case& c : cases) {
    const Prediction prediction = predicted_of(scenario_of(c.text));
    const auto of_host = [&](const Straggler& each) { return each.host == c.host; };
    const auto said = std::find_if(prediction.stragglers.begin(), prediction.stragglers.end(), of_host);
    ASSERT_NE(said, prediction.stragglers.end());
    const double times = said->time.seconds() / prediction.alone.seconds();
    EXPECT_NEAR(times, c.times, 0.02) << c.text;
    const std::string of = "of = \"" + letter_of(c.host) + "\"\n";
    std::string slow = c.text;
    if (const auto at = slow.find(of); at != std::string::npos) {
      slow.resize(at);
      slow.append(of).append(c.line);
    } else {
      slow.append("[[line]]\n").append(of).append(c.line);
    }
    const double in_a_run = seconds_in_a_run(plan_of(scenario_of(slow), 0), prediction.ring) /
                            seconds_in_a_run(plan_of(scenario_of(c.text), 0), prediction.ring);
    EXPECT_NEAR(times, in_a_run, 0.03) << c.text;
  }
}

// Ways between two hosts are the only lines there.
TEST(Predict, WhereHostsHaveNoLineOfTheirOwnAStragglersWaysAreHalf) {
  const Prediction prediction = predicted_of(
      scenario_of("name = \"ways\"\npeers = 3\nnet = { model = \"flow\", latency = \"1ms\", rate = \"40Mbit/s\" }\n"
                  "work = [\"all_reduce 8MiB f32 sum ring\"]\n"));
  for (const Straggler& each : prediction.stragglers) {
    EXPECT_NEAR(each.time.seconds() / prediction.alone.seconds(), 2, 0.1);
  }
}

// Half of a step is in vain, and then it takes until the others have missed the heartbeats of who vanished.
TEST(Predict, ALossCostsTheWorkDoneAndItsDetection) {
  const Prediction prediction = predicted();
  EXPECT_GT(prediction.loss.seconds(), 0.5 * prediction.step.seconds());
  EXPECT_LT(prediction.loss.seconds(), 0.5 * prediction.step.seconds() + 20 * 0.2);
  EXPECT_GT(prediction.half_time, prediction.stops);
  EXPECT_NEAR(prediction.stops.seconds(), prediction.step.seconds() / 2.302585, 1e-6);
}

// The others are faster without d; its loss costs them what they had done, all the same.
TEST(Predict, ALossOfASlowHostCostsTime) {
  const Prediction prediction = predicted_of(scenario_of(kAcross));
  EXPECT_LT(prediction.without.seconds(), 0.5 * prediction.step.seconds());
  EXPECT_GT(prediction.loss.seconds(), 0.5 * prediction.step.seconds());
  EXPECT_LT(prediction.loss.seconds(), 0.5 * prediction.step.seconds() + 20 * 0.2);
  EXPECT_GT(prediction.half_time, prediction.stops);
}

TEST(Predict, LossesHoldStreamsBack) {
  Plan plan = plan_of(at_home(), 0);
  plan.network.flow.loss_ppm = 10'000;
  const Result<Prediction> lossy = predict(plan);
  ASSERT_TRUE(lossy.ok()) << lossy.error().text;
  EXPECT_THAT(lossy->bottleneck.what, testing::StartsWith("the losses of a stream"));
  EXPECT_TRUE(lossy->lossy);
  plan.network.flow.congestion = flow::Congestion::kBbr;
  const Result<Prediction> bbr = predict(plan);
  ASSERT_TRUE(bbr.ok()) << bbr.error().text;
  EXPECT_LT(bbr->step.seconds() * 1.3, lossy->step.seconds());
  EXPECT_FALSE(bbr->lossy);
}

// ---- as a shell sees it ----

TEST(PredictCommand, SaysTheSameInWordsAndInJson) {
  const std::string file = file_with(kFourAtHome);
  const Ran words = run_sim({"predict", file});
  EXPECT_EQ(words.code, 0) << words.errors;
  EXPECT_THAT(words.out, testing::HasSubstr("\nall_reduce 8 MiB f32 sum (2097152 elements): 2."));
  EXPECT_THAT(words.out, testing::HasSubstr("bottleneck   what "));
  const Ran json = run_sim({"predict", file, "--json"});
  EXPECT_EQ(json.code, 0) << json.errors;
  EXPECT_THAT(json.out, testing::HasSubstr("\"version\": 3"));
  EXPECT_THAT(json.out, testing::HasSubstr("\"again_ns\": 2"));
  EXPECT_EQ(run_sim({"predict", file, "--json"}).out, json.out);
}

// 2.52 s of payload; of packets 5 % more.
TEST(PredictCommand, RatesAreThoseOfPacketsAsLongAsTheMtuSaysSo) {
  const std::string file = file_with(kFourAtHome);
  const auto again_ns = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"predict", file, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_sim(words);
    EXPECT_EQ(ran.code, 0) << ran.errors;
    return nlohmann::json::parse(ran.out).at("collectives").at(0).at("again_ns").get<double>();
  };
  EXPECT_NEAR(again_ns({}) / again_ns({"--mtu", "0"}), 3052.0 / 2896, 0.005);
  EXPECT_EQ(again_ns({}), again_ns({"--mtu", "1500"}));
  EXPECT_LT(again_ns({"--mtu", "9000"}), again_ns({}));
  EXPECT_EQ(run_sim({"predict", file, "--mtu", "100"}).code, 2);
}

TEST(PredictCommand, WherePacketsAreLostItSaysThatTimesAreMeans) {
  std::string text = kFourAtHome;
  EXPECT_THAT(run_sim({"predict", file_with(text)}).out, testing::Not(testing::HasSubstr("packet loss")));
  text.replace(text.find("slow_start"), 0, "loss = \"1%\", ");
  EXPECT_THAT(run_sim({"predict", file_with(text)}).out,
              testing::HasSubstr("packet loss  times are those of mean losses"));
}

TEST(PredictCommand, NoHostIsAStragglerOnASharedThinLine) {
  EXPECT_THAT(run_sim({"predict", file_with(kTwoRooms)}).out, testing::HasSubstr("straggler    none"));
  EXPECT_THAT(run_sim({"predict", file_with(kAcross)}).out,
              testing::HasSubstr("straggler    d at half of its own line: 21."));
}

TEST(PredictCommand, NamesWorkByItsBytesAndItsElements) {
  std::string text = kFourAtHome;
  text.replace(text.find("\"all_reduce"), std::string("\"all_reduce 8MiB f32 sum ring\"").size(),
               R"("2x all_reduce 1000 i16 max", "barrier", "all_gather 64KiB", "broadcast 1 u8")");
  const std::string out = run_sim({"predict", file_with(text)}).out;
  EXPECT_THAT(out, testing::HasSubstr("\n2x all_reduce 1.95 KiB i16 max (1000 elements): "));
  EXPECT_THAT(out, testing::HasSubstr("\nbarrier: "));
  EXPECT_THAT(out, testing::HasSubstr("\nall_gather 64 KiB f32 (16384 elements of each): "));
  EXPECT_THAT(out, testing::HasSubstr("\nbroadcast 1 byte u8 (1 element): "));
}

TEST(PredictCommand, WithoutWorkThereIsNoAnswer) {
  const Ran ran = run_sim({"predict", file_with("name = \"idle\"\npeers = 2\nnet = { model = \"flow\" }\n")});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, testing::HasSubstr("it has no work: give it some"));
}

TEST(PredictCommand, ErrorsNameTheirPlace) {
  struct Case {
    const char* text;
    const char* says;
  };
  const Case cases[] = {
      {"net = { model = \"flaw\" }\n", "1:17: unknown model 'flaw'; did you mean 'flow'?"},
      {"net = { up = \"1Mbit/s\" }\n", "1:14: up needs model = \"flow\""},
      {"net = { model = \"flow\", congestion = \"vegas\" }\n", "1:38: unknown congestion 'vegas'"},
      {"net = { model = \"flow\", loss = \"100%\" }\n", "1:32: loss must be like \"0.1%\""},
      {"[[line]]\nof = \"a\"\nup = \"1Mbit/s\"\n", "1:1: a [[line]] needs net = { model = \"flow\" }"},
      {"net = { model = \"flow\" }\n[[line]]\nup = \"1Mbit/s\"\n", "2:1: a [[line]] must say of"},
      {"net = { model = \"flow\" }\n[[line]]\nof = \"w7\"\n", "3:6: 'w7' is no host"},
      {"net = { model = \"flow\" }\n[[line]]\nof = \"a a\"\n[[line]]\nof = \"a\"\n[[line]]\nof = \"a\"\n"
       "[[line]]\nof = \"a\"\nshared = true\n",
       "line: h1 is on more than three"},
      {"[[link]]\nbetween = \"a b\"\nloss = \"1%\"\n", "1:1: loss needs net = { model = \"flow\" }"},
  };
  for (const Case& c : cases) {
    const Ran ran = run_sim({"predict", file_with(std::string(c.text) + "[expect]\n")});
    EXPECT_EQ(ran.code, 2) << c.text;
    EXPECT_THAT(ran.errors, testing::HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace lockstep::sim
