// Calls that wait for a place among the rounds in flight (rule 43).
#include "core/peer/launch_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

// Tags 1, 2, ... in an order in which the first that waits begins at once, and no other passes it.
std::vector<std::uint64_t> tags_in_turn(std::size_t count) {
  std::vector<std::uint64_t> tags;
  for (std::uint64_t tag = 1; tag <= count; ++tag) tags.push_back(tag);
  std::ranges::sort(tags, {}, [](std::uint64_t tag) { return LaunchQueue::turn_of(Tag{tag}); });
  return tags;
}

// The n-th tag from 1000 on that passes none of those.
std::uint64_t late(std::size_t n) {
  const auto last = LaunchQueue::turn_of(Tag{tags_in_turn(6).back()});
  std::uint64_t tag = 999;
  for (std::size_t found = 0; found <= n;) found += LaunchQueue::turn_of(Tag{++tag}) > last ? 1 : 0;
  return tag;
}

PeerOptions windowed(std::uint32_t window) {
  PeerOptions windowed = options();
  windowed.window = window;
  return windowed;
}

// A member of three with a window of two rounds, that has launched so many calls. Two of them began in launch order,
// the third passes.
struct Burst {
  explicit Burst(std::size_t count = 6, std::uint32_t window = 2, Duration timeout = {},
                 std::uint64_t its_elements = 3000, std::vector<PeerId> ring = {kLow, kMe, kHigh})
      : run(windowed(window), std::move(ring)), tags(tags_in_turn(count)), elements(its_elements) {
    for (const std::uint64_t tag : tags) launch(tag, timeout);
  }
  void launch(std::uint64_t tag, Duration timeout = {}) {
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kF32;
    request.tag = Tag{tag};
    request.timeout = timeout;
    calls.push_back(run.me.launch(request, elements, 0));
    run.me.run();
  }
  [[nodiscard]] std::size_t waiting() const { return run.me.footprint().waiting; }
  void ready(std::uint64_t tag, std::uint32_t use = 0) {
    wire::Ready ready = *run.low->last<wire::Ready>();
    ready.key = Peer3::key(tag, use);
    run.high->say(ready);
    run.me.run();
  }
  [[nodiscard]] bool begun(std::uint64_t tag, std::uint32_t use = 0) const {
    return run.low->count_if<wire::Ready>([&](const auto& ready) { return ready.key == Peer3::key(tag, use); }) > 0;
  }

  Peer3 run;
  std::vector<std::uint64_t> tags;
  std::uint64_t elements;
  std::vector<CallId> calls;
};

TEST(LaunchQueue, CallsBeyondTheWindowWaitAndBeginInLaunchOrder) {
  Burst burst;
  EXPECT_EQ(burst.waiting(), 3U);
  EXPECT_EQ(burst.run.me.footprint().rounds, 3U);
  EXPECT_EQ(burst.run.me.footprint().calls, 6U);
  EXPECT_GT(burst.run.me.footprint().waiting_bytes, 0U);
  burst.run.stopped({burst.tags[0], burst.tags[1]});
  EXPECT_TRUE(burst.begun(burst.tags[3]));
  EXPECT_FALSE(burst.begun(burst.tags[4]));
  burst.run.stopped({burst.tags[2], burst.tags[3]});
  burst.run.stopped({burst.tags[4], burst.tags[5]});
  EXPECT_TRUE(burst.run.me.all_calls_over());
  EXPECT_EQ(burst.waiting(), 0U);
  EXPECT_EQ(burst.run.me.footprint().waiting_bytes, 0U);
  burst.run.expect_alive();
}

// Peers that launch in different orders find each other.
TEST(LaunchQueue, ANeighbourPullsACallForward) {
  Burst burst;
  EXPECT_FALSE(burst.begun(burst.tags[5]));
  burst.ready(burst.tags[5]);
  EXPECT_TRUE(burst.begun(burst.tags[5]));
  EXPECT_EQ(burst.waiting(), 2U);
  burst.ready(burst.tags[4]);  // all places are taken
  EXPECT_FALSE(burst.begun(burst.tags[4]));
  burst.run.stopped({burst.tags[0]});
  EXPECT_TRUE(burst.begun(burst.tags[4]));
}

// The coordinator knows of members that wait for a call. A small round, of which this peer would say nothing by itself,
// is announced at once: the call may wait in the queue of the next peer upstream, too.
TEST(LaunchQueue, AQuestionOfTheCoordinatorPullsACallForward) {
  const std::vector<PeerId> silent = {kMe, kHigh, kLow};  // rank 1 sends first
  for (const std::uint64_t elements : {3U, 3000U}) {
    Burst burst(6, 2, {}, elements, silent);
    const std::uint64_t last = burst.tags[5];
    EXPECT_FALSE(burst.begun(last));
    burst.run.coordinator->say(wire::CallAwaited{Peer3::key(last), Generation{1}, wire::Collective::kAllReduce, 0, {}});
    burst.run.me.run();
    EXPECT_TRUE(burst.begun(last));
    ASSERT_NE(burst.run.coordinator->last<wire::CallWaits>(), nullptr);
    EXPECT_EQ(burst.run.coordinator->last<wire::CallWaits>()->stage, wire::CallStage::kCalled);
  }
}

