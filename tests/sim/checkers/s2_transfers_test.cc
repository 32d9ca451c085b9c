// Transfers between a and b, and between c and b, that end as the test says.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <utility>

#include "sim/checkers/s2_transfers.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

constexpr Tag kTag{3};
constexpr std::uint64_t kBytes = 64;
constexpr Duration kBound = lockstep::seconds(10);
constexpr Instant kLate = Instant{} + lockstep::seconds(60);

class S2Transfers : public testing::Test {
 protected:
  const Call& send(PeerId from, PeerId to, std::uint64_t content, Duration timeout = {}) {
    return make(CallKind::kSend, from, to, content, timeout);
  }
  const Call& receive(PeerId at, PeerId from, Duration timeout = {}) {
    return make(CallKind::kReceive, at, from, 999, timeout);
  }
  Complaint end(const Call& call, Status status, PeerId partner = {}, std::uint64_t content = 0) {
    Call& ending = calls_.at(call.id.value - 1);
    ending.outcome.emplace();
    ending.outcome->status = status;
    ending.outcome->transfer.partner = partner;
    if (content != 0) memory_.fill(ending.transfer.memory, content);
    return checker_.ended(ending, memory_, gone());
  }
  Complaint ends_with(const Call& call, PeerId from, std::uint64_t content) {
    return end(call, Status::kOk, from, content);
  }
  void stop(const Call& call) { calls_.at(call.id.value - 1).stopped = true; }
  Complaint overdue(const Call& call) { return checker_.overdue(call, Instant{}, kLate, kBound, gone()); }

  std::set<PeerId> gone_;

 private:
  [[nodiscard]] Transfers::IsGone gone() const {
    return [this](PeerId peer) { return gone_.contains(peer); };
  }
  const Call& make(CallKind kind, PeerId caller, PeerId other, std::uint64_t content, Duration timeout) {
    Call& call = calls_.emplace_back();
    call.kind = kind;
    call.peer = caller;
    call.id = CallId{calls_.size()};
    call.transfer.peer = other;
    call.transfer.tag = kTag;
    call.transfer.type = DataType::kU8;
    call.transfer.count = kBytes;
    call.transfer.timeout = timeout;
    call.transfer.memory = {memory_.make(kBytes), 0, kBytes};
    memory_.fill(call.transfer.memory, content);
    call.prints.inputs.push_back(memory_.fingerprint(call.transfer.memory));
    checker_.called(call);
    return call;
  }

  Memory memory_{Mode::kToken};
  std::deque<Call> calls_;
  Transfers checker_;
};

TEST_F(S2Transfers, SendsAreTakenOnceAndInOrder) {
  send(kA, kB, 1);
  send(kA, kB, 2);
  const Call& first = receive(kB, kA);
  const Call& second = receive(kB, {});
  EXPECT_FALSE(ends_with(first, kA, 1));
  EXPECT_TRUE(ends_with(second, kA, 1));
}

TEST_F(S2Transfers, AnotherOrderIsFound) {
  send(kA, kB, 1);
  send(kA, kB, 2);
  const Call& first = receive(kB, kA);
  const Call& second = receive(kB, kA);
  EXPECT_FALSE(ends_with(first, kA, 2));
  EXPECT_TRUE(ends_with(second, kA, 1));
}

TEST_F(S2Transfers, BytesThatNobodySentAreFound) {
  send(kA, kB, 1);
  send(kC, kB, 2);
  EXPECT_TRUE(ends_with(receive(kB, kA), kA, 5));
  EXPECT_TRUE(ends_with(receive(kB, kA), kC, 2));
}

TEST_F(S2Transfers, ATransferThatBothHaveCalledEndsOnBothSides) {
  const Call& sent = send(kA, kB, 1);
  EXPECT_FALSE(overdue(sent));
  const Call& received = receive(kB, kA);
  EXPECT_TRUE(overdue(sent));
  EXPECT_TRUE(overdue(received));
  gone_.insert(kA);
  EXPECT_FALSE(overdue(received));
}

TEST_F(S2Transfers, ASendEndsSoonAfterItsReceive) {
  const Call& sent = send(kA, kB, 1);
  EXPECT_FALSE(ends_with(receive(kB, kA), kA, 1));
  EXPECT_TRUE(overdue(sent));
  gone_.insert(kB);
  EXPECT_FALSE(overdue(sent));
}

TEST_F(S2Transfers, ASendThatHasEndedWellIsReceivedAfterTheLossOfItsSender) {
  EXPECT_FALSE(end(send(kA, kB, 1), Status::kOk, kB));
  gone_.insert(kA);
  const Call& received = receive(kB, kA);
  EXPECT_TRUE(overdue(received));
  EXPECT_TRUE(end(received, Status::kPeerLost));
}

TEST_F(S2Transfers, AReceiveThatTimesOutMayTakeItsSendWithIt) {
  EXPECT_FALSE(end(send(kA, kB, 1), Status::kOk, kB));
  EXPECT_FALSE(end(receive(kB, kA, lockstep::seconds(1)), Status::kTimedOut));
  gone_.insert(kA);
  const Call& second = receive(kB, kA);
  EXPECT_FALSE(overdue(second));
  EXPECT_FALSE(end(second, Status::kPeerLost));
}

TEST_F(S2Transfers, TheLossOfAThirdMemberIsNoCause) {
  gone_.insert(kC);
  send(kA, kB, 1);
  EXPECT_TRUE(end(receive(kB, kA), Status::kPeerLost));
  EXPECT_FALSE(end(receive(kB, kC), Status::kPeerLost));
}

TEST_F(S2Transfers, ATimeOutAndAnAbortNeedSomebodyWhoWantedThem) {
  const Call& sent = send(kA, kB, 1);
  EXPECT_TRUE(end(receive(kB, kA), Status::kTimedOut));
  EXPECT_TRUE(end(receive(kB, kA), Status::kAborted));
  stop(sent);
  EXPECT_FALSE(end(receive(kB, kA), Status::kAborted));
  send(kA, kB, 2, lockstep::seconds(1));
  EXPECT_FALSE(end(receive(kB, kA), Status::kTimedOut));
}

TEST_F(S2Transfers, EqualArgumentsAreNotRefused) {
  send(kA, kB, 1);
  EXPECT_TRUE(end(receive(kB, kA), Status::kMismatch));
  EXPECT_TRUE(end(receive(kB, kA), Status::kInternal));
}

}  // namespace
}  // namespace lockstep::sim
