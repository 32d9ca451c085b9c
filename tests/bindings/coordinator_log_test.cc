#include "bindings/cli/coordinator_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

trace::Event committed(std::uint32_t group, std::string text = {}) {
  return {.kind = trace::Kind::kCommitted,
          .view = ViewNumber{1},
          .peer = {},
          .round = {CohortId{1}, GroupId{group}, Tag{7}, 3},
          .number = 2,
          .text = std::move(text)};
}

// The number of lines for these events.
std::ptrdiff_t lines_of(const std::vector<trace::Event>& events, bool commits = false) {
  ::testing::internal::CaptureStderr();
  {
    CoordinatorLog log(true, commits);
    for (const trace::Event& event : events) log.event(event);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  return std::count(said.begin(), said.end(), '\n');
}

TEST(CoordinatorLog, ListsCommitsOnlyOnRequest) {
  EXPECT_EQ(lines_of({committed(0), committed(0)}), 0);
  EXPECT_EQ(lines_of({committed(0), committed(0)}, true), 2);
}

// Each collective reports the difference again until a sync removes it.
TEST(CoordinatorLog, ReportsDifferentStatesOncePerGroup) {
  const std::string text = "the state of c differs from that of a";
  EXPECT_EQ(lines_of({committed(0, text), committed(0, text), committed(0), committed(0, text)}), 1);
  EXPECT_EQ(lines_of({committed(0, text), committed(1, text), committed(0, text)}), 2);
  EXPECT_EQ(lines_of({committed(0, text), committed(0, "the state of b differs"), committed(0, text)}), 3);
}

TEST(CoordinatorLog, ReportsTheDifferenceOfStates) {
  ::testing::internal::CaptureStderr();
  CoordinatorLog(false, false).event(committed(0, "the state of c differs from that of a"));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("committed view=1 tag=7 use=3 cohort=1 contributors=2: the state of c differs from that of a\n"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace lockstep::cli