TEST(LaunchQueue, ACallThatANeighbourHasBegunBeginsAtItsLaunch) {
  Burst burst(3);
  burst.ready(late(0));
  burst.ready(late(0), 1);
  burst.launch(late(0));
  burst.launch(late(0));  // all four places are taken
  EXPECT_TRUE(burst.begun(late(0)));
  EXPECT_FALSE(burst.begun(late(0), 1));
  burst.run.stopped({burst.tags[0]});
  EXPECT_TRUE(burst.begun(late(0), 1));
}

TEST(LaunchQueue, AWaitingCallTimesOutFromItsLaunchAndSpendsAUseOfItsTag) {
  Burst burst(5);
  burst.launch(late(1), milliseconds(30));
  burst.launch(late(1));
  burst.run.me.pass(milliseconds(29));
  EXPECT_EQ(burst.run.me.outcome(burst.calls[5]), nullptr);
  burst.run.me.pass(milliseconds(1));
  const Outcome* outcome = burst.run.me.outcome(burst.calls[5]);
  ASSERT_NE(outcome, nullptr);
  EXPECT_EQ(outcome->status, Status::kTimedOut);
  EXPECT_NE(outcome->text.find("before a place in the window"), std::string::npos) << outcome->text;
  burst.run.stopped({burst.tags[0], burst.tags[1], burst.tags[2]});
  burst.run.stopped({burst.tags[3], burst.tags[4]});
  const auto* stop = burst.run.coordinator->last<wire::StopRound>();  // the others learn of it
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->key, Peer3::key(late(1)));
  EXPECT_EQ(stop->status, Status::kTimedOut);
  EXPECT_TRUE(burst.begun(late(1), 1));
  EXPECT_FALSE(burst.begun(late(1), 0));
}

TEST(LaunchQueue, AWaitingCallIsAbortedAtOnce) {
  Burst burst;
  burst.run.me.stop(burst.calls[5], "enough");
  const Outcome* outcome = burst.run.me.outcome(burst.calls[5]);
  ASSERT_NE(outcome, nullptr);
  EXPECT_EQ(outcome->status, Status::kAborted);
  EXPECT_NE(outcome->text.find("enough"), std::string::npos);
  EXPECT_EQ(burst.run.me.footprint().calls, 5U);
  EXPECT_EQ(burst.waiting(), 3U);  // its place is kept
}

// Another member has refused its call, or has stopped it: no place is needed to end.
TEST(LaunchQueue, AWaitingCallWhoseRoundIsOverEndsAtOnce) {
  Burst burst(5);
  burst.launch(late(1));
  burst.ready(burst.tags[4]);  // all four places are taken
  burst.run.stopped({late(1), late(0)});
  ASSERT_NE(burst.run.me.outcome(burst.calls[5]), nullptr);
  EXPECT_EQ(burst.run.me.outcome(burst.calls[5])->status, Status::kAborted);
  burst.launch(late(0));  // launched afterwards
  ASSERT_NE(burst.run.me.outcome(burst.calls[6]), nullptr);
  EXPECT_EQ(burst.run.me.outcome(burst.calls[6])->status, Status::kAborted);
  EXPECT_EQ(burst.run.me.outcome(burst.calls[0]), nullptr);
  EXPECT_EQ(burst.run.me.footprint().calls, 5U);
  burst.run.expect_alive();
}

TEST(LaunchQueue, WaitingCallsEndWithTheRun) {
  Burst burst;
  burst.run.me.abandon();
  burst.run.me.run();
  EXPECT_TRUE(burst.run.me.all_calls_over());
  EXPECT_EQ(burst.run.me.outcome(burst.calls[0])->status, Status::kOutcomeUnknown);
  EXPECT_EQ(burst.run.me.outcome(burst.calls[5])->status, Status::kNotConnected);  // no other peer knows of it
  EXPECT_EQ(burst.waiting(), 0U);
}

// Rule 21: a call that was launched before admit belongs to the cohort that ends.
TEST(LaunchQueue, AdmitIsSaidOnceAllCallsBeforeItHaveBegun) {
  Burst burst(8);
  burst.run.me.admit();
  burst.launch(late(2));
  burst.run.stopped({burst.tags[0], burst.tags[1], burst.tags[2]});  // 3 and 4 begin in order, 5 in turn
  burst.run.stopped({burst.tags[3], burst.tags[4]});
  EXPECT_EQ(burst.run.coordinator->count<wire::Admit>(), 0U);
  burst.run.stopped({burst.tags[5]});
  ASSERT_EQ(burst.run.coordinator->count<wire::Admit>(), 1U);
  EXPECT_EQ(burst.run.coordinator->last<wire::Admit>()->open.size(), 2U);
  EXPECT_FALSE(burst.begun(late(2)));
}

