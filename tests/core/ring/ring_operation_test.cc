#include "core/ring/ring_operation.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::ring {
namespace {

// Found by an attack: an absurd count was cut into a list of segments first, and the engine stopped for seconds.
TEST(RingOperation, AnAbsurdCallIsRefusedBeforeItsSegmentsAreListed) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 60U;  // as a list, 2^40 segments
  ring::Request request;
  request.type = DataType::kF32;
  request.tensors = {{{BufferId{1}, 0, kBytes}, {BufferId{2}, 0, kBytes}, kBytes / 4}};
  for (const auto collective :
       {wire::Collective::kAllReduce, wire::Collective::kReduceScatter, wire::Collective::kBroadcast,
        wire::Collective::kAllGather, wire::Collective::kReduce}) {
    request.collective = collective;
    const std::uint64_t blocks[] = {kBytes / 2, kBytes / 2};
    const auto refusal = Operation::validate(request, Rank{0}, 2, 0, blocks, {});
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->status, Status::kInvalidArgument);
    EXPECT_EQ(
        refusal->text,
        "the call needs 1099511627776 segments, more than the limit of 131072: split the call, or use larger segments");
  }
}

// ---- one small segment ----

constexpr std::uint32_t kWorld = 3;
constexpr std::uint32_t kBytes = 64;
constexpr BufferRef kSend{BufferId{16}, 0, kBytes};
constexpr BufferRef kRecv{BufferId{17}, 0, kBytes};
constexpr BufferRef kScratch{BufferId{18}, 0, kBytes};
constexpr BufferRef kSlot{kEarlyBuffer, kEarlySlotBytes, kBytes};
constexpr StreamId kOld{3};
constexpr StreamId kNew{4};
constexpr StripeIndex kStripe{0};
constexpr Rank kNeighbour{};
constexpr std::uint64_t kSum = 0x1234;

// An all-reduce of 64 bytes: rank 0 owns them, rank 1 begins.
struct SmallOne {
  explicit SmallOne(std::uint32_t rank, bool in_place = false, const std::vector<std::uint64_t>& counts = {kBytes})
      : request(request_of(in_place, counts)), operation(request, Rank{rank}, kWorld, 0, {}, {}) {}

  static ring::Request request_of(bool in_place, const std::vector<std::uint64_t>& counts) {
    ring::Request request;
    request.collective = wire::Collective::kAllReduce;
    for (const std::uint64_t count : counts) {
      const BufferRef recv = in_place ? kSend : kRecv;
      request.tensors.push_back({kSend.slice(0, count), recv.slice(0, count), count});
    }
    request.scratch = kScratch;
    return request;
  }
  static wire::Segment segment(wire::Phase phase = wire::Phase::kReduceScatter) {
    return {{}, {}, phase, SegmentIndex{0}, kBytes};
  }
  bool take(const wire::Segment& arrived = segment()) {
    return operation.take(kNeighbour, arrived, kSlot, kSum, kOld, jobs);
  }
  Operation::Finished do_job(bool intact = true, std::uint64_t checksum = 0) {
    const KernelJob job = jobs.front();
    jobs.erase(jobs.begin());
    return operation.job_done(job.token, {intact, checksum}, jobs);
  }

  ring::Request request;
  RingOperation operation;
  std::vector<KernelJob> jobs;
};

TEST(RingOperation, FoldsAnEarlySegmentInItsSlot) {
  SmallOne middle(2);
  ASSERT_TRUE(middle.take());
  ASSERT_EQ(middle.jobs.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<FoldJob>(middle.jobs.front().work));
  EXPECT_EQ(memory_of(middle.jobs.front().work).from, kSlot);
  EXPECT_EQ(memory_of(middle.jobs.front().work).own, kSend);
  EXPECT_EQ(memory_of(middle.jobs.front().work).into, kRecv);
  EXPECT_EQ(std::get<FoldJob>(middle.jobs.front().work).expected, kSum);
  EXPECT_EQ(middle.operation.have(kNeighbour), std::vector<std::uint64_t>{1});
  const auto finished = middle.do_job(true, 99);
  EXPECT_TRUE(finished.used_early);
  EXPECT_FALSE(finished.corrupt);
  EXPECT_FALSE(middle.operation.has_next());  // not granted yet
  middle.operation.grant_eager();
  const auto next = middle.operation.next(kNeighbour, kStripe, kOld);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->phase, wire::Phase::kReduceScatter);
  EXPECT_EQ(next->payload, kRecv);
  EXPECT_EQ(next->checksum, 99U);
  EXPECT_EQ(middle.operation.bytes_received(), kBytes);
}

