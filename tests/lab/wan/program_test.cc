// `lockstep_wan` as a shell sees it. Skipped where namespaces or TUN devices are not allowed.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/lab/wan/box.h"
#include "tests/support/shell.h"

namespace lockstep::wan {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr auto kTwo = "tests/lab/wan/topologies/even-2.toml";

#define SKIP_IF_REFUSED()                                                   \
  if (const auto box = Box::make(*topology_from_text("peers = 1")); !box) { \
    ASSERT_EQ(box.error().status, Status::kRefused) << box.error().text;    \
    GTEST_SKIP() << box.error().text;                                       \
  }

using testing::Ran;

Ran run(const std::string& arguments, const std::string& redirect = "2>&1") {
  return testing::run_in_shell(std::string(LOCKSTEP_WAN) + " " + arguments, redirect);
}

TEST(WanProgram, WrongUsageAndWrongFilesAreToldBeforeAnythingIsDone) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("rnu").code, 2);
  const Ran missing = run("run no-such.toml -- true");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.text, HasSubstr("no-such.toml"));
  const std::string path = ::testing::TempDir() + "wan-wrong.toml";
  std::ofstream(path) << "peers = 2\nnet = { rate = \"many\" }\n";
  const Ran wrong = run("run " + path + " -- true");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, HasSubstr(path + ":2:16: rate must be like"));
  std::remove(path.c_str());
}

TEST(WanProgram, WhatPredictionsDoNotKnowIsRefusedBeforeAnythingRuns) {
  const Ran cut = run("compare tests/lab/wan/topologies/cut-4.toml");
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.text, HasSubstr("cut-4.toml: predictions know no [[do]]"));
  EXPECT_EQ(run(std::string("compare --equal -1 ") + kTwo).code, 2);
}

TEST(WanProgram, ShowsEveryLine) {
  const Ran ran = run(std::string("show ") + kTwo);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("a (10.77.0.1) up           100 Mbit/s"));
  EXPECT_THAT(ran.text, HasSubstr("b -> a"));
}

TEST(WanProgram, RunsAProgramOnEachPeer) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("run ") + kTwo + " -- echo {host} {address} {index} {peers} {coordinator}");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("a | a 10.77.0.1 1 2 10.77.0.100\n"));
  EXPECT_THAT(ran.text, HasSubstr("b | b 10.77.0.2 2 2 10.77.0.100\n"));
}

// Also where the program has ended before its output is read.
TEST(WanProgram, EachLineIsALineOfItsOwn) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("run ") + kTwo + " -- sh -c 'echo one; echo two; printf rest'");
  EXPECT_EQ(ran.code, 0) << ran.text;
  for (const char* const line : {"a | one\n", "a | two\n", "a | rest\n", "b | one\n", "b | two\n", "b | rest\n"}) {
    EXPECT_THAT(ran.text, HasSubstr(line));
  }
}

TEST(WanProgram, TheWorstExitCodeIsIts) {
  SKIP_IF_REFUSED();
  EXPECT_EQ(run(std::string("run ") + kTwo + " -- sh -c 'exit {index}'").code, 2);
  const Ran none = run(std::string("run ") + kTwo + " -- /no/such/program");
  EXPECT_EQ(none.code, 127);
  EXPECT_THAT(none.text, HasSubstr("a | cannot run /no/such/program: no such program"));
}

TEST(WanProgram, PeersStartWhenTheCoordinatorHasSpoken) {
  SKIP_IF_REFUSED();
  const Ran ran =
      run(std::string("run ") + kTwo + " --coordinator 'echo I am {address}; exec tail -f /dev/null' -- true");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("coordinator | I am 10.77.0.100\n"));
  const Ran gone = run(std::string("run ") + kTwo + " --coordinator 'exit 3' -- true");
  EXPECT_EQ(gone.code, 3);
  EXPECT_THAT(gone.text, HasSubstr("the coordinator has ended before the peers"));
}

TEST(WanProgram, StatisticsAsJson) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("run --json ") + kTwo + " -- echo hello", "2> /dev/null");
  EXPECT_EQ(ran.code, 0);
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.text;
  EXPECT_EQ(json.at("exit_code"), 0);
  EXPECT_TRUE(json.at("lines").is_array());
}

