// The log reports what strangers do without growing beyond its limit.
#include "transport/event_log.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::transport {
namespace {

trace::Event refused(std::string text) {
  return {.kind = trace::Kind::kPeerRefused,
          .view = {},
          .peer = {},
          .round = {},
          .status = Status::kProtocolError,
          .text = std::move(text)};
}
trace::Event installed(std::uint64_t view, std::uint64_t members) {
  return {.kind = trace::Kind::kInstalled,
          .view = ViewNumber{view},
          .peer = {},
          .round = {},
          .number = members,
          .text = {}};
}

struct Lines {
  std::vector<std::string> lines;
  EventLog log{Log([this](std::string_view line) { lines.emplace_back(line); })};
};

TEST(EventLog, LogsAFewSimilarEventsPerMinuteAndCountsTheRest) {
  Lines told;
  Instant now;
  for (int i = 0; i < 1000; ++i) told.log.take(refused("no greeting"), now = now + milliseconds(10));
  EXPECT_EQ(told.lines.size(), EventLog::kLinesPerMinute);
  told.log.take(refused("no greeting"), now + seconds(60));
  ASSERT_EQ(told.lines.size(), EventLog::kLinesPerMinute + 2);
  EXPECT_NE(told.lines[EventLog::kLinesPerMinute].find("990 more within a minute"), std::string::npos)
      << told.lines[EventLog::kLinesPerMinute];
  told.log.close();
  EXPECT_EQ(told.lines.size(), EventLog::kLinesPerMinute + 2);
}

TEST(EventLog, AnAdmissionWithoutNewMembersIsNotLogged) {
  Lines told;
  for (std::uint64_t i = 1; i <= 100; ++i) told.log.take(installed(i, 4), Instant{});
  const std::size_t before = told.lines.size();
  EXPECT_LE(before, EventLog::kLinesPerMinute + 1);
  told.log.take(installed(101, 5), Instant{});
  ASSERT_EQ(told.lines.size(), before + 1);
  EXPECT_NE(told.lines.back().find("members=5"), std::string::npos) << told.lines.back();
}

TEST(EventLog, ALineIsCutWhereAnotherHostWouldMakeItLong) {
  Lines told;
  told.log.take(refused(std::string(300, 'x')), Instant{});
  told.log.take(refused(std::string(1000, 'y')), Instant{});
  ASSERT_EQ(told.lines.size(), 2U);
  EXPECT_NE(told.lines[0].find(std::string(300, 'x')), std::string::npos);
  EXPECT_EQ(told.lines[1].size(), 400U);
  EXPECT_EQ(told.lines[1].substr(394), "yyy...");
}

TEST(EventLog, ALogOfAnAttackStaysSmall) {
  Lines told;
  Instant now;
  for (int i = 0; i < 100'000; ++i) {
    told.log.take(refused(std::string(1000, 'x')), now = now + microseconds(500));
    trace::Event waiting = refused("nobody");
    waiting.kind = trace::Kind::kPeerWaiting;
    told.log.take(waiting, now);
    told.log.take(installed(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(4 + i % 2)), now);
  }
  told.log.close();
  std::size_t bytes = 0;
  for (const std::string& line : told.lines) bytes += line.size() + 1;
  EXPECT_LE(bytes, 64U << 10U);
}

}  // namespace
}  // namespace lockstep::transport
