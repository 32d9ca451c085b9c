// Checks that concern one call, or one peer.
#include <gtest/gtest.h>

#include "core/wire/limits.h"
#include "sim/checkers/l1_l4_ends.h"
#include "sim/checkers/l4_time_outs.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s11_at_quiet.h"
#include "sim/checkers/s11_at_rest.h"
#include "sim/checkers/s2_flips.h"
#include "sim/checkers/s8_once.h"
#include "sim/checkers/s9_bounds.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

TEST(S8Once, TwiceOrNeverMadeFails) {
  Call call = ended_call(kA, committed({kA}));
  Call open;
  EXPECT_FALSE(check_once(&open, kA, CallId{1}, *call.outcome));
  EXPECT_TRUE(check_once(&call, kA, CallId{1}, *call.outcome));
  EXPECT_TRUE(check_once(nullptr, kA, CallId{1}, *call.outcome));
}

TEST(S2Flips, ASpoiltResultMayCommitOnlyIfNoPeerIsLeftToCompareIt) {
  const Call call = ended_call(kA, committed({kA, kB}));
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  const auto only_a = [](PeerId peer) { return peer == kA; };
  const auto only_b = [](PeerId peer) { return peer == kB; };
  Flips flips;
  EXPECT_FALSE(flips.ended(call, true, all, all));
  flips.in_a_kernel(call.outcome->round, kA, 1, ViewNumber{1});
  EXPECT_TRUE(flips.ended(call, true, all, none));
  EXPECT_TRUE(flips.ended(call, true, only_a, only_b));   // b had a result before it was lost
  EXPECT_FALSE(flips.ended(call, true, only_a, none));    // b had none
  EXPECT_FALSE(flips.ended(call, true, only_b, only_b));  // a is lost, and its result with it
}

TEST(S2Flips, ARetryDropsSpoiltSegmentsForCallersThatCountNone) {
  const Call call = ended_call(kA, committed({kA, kB}));
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  Flips flips;
  flips.in_a_kernel(call.outcome->round, kA, 1, ViewNumber{1});
  ASSERT_EQ(call.outcome->retries, 0U);
  EXPECT_TRUE(flips.ended(call, true, all, none));
  trace::Event retried{};
  retried.kind = trace::Kind::kRoundRetried;
  retried.view = ViewNumber{2};
  retried.round = {CohortId{1}, GroupId{0}, Tag{6}, 0};
  flips.noted(kB, retried, Instant{5});
  EXPECT_TRUE(flips.ended(call, true, all, none)) << "the retry was of another round";
  retried.round = call.outcome->round;
  flips.noted(kB, retried, Instant{5});
  EXPECT_FALSE(flips.ended(call, true, all, none));
}

TEST(S2Flips, ABitThatFlipsOnTheWayMayFlipASpoiltOneBack) {
  const Call call = ended_call(kA, committed({kA, kB}));
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  Flips flips;
  flips.in_a_kernel(call.outcome->round, kA, 1, ViewNumber{1});
  EXPECT_TRUE(flips.ended(call, true, all, none));
  flips.on_the_way(2);
  EXPECT_FALSE(flips.ended(call, true, all, none));
  EXPECT_FALSE(flips.nobody_compares(call, all, none)) << "the bytes are compared";
}

// The receivers hold the right bytes then, and the sender, whose kernel erred, the wrong ones.
TEST(S2Flips, OnlyTheSenderOfASpoiltPartMissesThatItsBitFlippedBack) {
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  for (const PeerId spoiler : {kA, kB}) {
    const PeerId other = spoiler == kA ? kB : kA;
    const Call of_spoiler = ended_call(spoiler, committed({kA, kB}));
    const Call of_other = ended_call(other, committed({kA, kB}));
    const RoundKey round = of_spoiler.outcome->round;
    Flips flips;
    flips.on_the_way(1);
    flips.in_a_kernel(round, spoiler, 1, ViewNumber{1}, true);
    EXPECT_FALSE(flips.nobody_compares(of_spoiler, all, none)) << "the bit on the way flipped before";
    flips.on_the_way(2);
    EXPECT_FALSE(flips.nobody_compares(of_spoiler, all, none)) << "the bit on the way came from another host";
    flips.on_the_way(1);
    EXPECT_TRUE(flips.nobody_compares(of_spoiler, all, none));
    EXPECT_FALSE(flips.nobody_compares(of_other, all, none));
    Flips of_arrived;
    of_arrived.in_a_kernel(round, spoiler, 1, ViewNumber{1}, false);
    of_arrived.on_the_way(1);
    EXPECT_FALSE(of_arrived.nobody_compares(of_spoiler, all, none)) << "nothing of it is sent";
  }
}

