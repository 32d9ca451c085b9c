// The recorder of a coordinator whose inputs the test chooses, and the file that the recorder writes.
#include "core/flight/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/kernels/checksum.h"
#include "core/wire/codec.h"

namespace lockstep::flight {
namespace {

using coordinator::Coordinator;

// A driver that only passes bytes.
struct Driver {
  explicit Driver(std::size_t bytes) : recorder({}, Instant{}, bytes), machine({}, Instant{}) {}

  void give(coordinator::Input input) {
    now = now + milliseconds(1);
    recorder.before(input, now);
    effects.clear();
    machine.step(std::move(input), now, effects);
    recorder.after(effects, machine);
    for (const auto& effect : effects) {
      if (const auto* read = std::get_if<io::Read>(&effect)) tail = read->tail;
    }
  }
  // A stranger whose greeting arrives in pieces of `piece` bytes.
  void greet(StreamId stream, std::size_t piece) {
    give(io::Accepted{stream, {}, {}});
    std::vector<std::byte> hello;
    wire::encode(wire::Preamble{}, hello);
    for (std::size_t at = 0; at < hello.size(); at += piece) {
      const auto part = std::span<const std::byte>(hello).subspan(at, std::min(piece, hello.size() - at));
      std::ranges::copy(part, tail.begin());
      give(io::ReadDone{stream, part.size()});
    }
    give(io::Closed{stream, io::CloseReason::kEnd, "gone"});
  }

  Recorder<Coordinator> recorder;
  Coordinator machine;
  Instant now;
  coordinator::Effects effects;
  std::span<std::byte> tail;
};

std::vector<Record<coordinator::Input>> records_of(const Recording& recording) {
  std::vector<Record<coordinator::Input>> all;
  for (std::span<const std::byte> rest(recording.records); !rest.empty();) {
    auto record = take_record<coordinator::Input>(rest);
    EXPECT_TRUE(record.ok());
    if (!record.ok()) break;
    all.push_back(std::move(*record));
  }
  return all;
}

TEST(FlightRecorder, RecordsEveryInputAndLandedByte) {
  Driver driver(1U << 20U);
  driver.greet(StreamId{1}, 10);
  const Recording recording = driver.recorder.recording();
  const auto all = records_of(recording);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(recording.inputs, 5U);
  EXPECT_TRUE(std::holds_alternative<io::Accepted>(all[0].input));
  EXPECT_TRUE(all[0].hash.has_value());
  std::vector<std::byte> landed;
  for (const auto& record : all) landed.insert(landed.end(), record.landed.begin(), record.landed.end());
  std::vector<std::byte> hello;
  wire::encode(wire::Preamble{}, hello);
  EXPECT_EQ(landed, hello);
  const auto* closed = std::get_if<io::Closed>(&all.back().input);
  ASSERT_NE(closed, nullptr);
  EXPECT_EQ(closed->text, "gone");
  EXPECT_FALSE(all.back().hash.has_value());
  EXPECT_EQ(all[1].since, milliseconds(1));
}

TEST(FlightRecorder, DropsHalfOfItsMemoryAtATime) {
  constexpr std::size_t kBytes = 2000;
  Driver driver(kBytes);
  std::uint64_t forgotten = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    driver.greet(StreamId{2 * i + 1}, 7);
    const Recording recording = driver.recorder.recording();
    EXPECT_LE(recording.records.size(), kBytes + 100);  // one record more than full
    EXPECT_EQ(recording.before + recording.inputs, (i + 1) * 6);
    EXPECT_EQ(records_of(recording).size(), recording.inputs);
    EXPECT_EQ(recording.state.empty(), recording.before == 0);
    EXPECT_GE(recording.before, forgotten);
    forgotten = recording.before;
  }
  EXPECT_GT(forgotten, 900U);
}

TEST(FlightRecorder, AStepWithoutAnAnswerIsTheLastRecord) {
  Driver driver(1U << 20U);
  driver.give(io::Accepted{StreamId{1}, {}, {}});
  driver.recorder.before(coordinator::Input(io::WriteDone{StreamId{1}, 12}), driver.now);
  const Recording recording = driver.recorder.recording();
  EXPECT_TRUE(recording.cut);
  const auto all = records_of(recording);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all.back().cut);
  EXPECT_EQ(std::get<io::WriteDone>(all.back().input).bytes, 12U);
  EXPECT_FALSE(all.back().hash.has_value());
}