TEST(RingOperation, FoldsAnEarlySegmentInPlaceAfterTheBackup) {
  SmallOne owner(0, true);
  ASSERT_TRUE(owner.take());
  ASSERT_EQ(owner.jobs.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<CopyJob>(owner.jobs.front().work));
  EXPECT_EQ(memory_of(owner.jobs.front().work).from, kSend);
  EXPECT_EQ(memory_of(owner.jobs.front().work).into, kScratch);
  EXPECT_TRUE(owner.operation.have(kNeighbour).empty());
  // The stream may close, and the segment may arrive again on another stream meanwhile: it goes to the sink.
  owner.operation.stream_closed(kOld);
  EXPECT_EQ(owner.operation.begin(kNeighbour, owner.segment(), kNew, owner.jobs).landing, Operation::Landing::kSink);
  const auto backed_up = owner.do_job();
  EXPECT_FALSE(backed_up.placeable);
  EXPECT_FALSE(backed_up.used_early);
  ASSERT_EQ(owner.jobs.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<FoldJob>(owner.jobs.front().work));
  EXPECT_EQ(memory_of(owner.jobs.front().work).from, kSlot);
  EXPECT_EQ(memory_of(owner.jobs.front().work).own, kScratch);
  EXPECT_EQ(memory_of(owner.jobs.front().work).into, kSend);
  EXPECT_TRUE(owner.do_job().used_early);
  EXPECT_TRUE(owner.operation.complete());
  owner.operation.stop();
  owner.operation.restore(owner.jobs);
  ASSERT_EQ(owner.jobs.size(), 1U);
  EXPECT_EQ(memory_of(owner.jobs.front().work).from, kScratch);
  EXPECT_EQ(memory_of(owner.jobs.front().work).into, kSend);
}

TEST(RingOperation, ACorruptEarlySegmentMayBeRepeated) {
  for (const bool in_place : {false, true}) {
    SmallOne middle(2, in_place);
    ASSERT_TRUE(middle.take());
    if (in_place) middle.do_job();
    const auto finished = middle.do_job(false);
    EXPECT_TRUE(finished.corrupt);
    EXPECT_TRUE(finished.used_early);
    EXPECT_EQ(finished.stream, kOld);
    EXPECT_TRUE(middle.operation.have(kNeighbour).empty());
    const auto place = middle.operation.begin(kNeighbour, middle.segment(), kNew, middle.jobs);
    EXPECT_EQ(place.landing, Operation::Landing::kPlace);
    middle.operation.landed(kNeighbour, middle.segment(), false, kSum, middle.jobs);
    ASSERT_EQ(middle.jobs.size(), 1U);
    EXPECT_EQ(memory_of(middle.jobs.front().work).from, place.into);
    EXPECT_FALSE(middle.do_job().used_early);
  }
}

TEST(RingOperation, IgnoresUnexpectedEarlySegments) {
  const auto with = [](auto change) {
    wire::Segment segment = SmallOne::segment();
    change(segment);
    return segment;
  };
  SmallOne middle(2);
  EXPECT_FALSE(middle.take(with([](auto& s) { s.index.value = 1; })));
  EXPECT_FALSE(middle.take(with([](auto& s) { s.length -= 1; })));
  EXPECT_FALSE(middle.take(with([](auto& s) { s.length += 1; })));
  EXPECT_FALSE(middle.take(with([](auto& s) { s.length = 0; })));
  EXPECT_FALSE(middle.take(with([](auto& s) { s.phase = wire::Phase::kAllGather; })));
  EXPECT_FALSE(SmallOne(1).take());                            // it begins here
  EXPECT_FALSE(SmallOne(2, false, {0}).take());                // there is none
  EXPECT_FALSE(SmallOne(2, false, {kBytes, kBytes}).take());   // there are more
  EXPECT_FALSE(SmallOne(2, false, {kWholeBytes + 1}).take());  // it is cut
  EXPECT_TRUE(middle.jobs.empty());
  EXPECT_TRUE(middle.take());
}

