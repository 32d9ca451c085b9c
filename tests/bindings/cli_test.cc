// The `lockstep` command from a shell: its output and its exit codes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/shell.h"

namespace {

using testing::HasSubstr;

const std::string kLockstep = LOCKSTEP_CLI;

using lockstep::testing::Ran;

Ran run(const std::string& arguments, const std::string& redirect = "2>&1") {
  return lockstep::testing::run_in_shell(kLockstep + " " + arguments, redirect);
}

// A running `lockstep` with these arguments; killed at the end of the test.
class Running {
 public:
  explicit Running(std::vector<std::string> words, const std::string& errors = "/dev/null") {
    words.insert(words.begin(), "lockstep");
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
      ::execv(kLockstep.c_str(), argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ::fdopen(ends[0], "r");
  }
  ~Running() {
    if (pid_ > 0) end(SIGKILL);
    std::fclose(out_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The next line of its output.
  std::string next_line() {
    std::array<char, 256> line{};
    return std::fgets(line.data(), line.size(), out_) != nullptr ? line.data() : "";
  }
  void tell(int signal) const { ::kill(pid_, signal); }
  // How it ended, from waitpid().
  int end(int signal) {
    int status = 0;
    ::kill(pid_, signal);
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  FILE* out_ = nullptr;
};

// `lockstep coordinator` on a free port.
class Coordinator : public Running {
 public:
  explicit Coordinator(const std::string& log = "none", const std::string& errors = "/dev/null")
      : Running({"coordinator", "--listen", "127.0.0.1:0", "--log", log}, errors), line_(next_line()) {
    address_ = line_.substr(line_.rfind(' ') + 1);
    if (!address_.empty()) address_.pop_back();
  }
  [[nodiscard]] const std::string& line() const { return line_; }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  std::string line_;
  std::string address_;
};

// ---- help and wrong usage ----

TEST(Cli, VersionNamesTheProgram) {
  const Ran ran = run("--version");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("lockstep 0."));
}

TEST(Cli, HelpOfEveryCommandHasExamples) {
  for (const std::string command :
       {"", "coordinator", "status", "doctor", "token", "token new", "token list", "token revoke", "bench", "demo"}) {
    const Ran ran = run(command + " --help");
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_THAT(ran.text, HasSubstr("lockstep " + command)) << command;
  }
  EXPECT_THAT(run("--help").text, HasSubstr("Exit codes:"));
  for (const char* code : {"14 the run did not end", "15 a goal was not met"}) {
    EXPECT_THAT(run("--help").text, HasSubstr(code));
  }
  EXPECT_EQ(run("--help").text.find("demo-peer"), std::string::npos);  // hidden
}

TEST(Cli, SuggestsAKnownCommand) {
  const Ran ran = run("demmo");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("unknown command 'demmo'; did you mean 'demo'?"));
  EXPECT_EQ(run("xylophone").text.find("did you mean"), std::string::npos);
}

TEST(Cli, SuggestsAKnownOption) {
  const Ran ran = run("bench --typ f32");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("unknown option '--typ' of `bench`; did you mean '--type'?"));
}

TEST(Cli, SuggestsAKnownValueAndListsAllOfThem) {
  const Ran ran = run("bench --collective all_redcue");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("unknown value 'all_redcue'; did you mean 'all_reduce'?"));
  EXPECT_THAT(ran.text, HasSubstr("reduce_scatter all_gather broadcast barrier sync_state"));
}

TEST(Cli, AnInvalidSizeExplainsTheNotation) {
  const Ran ran = run("bench --begin 64Q");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("such as 64K"));
}

TEST(Cli, RefusesABeginAboveTheEnd) {
  const Ran ran = run("bench -b 1M -e 1K");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("--begin 1 MiB is larger than --end 1 KiB"));
}

TEST(Cli, RefusesAHalfThatTheCollectiveDoesNotHave) {
  const Ran ran = run("bench -c broadcast --only out");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("--only out: broadcast is measured in place only"));
  EXPECT_EQ(run("bench -c barrier --only in").code, 2);
  EXPECT_EQ(run("bench -c reduce --only in").code, 2);
  EXPECT_EQ(run("bench -c sync_state --only out").code, 2);
  EXPECT_EQ(run("bench --segment-bytes 2M").code, 2);
}

TEST(Cli, AnInvalidNumberIsWrongUsage) {
  for (const char* words : {"bench --wait nan", "status 127.0.0.1:1 --timeout nan", "status 127.0.0.1:1 -i -1"}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_THAT(ran.text, HasSubstr("is no number from 0."));
  }
}

