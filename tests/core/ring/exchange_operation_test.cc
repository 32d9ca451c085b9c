// One rank of an all-to-all: how it handles blocks and segments, including unexpected ones.
#include "core/ring/exchange_operation.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::ring::exchange {  // beside the other operations, whose tests use the same names
namespace {

using wire::Phase;
using Landing = Operation::Landing;

constexpr StripeIndex kOnly{0};
constexpr StreamId kFirst{3};
constexpr StreamId kNext{4};
constexpr std::uint64_t kChecksum = 0x1234;
constexpr PeerId kA{1, 1};
constexpr PeerId kB{2, 2};
constexpr PeerId kC{3, 3};
constexpr std::array kRing{kA, kB, kC};
constexpr std::uint32_t kSegment = 16;

// Rank 1 of 3. It sends 40 bytes to C, 8 to itself and 24 to A, in this order. It gets 20 bytes from A and 36 from C.
struct Exchange {
  Exchange() : request(request_of()), operation(request, kRing, Rank{1}, {20, 8, 36}, {kSegment}) {}

  static ring::Request request_of() {
    ring::Request r;
    r.collective = wire::Collective::kAllToAll;
    r.type = DataType::kF32;
    r.blocks = {{kC, 10}, {kB, 2}, {kA, 6}};
    r.tensors.push_back({{BufferId{16}, 0, 72}, {BufferId{17}, 0, 64}, 18});
    return r;
  }

  static wire::Segment segment(std::uint32_t index, std::uint32_t length) {
    return {{}, {}, Phase::kAllGather, SegmentIndex{index}, length};
  }
  Operation::SegmentPlace begin(std::uint32_t from, std::uint32_t index, std::uint32_t length,
                                StreamId stream = kFirst) {
    return operation.begin(Rank{from}, segment(index, length), stream, jobs);
  }
  Operation::Finished do_job(bool intact = true) {
    const KernelJob job = jobs.front();
    jobs.erase(jobs.begin());
    return operation.job_done(job.token, {intact, kChecksum}, jobs);
  }
  Operation::Finished land(std::uint32_t from, std::uint32_t index, std::uint32_t length, bool intact = true) {
    EXPECT_EQ(begin(from, index, length).landing, Landing::kPlace);
    operation.landed(Rank{from}, segment(index, length), false, kChecksum, jobs);
    return do_job(intact);
  }
  void prepare() {
    operation.prepare(jobs);
    while (!jobs.empty()) (void)do_job();
  }
  // The places of the segments that go to a rank now, as offsets in send.
  std::vector<std::uint64_t> sent(std::uint32_t to, StreamId stream = kFirst) {
    std::vector<std::uint64_t> offsets;
    while (const auto next = operation.next(Rank{to}, kOnly, stream)) {
      EXPECT_EQ(next->phase, Phase::kAllGather);
      EXPECT_EQ(next->payload.id, request.tensors.front().send.id);
      offsets.push_back(next->payload.offset);
    }
    return offsets;
  }

  ring::Request request;
  ExchangeOperation operation;
  std::vector<KernelJob> jobs;
};

TEST(ExchangeOperation, EachBlockArrivesInItsPlaceInRankOrder) {
  Exchange one;
  const auto first = one.begin(0, 1, 4);  // the rest of A's 20 bytes
  ASSERT_EQ(first.landing, Landing::kPlace);
  EXPECT_EQ(first.into.offset, 16U);
  const auto second = one.begin(2, 0, kSegment);
  ASSERT_EQ(second.landing, Landing::kPlace);
  EXPECT_EQ(second.into.offset, 28U);  // behind A's block and its own
}

TEST(ExchangeOperation, IsCompleteWithAllBlocksAndItsOwn) {
  Exchange one;
  one.land(0, 0, kSegment);
  one.land(0, 1, 4);
  one.land(2, 0, kSegment);
  one.land(2, 1, kSegment);
  one.land(2, 2, 4);
  EXPECT_FALSE(one.operation.complete());  // its own block is not copied
  one.operation.prepare(one.jobs);
  ASSERT_EQ(one.jobs.size(), 1U);
  const auto* const copy = std::get_if<CopyJob>(&one.jobs.front().work);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->from.offset, 40U);
  EXPECT_EQ(copy->into.offset, 20U);
  EXPECT_EQ(copy->into.length, 8U);
  one.do_job();
  EXPECT_TRUE(one.operation.complete());
  EXPECT_EQ(one.operation.bytes_received(), 56U);
}

