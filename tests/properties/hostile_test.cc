// Law: whatever typed messages come from those who may lie, in whatever order, a machine keeps its promises to the
// honest. The plays are those of the fuzzers; here their bytes come from seeds.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "core/base/rng.h"
#include "fuzz/liars.h"

namespace lockstep {
namespace {

std::uint64_t playing = 0;

// Machines end the process when an assertion fires: the last words name the seed.
void name_the_seed(int) { std::fprintf(stderr, "hostile seed %llu\n", static_cast<unsigned long long>(playing)); }

void play_seeds(void (*play)(std::span<const std::uint8_t>)) {
  std::signal(SIGABRT, name_the_seed);
  for (playing = 0; playing < 2000; ++playing) {
    std::vector<std::uint8_t> bytes(1 + below(draw(playing, 1), 3000));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(draw(playing, 2, i));
    play(bytes);
  }
  std::signal(SIGABRT, SIG_DFL);
}

TEST(Hostile, ACoordinatorServesTheHonestWhateverLiarsSay) { play_seeds(fuzz::play_against_coordinator); }
TEST(Hostile, APeerEndsItsCallsWhateverLiarsSay) { play_seeds(fuzz::play_against_peer); }

}  // namespace
}  // namespace lockstep