TEST(Cli, AFailedWriteToStdoutIsAFailure) {
  const Ran ran = run("--help", "2>&1 >/dev/full");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("cannot write to stdout: No space left on device"));
}

TEST(Cli, AnInvalidAddressIsWrongUsage) {
  for (const std::string listen : {"foo", "127.0.0.1:99999", "127.0.0.1:"}) {
    const Ran ran = run("coordinator --listen " + listen);
    EXPECT_EQ(ran.code, 2) << listen;
    EXPECT_THAT(ran.text, HasSubstr("bad address '" + listen + "'"));
  }
}

TEST(Cli, HelpIsComplete) {
  for (const std::string command : {"", "coordinator", "status", "doctor", "token", "token new", "bench", "demo"}) {
    EXPECT_EQ(run(command + " --help").text.find("\n\n\n"), std::string::npos) << command;
  }
  EXPECT_THAT(run("coordinator --help").text, HasSubstr("-v,--verbose "));
}

TEST(Cli, SilenceShorterThanTheHeartbeatIsRefused) {
  EXPECT_EQ(run("coordinator --listen 127.0.0.1:0 --heartbeat 1000 --silence 1500").code, 2);
}

TEST(Cli, NoCommandShowsTheHelp) {
  const Ran ran = run("");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("Start here:"));
}

// ---- coordinator and status ----

TEST(Cli, CoordinatorPrintsItsAddressAndEndsInOrder) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Coordinator coordinator;
    EXPECT_THAT(coordinator.line(), HasSubstr("lockstep coordinator listening on 127.0.0.1:"));
    EXPECT_EQ(coordinator.end(signal), 0);
  }
}

TEST(Cli, ACoordinatorWithoutARecorderSaysSoAndContinues) {
  const std::string file = testing::TempDir() + "coordinator_without_recorder.txt";
  Coordinator coordinator("none", file);
  coordinator.tell(SIGUSR1);
  const auto said = [&] {
    std::ifstream lines(file);
    std::string line;
    std::getline(lines, line);
    return line;
  };
  for (int i = 0; i < 100 && said().empty(); ++i) EXPECT_EQ(run("status " + coordinator.address()).code, 0);
  EXPECT_THAT(said(), HasSubstr("--flight-recorder FILE"));
  EXPECT_EQ(coordinator.end(SIGTERM), 0);
}

TEST(Cli, AnInterruptedWatchEndsWith130) {
  const Coordinator coordinator;
  Running watch({"status", coordinator.address(), "--watch", "--interval", "0.05"});
  std::string line = watch.next_line();
  while (!line.empty() && !line.starts_with("now: ")) line = watch.next_line();  // of its second answer
  const int status = watch.end(SIGINT);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

// Sends something that no peer sends, and waits until the connection is closed.
void knock(const std::string& address) {
  const int end = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  ASSERT_EQ(::connect(end, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const std::string words = "GET / HTTP/1.0\r\n\r\n";
  (void)!::write(end, words.data(), words.size());
  std::array<char, 256> bytes{};
  while (::read(end, bytes.data(), bytes.size()) > 0) {
  }
  ::close(end);
}

// Found by an attack: each stranger cost a line, and JSON lines contained lines of text.
TEST(Cli, StrangersDoNotFillTheCoordinatorsJsonLog) {
  const std::string file = testing::TempDir() + "coordinator_log.jsonl";
  Coordinator coordinator("json", file);
  const int strangers = 200;
  for (int i = 0; i < strangers; ++i) knock(coordinator.address());
  EXPECT_EQ(run("bench -p 1 --coordinator " + coordinator.address() + " -b 4 -e 4 -n 1 -w 1").code, 0);
  coordinator.end(SIGTERM);
  std::ifstream lines(file);
  int listed = 0;
  int unlisted = 0;
  bool installed = false;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json event = nlohmann::json::parse(line);
    const std::string name = event.at("event");
    if (name == "peer-refused" || name == "protocol-error") ++listed;
    const bool of_strangers =
        name == "left-out" && (event.at("of") == "peer-refused" || event.at("of") == "protocol-error");
    if (of_strangers) unlisted += event.at("count").get<int>();
    if (name == "installed") installed = installed || event.at("members") == 1;
    EXPECT_TRUE(event.contains("time"));
  }
  EXPECT_EQ(listed + unlisted, strangers);
  EXPECT_LT(listed, strangers);
  EXPECT_TRUE(installed);
}

TEST(Cli, TheErrorNamesAPortInUse) {
  const Coordinator coordinator;
  const Ran ran = run("coordinator --listen " + coordinator.address());
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr(coordinator.address().substr(coordinator.address().find(':') + 1)));
}

TEST(Cli, StatusOfAnEmptyRun) {
  const Coordinator coordinator;
  const Ran ran = run("status " + coordinator.address());
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("0 members, 0 waiting"));
}

