// The history of real runs: complete, in order, and each moment with what it came of.
#include "sim/explain/historian.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/explain/slice.h"
#include "tests/sim/explain/runs.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

std::size_t messages(const History& history, const std::string& type) {
  return static_cast<std::size_t>(std::count_if(history.messages.begin(), history.messages.end(),
                                                [&](const Sent& message) { return message.type == type; }));
}

std::vector<bool> ancestors(const History& history, MomentId of) {
  std::vector<bool> found(of + 1);
  found[of] = true;
  for (MomentId id = of; id > 0; --id) {
    if (!found[id]) continue;
    for (const Cause& cause : history.moments[id].causes) found[cause.moment] = true;
  }
  return found;
}

TEST(Historian, ARunThatIsWatchedIsTheRunThatIsNot) {
  Plan plan;
  history_with(Fault::kStall, &plan);
  Report watched;
  history_of(plan, &watched);
  EXPECT_EQ(watched.hash, run(plan).hash);
}

TEST(Historian, CallsMessagesAndViewsAreAllThere) {
  const Plan plan = calm_plan(3);
  Report report;
  const History history = history_of(plan, &report);
  ASSERT_EQ(history.lanes.size(), 4U);
  EXPECT_EQ(history.lanes[0].name, "coordinator");
  std::uint64_t collectives = 0;
  for (const Bar& bar : history.calls) {
    collectives += bar.tag ? 1 : 0;
    EXPECT_EQ(bar.status, "ok") << bar.what;
    ASSERT_NE(bar.made, kNoMoment);
    ASSERT_NE(bar.ended, kNoMoment);
    EXPECT_LT(bar.made, bar.ended);
    EXPECT_EQ(history.moments[bar.made].lane, bar.lane);
  }
  EXPECT_EQ(collectives, report.launches);
  EXPECT_GE(messages(history, "Done"), report.commits);
  EXPECT_EQ(messages(history, "Join"), 3U);
  EXPECT_GE(history.views.size(), 3U);
  EXPECT_LE(history.views.size(), messages(history, "Install"));  // a leaving peer installs no view
  EXPECT_FALSE(history.failure.has_value());
}

TEST(Historian, CausesComeBeforeTheirEffects) {
  for (const Fault fault : {Fault::kCrash, Fault::kStall, Fault::kCutBoth, Fault::kReset}) {
    const History history = history_with(fault);
    std::int64_t last = 0;
    for (MomentId id = 0; id < history.moments.size(); ++id) {
      const Moment& moment = history.moments[id];
      EXPECT_GE(moment.at_ns, last);
      last = moment.at_ns;
      for (const Cause& cause : moment.causes) EXPECT_LT(cause.moment, id);
      EXPECT_FALSE(moment.ins.empty() && moment.outs.empty()) << "#" << id << " " << name_of(moment.spark);
    }
    for (const Sent& message : history.messages) {
      ASSERT_NE(message.from, kNoMoment) << message.text;
      if (message.to == kNoMoment) continue;
      EXPECT_LT(message.from, message.to) << message.text;
      EXPECT_LE(message.sent_ns, message.received_ns);
    }
  }
}

TEST(Historian, ACommitIsTheWorkOfAllItsMembers) {
  const History history = history_of(calm_plan(3));
  const auto call = std::find_if(history.calls.begin(), history.calls.end(),
                                 [](const Bar& bar) { return bar.tag && bar.with.size() == 3; });
  ASSERT_NE(call, history.calls.end());
  const std::vector<bool> before = ancestors(history, call->ended);
  for (const Bar& other : history.calls) {
    if (other.round != call->round) continue;
    EXPECT_TRUE(before[other.made]) << history.lanes[other.lane].name;
  }
}

TEST(Historian, AMemberIsLostBecauseOfAFault) {
  for (const Fault fault : {Fault::kCrash, Fault::kVanish, Fault::kCut, Fault::kStall}) {
    const History history = history_with(fault);
    for (MomentId id = 0; id < history.moments.size(); ++id) {
      const Moment& moment = history.moments[id];
      const bool lost = std::any_of(moment.outs.begin(), moment.outs.end(), [](const std::string& text) {
        return text.find("peer-lost") != std::string::npos;
      });
      if (!lost) continue;
      const std::vector<MomentId> slice = causal_slice(history, id);
      EXPECT_TRUE(std::any_of(slice.begin(), slice.end(),
                              [&](MomentId cause) { return history.moments[cause].spark == Spark::kFault; }))
          << "#" << id << " " << moment.outs.front();
    }
  }
}

TEST(Historian, AMisusedCallComesOfTheMisuse) {
  const History history = history_with(Fault::kTimeout);
  const auto fault = std::find_if(history.faults.begin(), history.faults.end(),
                                  [](const FaultSpan& span) { return span.name == "timeout"; });
  ASSERT_NE(fault, history.faults.end());
  const auto call = std::find_if(history.calls.begin(), history.calls.end(), [&](const Bar& bar) {
    return bar.tag && bar.made > fault->moment && history.lanes[bar.lane].host == fault->hosts.front();
  });
  ASSERT_NE(call, history.calls.end());
  EXPECT_THAT(causal_slice(history, call->made), testing::Contains(fault->moment));
}

TEST(Historian, ARunThatEndsOurProcessIsSeenUntilThen) {
  const Plan plan = calm_plan();
  Historian historian(plan, 100);
  WorldOptions options;
  options.witness = &historian;
  EXPECT_THROW(run(plan, options), Historian::SeenEnough);
  const History history = historian.finish(Failure{"crash", "lockstep: assertion failed: x", 5, 100});
  ASSERT_TRUE(history.failure.has_value());
  ASSERT_NE(history.failed, kNoMoment);
  EXPECT_THAT(history.moments[history.failed].ins.front(), HasSubstr("crash broken: lockstep: assertion failed"));
  EXPECT_EQ(history.moments.back().event, 100U);
}

}  // namespace
}  // namespace lockstep::sim