TEST(RingOperation, IgnoresSegmentsThatArriveTwiceOrAfterTheRoundEnded) {
  SmallOne middle(2);
  EXPECT_EQ(middle.operation.begin(kNeighbour, middle.segment(), kNew, middle.jobs).landing,
            Operation::Landing::kPlace);
  EXPECT_TRUE(middle.take());
  EXPECT_TRUE(middle.jobs.empty());
  middle.operation.landed(kNeighbour, middle.segment(), false, kSum, middle.jobs);
  ASSERT_EQ(middle.jobs.size(), 1U);
  EXPECT_EQ(memory_of(middle.jobs.front().work).from, kRecv);

  SmallOne stopped(2);
  stopped.operation.stop();
  EXPECT_TRUE(stopped.take());
  EXPECT_TRUE(stopped.jobs.empty());
}

// Found by reading: ranks that had launched with different empty tensors before this one each considered themselves the
// owner. An owner tells its neighbour nothing, so the ranks waited for each other.
TEST(RingOperation, TheOwnerOfAnEagerSegmentDoesNotDependOnTheArguments) {
  for (std::uint64_t empty = 0; empty < std::uint64_t{2} * kWorld; ++empty) {
    std::vector<std::uint64_t> counts(empty);
    counts.push_back(kBytes);
    std::uint32_t silent = 0;
    for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
      const SmallOne one(rank, false, counts);
      if (!one.operation.is_one_small_segment() || one.operation.sends_partial()) continue;
      EXPECT_EQ(rank, 0U) << empty;
      ++silent;
    }
    EXPECT_EQ(silent, empty % kWorld == 0 ? 1U : 0U) << empty;
  }
}

// A final is not a lie of upstream when our partial sum waits to be sent again; what would be sent then is no longer a
// partial sum. Downstream may have requested it before it read the first copy: seed 566486.
TEST(RingOperation, TheFinalCancelsARepetition) {
  const std::pair<std::uint32_t, bool> cases[] = {{1, false}, {2, false}, {1, true}, {2, true}};
  for (const auto& [rank, is_asked] : cases) {
    SmallOne one(rank);
    one.operation.grant_eager();
    one.operation.prepare(one.jobs);
    if (rank == 2) {
      ASSERT_TRUE(one.take());
    }
    one.do_job();
    ASSERT_TRUE(one.operation.next(kNeighbour, kStripe, kOld));
    one.operation.send_partial_again(kNeighbour, StripeIndex{1}, kNew);  // it was on another
    one.operation.send_partial_again(kNeighbour, kStripe, kOld);
    EXPECT_FALSE(one.operation.has_next());
    if (is_asked) {
      EXPECT_TRUE(one.operation.grant(kNeighbour, {}, kStripe, kNew));
    } else {
      one.operation.send_partial_again(kNeighbour, kStripe, kNew);
    }
    one.operation.prepare(one.jobs);
    one.do_job();  // it is what it was
    EXPECT_TRUE(one.operation.has_next());
    const auto final = one.segment(wire::Phase::kAllGather);
    EXPECT_EQ(one.operation.begin(kNeighbour, final, kOld, one.jobs).landing, Operation::Landing::kPlace);
    EXPECT_FALSE(one.operation.next(kNeighbour, kStripe, kNew));
    one.operation.landed(kNeighbour, final, false, kSum, one.jobs);
    one.do_job(true, kSum);
    EXPECT_TRUE(one.operation.complete());
    const auto next = one.operation.next(kNeighbour, kStripe, kNew);
    ASSERT_EQ(next.has_value(), rank == 1);
    if (next) {
      EXPECT_EQ(next->phase, wire::Phase::kAllGather);
    }
    one.operation.send_partial_again(kNeighbour, kStripe, StreamId{5});
    EXPECT_FALSE(one.operation.next(kNeighbour, kStripe, StreamId{5}));
  }
}

