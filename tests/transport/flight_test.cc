// The flight recorder of real communicators: the player repeats in core what happened on sockets and threads.
#include "transport/flight.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sim/flight/player.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"
#include "transport/engine.h"
#include "transport/entropy.h"

namespace lockstep::transport {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLongest = seconds(30);

struct Flight : ::testing::Test {
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  // Starts a run of `world` peers, each with a recorder of `bytes`.
  void meet(std::uint32_t world, std::size_t bytes = kFlightBytes) {
    CoordinatorServer::Options options;
    options.listen = "127.0.0.1:0";
    options.flight_bytes = bytes;
    auto started = CoordinatorServer::start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.error().text;
    server = std::move(*started);
    std::vector<Work> joining;
    for (std::uint32_t i = 0; i < world; ++i) {
      CommunicatorOptions its_options;
      its_options.listen_host = "127.0.0.1";
      its_options.peer.founders = world;
      its_options.peer.name = std::string(1, static_cast<char>('a' + i));
      its_options.flight_bytes = bytes;
      if (bytes != 0) its_options.flight_folder = folder;
      its_options.log = log;
      auto made = Communicator::create(std::move(its_options));
      ASSERT_TRUE(made.ok()) << made.error().text;
      peers.push_back(std::move(*made));
      joining.push_back(peers.back()->connect(server->address().text(), kLongest));
    }
    for (const Work& work : joining) ASSERT_TRUE(work.wait(kLongest));
  }

  // Every remaining peer all-reduces `count` floats. With `lone`, `first` launches alone for a moment.
  std::vector<Work> launch(std::size_t count) {
    std::vector<Work> works;
    for (const auto& peer : peers) {
      auto& buffer = *buffers.emplace_back(std::make_unique<std::vector<float>>(count, 1.0F));
      LaunchArgs args;
      args.collective = wire::Collective::kAllReduce;
      args.type = DataType::kF32;
      args.tensors.push_back({buffer.data(), buffer.data(), count, 0});
      auto launched = peer->launch(args);
      EXPECT_TRUE(launched.ok()) << launched.error().text;
      works.push_back(*launched);
    }
    return works;
  }
  void all_reduce(std::size_t count, std::uint32_t world) {
    for (const Work& work : launch(count)) {
      ASSERT_TRUE(work.wait(kLongest));
      EXPECT_EQ(work.outcome().status, Status::kOk) << work.outcome().text;
      EXPECT_EQ(work.outcome().world, world);
    }
    buffers.clear();
  }

  static Result<flight::Recording> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return flight::decode(std::as_bytes(std::span(text)));
  }
  static flight::Recording read_whole(const Result<std::string>& path) {
    EXPECT_TRUE(path.ok()) << path.error().text;
    auto recording = read(*path);
    EXPECT_TRUE(recording.ok()) << recording.error().text;
    return std::move(*recording);
  }
  static sim::Played expect_same(const flight::Recording& recording) {
    const auto played = sim::play(recording);
    EXPECT_TRUE(played.ok()) << played.error().text;
    if (!played.ok()) return {};
    EXPECT_FALSE(played->difference) << played->difference->input << ": " << played->difference->what << ": "
                                     << played->difference->given;
    EXPECT_EQ(played->inputs, recording.inputs);
    return *played;
  }
  [[nodiscard]] std::string at(const char* name) const { return folder + "/" + name; }

  static constexpr const char* kHandedOver = "LOCKSTEP_TEST_FLIGHT_FOLDER";
  const char* const handed_over = std::getenv(kHandedOver);
  std::string folder =
      handed_over != nullptr ? handed_over : ::testing::TempDir() + "flight-" + std::to_string(random_u64());
  Log log;
  std::unique_ptr<CoordinatorServer> server;
  std::vector<std::unique_ptr<Communicator>> peers;
  std::vector<std::unique_ptr<std::vector<float>>> buffers;
};

