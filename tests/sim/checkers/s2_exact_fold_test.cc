// S2, S3, S4 and S10 on three peers that reduce five elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/kernels/reference.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/checkers/s3_restored.h"
#include "sim/checkers/s4_hands_off.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

class Fold : public testing::TestWithParam<Mode> {
 protected:
  static constexpr std::uint64_t kCount = 5;
  static constexpr DataType kType = DataType::kF32;
  static constexpr std::uint64_t kWidth = 4;

  Fold() {
    for (std::size_t i = 0; i < 3; ++i) {
      calls_[i].peer = ids_[i];
      calls_[i].data.content = 1000 + i;
      calls_[i].launch.segment_bytes = 64;
      calls_[i].request.collective = wire::Collective::kAllReduce;
      calls_[i].request.type = kType;
      const BufferRef send{memory_.make(kCount * kWidth), 0, kCount * kWidth};
      const BufferRef recv{memory_.make(kCount * kWidth), 0, kCount * kWidth};
      calls_[i].buffers = {send.id, recv.id};
      for (const BufferId id : calls_[i].buffers) memory_.lend(id);
      calls_[i].request.tensors.push_back({send, recv, kCount});
      memory_.fill(send, content_of(calls_[i].data.content, 0), kType);
      calls_[i].prints.inputs.push_back(memory_.fingerprint(send));
      calls_[i].outcome = committed({kA, kB, kC});
    }
  }

  // Writes the result of a correct (or wrong) ring to the first peer's memory.
  void fold_chunk(std::uint64_t begin, std::uint64_t end, std::array<std::size_t, 3> order) {
    const BufferRef into = calls_[0].request.tensors[0].recv.slice(begin * kWidth, (end - begin) * kWidth);
    const auto own = [&](std::size_t i) {
      return calls_[order[i]].request.tensors[0].send.slice(begin * kWidth, (end - begin) * kWidth);
    };
    if (GetParam() == Mode::kToken) {
      Token acc = token_of_content(content_of(calls_[order[0]].data.content, 0), begin * kWidth, end * kWidth);
      for (std::size_t i = 1; i < 3; ++i) {
        acc = fold(acc, token_of_content(content_of(calls_[order[i]].data.content, 0), begin * kWidth, end * kWidth),
                   kType, ReduceOp::kSum, 0);
      }
      memory_.write_token(into, Touch::kJob, acc);
      return;
    }
    const auto bytes = memory_.open(into, Touch::kJob);
    std::ranges::copy(memory_.look(own(0)), bytes.begin());
    for (std::size_t i = 1; i < 3; ++i) reference::fold(kType, ReduceOp::kSum, bytes, bytes, memory_.look(own(i)));
  }
  void fold_right() {  // chunks of 2, 2 and 1 elements
    fold_chunk(0, 2, {1, 2, 0});
    fold_chunk(2, 4, {2, 0, 1});
    fold_chunk(4, 5, {0, 1, 2});
  }
  void fold_whole(std::array<std::size_t, 3> order) {
    for (Call& call : calls_) call.launch.segment_bytes = 0;
    fold_chunk(0, kCount, order);
  }
  [[nodiscard]] FindCall find() const {
    return [&](PeerId id, const RoundKey&) -> const Call* {
      for (const Call& call : calls_) {
        if (call.peer == id && !(absent_ == id)) return &call;
      }
      return nullptr;
    };
  }
  Complaint judge() { return check_exact_fold(calls_[0], memory_, find()); }
  // Judges the memory of the first peer. Its call is open, and the second peer is told of the commit.
  Complaint judge_receiver() {
    calls_[0].outcome.reset();
    return check_receiver(calls_[0], *calls_[1].outcome, memory_, find());
  }

  Memory memory_{GetParam()};
  std::array<PeerId, 3> ids_{kA, kB, kC};
  std::array<Call, 3> calls_;
  PeerId absent_;
};
INSTANTIATE_TEST_SUITE_P(Modes, Fold, testing::Values(Mode::kToken, Mode::kBytes));

TEST_P(Fold, S2TheFoldInRingOrderPasses) {
  fold_right();
  const Complaint complaint = judge();
  EXPECT_FALSE(complaint) << *complaint;
}

TEST_P(Fold, S2AnotherOrderFails) {
  bool seen = false;
  for (std::uint64_t content = 0; content < 40; ++content) {  // not every three floats show their order
    calls_[0].data.content = content;
    memory_.fill(calls_[0].request.tensors[0].send, content_of(content, 0), kType);
    fold_right();
    ASSERT_FALSE(judge());
    fold_chunk(2, 4, {0, 1, 2});
    seen = seen || judge().has_value();
  }
  EXPECT_TRUE(seen);
}

TEST_P(Fold, S2ASmallTensorIsOneChunk) {
  bool seen = false;
  for (std::uint64_t content = 0; content < 40; ++content) {
    calls_[0].data.content = content;
    memory_.fill(calls_[0].request.tensors[0].send, content_of(content, 0), kType);
    fold_whole({1, 2, 0});
    ASSERT_FALSE(judge());
    fold_right();  // as three
    seen = seen || judge().has_value();
  }
  EXPECT_TRUE(seen);
}