TEST(RingOperation, ASegmentIsRepeatedOnce) {
  SmallOne one(1);
  one.operation.grant_eager();
  one.operation.prepare(one.jobs);
  one.do_job(true, 5);
  ASSERT_TRUE(one.operation.next(kNeighbour, kStripe, kOld));
  one.operation.send_partial_again(kNeighbour, kStripe, kNew);
  EXPECT_TRUE(one.operation.grant(kNeighbour, {}, kStripe, kNew));  // downstream has launched, and says what it has
  one.operation.prepare(one.jobs);
  ASSERT_EQ(one.jobs.size(), 1U);
  one.do_job(true, 5);
  const auto again = one.operation.next(kNeighbour, kStripe, kNew);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->payload, kSend);
  EXPECT_EQ(again->checksum, 5U);
  EXPECT_FALSE(one.operation.next(kNeighbour, kStripe, kNew));
}

// ---- memory that changes during the call (rule 35) ----

constexpr const char* kChanged =
    "tensor 0, chunk 0, from byte 0: a buffer of the call changed during the call: the program must not write to it "
    "before the call has ended (if the program does not, the memory or the CPU of the host is faulty)";

// Rank 1 has sent its segment on a stream that is gone, and sends it again.
struct SentAgain : SmallOne {
  explicit SentAgain(bool in_place = false) : SmallOne(1, in_place) {
    operation.grant_eager();
    operation.prepare(jobs);
    do_job(true, 5);
    EXPECT_TRUE(operation.next(kNeighbour, kStripe, kOld));
    operation.send_partial_again(kNeighbour, kStripe, kNew);
    operation.prepare(jobs);
  }
};

TEST(RingOperation, ASegmentIsComparedWithItsChecksumBeforeItIsSentAgain) {
  SentAgain one;
  EXPECT_FALSE(one.operation.has_next());
  ASSERT_EQ(one.jobs.size(), 1U);
  const auto* const check = std::get_if<VerifyJob>(&one.jobs.front().work);
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check->from, kSend);
  EXPECT_EQ(check->expected, 5U);
  EXPECT_TRUE(check->again);
  EXPECT_FALSE(one.do_job(true).fault);
  EXPECT_TRUE(one.operation.next(kNeighbour, kStripe, kNew));
}

TEST(RingOperation, ASenderTellsThatItsOwnSegmentHasChanged) {
  SentAgain one;
  const auto finished = one.do_job(false);
  ASSERT_TRUE(finished.fault);
  EXPECT_EQ(finished.fault->status, Status::kInvalidArgument);
  EXPECT_EQ(finished.fault->text, kChanged);
  EXPECT_FALSE(finished.suspect);
  EXPECT_FALSE(one.operation.has_next());
}

TEST(RingOperation, AFinalWaitsForTheCheckOfThePlaceThatItOverwrites) {
  for (const bool in_place : {false, true}) {
    SentAgain one(in_place);
    const auto final = one.segment(wire::Phase::kAllGather);
    EXPECT_EQ(one.operation.begin(kNeighbour, final, kOld, one.jobs).landing, Operation::Landing::kLater);
    EXPECT_FALSE(one.operation.has_next());  // the final proves that the segment has arrived
    auto finished = one.do_job(true);
    if (in_place) {
      EXPECT_FALSE(finished.placeable);
      ASSERT_EQ(one.jobs.size(), 1U);
      EXPECT_TRUE(std::holds_alternative<CopyJob>(one.jobs.front().work));
      finished = one.do_job();
    }
    EXPECT_EQ(finished.placeable, kOld);
    EXPECT_EQ(finished.place, in_place ? kSend : kRecv);
    one.operation.landed(kNeighbour, final, false, kSum, one.jobs);
    one.do_job(true, kSum);
    EXPECT_TRUE(one.operation.complete());
  }
}