// Programs, one of which has left its session and ignores SIGTERM, hold the write end of a pipe: its end is theirs.
class Abandoned {
 public:
  Abandoned() {
    std::array<int, 2> held{};
    std::array<int, 2> out{};
    EXPECT_EQ(::pipe(held.data()), 0);
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    ::fcntl(held[0], F_SETFD, FD_CLOEXEC);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::execl(LOCKSTEP_WAN, "lockstep_wan", "run", kTwo, "--", "sh", "-c",
              "setsid sh -c \"trap '' TERM; tail -f /dev/null\" & echo up; tail -f /dev/null", nullptr);
      ::_exit(127);
    }
    ::close(held[1]);
    ::close(out[1]);
    held_ = held[0];
    out_ = out[0];
    std::string said;
    std::array<char, 256> bytes{};
    while (said.find("a | up\n") == std::string::npos || said.find("b | up\n") == std::string::npos) {
      const ssize_t n = ::read(out_, bytes.data(), bytes.size());
      if (n <= 0) break;
      said.append(bytes.data(), static_cast<std::size_t>(n));
    }
    up_ = said.find("b | up") != std::string::npos;
  }
  ~Abandoned() {
    ::close(held_);
    ::close(out_);
  }
  Abandoned(const Abandoned&) = delete;
  Abandoned& operator=(const Abandoned&) = delete;

  [[nodiscard]] bool up() const { return up_; }
  // How the program ended.
  [[nodiscard]] int end(int signal) const {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return status;
  }
  // That none is left, within half a minute.
  [[nodiscard]] bool all_gone() const {
    pollfd place{held_, POLLIN, 0};
    char byte = 0;
    return ::poll(&place, 1, 30'000) == 1 && ::read(held_, &byte, 1) == 0;
  }

 private:
  pid_t pid_ = 0;
  int held_ = -1;
  int out_ = -1;
  bool up_ = false;
};

TEST(WanProgram, AnInterruptLeavesNoProcess) {
  SKIP_IF_REFUSED();
  const Abandoned programs;
  ASSERT_TRUE(programs.up());
  const int status = programs.end(SIGINT);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
  EXPECT_TRUE(programs.all_gone());
}

TEST(WanProgram, BeingKilledLeavesNoProcess) {
  SKIP_IF_REFUSED();
  const Abandoned programs;
  ASSERT_TRUE(programs.up());
  EXPECT_TRUE(WIFSIGNALED(programs.end(SIGKILL)));
  EXPECT_TRUE(programs.all_gone());
}

TEST(WanProgram, MeasuresAnAllReduceBetweenPeers) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("measure --json --size 256KiB --iters 3 ") + kTwo, "");
  ASSERT_EQ(ran.code, 0);
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.text;
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("calls"), 3);
  const auto& limit = row.at("limit");
  EXPECT_EQ(limit.at("algorithm"), "ring");  // of two peers the direct algorithm has the same
  EXPECT_NEAR(limit.at("lines_s").get<double>(), 262144 * 8 / 100e6 * 1500 / 1448, 1e-6);
  EXPECT_EQ(row.at("limits").size(), 2U);
  EXPECT_GT(row.at("median_s").get<double>(), limit.at("limit_s").get<double>());
  std::uint64_t between_peers = 0;
  for (const auto& line : row.at("lines")) {
    if (line.at("line") == "a -> b") between_peers = line.at("bytes");
  }
  EXPECT_GT(between_peers, 5U * 262144);  // the call that is checked, one to warm up, and three
}

TEST(WanProgram, MeasuresWhatResetsOfStreamsCostACall) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("measure --json --size 2MiB --iters 5 --resets 1 ") + kTwo + " -- --stripes 8", "");
  ASSERT_EQ(ran.code, 0);
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.text;
  const auto& effect = json.at("rows").at(0).at("disturbance");
  EXPECT_EQ(effect.at("wanted"), 2);
  EXPECT_EQ(effect.at("hit"), 2);
  EXPECT_EQ(effect.at("undisturbed_s").size(), 3U);
  EXPECT_EQ(effect.at("disturbed_s").size(), 2U);
  EXPECT_EQ(effect.at("retries"), 0);
  EXPECT_GT(effect.at("ratio"), 0);
  ASSERT_EQ(effect.at("resets").size(), 2U);
  EXPECT_GT(effect.at("resets").at(0).at("back_after_s"), 0);  // in the call after it at the latest
}