TEST(S2Flips, ARetryKeepsSegmentsThatWereSpoiltAfterIt) {
  const Call call = ended_call(kA, committed({kA, kB}));
  const RoundKey round = call.outcome->round;
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  const auto only_a = [](PeerId peer) { return peer == kA; };
  trace::Event retried{};
  retried.kind = trace::Kind::kRoundRetried;
  retried.round = round;
  retried.view = ViewNumber{2};
  Flips flips;
  flips.noted(kA, retried, Instant{5});
  EXPECT_EQ(flips.attempt_of(kA, round, ViewNumber{1}, Instant{4}), ViewNumber{1}) << "a job of the dropped attempt";
  EXPECT_EQ(flips.attempt_of(kA, round, ViewNumber{1}, Instant{6}), ViewNumber{2});
  EXPECT_EQ(flips.attempt_of(kB, round, ViewNumber{2}, Instant{6}), ViewNumber{2}) << "launched after the retry";
  flips.in_a_kernel(round, kA, 1, ViewNumber{2});
  flips.noted(kB, retried, Instant{7});  // the same retry
  EXPECT_TRUE(flips.ended(call, true, all, none));
  EXPECT_TRUE(flips.nobody_compares(call, only_a, none));
  retried.view = ViewNumber{3};
  flips.noted(kB, retried, Instant{8});
  EXPECT_FALSE(flips.ended(call, true, all, none));
  EXPECT_FALSE(flips.nobody_compares(call, only_a, none));
}

TEST(S2Flips, AnElementThatWasSpoiltMayEndTheCallAsOneThatWasGiven) {
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  Call call = ended_call(kA, aborted(Status::kInvalidArgument));
  Flips flips;
  flips.in_a_kernel(call.outcome->round, kA, 1, ViewNumber{1});
  EXPECT_TRUE(flips.ended(call, true, all, none));
  call.outcome->text = "b: tensor 0, element 5: the contribution, or the sum with it, is infinite or NaN";
  EXPECT_FALSE(flips.ended(call, true, all, none));
}

// Rule 35.
TEST(S2Flips, ASenderWhoseMemoryChangedSaysSo) {
  const auto all = [](PeerId) { return true; };
  const auto none = [](PeerId) { return false; };
  Call call = ended_call(kA, aborted(Status::kInternal));
  call.outcome->text = "b: tensor 0, chunk 1, from byte 0: the partial sum from rank 0 arrived 3 times";
  Flips flips;
  flips.in_a_kernel(call.outcome->round, kA, 1, ViewNumber{1}, true);
  EXPECT_TRUE(flips.ended(call, true, all, none));
  EXPECT_FALSE(flips.ended(call, false, all, none)) << "another fault may have hidden it";
  call.outcome->status = Status::kInvalidArgument;
  call.outcome->text = "a: tensor 0, chunk 1, from byte 0: a buffer of the call changed during the call";
  EXPECT_FALSE(flips.ended(call, true, all, none));
  flips.in_a_kernel(call.outcome->round, kA, 1, ViewNumber{1}, false);  // and a result that is compared by its hash
  call.outcome->status = Status::kInternal;
  call.outcome->text = "results differ in tag 1";
  EXPECT_FALSE(flips.ended(call, true, all, none));
}