// Otherwise two peers could wait for each other's admit for ever.
TEST(LaunchQueue, APeerThatHasCalledAdmitRefusesWhatItHasNotLaunched) {
  Burst burst;
  burst.ready(late(3));
  burst.run.me.admit();
  burst.run.me.run();
  const auto* stop = burst.run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->key, Peer3::key(late(3)));
  EXPECT_EQ(stop->status, Status::kCohortClosed);
  burst.ready(late(4));
  EXPECT_EQ(burst.run.coordinator->last<wire::StopRound>()->key, Peer3::key(late(4)));
  burst.ready(burst.tags[5]);
  EXPECT_EQ(burst.run.coordinator->count<wire::StopRound>(), 2U);
}

// In groups that are bound by gangs no neighbour pulls its calls, and others may wait with rounds that it will never
// launch.
TEST(LaunchQueue, CallsOfALeaverBeginBeyondTheWindow) {
  Burst burst;
  EXPECT_EQ(burst.waiting(), 3U);
  burst.run.me.leave();
  burst.run.me.run();
  EXPECT_EQ(burst.waiting(), 0U);
  const auto* leave = burst.run.coordinator->last<wire::Leave>();
  ASSERT_NE(leave, nullptr);
  EXPECT_EQ(leave->open.size(), 6U);
}

TEST(LaunchQueue, LeaveIsSaidOnceAllCallsBeforeItHaveBegun) {
  const std::uint32_t most = 2 * kRoundWindow;
  Burst burst(most + 1);
  burst.run.me.leave();
  burst.run.me.run();
  EXPECT_GT(burst.waiting(), 0U);
  EXPECT_EQ(burst.run.coordinator->last<wire::Leave>(), nullptr);
  burst.run.stopped({burst.tags[0], burst.tags[1]});
  EXPECT_NE(burst.run.coordinator->last<wire::Leave>(), nullptr);
}

TEST(LaunchQueue, AFullQueueRefusesACallAndTakesTheNext) {
  PeerOptions small = windowed(1);
  small.queued_calls = 2;
  Burst burst(0);
  burst.run.me.abandon();
  Peer3 run(small, {kLow, kMe, kHigh});
  std::vector<CallId> calls;
  const auto tags = tags_in_turn(5);
  calls.reserve(tags.size());
  for (const std::uint64_t tag : tags) calls.push_back(run.launch(wire::Collective::kAllReduce, tag, 3000));
  const Outcome* refused = run.me.outcome(calls[4]);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->status, Status::kTooManyInFlight);
  EXPECT_NE(refused->text.find("2 calls wait"), std::string::npos) << refused->text;
  run.stopped({tags[0], tags[1]});
  const CallId next = run.launch(wire::Collective::kAllReduce, tags[4], 3000);
  EXPECT_EQ(run.me.outcome(next), nullptr);
}

TEST(LaunchQueue, CallsOfOneTagKeepTheirOrder) {
  LaunchQueue queue(kMaxQueuedCalls);
  Request request;
  request.tag = Tag{7};
  for (std::uint64_t order = 1; order <= 3; ++order) {
    queue.add(order, {.call = CallId{order}, .request = request, .what = {}});
  }
  ASSERT_EQ(queue.count(Tag{7}), 3U);
  for (std::size_t n = 0; n < 3; ++n) EXPECT_EQ(queue.nth(Tag{7}, n), n + 1);
}

// Any number of calls costs the same each: no step looks at all that wait.
TEST(LaunchQueue, TheQueueIsBoundedInCallsAndBytes) {
  LaunchQueue queue(kMaxQueuedCalls);
  Request request;
  request.tensors.resize(kMaxTensorsPerCall);
  std::uint64_t order = 0;
  std::size_t taken = 0;
  while (queue.has_room(request) && taken < 64) {
    ++order;
    queue.add(order, {.call = CallId{order}, .request = request, .what = {}});
    ++taken;
  }
  EXPECT_GT(taken, 4U);
  EXPECT_LT(taken, 64U);
  EXPECT_LE(queue.bytes(), kMaxQueuedCallBytes);
  queue.stop(1, StopRequest{});
  EXPECT_TRUE(queue.has_room(request));
  EXPECT_EQ(queue.calls(), taken - 1);
  EXPECT_EQ(queue.clear().size(), taken - 1);
  EXPECT_EQ(queue.bytes(), 0U);
}

}  // namespace
}  // namespace lockstep::peer