TEST(WanProgram, ResetsNeedTwoCalls) {
  const Ran ran = run(std::string("measure --iters 1 --resets 2 ") + kTwo);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("--resets 2: every second call is disturbed"));
}

TEST(WanProgram, ShowsWhatHappens) {
  const std::string path = ::testing::TempDir() + "wan-acts.toml";
  std::ofstream(path) << "peers = 2\n[[do]]\nat = \"2s\"\nreset = \"a -> b\"\n";
  const Ran ran = run("show " + path);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("2s  reset the busiest connection of a and b\n"));
  std::remove(path.c_str());
}

TEST(WanProgram, MeasuresATakeoverFromOneSourceAndFromMore) {
  SKIP_IF_REFUSED();
  const std::string sync = "sync tests/lab/wan/topologies/sources-5.toml --size 3MiB --runs 1 --iters 1 ";
  const Ran ran = run(sync + "--sources 1,2 --json", "");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.text;
  const auto& rows = json.at("rows");
  ASSERT_EQ(rows.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& row = rows.at(i);
    EXPECT_EQ(row.at("sources"), i + 1);
    EXPECT_NEAR(row.at("lines_s").get<double>(), (3U << 20U) * 8 / static_cast<double>(i + 1) / 100e6 * 1500 / 1448,
                1e-3);
    EXPECT_GT(row.at("median_s"), row.at("lines_s"));
    EXPECT_EQ(row.at("runs_s").size(), 1U);
    EXPECT_EQ(row.at("runs").at(0).at("calls").at("received_bytes"), 3U << 20U);
    std::uint64_t to_newcomer = 0;
    bool second_sends = false;
    for (const auto& line : row.at("runs").at(0).at("lines")) {
      if (line.at("line") == "e down") to_newcomer = line.at("bytes");
      second_sends = second_sends || (line.at("line") == "b -> e" && line.at("bytes") > 1U << 20U);
    }
    EXPECT_GT(to_newcomer, 3U * (3U << 20U));  // the call that is checked, one to warm up, and one
    EXPECT_EQ(second_sends, i == 1);
  }
  EXPECT_EQ(rows.at(0).at("of_first"), 1);
}

TEST(WanProgram, MoreSourcesThanThereAreAreRefused) {
  const Ran ran = run("sync tests/lab/wan/topologies/sources-5.toml --sources 5");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(
      ran.text,
      HasSubstr("--sources 5: tests/lab/wan/topologies/sources-5.toml has 5 peers, and the last is the newcomer"));
}

TEST(WanProgram, ComparesAPredictionWithPeersAndFailsWhereItIsTooFarOff) {
  SKIP_IF_REFUSED();
  const std::string compare = std::string("compare --size 256KiB --runs 2 --iters 1 --warmup 1 ") + kTwo;
  const Ran ran = run(compare + " --json --equal 1000", "");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.text;
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("topology"), "even-2");
  EXPECT_EQ(row.at("equal_hosts"), true);
  EXPECT_EQ(row.at("runs_s").size(), 2U);
  const double predicted = row.at("predicted_s").get<double>();
  EXPECT_GT(predicted, 262144 * 8 / 100e6);
  EXPECT_NEAR(row.at("error_percent").get<double>(), (predicted / row.at("real_s").get<double>() - 1) * 100, 1e-6);
  const Ran strict = run(compare + " --equal 0");
  EXPECT_EQ(strict.code, 1);
  EXPECT_THAT(strict.text, HasSubstr("too far"));
  EXPECT_THAT(strict.text, HasSubstr("0 of 1 within"));
}