// ---- the file ----

Recording small() {
  Driver driver(1U << 20U);
  driver.greet(StreamId{1}, 9);
  Recording recording = driver.recorder.recording();
  recording.version = "0.0";
  recording.reason = "a test";
  recording.written = 5;
  recording.clock = -7;
  return recording;
}

std::string refusal(std::vector<std::byte> bytes) {
  const auto recording = decode(bytes);
  return recording.ok() ? "" : recording.error().text;
}

TEST(FlightRecording, SurvivesARoundTrip) {
  const Recording before = small();
  const std::vector<std::byte> bytes = encode(before);
  ASSERT_TRUE(is_recording(bytes));
  const auto after = decode(bytes);
  ASSERT_TRUE(after.ok()) << after.error().text;
  EXPECT_EQ(after->reason, "a test");
  EXPECT_EQ(after->clock, -7);
  EXPECT_FALSE(after->of_peer());
  EXPECT_EQ(after->records, before.records);
  EXPECT_EQ(encode(*after), bytes);
}

TEST(FlightRecording, TheErrorSaysWhatIsWrongWithAFile) {
  const std::vector<std::byte> good = encode(small());
  EXPECT_NE(refusal({}).find("first bytes are wrong"), std::string::npos);
  EXPECT_NE(refusal({good.begin(), good.begin() + 20}).find("cut off"), std::string::npos);
  EXPECT_NE(refusal({good.begin(), good.end() - 1}).find("it is cut off"), std::string::npos);
  auto longer = good;
  longer.push_back({});
  EXPECT_NE(refusal(longer).find("bytes were added"), std::string::npos);
  auto format = good;
  format[8] = std::byte{99};
  EXPECT_NE(refusal(format).find("format 99"), std::string::npos);
  auto version = good;
  version[12] = std::byte{77};
  EXPECT_NE(refusal(version).find("version 77"), std::string::npos);
  Recording other = small();
  other.revision = kRevision + 1;
  EXPECT_NE(refusal(encode(other)).find("revision " + std::to_string(kRevision + 1)), std::string::npos);
}

TEST(FlightRecording, RefusesEveryChangedByte) {
  const std::vector<std::byte> good = encode(small());
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto changed = good;
    changed[i] ^= std::byte{32};
    EXPECT_NE(refusal(changed), "") << i;
  }
}

TEST(FlightRecording, RefusesInvalidRecords) {
  const Recording good = small();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.records.size(); ++i) {
    std::vector<std::byte> records(good.records.begin(), good.records.begin() + static_cast<std::ptrdiff_t>(i));
    std::span<const std::byte> rest(records);
    bool fine = true;
    while (fine && !rest.empty()) fine = take_record<coordinator::Input>(rest).ok();
    refused += fine ? 0 : 1;
  }
  EXPECT_EQ(refused, good.records.size() - good.inputs);  // but where one has just ended
}

// A recording is read by the build that wrote it. If this test fails, the saved bytes have changed: increment
// kRevision, and enter the new value.
TEST(FlightRecording, TheSavedBytesChangeOnlyWithTheRevision) {
  const Recording recording = small();
  std::vector<std::byte> state;
  Driver driver(1U << 20U);
  driver.greet(StreamId{1}, 9);
  driver.machine.save(state);
  EXPECT_EQ(kRevision, 52U);
  EXPECT_EQ(checksum(recording.records), 11412787829811762494U);
  EXPECT_EQ(checksum(state), 12149558584593779839U);
}

}  // namespace
}  // namespace lockstep::flight
