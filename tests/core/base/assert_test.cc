#include "core/base/assert.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace lockstep {
namespace {

void say(void* text) { std::fprintf(stderr, "said: %s\n", static_cast<const char*>(text)); }

void fail_with_words() {
  char outer[] = "outer";
  char inner[] = "inner";
  const LastWords first(say, outer);
  {
    const LastWords second(say, inner);
    LOCKSTEP_ASSERT(1 + 1 == 3);
  }
}

void fail_after_words() {
  char outer[] = "outer";
  char inner[] = "inner";
  const LastWords first(say, outer);
  { const LastWords second(say, inner); }
  LOCKSTEP_UNREACHABLE();
}

void fail_in_words() {
  const LastWords words([](void*) { LOCKSTEP_UNREACHABLE(); }, nullptr);
  LOCKSTEP_UNREACHABLE();
}

TEST(AssertDeathTest, OnlyTheInnermostLastWordsRun) {
  EXPECT_DEATH(fail_with_words(), "assertion failed: 1 \\+ 1 == 3.*\nsaid: inner");
  EXPECT_DEATH(fail_after_words(), "unreachable.*\nsaid: outer");
}

TEST(AssertDeathTest, AFailureInLastWordsRunsNoFurtherOnes) {
  EXPECT_DEATH(fail_in_words(), "unreachable.*\n.*unreachable");
}

}  // namespace
}  // namespace lockstep