TEST(RingOperation, AFinalWhoseStreamClosesDuringACheckIsExpectedAgain) {
  SentAgain one;
  const auto final = one.segment(wire::Phase::kAllGather);
  EXPECT_EQ(one.operation.begin(kNeighbour, final, kOld, one.jobs).landing, Operation::Landing::kLater);
  one.operation.stream_closed(kOld);
  EXPECT_FALSE(one.do_job(true).placeable);
  EXPECT_EQ(one.operation.begin(kNeighbour, final, kNew, one.jobs).landing, Operation::Landing::kPlace);
  // A part of the final is here: the partial sum is gone, and was received.
  one.operation.stream_closed(kNew);
  EXPECT_TRUE(one.operation.grant(kNeighbour, {}, kStripe, StreamId{9}));
  one.operation.prepare(one.jobs);
  EXPECT_TRUE(one.jobs.empty());
  EXPECT_FALSE(one.operation.has_next());
}

// Rank 1 of 3, which reduces 3 chunks of one segment: it has sent its own, and gets that of rank 0 wrong three times.
struct WrongThrice {
  static constexpr std::uint64_t kCount = 3ULL << 18U;
  WrongThrice() : request(request_of()), operation(request, Rank{1}, kWorld, 0, {}, {4U << 20U}) {
    EXPECT_TRUE(operation.grant(kNeighbour, {}, kStripe, kOld));
    operation.prepare(jobs);
    answer({true, 5});
    EXPECT_TRUE(operation.next(kNeighbour, kStripe, kOld));
    for (int i = 0; i < 3; ++i) {
      const wire::Segment arriving{{}, {}, wire::Phase::kReduceScatter, SegmentIndex{2}, 4U << 18U};
      EXPECT_EQ(operation.begin(kNeighbour, arriving, kOld, jobs).landing, Operation::Landing::kPlace);
      operation.landed(kNeighbour, arriving, false, kSum, jobs);
      last = answer({false});
      EXPECT_TRUE(last.corrupt);
    }
  }
  static ring::Request request_of() {
    ring::Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kF32;
    request.tensors = {{{BufferId{16}, 0, 4 * kCount}, {BufferId{17}, 0, 4 * kCount}, kCount}};
    return request;
  }
  Operation::Finished answer(const JobResult& result) {
    const KernelJob job = jobs.front();
    jobs.erase(jobs.begin());
    return operation.job_done(job.token, result, jobs);
  }

  ring::Request request;
  RingOperation operation;
  std::vector<KernelJob> jobs;
  Operation::Finished last;
};

TEST(RingOperation, AReceiverOfWrongSegmentsLooksAtItsOwnMemoryFirst) {
  WrongThrice one;
  EXPECT_FALSE(one.last.fault);
  ASSERT_EQ(one.jobs.size(), 1U);
  EXPECT_TRUE(std::get<VerifyJob>(one.jobs.front().work).again);
  const auto finished = one.answer({false});
  ASSERT_TRUE(finished.fault);
  EXPECT_EQ(finished.fault->status, Status::kInvalidArgument);
  EXPECT_NE(finished.fault->text.find("changed during the call"), std::string::npos);
  EXPECT_FALSE(finished.suspect);
}

TEST(RingOperation, WhoeverChangedTheMemoryBothHostsAreNamed) {
  WrongThrice one;
  const auto finished = one.answer({true, 5});
  ASSERT_TRUE(finished.fault);
  EXPECT_EQ(finished.fault->status, Status::kInternal);
  EXPECT_EQ(finished.fault->text,
            "tensor 0, chunk 2, from byte 2097152: the partial sum from rank 0 arrived 3 times with a wrong checksum: "
            "the program of the sender or of the receiver wrote to a buffer of the call before the call had ended, or "
            "the memory or the CPU of one of the two hosts is faulty");
  EXPECT_EQ(finished.suspect, Rank{0});
}

}  // namespace
}  // namespace lockstep::ring