TEST(Cli, StatusAsJsonDescribesAnEndedRun) {
  const Coordinator coordinator;
  const Ran bench = run("bench --coordinator " + coordinator.address() + " -p 1 -c barrier -n 10 -w 1");
  EXPECT_EQ(bench.code, 0) << bench.text;
  const Ran ran = run("status --json " + coordinator.address());
  ASSERT_EQ(ran.code, 0);
  const nlohmann::json j = nlohmann::json::parse(ran.text);
  EXPECT_EQ(j.at("version"), 1);
  EXPECT_TRUE(j.at("members").empty());
  EXPECT_EQ(j.at("counters").at("left"), 1);
  EXPECT_EQ(j.at("counters").at("lost"), 0);
}

// A member is killed while it is in the run.
TEST(Cli, StatusNamesThePeerOfATrouble) {
  const Coordinator coordinator;
  Running peer({"bench", "--coordinator", coordinator.address(), "-p", "1", "-c", "barrier", "-n", "1000000"});
  const auto status = [&] { return nlohmann::json::parse(run("status --json " + coordinator.address()).text); };
  nlohmann::json before = status();
  for (int i = 0; i < 200 && before.at("members").empty(); ++i) before = status();
  ASSERT_EQ(before.at("members").size(), 1U);
  EXPECT_TRUE(before.at("troubles").empty());
  const std::string id = before.at("members").at(0).at("id");
  peer.end(SIGKILL);
  nlohmann::json after = status();
  for (int i = 0; i < 200 && after.at("troubles").empty(); ++i) after = status();
  ASSERT_EQ(after.at("troubles").size(), 1U);
  const nlohmann::json& trouble = after.at("troubles").at(0);
  EXPECT_EQ(trouble.at("peer"), id);
  EXPECT_FALSE(trouble.contains("other"));
  EXPECT_THAT(trouble.at("text").get<std::string>(), HasSubstr("is lost: its stream to the coordinator ended"));
  const Ran ran = run("status " + coordinator.address());
  EXPECT_THAT(ran.text, HasSubstr(" s ago: " + trouble.at("text").get<std::string>()));
}

TEST(Cli, StatusWithoutACoordinatorSaysSo) {
  const std::string address = [] {
    Coordinator coordinator;
    coordinator.end(SIGTERM);
    return coordinator.address();
  }();
  const Ran ran = run("status " + address);
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.text, HasSubstr("cannot reach a coordinator at " + address));
}

// A port on which another kind of server sends `words` once, and then waits.
class OtherServer {
 public:
  explicit OtherServer(const std::string& words) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int guest = ::accept(listener, nullptr, nullptr);
      (void)!::write(guest, words.data(), words.size());
      for (;;) ::pause();
    }
    ::close(listener);
  }
  ~OtherServer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  OtherServer(const OtherServer&) = delete;
  OtherServer& operator=(const OtherServer&) = delete;
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  pid_t pid_ = 0;
  std::string address_;
};

TEST(Cli, StatusOfAnotherServerSaysThatItIsNotACoordinator) {
  const OtherServer http("HTTP/1.1 400 Bad Request\r\n\r\n");
  const Ran ran = run("status " + http.address());
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.text, HasSubstr("the program at " + http.address() + " is not a Lockstep coordinator"));
  EXPECT_THAT(ran.text, HasSubstr("not a Lockstep stream: first bytes"));
  const OtherServer silent("");
  const Ran none = run("status --timeout 0.3 " + silent.address());
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.text, HasSubstr("within 0.3 s: it accepts connections; check that it is a Lockstep coordinator"));
}

TEST(Cli, StatusOfAnInvalidAddressIsWrongUsage) { EXPECT_EQ(run("status nonsense").code, 2); }

// ---- bench ----