TEST(S9Bounds, ACountAboveItsLimitFails) {
  peer::Peer::Footprint peer;
  EXPECT_FALSE(check_bounds(peer, kA, 4, 2));
  peer.streams = 1000;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  peer = {};
  peer.rounds = kMaxRoundsInFlight + 1;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  peer = {};
  peer.remembered = 1'000'000;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  peer = {};
  peer.widest = 2;
  EXPECT_FALSE(check_bounds(peer, kA, 4, 2));
  peer.widest = 3;
  EXPECT_TRUE(check_bounds(peer, kA, 4, 2));
  coordinator::Coordinator::Footprint c;
  EXPECT_FALSE(check_bounds(c));
  c.members = kMaxMembers + 1;
  EXPECT_TRUE(check_bounds(c));
}

TEST(S10Arguments, AgreedArgumentsAreKept) {
  Call call = ended_call(kA, committed({kA, kB}));
  call.request.minimum_world = 2;
  EXPECT_FALSE(check_arguments_kept(call, 2));
  call.request.minimum_world = 3;
  EXPECT_TRUE(check_arguments_kept(call, 2));
  Call retried = ended_call(kA, committed({kA, kB}));
  retried.outcome->retries = 1;
  EXPECT_FALSE(check_arguments_kept(retried, 2));
  retried.request.retry = false;
  EXPECT_TRUE(check_arguments_kept(retried, 2));
  Call admit = ended_call(kA, peer::Outcome{});
  admit.kind = CallKind::kAdmit;
  admit.at_least = 3;
  EXPECT_FALSE(check_arguments_kept(admit, 3));
  EXPECT_TRUE(check_arguments_kept(admit, 2));
}

TEST(S11AtRest, LeftoversFail) {
  peer::Peer::Footprint peer;
  EXPECT_FALSE(check_at_rest(peer, kA, false, 0));
  EXPECT_TRUE(check_at_rest(peer, kA, true, 0));
  EXPECT_TRUE(check_at_rest(peer, kA, false, 1));
  peer.remembered = 1;
  EXPECT_TRUE(check_at_rest(peer, kA, false, 0));
  coordinator::Coordinator::Footprint c;
  EXPECT_FALSE(check_at_rest(c));
  c.streams = 1;
  EXPECT_TRUE(check_at_rest(c));
}

TEST(S11AtQuiet, MoreTagsOrDigestsThanTheProgramAccountsForFail) {
  AtQuiet at_quiet(milliseconds(50));
  Holdings held;
  held.tags = 3;
  held.digests = 20;
  const auto quiet = [&](const MostHeld& most) { return at_quiet.quiet(1, kA, held, most, Instant{0}, false); };
  EXPECT_FALSE(quiet({3, 20}));
  EXPECT_FALSE(quiet({}));
  EXPECT_TRUE(quiet({2, 20}));
  EXPECT_TRUE(quiet({3, 19}));
}

TEST(L1Ends, ACallThatWaitsTooLongFails) {
  Call call;
  call.made = Instant{0} + seconds(5);
  const Instant healed = Instant{0} + seconds(10);
  EXPECT_FALSE(check_ends(call, healed, healed + seconds(20), seconds(20)));
  EXPECT_TRUE(check_ends(call, healed, healed + seconds(21), seconds(20)));
  call.made = healed + seconds(10);
  EXPECT_FALSE(check_ends(call, healed, healed + seconds(21), seconds(20)));
  call.told_to_wait = true;
  EXPECT_FALSE(check_ends(call, healed, healed + seconds(100), seconds(20)));
}

Call call_with_time_out(PeerId peer, Duration timeout, Status status, const std::string& text) {
  Call call = ended_call(peer, aborted(status));
  call.request.tag = Tag{5};
  call.request.timeout = timeout;
  call.outcome->text = text;
  call.made = Instant{0} + seconds(1);
  call.ended = call.made + milliseconds(50);
  return call;
}