TEST(ExchangeOperation, SendsToThoseThatHaveMemoryForIt) {
  Exchange one;
  one.prepare();
  EXPECT_FALSE(one.operation.has_next());
  EXPECT_TRUE(one.operation.grant(Rank{0}, {}, kOnly, kFirst));
  one.prepare();
  EXPECT_TRUE(one.operation.has_next(Rank{0}));
  EXPECT_FALSE(one.operation.has_next(Rank{2}));
  EXPECT_EQ(one.sent(0), (std::vector<std::uint64_t>{48, 64}));
  EXPECT_TRUE(one.operation.grant(Rank{2}, {}, kOnly, kFirst));
  one.prepare();
  EXPECT_EQ(one.sent(2), (std::vector<std::uint64_t>{0, 16, 32}));
  EXPECT_EQ(one.operation.bytes_sent(), 64U);
}

TEST(ExchangeOperation, SendsAgainWhatAStreamLost) {
  Exchange one;
  EXPECT_TRUE(one.operation.grant(Rank{2}, {}, kOnly, kFirst));
  one.prepare();
  (void)one.sent(2);
  const std::uint64_t have = 0b010;
  EXPECT_TRUE(one.operation.grant(Rank{2}, std::span(&have, 1), kOnly, kNext));
  EXPECT_FALSE(one.operation.has_next(Rank{2}));  // they are compared with their checksums first
  one.prepare();
  EXPECT_EQ(one.sent(2, kNext), (std::vector<std::uint64_t>{0, 32}));
  const std::uint64_t too_many = 0b1000;
  EXPECT_FALSE(one.operation.grant(Rank{2}, std::span(&too_many, 1), kOnly, kNext));
}

TEST(ExchangeOperation, TellsWhatHasArrived) {
  Exchange one;
  EXPECT_TRUE(one.operation.have(Rank{2}).empty());
  one.land(2, 1, kSegment);
  EXPECT_EQ(one.operation.have(Rank{2}), std::vector<std::uint64_t>{0b010});
  EXPECT_TRUE(one.operation.have(Rank{0}).empty());
  EXPECT_EQ(one.begin(2, 1, kSegment).landing, Landing::kSink);
}

TEST(ExchangeOperation, AClosedStreamMakesItsSegmentExpectedAgain) {
  Exchange one;
  EXPECT_EQ(one.begin(2, 0, kSegment).landing, Landing::kPlace);
  EXPECT_EQ(one.begin(2, 0, kSegment, kNext).landing, Landing::kSink);
  one.operation.stream_closed(kFirst);
  EXPECT_EQ(one.begin(2, 0, kSegment, kNext).landing, Landing::kPlace);
}

TEST(ExchangeOperation, RejectsInvalidSegments) {
  Exchange one;
  EXPECT_EQ(one.begin(0, 2, 4).landing, Landing::kNonsense);         // A's block has two
  EXPECT_EQ(one.begin(0, 1, kSegment).landing, Landing::kNonsense);  // too long
  EXPECT_EQ(one.begin(1, 0, 8).landing, Landing::kNonsense);         // from itself
  const wire::Segment partial{{}, {}, Phase::kReduceScatter, SegmentIndex{0}, kSegment};
  EXPECT_EQ(one.operation.begin(Rank{0}, partial, kFirst, one.jobs).landing, Landing::kNonsense);
  one.operation.stop();
  EXPECT_EQ(one.begin(0, 0, kSegment).landing, Landing::kSink);
}