TEST_P(Fold, S2AnInputTwiceFails) {
  fold_right();
  fold_chunk(4, 5, {0, 1, 1});
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S2AForgottenRemainderFails) {
  fold_chunk(0, 2, {1, 2, 0});
  fold_chunk(2, 4, {2, 0, 1});
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S2AContributorThatNeverLaunchedFails) {
  fold_right();
  absent_ = kB;
  EXPECT_TRUE(judge());
}

TEST_P(Fold, S2AContributionOfAnOutsiderFails) {
  fold_right();
  calls_[0].outcome = committed({kB, kC});
  EXPECT_TRUE(judge());
}

// Whichever rank is the root.
TEST_P(Fold, S2ACommitForWhichTheRootHasNothingFails) {
  for (const std::array<std::size_t, 3> order : {std::array<std::size_t, 3>{1, 2, 0}, {2, 1, 0}}) {
    const auto ranks = committed({ids_[order[1]], kA, ids_[order[0]]});  // the root's own is the last
    for (Call& call : calls_) {
      call.request.collective = wire::Collective::kReduce;
      call.request.root = kA;
      call.outcome = ranks;
    }
    memory_.fill(calls_[0].request.tensors[0].recv, 5, kType);
    EXPECT_TRUE(judge_receiver());
    fold_chunk(0, kCount, order);
    EXPECT_FALSE(judge_receiver()) << *judge_receiver();
    calls_[0].request.root = calls_[1].request.root = calls_[2].request.root = kB;
    memory_.fill(calls_[0].request.tensors[0].recv, 5, kType);
    EXPECT_FALSE(judge_receiver()) << "the result is for another";
  }
}

TEST_P(Fold, S2ACommitForWhichAReceiverLacksItsBlockFails) {
  for (std::size_t root = 0; root < calls_.size(); ++root) {
    for (Call& call : calls_) {
      call.request.collective = wire::Collective::kScatter;
      call.request.root = ids_[root];
      call.request.blocks.clear();
      call.outcome = committed({kA, kB, kC});
    }
    calls_[root].request.blocks = {{kB, 1}, {kA, 3}, {kC, 1}};
    const BufferRef block = calls_[root].request.tensors[0].send.slice(1 * kWidth, 3 * kWidth);
    const BufferRef into = calls_[0].request.tensors[0].recv.slice(0, 3 * kWidth);
    memory_.fill(into, 5, kType);
    EXPECT_TRUE(judge_receiver()) << root;
    if (GetParam() == Mode::kToken) {
      memory_.write_token(into, Touch::kJob,
                          token_of_content(content_of(calls_[root].data.content, 0), 1 * kWidth, 4 * kWidth));
    } else {
      std::ranges::copy(memory_.look(block), memory_.open(into, Touch::kJob).begin());
    }
    EXPECT_FALSE(judge_receiver()) << root << *judge_receiver();
  }
}

TEST_P(Fold, S3AnInputThatChangedInAnAbortFails) {
  calls_[0].outcome = aborted(Status::kPeerLost);
  EXPECT_FALSE(check_restored(calls_[0], memory_));
  memory_.fill(calls_[0].request.tensors[0].send, 5, kType);
  EXPECT_TRUE(check_restored(calls_[0], memory_));
}

TEST_P(Fold, S4MemoryWrittenAfterCompletionFails) {
  for (const BufferId id : calls_[0].buffers) calls_[0].prints.at_end.push_back(memory_.fingerprint(id));
  EXPECT_FALSE(check_untouched(calls_[0], memory_));
  memory_.fill(calls_[0].request.tensors[0].recv, 5, kType);
  EXPECT_TRUE(check_untouched(calls_[0], memory_));
}

TEST_P(Fold, S4ALoanOrAKernelThatOutlivesTheCallFails) {
  EXPECT_FALSE(check_loans_are_back(calls_[0], {}, {}));
  EXPECT_TRUE(check_loans_are_back(calls_[0], StreamId{2}, {}));
  EXPECT_TRUE(check_loans_are_back(calls_[0], {}, JobToken{1}));
}

TEST_P(Fold, S10ACommitOverDifferentArgumentsFails) {
  const FindCall find = [&](PeerId id, const RoundKey&) { return id == kB ? &calls_[1] : &calls_[0]; };
  EXPECT_FALSE(check_mismatch(calls_[0], find));
  calls_[1].request.op = ReduceOp::kMax;
  EXPECT_TRUE(check_mismatch(calls_[0], find));
  calls_[1].request.op = ReduceOp::kSum;
  calls_[1].request.tensors[0].count = 4;
  EXPECT_TRUE(check_mismatch(calls_[0], find));
}

TEST_P(Fold, S10AMismatchWithoutWordsFails) {
  calls_[0].outcome = aborted(Status::kMismatch);
  EXPECT_FALSE(check_mismatch(calls_[0], {}));
  calls_[0].outcome->text.clear();
  EXPECT_TRUE(check_mismatch(calls_[0], {}));
}

}  // namespace
}  // namespace lockstep::sim