TEST(WanProgram, AYardstickThatWasNotBuiltHasAnEmptyColumn) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("yardsticks --size 4KiB --iters 1 --yardsticks /no/such/folder ") + kTwo);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("Gloo: not compared: /no/such/folder/yardstick_gloo was not built"));
  EXPECT_THAT(ran.text, HasSubstr("Open MPI: not compared: /no/such/folder/yardstick_open_mpi was not built"));
  EXPECT_THAT(ran.text, ContainsRegex("4096 +0.040 .* direct +. - +. - +\n"));
}

TEST(WanProgram, YardsticksKnowWhichLibrariesThereAre) {
  const Ran ran = run(std::string("yardsticks --against nccl ") + kTwo);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("nccl"));
}

// Programs in the place of the yardsticks. `gloo` is the shell script of the one for Gloo.
class FakeYardsticks {
 public:
  // In a folder of its own: tests run side by side.
  explicit FakeYardsticks(const std::string& gloo)
      : folder_(fmt::format("{}wan-yardsticks-{}", ::testing::TempDir(), ::getpid())) {
    std::filesystem::create_directories(folder_);
    const std::string program = folder_ + "/yardstick_gloo";
    std::ofstream(program) << "#!/bin/sh\n" << gloo;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  ~FakeYardsticks() { std::filesystem::remove_all(folder_); }
  FakeYardsticks(const FakeYardsticks&) = delete;
  FakeYardsticks& operator=(const FakeYardsticks&) = delete;

  [[nodiscard]] Ran measure(const std::string& arguments, const std::string& redirect = "2>&1") const {
    return run(
        fmt::format("yardsticks --size 4KiB --iters 2 --against gloo --yardsticks {} {} {}", folder_, arguments, kTwo),
        redirect);
  }

 private:
  std::string folder_;
};

TEST(WanProgram, TheAlgorithmWithTheLeastMedianCounts) {
  SKIP_IF_REFUSED();
  const FakeYardsticks fake(
      "echo '4096 5.0 0.1 0 ring'; echo calls 500000 700000; echo '4096 5.0 0.1 0 bcube'; echo calls 400000 300000\n");
  const Ran ran = fake.measure("");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("0.350 (0.300 to 0.400) bcube"));
}

TEST(WanProgram, AYardstickThatFailsIsToldAndTheOthersAreMeasured) {
  SKIP_IF_REFUSED();
  const Ran failed = FakeYardsticks("echo nobody answers >&2; exit 3\n").measure("");
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.text, HasSubstr("Gloo, 4096 bytes: ended with 3: nobody answers\n"));
  EXPECT_THAT(failed.text, ContainsRegex("4096 +0.040 .* direct"));
  const Ran wrong = FakeYardsticks("echo '4096 5.0 0.1 7 ring'; echo calls 1 1\n").measure("");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.text, HasSubstr("Gloo, 4096 bytes: 7 elements of the result are wrong\n"));
}

// Whatever the yardstick has started holds the pipe that this test reads to its end.
TEST(WanProgram, AYardstickThatHangsIsEndedWithAllThatItHasStarted) {
  SKIP_IF_REFUSED();
  const FakeYardsticks fake("setsid tail -f /dev/null &\nexec tail -f /dev/null\n");
  const Ran ran = fake.measure("--limit 5", "2>&1 9>&1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("Gloo, 4096 bytes: was not done after 5 s\n"));
}

TEST(WanProgram, MeasuresOtherLibrariesOnTheSameTopology) {
  SKIP_IF_REFUSED();
  const Ran ran = run(std::string("yardsticks --json --size 4KiB --iters 3 --limit 50 ") + kTwo, "2> /dev/null");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.text;
  const auto& row = json.at("rows").at(0);
  EXPECT_NEAR(row.at("limit_s").get<double>(), 0.04 + 4096 * 8 / 100e6 * 1500 / 1448, 1e-5);
  for (const char* const library : {"Lockstep", "Gloo", "Open MPI"}) {
    const auto& column = row.at(library);
    if (column.is_null()) continue;  // it is not installed
    EXPECT_EQ(column.at("calls_s").size(), 3U) << library;
    EXPECT_GT(column.at("median_s"), row.at("limit_s")) << library << " has not used the lines of the box";
  }
}

}  // namespace
}  // namespace lockstep::wan