TEST(Cli, BenchChecksEveryCollective) {
  for (const std::string collective : {"all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast"}) {
    const Ran ran = run("bench -p 3 -b 1K -e 64K -f 64 -n 3 -w 1 --json -c " + collective, "2> /dev/null");
    ASSERT_EQ(ran.code, 0) << collective << ran.text;
    const nlohmann::json j = nlohmann::json::parse(ran.text);
    EXPECT_EQ(j.at("peers"), 3);
    EXPECT_EQ(j.at("errors"), 0) << collective;
    ASSERT_EQ(j.at("rows").size(), 2U);
    EXPECT_EQ(j.at("rows")[0].at("out_of_place").is_null(), collective == "broadcast");
    EXPECT_EQ(j.at("rows")[0].at("in_place").is_null(), collective == "reduce" || collective == "reduce_scatter");
    EXPECT_EQ(j.at("op").is_null(), collective == "all_gather" || collective == "broadcast");
    const nlohmann::json& timing = j.at("rows")[0].at(collective == "broadcast" ? "in_place" : "out_of_place");
    EXPECT_EQ(timing.at("iterations"), 3);
    EXPECT_GT(timing.at("least_us"), 0);
    EXPECT_LE(timing.at("least_us"), timing.at("median_us"));
    EXPECT_LE(timing.at("median_us"), timing.at("most_us"));
  }
}

TEST(Cli, BenchReportsBeginAndDurationOfEachMeasuredCall) {
  const std::string bench = "bench -p 2 -b 4K -e 4K -n 3 -w 2 --only out --say-calls --json";
  const Ran calls = run(bench, "2>&1 > /dev/null");
  ASSERT_EQ(calls.code, 0) << calls.text;
  EXPECT_EQ(calls.text, "call 1\ncall 2\ncall 3\n");
  const Ran ran = run(bench, "2> /dev/null");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const nlohmann::json timing = nlohmann::json::parse(ran.text).at("rows")[0].at("out_of_place");
  EXPECT_EQ(timing.at("calls_us").size(), 3U);
  EXPECT_EQ(timing.at("retries"), 0);
}

TEST(Cli, BenchChecksManyTensorsAndManyCallsInFlight) {
  const Ran ran = run("bench -p 3 -t 150 -i 3 -b 0 -e 100K -f 1000 -n 2 -w 1 --json", "2> /dev/null");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const nlohmann::json j = nlohmann::json::parse(ran.text);
  EXPECT_EQ(j.at("tensors"), 150);
  EXPECT_EQ(j.at("in_flight"), 3);
  EXPECT_EQ(j.at("errors"), 0);
  EXPECT_EQ(j.at("rows").back().at("out_of_place").at("iterations"), 2);
  for (const std::string collective : {"reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"}) {
    EXPECT_EQ(run("bench -p 2 -i 2 -b 1K -e 1K -n 1 -w 1 -c " + collective).code, 0) << collective;
  }
}

TEST(Cli, BenchSendsBetweenPairs) {
  for (const std::string pairs : {"-p 2", "-p 4 -i 5"}) {
    const Ran ran = run("bench -c send -b 0 -e 300K -f 60000 -n 3 -w 1 --json " + pairs, "2> /dev/null");
    ASSERT_EQ(ran.code, 0) << pairs << ran.text;
    const nlohmann::json j = nlohmann::json::parse(ran.text);
    EXPECT_EQ(j.at("errors"), 0) << pairs;
    EXPECT_TRUE(j.at("op").is_null());
    ASSERT_EQ(j.at("rows").size(), 3U);
    for (const nlohmann::json& row : j.at("rows")) {
      EXPECT_TRUE(row.at("in_place").is_null());
      EXPECT_EQ(row.at("out_of_place").at("busbw_gb_per_s"), row.at("out_of_place").at("algbw_gb_per_s"));
    }
  }
  EXPECT_THAT(run("bench -c send -p 3").text, HasSubstr("--peers 3: send needs pairs: give an even number"));
  EXPECT_EQ(run("bench -c send --only in").code, 2);
  EXPECT_EQ(run("bench -c send -t 2").code, 2);
}

TEST(Cli, BenchRefusesOptionsWithoutAMeaning) {
  EXPECT_THAT(run("bench -c broadcast -t 3").text, HasSubstr("--tensors 3: broadcast takes one"));
  EXPECT_THAT(run("bench -c sync_state -i 3").text, HasSubstr("--in-flight 3: sync_state allows one call at a time"));
  EXPECT_EQ(run("bench -t 0").code, 2);
  EXPECT_EQ(run("bench -i 65").code, 2);
}

TEST(CliBench, MeasuresWireFormatsWithinTheirErrors) {
  for (const std::string formats : {"--up int8 --down e3m0", "--up bf16", "--down f16", "--up int4 --down int8",
                                    "--algorithm direct", "--up int4 --residual", "--up int4 --residual --tensors 3"}) {
    const Ran ran = run("bench -p 3 -o avg -b 4 -e 400K -f 300 -n 3 -w 1 --json " + formats, "2> /dev/null");
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_EQ(nlohmann::json::parse(ran.text)["errors"], 0) << ran.text;
  }
}

