#include "core/base/status.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Status, EveryStatusHasAUniqueName) {
  std::set<std::string_view> names;
  for (std::uint8_t i = 0; i < kStatusCount; ++i) {
    const auto name = status_name(static_cast<Status>(i));
    EXPECT_FALSE(name.empty()) << int{i};
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

// The numbers are part of the wire and the ABI: a change here needs a new version.
TEST(Status, NumbersNeverChange) {
  EXPECT_EQ(static_cast<int>(Status::kOk), 0);
  EXPECT_EQ(static_cast<int>(Status::kPeerLost), 3);
  EXPECT_EQ(static_cast<int>(Status::kOutcomeUnknown), 9);
  EXPECT_EQ(static_cast<int>(Status::kInternal), 18);
  EXPECT_EQ(status_name(Status::kPeerLost), "peer lost");
}

TEST(StatusDeathTest, AnUnknownStatusAborts) {
  EXPECT_DEATH(static_cast<void>(status_name(static_cast<Status>(kStatusCount))), "unreachable");
}

}  // namespace
}  // namespace lockstep