TEST(ExchangeOperation, ASegmentThatIsAlwaysCorruptEndsTheRound) {
  Exchange one;
  EXPECT_TRUE(one.land(0, 0, kSegment, false).corrupt);
  EXPECT_FALSE(one.land(0, 0, kSegment, false).fault);
  const auto last = one.land(0, 0, kSegment, false);
  ASSERT_TRUE(last.fault);
  EXPECT_EQ(last.fault->status, Status::kInternal);
  EXPECT_NE(last.fault->text.find("from rank 0"), std::string::npos);
  EXPECT_EQ(last.suspect, Rank{0});
}

// Rule 35.
TEST(ExchangeOperation, ASenderTellsThatItsBlockHasChanged) {
  for (const bool sends_again : {true, false}) {
    Exchange one;
    EXPECT_TRUE(one.operation.grant(Rank{2}, {}, kOnly, kFirst));
    one.prepare();
    (void)one.sent(2);
    if (sends_again) {
      EXPECT_TRUE(one.operation.grant(Rank{2}, {}, kOnly, kNext));
      one.operation.prepare(one.jobs);
    } else {  // it gets wrong segments, and looks at its own memory first
      for (int i = 0; i < 3; ++i) EXPECT_FALSE(one.land(0, 0, kSegment, false).fault);
    }
    ASSERT_EQ(one.jobs.size(), 3U);
    const auto finished = one.do_job(false);
    ASSERT_TRUE(finished.fault);
    EXPECT_EQ(finished.fault->status, Status::kInvalidArgument);
    EXPECT_NE(finished.fault->text.find("changed during the call"), std::string::npos);
    EXPECT_FALSE(finished.suspect);
  }
}

TEST(ExchangeOperation, RefusesWhatDoesNotFit) {
  ring::Request request = Exchange::request_of();
  const auto refusal = [&](std::initializer_list<std::uint64_t> sizes) {
    return ExchangeOperation::validate(request, kRing, Rank{1}, std::vector(sizes), {kSegment});
  };
  EXPECT_FALSE(refusal({20, 8, 36}));
  const auto larger = refusal({20, 8, 40});
  ASSERT_TRUE(larger);
  EXPECT_EQ(larger->text, "the receive buffer holds 64 bytes, the result needs 68 (world size 3)");
  EXPECT_EQ(refusal({UINT64_MAX, 8, 40})->status, Status::kBufferTooSmall);
  request.collective = wire::Collective::kScatter;
  request.root = kA;
  EXPECT_EQ(refusal({20, 8, 36})->text, "scatter: only the root has blocks to send");
}

TEST(ExchangeOperation, RefusesBlocksThatDoNotFitSend) {
  const auto flaw = [](auto change) {
    ring::Request request = Exchange::request_of();
    change(request);
    return validate_blocks(request).value_or("none");
  };
  EXPECT_EQ(flaw([](ring::Request&) {}), "none");
  EXPECT_EQ(flaw([](ring::Request& r) { r.blocks[0].count = 11; }),
            "all_to_all: the blocks have more elements than the 18 of send");
  EXPECT_EQ(flaw([](ring::Request& r) { r.blocks[0].count = 9; }),
            "all_to_all: the blocks have 17 elements, send has 18");
  EXPECT_EQ(flaw([](ring::Request& r) { r.blocks[0].to = kA; }),
            "all_to_all: two blocks for one peer: give each member one block");
  EXPECT_EQ(flaw([](ring::Request& r) { r.blocks[0].to = {}; }),
            "all_to_all: a block for no peer: give the id of a member");
  EXPECT_EQ(flaw([](ring::Request& r) { r.collective = wire::Collective::kAllGather; }), "all_gather takes no blocks");
  EXPECT_EQ(flaw([](ring::Request& r) {
              r.collective = wire::Collective::kGather;
              r.root = kB;
            }),
            "gather: a block for another peer than the root");
}

}  // namespace
}  // namespace lockstep::ring::exchange
