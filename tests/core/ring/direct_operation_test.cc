// One rank of a direct all-reduce: how it handles segments, including unexpected ones.
#include "core/ring/direct_operation.h"

#include <gtest/gtest.h>

namespace lockstep::ring {
namespace {

using wire::Phase;
using Landing = Operation::Landing;

constexpr std::uint32_t kRanks = 3;
constexpr StripeIndex kOnly{0};
constexpr StreamId kFirst{3};
constexpr StreamId kNext{4};
constexpr std::uint64_t kChecksum = 0x1234;
constexpr std::uint64_t kElements = std::uint64_t{3} * 4 * 256;  // four blocks, each a piece, for each rank
constexpr std::uint32_t kPiecesEach = 4;                         // of each rank
constexpr std::uint32_t kTurns = 2;

// Rank 1 of 3. Rank i / 4 owns piece i.
struct Direct {
  Direct() : request(request_of()), operation(request, Rank{1}, kRanks, {}, segmenting_of(request)) {}

  static ring::Request request_of() {
    ring::Request r;
    r.collective = wire::Collective::kAllReduce;
    r.type = DataType::kF32;
    r.op = ReduceOp::kAvg;
    r.formats = {WireFormat::kInt8, WireFormat::kBF16};
    r.algorithm = wire::Algorithm::kDirect;
    const std::uint64_t bytes = kElements * sizeof(float);
    r.tensors.push_back({{BufferId{16}, 0, bytes}, {BufferId{17}, 0, bytes}, kElements});
    r.scratch = {BufferId{18}, 0, ring::scratch_bytes(r)};
    return r;
  }
  static Segmenting segmenting_of(const ring::Request& request) {
    return {1024, {}, request.formats, ring::direct_room(request), kTurns};
  }

  [[nodiscard]] wire::Segment segment(std::uint32_t piece, Phase phase) const {
    return {{}, {}, phase, SegmentIndex{piece}, operation.pieces()[piece].form(phase).bytes};
  }
  Operation::Place begin(std::uint32_t from, std::uint32_t piece, Phase phase, StreamId stream = kFirst) {
    return operation.begin(Rank{from}, segment(piece, phase), stream, jobs);
  }
  Operation::Finished do_job(bool intact = true) { return answer({intact, kChecksum}); }
  void do_jobs() {
    while (!jobs.empty()) EXPECT_FALSE(do_job().corrupt);
  }
  // The memory that the job reads has changed since it was verified.
  Operation::Finished do_job_on_changed_memory() { return answer({.malformed = true}); }
  Operation::Finished answer(const JobResult& result) {
    const KernelJob job = jobs.front();
    jobs.erase(jobs.begin());
    return operation.job_done(job.token, result, jobs);
  }
  Operation::Finished land(std::uint32_t from, std::uint32_t piece, Phase phase, bool intact = true) {
    EXPECT_EQ(begin(from, piece, phase).landing, Landing::kPlace);
    operation.landed(Rank{from}, segment(piece, phase), false, kChecksum, jobs);
    return do_job(intact);
  }
  void grant(std::uint32_t by) {
    EXPECT_TRUE(operation.grant(Rank{by}, {}, kOnly, kFirst));
    operation.prepare(jobs);
    do_jobs();
  }
  std::vector<std::uint32_t> sent(std::uint32_t to, StreamId stream = kFirst) {
    std::vector<std::uint32_t> pieces;
    while (const auto next = operation.next(Rank{to}, kOnly, stream)) {
      pieces.push_back(next->index.value);
      operation.prepare(jobs);
      do_jobs();
    }
    return pieces;
  }

  // Both other ranks contribute, take and send all that they have to.
  void complete() {
    for (std::uint32_t piece = 0; piece < 3 * kPiecesEach; ++piece) {
      for (const std::uint32_t other : {0U, 2U}) {
        (void)sent(other);
        const bool owns = piece / kPiecesEach == other;
        if (owns) land(other, piece, Phase::kAllGather);
        if (piece / kPiecesEach == 1) land(other, piece, Phase::kReduceScatter);
        do_jobs();
      }
    }
    EXPECT_TRUE(operation.complete());
  }