TEST_F(Flight, EveryRecordingReplaysTheLossOfAPeerInMidCall) {
  meet(3);
  for (const std::size_t count : {0U, 1U, 1000U, 100'000U}) all_reduce(count, 3);
  std::vector<float> alone(1000, 1.0F);
  LaunchArgs args;
  args.collective = wire::Collective::kAllReduce;
  args.type = DataType::kF32;
  args.tensors.push_back({alone.data(), alone.data(), alone.size(), 0});
  const auto a = peers[0]->launch(args);
  std::vector<float> other(1000, 1.0F);
  args.tensors.front() = {other.data(), other.data(), other.size(), 0};
  const auto b = peers[1]->launch(args);
  peers.pop_back();  // the peer is lost without a message
  for (const auto& work : {a, b}) {
    ASSERT_TRUE(work.ok() && work->wait(kLongest));
    EXPECT_EQ(work->outcome().world, 2U);
  }
  for (int i = 0; i < 4; ++i) all_reduce(5000, 2);  // the number of effects of a step depends on what arrives together
  for (const auto& peer : peers) {
    const flight::Recording recording = read_whole(peer->write_flight(at("peer.rec")));
    EXPECT_EQ(recording.before, 0U);
    EXPECT_EQ(std::get<peer::PeerOptions>(recording.options).id, peer->self());
    EXPECT_GT(expect_same(recording).effects, 50U);
  }
  const flight::Recording recording = read_whole(server->write_flight(at("coordinator.rec")));
  EXPECT_FALSE(recording.of_peer());
  EXPECT_GT(expect_same(recording).effects, 50U);
}

TEST_F(Flight, ALongRunReplaysFromTheMiddle) {
  meet(2, 16'384);
  for (int i = 0; i < 200; ++i) all_reduce(static_cast<std::size_t>(1 + 700 * (i % 30)), 2);
  for (const auto& peer : peers) {
    const flight::Recording recording = read_whole(peer->write_flight(at("peer.rec")));
    EXPECT_GT(recording.before, 0U);
    EXPECT_LT(recording.records.size(), 30'000U);
    EXPECT_FALSE(recording.state.empty());
    EXPECT_EQ(expect_same(recording).first, recording.before + 1);
  }
  expect_same(read_whole(server->write_flight(at("coordinator.rec"))));
}

// Payload that arrives with a header goes through core's own memory, even before its place is known.
TEST_F(Flight, TensorsAreNotRecorded) {
  meet(3);
  for (int i = 0; i < 20; ++i) all_reduce(250'000, 3);
  const float sum = 3.0F;
  std::string pattern;
  for (int i = 0; i < 16; ++i) pattern.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  for (const auto& peer : peers) {
    const flight::Recording recording = read_whole(peer->write_flight(at("peer.rec")));
    const std::string_view records(reinterpret_cast<const char*>(recording.records.data()), recording.records.size());
    EXPECT_EQ(records.find(pattern), std::string_view::npos);
    EXPECT_LT(recording.records.size(), recording.inputs * 100);
    expect_same(recording);
  }
}

TEST_F(Flight, IsWrittenWhenTheRunEndsUnexpectedly) {
  meet(2);
  all_reduce(100, 2);
  const std::vector<Work> works = launch(100);
  for (const Work& work : works) ASSERT_TRUE(work.wait(kLongest));
  server->stop();
  for (const auto& peer : peers) {  // ends once the peer knows that the run is over
    const Work leave = peer->leave(kLongest);
    ASSERT_TRUE(leave.wait(kLongest));
    const flight::Recording recording = read_whole(flight_path(folder, peer->self()));
    EXPECT_NE(recording.reason.find("the run is over"), std::string::npos) << recording.reason;
    EXPECT_FALSE(recording.version.empty());
    expect_same(recording);
  }
}

TEST_F(Flight, NothingIsWrittenWhenAPeerLeaves) {
  meet(2);
  std::vector<Work> leaving;
  for (const auto& peer : peers) leaving.push_back(peer->leave(kLongest));
  for (const Work& work : leaving) ASSERT_TRUE(work.wait(kLongest));
  peers.clear();
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Flight, NothingIsWrittenWhenACommunicatorIsDestroyedInMidCall) {
  meet(2);
  std::vector<float> tensor(1000, 1.0F);
  LaunchArgs args;
  args.collective = wire::Collective::kAllReduce;
  args.type = DataType::kF32;
  args.tensors.push_back({tensor.data(), tensor.data(), tensor.size(), 0});
  const auto work = peers[0]->launch(args);
  peers.erase(peers.begin());
  ASSERT_TRUE(work.ok() && work->test());
  EXPECT_EQ(work->outcome().status, Status::kOutcomeUnknown);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Flight, WithoutARecorderTheErrorSaysSo) {
  meet(1, 0);
  const auto written = peers[0]->write_flight(at("peer.rec"));
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().text.find("without a flight recorder"), std::string::npos);
  EXPECT_FALSE(server->write_flight(at("c.rec")).ok());
}

TEST_F(Flight, IsWrittenWholeOrNotAtAll) {
  meet(1);
  const auto nowhere = peers[0]->write_flight(folder + "/no/such/folder.rec");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().text.find("/no/such/folder.rec"), std::string::npos) << nowhere.error().text;
  EXPECT_NE(nowhere.error().text.find("No such file"), std::string::npos) << nowhere.error().text;

  const std::string occupied = at("occupied");
  fs::create_directories(occupied + "/x");
  EXPECT_FALSE(peers[0]->write_flight(occupied).ok());
  // the second recording replaces the first
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(peers[0]->write_flight(at("peer.rec")).ok());
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 1U);  // a failed write leaves no file behind
  struct stat seen {};
  ASSERT_EQ(::stat(at("peer.rec").c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777U, 0600U);
}

TEST_F(Flight, ReplacesOnlyRegularFiles) {
  meet(1);
  const std::string pipe = at("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  fs::create_symlink("/dev/full", at("link"));
  for (const std::string& path : {pipe, at("link"), std::string("/dev/full"), folder}) {
    const auto written = peers[0]->write_flight(path);
    ASSERT_FALSE(written.ok()) << path;
    EXPECT_NE(written.error().text.find(path + " exists and is not a regular file"), std::string::npos)
        << written.error().text;
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

// A limit on the file size simulates a full disk.
TEST_F(Flight, AFullDiskLosesOnlyTheRecording) {
  meet(2);
  all_reduce(1000, 2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_DFL);  // the signal would end this process
  const rlimit full{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const auto written = peers[0]->write_flight(at("peer.rec"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().text.find("File too large"), std::string::npos) << written.error().text;
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(::sigismember(&pending, SIGXFSZ), 0);
  EXPECT_TRUE(fs::is_empty(folder));
  all_reduce(1000, 2);
  expect_same(read_whole(peers[0]->write_flight(at("peer.rec"))));
}

// The run itself continues until it ends; then the log reports once that there is no recording.
TEST_F(Flight, AMissingFolderIsLoggedOnce) {
  std::mutex mutex;
  std::string said;
  log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    said.append(line).append("\n");
  };
  meet(1);
  fs::remove_all(folder);
  all_reduce(1000, 1);
  server->stop();
  const Work leave = peers[0]->leave(kLongest);
  ASSERT_TRUE(leave.wait(kLongest));
  peers.clear();
  const std::string complaint = "the flight recording was not written: " + folder;
  const auto first = said.find(complaint);
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("not written", first + complaint.size()), std::string::npos) << said;
}

TEST_F(Flight, DetectsOneChangedByte) {
  meet(2);
  all_reduce(1000, 2);
  const auto path = peers[0]->write_flight(at("peer.rec"));
  ASSERT_TRUE(path.ok());
  std::ifstream file(*path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (std::size_t i = 0; i < whole.size(); i += 1 + whole.size() / 200) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_FALSE(flight::decode(std::as_bytes(std::span(changed))).ok()) << i;
  }
  EXPECT_TRUE(flight::decode(std::as_bytes(std::span(whole))).ok());
}

TEST_F(Flight, AnyThreadMayWriteARecordingWhileOthersWork) {
  meet(2, 65'536);
  std::atomic<bool> stop{false};
  std::thread asking([&] {
    while (!stop) EXPECT_TRUE(peers[0]->write_flight(at("peer.rec")).ok());
  });
  std::vector<std::thread> working;
  for (const auto& peer : peers) {
    working.emplace_back([&peer] {
      std::vector<float> data(1000, 0.0F);
      LaunchArgs args;
      args.collective = wire::Collective::kAllReduce;
      args.type = DataType::kF32;
      args.tensors.push_back({data.data(), data.data(), data.size(), 0});
      for (int i = 0; i < 100; ++i) {
        const auto work = peer->launch(args, Communicator::Then::kWait);
        ASSERT_TRUE(work.ok());
        work->wait();
        EXPECT_EQ(work->outcome().status, Status::kOk) << work->outcome().text;
      }
    });
  }
  for (std::thread& thread : working) thread.join();
  stop = true;
  asking.join();
  expect_same(read_whole(peers[0]->write_flight(at("peer.rec"))));
}

// Acts as a driver that lies to its machine: it answers a write that the machine never requested.
void break_an_assertion(const std::string& coordinator, const std::string& folder, PeerId id) {
  Engine::Options options;
  options.peer.id = id;
  options.flight_folder = folder;
  Engine engine(std::move(options));
  const auto joining = engine.new_call();
  engine.submit(joining, peer::Connect{joining->id(), coordinator, kLongest}, Driver::Then::kGoOn);
  joining->wait(std::nullopt);
  const auto lie = engine.new_call();
  engine.submit(lie, io::WriteDone{StreamId{2}, 0}, Driver::Then::kGoOn);
  lie->wait(std::nullopt);
}

using FlightDeathTest = Flight;

// The child process starts this test from its beginning (the process has threads and must not be forked), with the
// parent's folder.
TEST_F(FlightDeathTest, AFailedAssertionWritesARecordingFirst) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  ::setenv(kHandedOver, folder.c_str(), 1);
  meet(0);
  const PeerId id{0x1234567890abcdefU, 1};
  EXPECT_DEATH(break_an_assertion(server->address().text(), folder, id), "assertion failed");
  const flight::Recording recording = read_whole(flight_path(folder, id));
  EXPECT_NE(recording.reason.find("assertion"), std::string::npos) << recording.reason;
  EXPECT_TRUE(recording.cut);
  ASSERT_GT(recording.inputs, 3U);
  const auto played = sim::play(recording, {.until = recording.inputs - 1});
  ASSERT_TRUE(played.ok());
  EXPECT_FALSE(played->difference);
  EXPECT_EQ(played->inputs, recording.inputs - 1);
  EXPECT_DEATH((void)sim::play(recording), "assertion failed");  // core repeats the failure
  ::unsetenv(kHandedOver);
}

}  // namespace
}  // namespace lockstep::transport