TEST(L4TimeOuts, ATimeOutThatHasPassedEndsACall) {
  const auto ends_well = [](const Call& call) { return !check_cause_of_end(call, {}); };
  EXPECT_TRUE(ends_well(call_with_time_out(kA, milliseconds(50), Status::kTimedOut, "a timed out after 50 ms")));
  EXPECT_FALSE(ends_well(call_with_time_out(kA, milliseconds(51), Status::kTimedOut, "a timed out after 51 ms")));
  EXPECT_FALSE(ends_well(call_with_time_out(kA, {}, Status::kTimedOut, "a timed out after 0 ms")));
  for (const CallKind kind : {CallKind::kConnect, CallKind::kAdmit, CallKind::kLeave, CallKind::kPrefetch}) {
    Call call = call_with_time_out(kA, milliseconds(51), Status::kTimedOut, "in time");
    call.kind = kind;
    EXPECT_FALSE(ends_well(call)) << name_of(kind);
    call.ended = call.ended + milliseconds(1);
    EXPECT_TRUE(ends_well(call)) << name_of(kind);
  }
  Call transfer = call_with_time_out(kA, milliseconds(10), Status::kTimedOut, "a timed out after 90 ms");
  transfer.kind = CallKind::kReceive;
  transfer.transfer.timeout = milliseconds(90);
  EXPECT_FALSE(ends_well(transfer)) << "the time-out of a transfer stands in the transfer";
}

TEST(L4TimeOuts, TheTimeOutOfANamedPeerEndsACall) {
  const Call theirs = call_with_time_out(kB, milliseconds(40), Status::kTimedOut, "b timed out after 40 ms");
  Call call = call_with_time_out(kA, {}, Status::kTimedOut, "b timed out after 40 ms in all_reduce");
  EXPECT_FALSE(check_cause_of_end(call, {{"b", &theirs}}));
  EXPECT_TRUE(check_cause_of_end(call, {{"c", &theirs}})) << "the text names another peer";
  EXPECT_TRUE(check_cause_of_end(call, {})) << "that peer has no such call";
  Call early = theirs;
  early.request.timeout = milliseconds(60);
  EXPECT_TRUE(check_cause_of_end(call, {{"b", &early}}));
  Call committed_there = theirs;
  committed_there.outcome->status = Status::kOk;
  EXPECT_TRUE(check_cause_of_end(call, {{"b", &committed_there}}));
  Call open = theirs;
  open.outcome.reset();
  EXPECT_FALSE(check_cause_of_end(call, {{"b", &open}}));
  call.outcome->text = "bb timed out after 40 ms in all_reduce";
  EXPECT_TRUE(check_cause_of_end(call, {{"b", &theirs}})) << "bb is another name";
}

TEST(L4TimeOuts, AnAbortNamesWhoAskedForIt) {
  Call call = call_with_time_out(kA, milliseconds(1), Status::kAborted, "aborted by b: it was enough");
  EXPECT_TRUE(check_cause_of_end(call, {})) << "nobody has asked for it";
  call.stopped = true;
  EXPECT_FALSE(check_cause_of_end(call, {}));
  call.stopped = false;
  Call theirs = call_with_time_out(kB, milliseconds(1), Status::kAborted, call.outcome->text);
  EXPECT_TRUE(check_cause_of_end(call, {{"b", &theirs}})) << "the named peer has not asked for it";
  theirs.stopped = true;
  EXPECT_FALSE(check_cause_of_end(call, {{"b", &theirs}}));
  EXPECT_TRUE(check_cause_of_end(call, {{"c", &theirs}}));
}

TEST(L4TimeOuts, OnlyACallOfTheSameTagMayEndAnother) {
  Call call = call_with_time_out(kA, {}, Status::kTimedOut, "");
  Call theirs = call;
  EXPECT_TRUE(may_end(theirs, call));
  theirs.request.tag = Tag{6};
  EXPECT_FALSE(may_end(theirs, call));
  theirs.kind = call.kind = CallKind::kAdmit;
  EXPECT_FALSE(may_end(theirs, call)) << "an admit is its caller's alone";
  theirs.kind = CallKind::kSend;
  call.kind = CallKind::kReceive;
  EXPECT_TRUE(may_end(theirs, call));
  theirs.transfer.tag = Tag{9};
  EXPECT_FALSE(may_end(theirs, call));
}

}  // namespace
}  // namespace lockstep::sim