  ring::Request request;
  DirectOperation operation;
  std::vector<KernelJob> jobs;
};

TEST(DirectOperation, ContributionsTakeTurnsInTheOwnersRoom) {
  Direct one;
  EXPECT_FALSE(one.operation.has_next(Rank{2}));
  one.grant(2);
  EXPECT_FALSE(one.operation.has_next(Rank{0}));
  EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{8, 9}));
  EXPECT_FALSE(one.land(2, 9, Phase::kAllGather).corrupt);  // the room of 9 is free, that of 8 is not
  one.do_jobs();
  EXPECT_TRUE(one.sent(2).empty());
  one.land(2, 8, Phase::kAllGather);
  one.do_jobs();
  EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{10, 11}));
}

TEST(DirectOperation, RejectsAContributionWhoseRoomIsInUse) {
  Direct one;
  EXPECT_EQ(one.begin(0, 4, Phase::kReduceScatter).landing, Landing::kPlace);
  EXPECT_EQ(one.begin(0, 6, Phase::kReduceScatter).landing, Landing::kNonsense);  // two turns later
  one.operation.landed(Rank{0}, one.segment(4, Phase::kReduceScatter), false, kChecksum, one.jobs);
  one.land(2, 4, Phase::kReduceScatter);
  one.do_jobs();  // checked, gathered
  EXPECT_EQ(one.begin(0, 6, Phase::kReduceScatter).landing, Landing::kPlace);
  const auto place = one.begin(2, 6, Phase::kReduceScatter);
  EXPECT_EQ(place.landing, Landing::kPlace);
  EXPECT_EQ(place.into.id, one.request.scratch.id);
  EXPECT_EQ(place.into.offset, 0U);  // behind the owner in the ring: the first
}

TEST(DirectOperation, AFinalIsSentToAllRanksOnceAllHaveContributed) {
  Direct one;
  one.grant(0);
  one.grant(2);
  (void)one.sent(0);
  (void)one.sent(2);
  one.land(0, 4, Phase::kReduceScatter);
  EXPECT_TRUE(one.jobs.empty());
  one.land(2, 4, Phase::kReduceScatter);
  ASSERT_EQ(one.jobs.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<GatherJob>(one.jobs.front().work));
  EXPECT_EQ(memory_of(one.jobs.front().work).from.length, 2U * one.segment(4, Phase::kReduceScatter).length);
  one.do_jobs();
  EXPECT_EQ(one.sent(0), std::vector<std::uint32_t>{4});
  EXPECT_EQ(one.sent(2), std::vector<std::uint32_t>{4});
}

TEST(DirectOperation, RejectsInvalidSegments) {
  Direct one;
  EXPECT_EQ(one.begin(0, 4, Phase::kAllGather).landing, Landing::kNonsense);      // ours to make
  EXPECT_EQ(one.begin(0, 8, Phase::kReduceScatter).landing, Landing::kNonsense);  // another's to add up
  EXPECT_EQ(one.begin(0, 8, Phase::kAllGather).landing, Landing::kNonsense);      // not of its owner
  EXPECT_EQ(one.begin(2, 8, Phase::kAllGather).landing, Landing::kNonsense);      // made without us
  wire::Segment wrong = one.segment(4, Phase::kReduceScatter);
  wrong.length -= 1;
  EXPECT_EQ(one.operation.begin(Rank{0}, wrong, kFirst, one.jobs).landing, Landing::kNonsense);
  wrong.index = SegmentIndex{3 * kPiecesEach};
  EXPECT_EQ(one.operation.begin(Rank{0}, wrong, kFirst, one.jobs).landing, Landing::kNonsense);
  const std::vector<std::uint64_t> too_many(2, 0);
  EXPECT_FALSE(one.operation.grant(Rank{0}, too_many, kOnly, kFirst));
  const std::vector<std::uint64_t> beyond{std::uint64_t{1} << (3 * kPiecesEach * 2)};
  EXPECT_FALSE(one.operation.grant(Rank{0}, beyond, kOnly, kFirst));
}

