#include "sim/explain/names.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

constexpr PeerId kFirst{0x0123456789abcdef, 0x1};
constexpr PeerId kSecond{0xfedcba9876543210, 0x2};

Names two() {
  Names names;
  names.started(0, 0, {});
  EXPECT_EQ(names.started(1, 3, kFirst), "h3");
  EXPECT_EQ(names.started(2, 3, kSecond), "h3.2");
  return names;
}

TEST(Names, AProcessIsNamedAfterItsHostAndItsLife) {
  EXPECT_EQ(two().name_of(kFirst), "h3");
  EXPECT_EQ(two().name_of(kSecond), "h3.2");
  EXPECT_EQ(two().name_of({7, 7}), "00000000");
}

TEST(Names, IdsInsideOfTextsBecomeNames) {
  const Names names = two();
  EXPECT_EQ(names.plain("peer: 123456789abcdef0000000000000001, again"), "peer: h3, again");
  EXPECT_EQ(names.plain("[01234567 fedcba98]"), "[h3 h3.2]");
  EXPECT_EQ(names.plain("waits for h3.2."), "waits for h3.2.");
  EXPECT_EQ(names.plain("h3.1 and h3.2"), "h3 and h3.2");
}

TEST(Names, OtherWordsStayAsTheyAre) {
  const Names names = two();
  EXPECT_EQ(names.plain("hash: 0123456789abcdef, x01234567, 01234567x"),
            "hash: 0123456789abcdef, x01234567, 01234567x");
  EXPECT_EQ(names.plain(""), "");
}

}  // namespace
}  // namespace lockstep::sim