TEST(CliBench, RefusesImpossibleWireFormats) {
  EXPECT_THAT(run("bench --up int8").text, HasSubstr("use --op avg, or --only out"));
  EXPECT_THAT(run("bench --up e3m0 -o avg --algorithm ring").text,
              HasSubstr("the ring needs a format of 8 bits or more for --up"));
  EXPECT_THAT(run("bench --up int8 -o avg --residual").text, HasSubstr("only the direct algorithm has residuals"));
  EXPECT_THAT(run("bench --algorithm direct -c broadcast").text,
              HasSubstr("only an all_reduce can choose an algorithm"));
  EXPECT_THAT(run("bench --down int8 -d f64 -o avg").text, HasSubstr("only an all_reduce of f32 (sum or avg)"));
  EXPECT_EQ(run("bench --down int7").code, 2);
}

TEST(Cli, BenchOfASyncTransfersTheWholeStateInEveryCall) {
  const Ran ran = run("bench -c sync_state -p 3 -b 100K -e 3M -f 64 -n 3 -w 1 --json", "2> /dev/null");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const nlohmann::json j = nlohmann::json::parse(ran.text);
  EXPECT_EQ(j.at("errors"), 0);
  EXPECT_TRUE(j.at("op").is_null());
  ASSERT_EQ(j.at("rows").size(), 1U);
  const nlohmann::json& timing = j.at("rows")[0].at("in_place");
  EXPECT_TRUE(j.at("rows")[0].at("out_of_place").is_null());
  EXPECT_EQ(timing.at("iterations"), 3);
  EXPECT_EQ(timing.at("received_bytes"), 100U << 10U);
  const double seconds = timing.at("time_us").get<double>() * 1e-6;
  EXPECT_NEAR(timing.at("algbw_gb_per_s").get<double>(), (100U << 10U) / seconds * 1e-9, 1e-6);
  EXPECT_THAT(run("bench -c sync_state -p 2 -b 2M -e 2M -n 1 -w 1").text, HasSubstr("time of the newcomer"));
}

TEST(Cli, BenchOfASyncNeedsAPeerWithTheState) {
  const Ran ran = run("bench -c sync_state -p 1");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("--peers 1: sync_state needs at least 2 peers: one with the state, and a newcomer"));
}

TEST(Cli, BenchMayBeginWithZeroBytes) {
  const Ran ran = run("bench -p 2 -b 0 -e 16 -n 1 -w 1 --json");
  ASSERT_EQ(ran.code, 0) << ran.text;
  std::vector<std::uint64_t> sizes;
  const nlohmann::json table = nlohmann::json::parse(ran.text);
  for (const auto& row : table.at("rows")) sizes.push_back(row.at("bytes"));
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{0, 4, 16}));
}

TEST(Cli, BenchKnowsTheFoldOfEveryTypeAndOperation) {
  for (const std::string type :
       {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool"}) {
    for (const std::string op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}) {
      const bool is_bitwise = op.starts_with('b');
      if (type.starts_with('f') || type == "bf16" ? is_bitwise : type == "bool" && op == "avg") continue;
      std::string line = "bench -p 2 -b 20000 -e 20000 -n 1 -w 1 --only out";
      line.append(" -d ").append(type).append(" -o ").append(op);
      const Ran ran = run(line);
      EXPECT_EQ(ran.code, 0) << ran.text;
      EXPECT_THAT(ran.text, HasSubstr("all results are right")) << type << " " << op;
      EXPECT_THAT(ran.text, HasSubstr(type)) << op;
      EXPECT_THAT(ran.text, HasSubstr(op)) << type;
    }
  }
}

TEST(Cli, BenchRefusesAnOperationThatTheTypeDoesNotHave) {
  const Ran ran = run("bench -p 2 -b 4K -e 4K -n 1 -w 0 -d f32 -o bor");
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("f32 has no bor"));
}

TEST(Cli, BenchWithoutACoordinatorSaysSo) {
  const std::string address = [] {
    Coordinator coordinator;
    coordinator.end(SIGTERM);
    return coordinator.address();
  }();
  const Ran ran = run("bench --wait 2 --coordinator " + address);
  EXPECT_EQ(ran.code, 3) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("cannot reach a coordinator at " + address));
}

// ---- demo ----

TEST(Cli, TheDemoSurvives) {
  const Ran ran = run("demo --bytes 1M");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("It survived"));
}

TEST(Cli, ADemoThatCannotFinishIsNotASuccess) {
  const Ran ran = run("demo --bytes 1M --steps 100000 --limit 1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("IT DID NOT SURVIVE"));
}

}  // namespace