TEST(DirectOperation, ACorruptSegmentMayBeRepeated) {
  Direct one;
  const auto finished = one.land(2, 5, Phase::kReduceScatter, false);
  EXPECT_TRUE(finished.corrupt);
  EXPECT_EQ(finished.stream, kFirst);
  EXPECT_EQ(finished.from, Rank{2});
  EXPECT_TRUE(one.operation.have(Rank{2}).empty());
  EXPECT_FALSE(one.land(2, 5, Phase::kReduceScatter).corrupt);
  EXPECT_EQ(one.operation.have(Rank{2}), std::vector<std::uint64_t>{1U << 5U});
  EXPECT_TRUE(one.operation.have(Rank{0}).empty());
  EXPECT_EQ(one.begin(2, 5, Phase::kReduceScatter, kNext).landing, Landing::kSink);  // it is here
}

TEST(DirectOperation, ALostSegmentIsRepeatedUnlessItsFinalComesFirst) {
  Direct one;
  one.grant(2);
  EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{8, 9}));
  const std::vector<std::uint64_t> has{1U << 9U};
  EXPECT_TRUE(one.operation.grant(Rank{2}, has, kOnly, kNext));
  EXPECT_FALSE(one.operation.has_next(Rank{2}));  // it is compared with its checksum first
  one.operation.prepare(one.jobs);
  one.do_jobs();
  EXPECT_EQ(one.sent(2, kNext), std::vector<std::uint32_t>{8});
  EXPECT_TRUE(one.operation.grant(Rank{2}, has, kOnly, StreamId{5}));
  EXPECT_EQ(one.begin(2, 8, Phase::kAllGather, StreamId{5}).landing, Landing::kPlace);  // it had got there
  EXPECT_TRUE(one.sent(2, StreamId{5}).empty());
}

// Rule 35.
TEST(DirectOperation, ASenderTellsThatItsContributionHasChanged) {
  Direct one;
  one.grant(2);
  EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{8, 9}));
  EXPECT_TRUE(one.operation.grant(Rank{2}, {}, kOnly, kNext));
  one.operation.prepare(one.jobs);
  ASSERT_EQ(one.jobs.size(), 2U);
  const auto finished = one.do_job(false);
  ASSERT_TRUE(finished.fault);
  EXPECT_EQ(finished.fault->status, Status::kInvalidArgument);
  EXPECT_NE(finished.fault->text.find("changed during the call"), std::string::npos);
  // The final waits for the check of the place that it overwrites, and proves that the contribution has arrived.
  EXPECT_EQ(one.begin(2, 9, Phase::kAllGather, kNext).landing, Landing::kLater);
  const auto checked = one.do_job(true);
  EXPECT_EQ(checked.placeable, kNext);
  EXPECT_EQ(checked.place.id, BufferId{17});
  EXPECT_FALSE(one.operation.has_next(Rank{2}));
}

TEST(DirectOperation, AReceiverOfWrongSegmentsLooksAtItsOwnMemoryFirst) {
  Direct one;
  one.grant(2);
  (void)one.sent(2);
  Operation::Finished last;
  for (int i = 0; i < 3; ++i) last = one.land(2, 5, Phase::kReduceScatter, false);
  EXPECT_FALSE(last.fault);
  ASSERT_EQ(one.jobs.size(), 2U);
  EXPECT_FALSE(one.do_job(true).fault);
  const auto finished = one.do_job(true);
  ASSERT_TRUE(finished.fault);
  EXPECT_EQ(finished.fault->status, Status::kInternal);
  EXPECT_EQ(finished.suspect, Rank{2});
}

