// `lockstep sim replay` with a flight recording, as a shell sees it.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/flight/recording.h"
#include "sim/plan/plan.h"
#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"
#include "tests/sim/flight/recording_witness.h"
#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<flight::Recording> calm_recordings() {
  RecordingWitness witness(std::size_t{64} << 20U);
  WorldOptions options;
  options.witness = &witness;
  Plan plan = calm_plan();
  plan.mode = Mode::kBytes;
  run(plan, options);
  return witness.recordings();
}

std::string file_of(const flight::Recording& recording, const std::string& name = "flight.rec") {
  const std::vector<std::byte> bytes = flight::encode(recording);
  return file_with(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name);
}

TEST(SimReplayRecording, ReportsTheEventsAndThatTheReplayIsEqual) {
  for (const flight::Recording& recording : calm_recordings()) {
    const Ran ran = run_sim({"replay", file_of(recording)});
    EXPECT_EQ(ran.code, 0) << ran.errors;
    EXPECT_THAT(ran.out, AllOf(StartsWith("recorded by "), HasSubstr(std::to_string(recording.inputs) + " inputs, "),
                               EndsWith(": the same\n")));
    EXPECT_THAT(ran.out, HasSubstr(recording.of_peer() ? "  joined view=" : "  peer-waiting "));
    EXPECT_EQ(ran.out.find("installed"), std::string::npos);
    EXPECT_EQ(ran.errors, "");
  }
}

TEST(SimReplayRecording, ADifferenceIsShownWithTheCommandThatShowsIt) {
  flight::Recording recording = calm_recordings().back();
  std::get<peer::PeerOptions>(recording.options).name = "somebody else";
  const std::string file = file_of(recording);
  const Ran ran = run_sim({"replay", file});
  EXPECT_EQ(ran.code, 13);
  EXPECT_THAT(ran.errors, AllOf(HasSubstr("different at input "), HasSubstr("given: "), HasSubstr("; now: "),
                                HasSubstr("now -> "), HasSubstr("Join{"), HasSubstr("lockstep sim replay " + file)));
  const Ran json = run_sim({"replay", file, "--json"});
  EXPECT_EQ(json.code, 13);
  const auto told = nlohmann::json::parse(json.out);
  EXPECT_FALSE(told.at("same").get<bool>());
  EXPECT_GT(told.at("difference").at("input").get<std::uint64_t>(), 0U);
}

TEST(SimReplayRecording, WatchTellsInputsAndEffects) {
  const flight::Recording recording = calm_recordings().back();
  const Ran ran = run_sim({"replay", file_of(recording), "--watch", "--until", "30"});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("#1 "), HasSubstr("Connect{call: 1"), HasSubstr("-> Resolve{"), HasSubstr("-> Dial{"),
                    HasSubstr("Preamble, Join{"), HasSubstr("ReadDone{"), HasSubstr("#30 "), HasSubstr("30 inputs")));
  EXPECT_EQ(ran.out.find("#31 "), std::string::npos);
}

TEST(SimReplayRecording, AChangedByteIsCorrupt) {
  const std::vector<std::byte> bytes = flight::encode(calm_recordings().front());
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  const std::string file = file_with(text, "flight.rec");
  const Ran ran = run_sim({"replay", file});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, AllOf(HasSubstr(file), HasSubstr("corrupt")));
}

TEST(SimReplayRecording, ARecordingThatCannotBePlayedIsRefusedWithAReason) {
  const std::vector<std::byte> bytes = flight::encode(calm_recordings().front());
  const std::string good(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto with = [&](std::size_t at, const std::string& other) {
    std::string changed = good;
    return changed.replace(at, other.size(), other);
  };
  const std::vector<std::pair<std::string, std::string>> refused = {
      {good.substr(0, 5), "cut off: 5 bytes"},
      {good.substr(0, 20), "cut off: 20 bytes"},
      {good.substr(0, good.size() - 1), "it is cut off"},
      {good + "x", "bytes were added"},
      {with(2, "x"), "neither a plan nor a flight recording"},
      {with(8, "\x07"), "has format 7"},
      {with(12, "\x4d"), "uses version 77"},
      {with(16, std::string(8, '\xff')), "should have 18446744073709551615 bytes"},
  };
  for (const auto& [text, words] : refused) {
    const std::string file = file_with(text, "flight.rec");
    const Ran ran = run_sim({"replay", file});
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_THAT(ran.errors, AllOf(HasSubstr(file), HasSubstr(words)));
  }
  EXPECT_EQ(run_sim({"replay", file_with("", "flight.rec")}).code, 2);
  EXPECT_EQ(run_sim({"replay", testing::TempDir()}).code, 2);
}

TEST(SimReplayRecording, NoFlippedBitAndNoCutIsPlayed) {
  const std::vector<std::byte> bytes = flight::encode(calm_recordings().front());
  const std::string good(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t i = 0; i < good.size(); i += 1 + good.size() / 100) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    const Ran ran = run_sim({"replay", file_with(flipped, "flight.rec")});
    EXPECT_EQ(ran.code, 2) << i;
    EXPECT_FALSE(ran.errors.empty()) << i;
    EXPECT_EQ(run_sim({"replay", file_with(good.substr(0, i), "flight.rec")}).code, 2) << i;
  }
}

TEST(SimReplayRecording, AMachineThatCannotBeIsRefused) {
  flight::Recording recording = calm_recordings().front();
  std::get<coordinator::CoordinatorOptions>(recording.options).silence = Duration{};
  const Ran ran = run_sim({"replay", file_of(recording)});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("silence must be longer than heartbeat"));
}

TEST(SimReplayRecording, ACoordinatorsBecomesAPlanThatRuns) {
  const std::string file = file_of(calm_recordings().front());
  const std::string plan = file_with("", "incident.toml");
  const Ran ran = run_sim({"replay", file, "--plan", plan});
  EXPECT_EQ(ran.code, 0) << ran.errors;
  EXPECT_THAT(ran.out, AllOf(StartsWith("2 hosts, "), EndsWith("lockstep sim replay " + plan + "\n")));
  EXPECT_EQ(run_sim({"replay", plan, "--json"}).code, 0);
  const Ran peers = run_sim({"replay", file_of(calm_recordings().back(), "peer.rec"), "--plan", plan});
  EXPECT_EQ(peers.code, 2);
  EXPECT_THAT(peers.errors, HasSubstr("a peer sees too little"));
}

TEST(SimReplayRecording, OneThatIsNotThereIsSaidToBeMissing) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--plan", "x.toml"}, {"--watch"}, {}}) {
    std::vector<std::string> words = {"replay", "/nowhere.rec"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_sim(words);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.errors, HasSubstr("/nowhere.rec: No such file or directory"));
  }
}

TEST(SimReplayRecording, OptionsThatDoNothingAreRefused) {
  const std::string file = file_of(calm_recordings().front());
  EXPECT_THAT(run_sim({"replay", file, "--streams"}).errors, HasSubstr("--streams has no effect with a recording"));
  EXPECT_THAT(run_sim({"replay", file_with("peers = 2\n"), "--watch"}).errors, HasSubstr("--watch has no effect"));
  EXPECT_THAT(run_sim({"replay", file, "--plan", "x.toml", "--watch"}).errors, HasSubstr("with --plan"));
}

}  // namespace
}  // namespace lockstep::sim
