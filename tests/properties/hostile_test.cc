// Law: whatever typed messages arrive from peers that may lie, and in whatever order, a machine keeps its promises to
// honest peers. The plays are those of the fuzzers, with bytes drawn from seeds.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "core/base/rng.h"
#include "fuzz/liars.h"
#include "tests/support/sanitized.h"

namespace lockstep {
namespace {

std::uint64_t playing = 0;

// A failed assertion ends the process: the last words name the seed.
void name_the_seed(int) { std::fprintf(stderr, "hostile seed %llu\n", static_cast<unsigned long long>(playing)); }

void play_seeds(void (*play)(std::span<const std::uint8_t>)) {
  std::signal(SIGABRT, name_the_seed);
  for (playing = 0; playing < 2000 / kShare; ++playing) {
    std::vector<std::uint8_t> bytes(1 + below(draw(playing, 1), 3000));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(draw(playing, 2, i));
    play(bytes);
  }
  std::signal(SIGABRT, SIG_DFL);
}

TEST(Hostile, ACoordinatorServesHonestPeersDespiteLiars) { play_seeds(fuzz::play_against_coordinator); }
TEST(Hostile, APeerEndsItsCallsDespiteLiars) { play_seeds(fuzz::play_against_peer); }

}  // namespace
}  // namespace lockstep
