// A recording replays with the same effects; a changed recording does not.
#include "sim/flight/player.h"

#include <algorithm>
#include <span>

#include <gtest/gtest.h>

#include "core/flight/recording.h"
#include "sim/plan/plan.h"
#include "sim/world/world.h"
#include "tests/sim/flight/recording_witness.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kAll = std::size_t{256} << 20U;

Plan plan_with_bytes(std::uint64_t seed) {
  PlanOptions options;
  options.max_peers = 5;
  options.payload = PlanOptions::Payload::kBytes;
  return plan_of(seed, options);
}

std::vector<flight::Recording> recorded(std::uint64_t seed, std::size_t bytes) {
  RecordingWitness witness(bytes);
  WorldOptions options;
  options.witness = &witness;
  run(plan_with_bytes(seed), options);
  return witness.recordings();
}

Played played(const flight::Recording& recording, const PlayOptions& options = {}) {
  const auto back = flight::decode(flight::encode(recording));
  EXPECT_TRUE(back.ok()) << back.error().text;
  auto result = play(*back, options);
  EXPECT_TRUE(result.ok()) << result.error().text;
  return result.ok() ? *result : Played{};
}

std::string text_of(const Difference& difference) {
  return std::to_string(difference.input) + ": " + difference.what + ": " + difference.given;
}

TEST(FlightPlayer, EveryMachineRepeatsItsEffects) {
  std::uint64_t inputs = 0;
  std::uint64_t effects = 0;
  for (std::uint64_t seed = 700; seed < 700 + 20 / kShare; ++seed) {
    for (const flight::Recording& recording : recorded(seed, kAll)) {
      EXPECT_TRUE(recording.state.empty());
      const Played again = played(recording);
      EXPECT_FALSE(again.difference) << seed << ": " << text_of(*again.difference);
      EXPECT_EQ(again.inputs, recording.inputs);
      inputs += again.inputs;
      effects += again.effects;
    }
  }
  EXPECT_GT(inputs, 20 / kShare * 1000);
  EXPECT_GT(effects, inputs / 2);
}

TEST(FlightPlayer, ARingThatHasForgottenItsBeginningIsPlayedFromTheMiddle) {
  std::uint64_t from_the_middle = 0;
  for (std::uint64_t seed = 740; seed < 740 + 20 / kShare; ++seed) {
    for (const flight::Recording& recording : recorded(seed, 4096 + 512 * (seed % 7))) {
      const Played again = played(recording);
      EXPECT_FALSE(again.difference) << seed << ": " << text_of(*again.difference);
      EXPECT_EQ(again.first, recording.before + 1);
      EXPECT_EQ(again.inputs, recording.inputs);
      from_the_middle += recording.before > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(from_the_middle, 20 / kShare);
}

// Of one whose inputs do come from outside.
flight::Recording one_peer() {
  auto all = recorded(7, kAll);
  return *std::max_element(all.begin() + 1, all.end(),
                           [](const auto& a, const auto& b) { return a.inputs < b.inputs; });
}

TEST(FlightPlayer, OtherOptionsAreToldAsADifference) {
  const flight::Recording recording = one_peer();
  for (const auto change :
       std::vector<void (*)(peer::PeerOptions&)>{[](peer::PeerOptions& options) { options.id.low ^= 1; },
                                                 [](peer::PeerOptions& options) { options.group.value += 1; },
                                                 [](peer::PeerOptions& options) { options.name += "x"; },
                                                 [](peer::PeerOptions& options) { options.founders += 1; }}) {
    flight::Recording other = recording;
    change(std::get<peer::PeerOptions>(other.options));
    const Played again = played(other);
    ASSERT_TRUE(again.difference);
    EXPECT_GT(again.difference->input, 0U);
    EXPECT_FALSE(again.difference->given.empty());
  }
}

TEST(FlightPlayer, AnotherAnswerIsToldWithItsInput) {
  flight::Recording recording = one_peer();
  // The hash of the first input with effects, which is a number of four bytes behind it.
  std::span<const std::byte> rest(recording.records);
  std::uint64_t number = 0;
  for (bool found = false; !found;) {
    const auto record = flight::take_record<peer::Input>(rest);
    ASSERT_TRUE(record.ok());
    found = record->hash.has_value();
    ++number;
  }
  recording.records[recording.records.size() - rest.size() - 1] ^= std::byte{1};
  const Played again = played(recording);
  ASSERT_TRUE(again.difference);
  EXPECT_EQ(again.difference->input, number);
  EXPECT_NE(again.difference->expected, again.difference->actual);
  EXPECT_FALSE(again.difference->effects.empty());
}

TEST(FlightPlayer, StopsWhereItIsTold) {
  const flight::Recording recording = one_peer();
  const Played again = played(recording, {.until = 10});
  EXPECT_EQ(again.inputs, 10U);
  EXPECT_FALSE(again.difference);
}

struct Listener final : PlayWitness {
  std::uint64_t given_inputs = 0;
  std::uint64_t effects = 0;
  Duration last;
  void given(std::uint64_t, Duration at, const flight::Record<peer::Input>&) override {
    EXPECT_GE(at, last);
    last = at;
    ++given_inputs;
  }
  void answered(const peer::Effects& all) override { effects += all.size(); }
};

TEST(FlightPlayer, TellsWhoLooksOn) {
  const flight::Recording recording = one_peer();
  Listener listener;
  const Played again = played(recording, {.until = 0, .witness = &listener});
  EXPECT_EQ(listener.given_inputs, recording.inputs);
  EXPECT_EQ(listener.effects, again.effects);
  EXPECT_EQ(listener.last, again.to);
}

}  // namespace
}  // namespace lockstep::sim