TEST(DirectOperation, AClosedStreamLosesItsArrivingSegment) {
  Direct one;
  EXPECT_EQ(one.begin(0, 4, Phase::kReduceScatter, kFirst).landing, Landing::kPlace);
  EXPECT_EQ(one.begin(0, 4, Phase::kReduceScatter, kNext).landing, Landing::kSink);
  one.operation.stream_closed(kFirst);
  EXPECT_EQ(one.begin(0, 4, Phase::kReduceScatter, kNext).landing, Landing::kPlace);
}

// Rank 1 owns pieces 4 to 7, and adds its own contribution there without encoding it.
TEST(DirectOperation, TheResidualIsUpdatedAfterTheCommitAndBeforeTheResult) {
  Direct one;
  one.request.tensors.front().residual = {BufferId{19}, 0, kElements * sizeof(float)};
  for (const std::uint32_t other : {0U, 2U}) {
    EXPECT_TRUE(one.operation.grant(Rank{other}, {}, kOnly, kFirst));
  }
  one.operation.prepare(one.jobs);
  for (const KernelJob& job : one.jobs) {
    const JobMemory memory = memory_of(job.work);
    EXPECT_EQ(memory.residual.offset, memory.from.offset);
  }
  one.do_jobs();
  one.complete();
  one.operation.stop();
  one.operation.decode_some(one.jobs);
  ASSERT_EQ(one.jobs.size(), 3 * kPiecesEach);
  for (std::uint32_t piece = 0; piece < 3 * kPiecesEach; ++piece) {
    const auto job = std::get<UpdateResidualJob>(one.jobs.front().work);
    EXPECT_EQ(job.residual, one.request.tensors.front().residual.slice(job.from.offset, job.from.length));
    EXPECT_EQ(job.departs, piece / kPiecesEach == 1 ? WireFormat::kNative : WireFormat::kInt8);
    (void)one.do_job();
    EXPECT_EQ(std::get<DecodeJob>(one.jobs.back().work).into.offset, job.from.offset);
  }
  one.do_jobs();
  EXPECT_EQ(one.operation.jobs_running(), 0U);
}

// A wrong CPU, or a program that writes to a buffer of its call, is no bug of this machine.
TEST(DirectOperation, AResultThatHasChangedIsNamed) {
  Direct one;
  one.grant(0);
  one.grant(2);
  one.complete();
  one.operation.stop();
  one.operation.decode_some(one.jobs);
  (void)one.do_job();
  EXPECT_FALSE(one.operation.damage());
  (void)one.do_job_on_changed_memory();
  one.do_jobs();
  const auto damage = one.operation.damage();
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->status, Status::kInternal);
  EXPECT_EQ(damage->text.find("tensor 0, chunk 0, from byte 1024: the result changed in this host"), 0U);
}

TEST(DirectOperation, AContributionThatHasChangedEndsTheRound) {
  Direct one;
  one.land(0, 4, Phase::kReduceScatter);
  one.land(2, 4, Phase::kReduceScatter);
  const auto finished = one.do_job_on_changed_memory();  // gathered
  ASSERT_TRUE(finished.fault);
  EXPECT_EQ(finished.fault->status, Status::kInternal);
  EXPECT_EQ(finished.fault->text.find("tensor 0, chunk 1, from byte 4096: a contribution changed in this host"), 0U);
}

TEST(DirectOperation, RefusesACallThatNeedsTooMuchRoom) {
  ring::Request request = Direct::request_of();
  Segmenting segmenting = Direct::segmenting_of(request);
  EXPECT_FALSE(Operation::validate(request, Rank{0}, 3, 0, {}, segmenting));
  segmenting.room = 500;
  const auto refusal = Operation::validate(request, Rank{0}, 3, 0, {}, segmenting);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, Status::kInvalidArgument);
  EXPECT_EQ(refusal->text,
            "the contributions of 2 other ranks, 260 bytes each, do not fit into the 500 bytes of room of the direct "
            "algorithm: use the ring, or a wire format with smaller blocks");
}

}  // namespace
}  // namespace lockstep::ring
