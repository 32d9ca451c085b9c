// One rank of a direct all-reduce: how it handles segments, including unexpected ones.
#include "core/ring/direct_operation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "core/buffers/buffer_ref.h"
#include "core/ring/choice.h"
#include "core/wire/limits.h"

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

// Where the contributions of other ranks lie that come before the launch.
constexpr BufferRef slot_of(const wire::Segment& segment, std::uint64_t slot = 0) {
  return {kEarlyBuffer, slot * kEarlySlotBytes, segment.length};
}

// Rank 1 of 3. Rank i / 4 owns piece i.
struct Direct {
  explicit Direct(const ring::Request& its_request = request_of(), std::uint32_t turns = kTurns)
      : request(its_request), operation(request, Rank{1}, kRanks, 0, {}, segmenting_of(request, turns)) {}

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
  // Not encoded: the caller leaves the algorithm to the view.
  static ring::Request native_request_of(bool in_place = false) {
    ring::Request r = request_of();
    r.formats = {};
    r.algorithm.reset();
    if (in_place) r.tensors.front().recv = r.tensors.front().send;
    r.scratch = {BufferId{18}, 0, ring::scratch_bytes(r)};
    return r;
  }
  static Segmenting segmenting_of(const ring::Request& request, std::uint32_t turns = kTurns) {
    return {1024, {}, request.formats, wire::Algorithm::kDirect, ring::direct_room(request), turns};
  }

  [[nodiscard]] wire::Segment segment(std::uint32_t piece, Phase phase) const {
    return {{}, {}, phase, SegmentIndex{piece}, operation.pieces()[piece].form(phase).bytes};
  }
  Operation::SegmentPlace begin(std::uint32_t from, std::uint32_t piece, Phase phase, StreamId stream = kFirst) {
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
    do_jobs();  // of own contributions: the first one that comes grants
    operation.landed(Rank{from}, segment(piece, phase), false, kChecksum, jobs);
    return do_job(intact);
  }
  void grant(std::uint32_t by) {
    EXPECT_TRUE(operation.grant(Rank{by}, {}, kOnly, kFirst));
    operation.prepare(jobs);
    do_jobs();
  }
  // Without being asked.
  void grant_eager() {
    operation.grant_eager();
    operation.prepare(jobs);
    do_jobs();
  }
  bool take(std::uint32_t from, const wire::Segment& arrived, StreamId stream = kFirst) {
    return operation.take(Rank{from}, arrived, slot_of(arrived), kChecksum, stream, jobs);
  }
  bool take(std::uint32_t from, std::uint32_t piece) { return take(from, segment(piece, Phase::kReduceScatter)); }
  // Answers the only job of this kind.
  template <typename Work>
  Operation::Finished do_only(const JobResult& result = {true, kChecksum}) {
    const auto is_it = [](const KernelJob& job) { return std::holds_alternative<Work>(job.work); };
    EXPECT_EQ(std::ranges::count_if(jobs, is_it), 1);
    std::stable_partition(jobs.begin(), jobs.end(), is_it);
    return answer(result);
  }
  template <typename Work>
  [[nodiscard]] const Work* find_job() const {
    for (const KernelJob& job : jobs) {
      if (const Work* const work = std::get_if<Work>(&job.work)) return work;
    }
    return nullptr;
  }
  std::vector<bool> sent_eagerly(std::uint32_t to) {
    std::vector<bool> eager;
    while (const auto next = operation.next(Rank{to}, kOnly, kFirst)) eager.push_back(next->eager);
    return eager;
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

// ---- the window of contributions (rule 61) ----

using Sent = std::vector<std::uint32_t>;

TEST(DirectOperation, ContributionsWaitForFinalsOnceAsManyAsAllowedAreUnderWay) {
  Direct one(Direct::request_of(), 0);
  one.operation.limit({.bytes = 0, .segments = 2});
  one.grant(2);
  EXPECT_EQ(one.sent(2), (Sent{8, 9}));
  one.land(2, 9, Phase::kAllGather);  // whichever: the window is a number
  one.do_jobs();
  EXPECT_EQ(one.sent(2), Sent{10});
  one.land(2, 8, Phase::kAllGather);
  one.do_jobs();
  EXPECT_EQ(one.sent(2), Sent{11});
}

TEST(DirectOperation, BytesUnderWayAreSharedByTheOwners) {
  Direct one(Direct::native_request_of(), 0);
  const std::uint64_t to_others = std::uint64_t{2} * kPiecesEach * one.segment(8, Phase::kReduceScatter).length;
  one.operation.limit({.bytes = to_others - 1, .segments = 1});
  one.grant(2);
  EXPECT_EQ(one.sent(2).size(), 3U) << "rounded down";
  one.grant(0);
  EXPECT_EQ(one.sent(0).size(), 3U);
  one.operation.limit({.bytes = to_others / 2, .segments = 1});
  for (const std::uint32_t piece : {8U, 9U}) one.land(2, piece, Phase::kAllGather);
  one.do_jobs();
  EXPECT_TRUE(one.sent(2).empty()) << "one is under way, as many as may be now";
}

// Segments are smaller where lines lose packets, and as many bytes are under way.
TEST(DirectOperation, WhereLinesLosePacketsFourSegmentsCountAsOne) {
  ring::Request request = Direct::native_request_of();
  ring::Tensor& tensor = request.tensors.front();
  tensor.count = std::uint64_t{3} * 8 * 16'384 / size_of(request.type);
  tensor.send.length = tensor.recv.length = tensor.count * size_of(request.type);
  request.scratch = {BufferId{18}, 0, ring::scratch_bytes(request)};
  for (const bool lossy : {false, true}) {
    Segmenting segmenting = Direct::segmenting_of(request, 0);
    segmenting.configured = 0;
    segmenting.lossy = lossy;
    DirectOperation operation(request, Rank{0}, 3, 0, {}, segmenting);
    operation.limit({.bytes = 0, .segments = 1});
    EXPECT_TRUE(operation.grant(Rank{2}, {}, kOnly, kFirst));
    std::vector<KernelJob> jobs;
    operation.prepare(jobs);
    EXPECT_EQ(jobs.size(), lossy ? 4U : 1U);
  }
}

TEST(DirectOperation, AGuessGrowsWithEachFinal) {
  ring::Request twice = Direct::request_of();
  ring::Tensor& tensor = twice.tensors.front();
  tensor.count *= 2;
  tensor.send.length *= 2;
  tensor.recv.length *= 2;
  twice.scratch = {BufferId{18}, 0, ring::scratch_bytes(twice)};
  Direct one(twice, 0);
  one.operation.limit({.bytes = 0, .segments = 1, .is_guess = true});
  one.grant(2);
  EXPECT_EQ(one.sent(2), Sent{16});
  one.land(2, 16, Phase::kAllGather);
  one.do_jobs();
  EXPECT_EQ(one.sent(2), (Sent{17, 18})) << "twice as many after a round trip";
  one.land(2, 17, Phase::kAllGather);
  one.do_jobs();
  EXPECT_EQ(one.sent(2), (Sent{19, 20})) << "three are under way";
  one.operation.limit({.bytes = 0, .segments = 2, .is_guess = true});  // for more stripes
  one.land(2, 18, Phase::kAllGather);
  one.do_jobs();
  EXPECT_EQ(one.sent(2), (Sent{21, 22})) << "the window keeps the size to which it has grown";
  one.operation.limit({.bytes = 0, .segments = 2});  // measured
  one.land(2, 19, Phase::kAllGather);
  one.do_jobs();
  EXPECT_TRUE(one.sent(2).empty());
}

TEST(DirectOperation, AWindowOfNothingIsOneContribution) {
  Direct one(Direct::request_of(), 0);
  one.operation.limit({});  // equals what an operation begins with: no limit
  one.grant(2);
  EXPECT_EQ(one.sent(2).size(), kPiecesEach);
  one.operation.limit({.bytes = 1, .segments = 0});
  one.grant(0);
  EXPECT_EQ(one.sent(0), Sent{0});
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

// ---- not encoded ----

TEST(DirectOperation, NativeContributionsAreVerifiedAndFoldedInOneJob) {
  Direct one(Direct::native_request_of());
  one.grant(0);
  one.grant(2);
  EXPECT_EQ(one.begin(0, 4, Phase::kReduceScatter).landing, Landing::kPlace);
  one.operation.landed(Rank{0}, one.segment(4, Phase::kReduceScatter), false, 77, one.jobs);
  ASSERT_EQ(one.jobs.size(), 1U);
  const auto* const verify = one.find_job<VerifyJob>();
  ASSERT_NE(verify, nullptr);
  EXPECT_EQ(verify->expected, 77U);
  EXPECT_FALSE(verify->again);
  EXPECT_EQ(verify->from.id, one.request.scratch.id);
  one.do_job();
  EXPECT_TRUE(one.jobs.empty());
  one.land(2, 4, Phase::kReduceScatter);
  ASSERT_EQ(one.jobs.size(), 1U);
  const auto* const fold = one.find_job<FoldAllJob>();
  ASSERT_NE(fold, nullptr);
  EXPECT_EQ(fold->into, one.request.tensors.front().recv.slice(4096, 1024));
  EXPECT_EQ(fold->from, one.request.scratch.slice(0, 2048));
  EXPECT_EQ(fold->own, one.request.tensors.front().send.slice(4096, 1024));
  EXPECT_EQ(fold->type, DataType::kF32);
  EXPECT_EQ(fold->op, ReduceOp::kAvg);
  EXPECT_EQ(fold->divisor, kRanks);
  one.do_jobs();
  for (const std::uint32_t other : {0U, 2U}) {
    std::vector<std::uint32_t> sent = one.sent(other);
    EXPECT_NE(std::ranges::find(sent, 4U), sent.end()) << "the final goes to rank " << other;
  }
}

// Only an average divides.
TEST(DirectOperation, ASumHasNoDivisor) {
  ring::Request request = Direct::native_request_of();
  request.op = ReduceOp::kSum;
  Direct one(request);
  one.land(0, 4, Phase::kReduceScatter);
  one.do_jobs();
  one.land(2, 4, Phase::kReduceScatter);
  const auto* const fold = one.find_job<FoldAllJob>();
  ASSERT_NE(fold, nullptr);
  EXPECT_EQ(fold->divisor, 0U);
}

// A NaN is a number like any other where nothing is encoded.
TEST(DirectOperation, OnlyEncodedContributionsMustBeFinite) {
  Direct native(Direct::native_request_of());
  EXPECT_TRUE(native.operation.grant(Rank{2}, {}, kOnly, kFirst));
  native.operation.prepare(native.jobs);
  ASSERT_FALSE(native.jobs.empty());
  EXPECT_TRUE(std::holds_alternative<HashJob>(native.jobs.front().work));
  Direct encoded;
  EXPECT_TRUE(encoded.operation.grant(Rank{2}, {}, kOnly, kFirst));
  encoded.operation.prepare(encoded.jobs);
  ASSERT_FALSE(encoded.jobs.empty());
  EXPECT_TRUE(std::holds_alternative<EncodeJob>(encoded.jobs.front().work));
}

TEST(DirectOperation, ANativeContributionDepartsFromTheInput) {
  Direct one(Direct::native_request_of());
  one.grant(2);
  const auto next = one.operation.next(Rank{2}, kOnly, kFirst);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->phase, Phase::kReduceScatter);
  EXPECT_EQ(next->payload, one.request.tensors.front().send.slice(8192, 1024));
  EXPECT_EQ(next->checksum, kChecksum);
  EXPECT_FALSE(next->eager);
}

// In place, results lie in the scratch until the commit: an abort has nothing to restore.
TEST(DirectOperation, ANativeResultIsCopiedToItsPlaceAfterTheCommit) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    Direct one(Direct::native_request_of(in_place));
    one.grant(0);
    one.grant(2);
    one.complete();
    one.operation.stop();
    one.operation.decode_some(one.jobs);
    EXPECT_EQ(one.jobs.size(), in_place ? 3 * kPiecesEach : 0U);
    for (const KernelJob& job : one.jobs) {
      const auto& copy = std::get<CopyJob>(job.work);
      EXPECT_EQ(copy.into.id, BufferId{16});
      EXPECT_EQ(copy.from, one.request.scratch.slice(copy.into.offset, copy.into.length));
    }
    one.do_jobs();
    EXPECT_EQ(one.operation.jobs_running(), 0U);
    EXPECT_FALSE(one.operation.damage());
  }
}

TEST(DirectOperation, AnAbortRestoresNothingBecauseTheInputWasKept) {
  Direct one(Direct::native_request_of(true));
  one.grant(0);
  one.grant(2);
  one.complete();
  one.operation.stop();
  one.operation.restore(one.jobs);
  EXPECT_TRUE(one.jobs.empty());
}

// ---- contributions that come before the launch (rule 10) ----

TEST(DirectOperation, AnEarlyContributionIsCopiedFromItsSlotAndVerified) {
  for (const bool native : {false, true}) {
    SCOPED_TRACE(native);
    Direct one(native ? Direct::native_request_of() : Direct::request_of());
    const auto arrived = one.segment(5, Phase::kReduceScatter);
    ASSERT_TRUE(one.take(2, arrived));
    EXPECT_TRUE(std::ranges::equal(one.operation.have(Rank{2}), std::vector<std::uint64_t>{1U << 5U}));
    const auto* const copy = one.find_job<CopyJob>();
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->from, slot_of(arrived));
    EXPECT_EQ(copy->into.id, one.request.scratch.id);
    const BufferRef room = copy->into;
    EXPECT_EQ(one.begin(2, 5, Phase::kReduceScatter, kNext).landing, Landing::kSink);  // it is here
    const auto copied = one.do_only<CopyJob>();
    ASSERT_TRUE(copied.used_early);
    EXPECT_EQ(copied.used_early->from, Rank{2});
    EXPECT_EQ(copied.used_early->index, SegmentIndex{5});
    EXPECT_FALSE(copied.corrupt);
    EXPECT_EQ(one.operation.bytes_received(), arrived.length);
    if (native) {
      const auto* const verify = one.find_job<VerifyJob>();
      ASSERT_NE(verify, nullptr);
      EXPECT_EQ(verify->from, room);
      EXPECT_EQ(verify->expected, kChecksum);
      EXPECT_FALSE(one.do_only<VerifyJob>().used_early) << "the slot is named once";
    } else {
      const auto* const check = one.find_job<CheckJob>();
      ASSERT_NE(check, nullptr);
      EXPECT_EQ(check->from, room);
      EXPECT_EQ(check->expected, kChecksum);
      EXPECT_FALSE(one.do_only<CheckJob>().used_early) << "the slot is named once";
    }
    one.land(0, 5, Phase::kReduceScatter);
    EXPECT_TRUE(native ? one.find_job<FoldAllJob>() != nullptr : one.find_job<GatherJob>() != nullptr);
  }
}

TEST(DirectOperation, ThePieceIsReadyWhenAllItsContributionsCameEarly) {
  Direct one(Direct::native_request_of());
  ASSERT_TRUE(one.take(0, 4));
  ASSERT_TRUE(one.take(2, 4));
  std::vector<Rank> used;
  while (!one.jobs.empty() && one.find_job<FoldAllJob>() == nullptr) {
    if (const auto finished = one.do_job(); finished.used_early) {
      EXPECT_EQ(finished.used_early->index, SegmentIndex{4});
      used.push_back(finished.used_early->from);
    }
  }
  EXPECT_EQ(used, (std::vector<Rank>{Rank{0}, Rank{2}}));
  ASSERT_NE(one.find_job<FoldAllJob>(), nullptr);
  one.do_jobs();
  EXPECT_EQ(one.operation.have(Rank{0}), std::vector<std::uint64_t>{1U << 4U});
}

TEST(DirectOperation, ACorruptEarlyContributionMayBeRepeated) {
  Direct one(Direct::native_request_of());
  ASSERT_TRUE(one.take(2, 5));
  (void)one.do_only<CopyJob>();
  const auto finished = one.do_only<VerifyJob>({false, 5});
  EXPECT_TRUE(finished.corrupt);
  EXPECT_EQ(finished.stream, kFirst);
  EXPECT_EQ(finished.from, Rank{2});
  EXPECT_FALSE(finished.used_early);
  EXPECT_TRUE(one.operation.have(Rank{2}).empty());
  one.jobs.clear();
  EXPECT_FALSE(one.land(2, 5, Phase::kReduceScatter).corrupt);
  EXPECT_EQ(one.operation.have(Rank{2}), std::vector<std::uint64_t>{1U << 5U});
}

TEST(DirectOperation, TheStreamOfAnEarlyContributionMayClose) {
  Direct one(Direct::native_request_of());
  ASSERT_TRUE(one.take(2, 5));
  one.operation.stream_closed(kFirst);
  EXPECT_TRUE(one.do_only<CopyJob>().used_early);
  EXPECT_FALSE(one.do_only<VerifyJob>().corrupt);
  EXPECT_EQ(one.operation.have(Rank{2}), std::vector<std::uint64_t>{1U << 5U});
}

TEST(DirectOperation, RejectsUnexpectedEarlySegments) {
  Direct one;
  const auto with = [&](auto change) {
    wire::Segment segment = one.segment(4, Phase::kReduceScatter);
    change(segment);
    return segment;
  };
  EXPECT_FALSE(one.take(0, with([](auto& s) { s.index.value = 3 * kPiecesEach; })));
  EXPECT_FALSE(one.take(0, with([](auto& s) { s.length -= 1; })));
  EXPECT_FALSE(one.take(0, with([](auto& s) { s.length += 1; })));
  EXPECT_FALSE(one.take(0, with([](auto& s) { s.length = 0; })));
  EXPECT_FALSE(one.take(0, 8));                                  // another's to add up
  EXPECT_FALSE(one.take(2, one.segment(8, Phase::kAllGather)));  // a final
  EXPECT_FALSE(one.take(0, one.segment(4, Phase::kAllGather)));  // ours to make
  EXPECT_FALSE(one.take(0, 6));                                  // its room is that of piece 4
  EXPECT_TRUE(one.jobs.empty());
  EXPECT_FALSE(one.operation.has_next());
  EXPECT_TRUE(one.take(0, 4));
}

TEST(DirectOperation, IgnoresEarlyContributionsThatComeTwiceOrAfterTheRoundEnded) {
  Direct one(Direct::native_request_of());
  EXPECT_EQ(one.begin(2, 5, Phase::kReduceScatter).landing, Landing::kPlace);
  EXPECT_TRUE(one.take(2, 5));
  EXPECT_EQ(one.find_job<CopyJob>(), nullptr);
  Direct stopped(Direct::native_request_of());
  stopped.operation.stop();
  EXPECT_TRUE(stopped.take(2, 5));
  EXPECT_TRUE(stopped.jobs.empty());
}

TEST(DirectOperation, AStopLeavesTheSlotAfterTheCopy) {
  Direct one(Direct::native_request_of());
  ASSERT_TRUE(one.take(2, 5));
  one.operation.stop();
  const auto copied = one.do_only<CopyJob>();
  ASSERT_TRUE(copied.used_early);
  EXPECT_EQ(copied.used_early->from, Rank{2});
  EXPECT_EQ(one.find_job<VerifyJob>(), nullptr);
  EXPECT_TRUE(one.operation.have(Rank{2}).empty());
  one.do_jobs();
  EXPECT_EQ(one.operation.jobs_running(), 0U);
}

// The sender of a contribution has launched the round, and has memory for all that it gets.
TEST(DirectOperation, AContributionGrants) {
  for (const bool early : {false, true}) {
    SCOPED_TRACE(early);
    Direct one(Direct::native_request_of());
    if (early) {
      ASSERT_TRUE(one.take(2, 5));
    } else {
      EXPECT_EQ(one.begin(2, 5, Phase::kReduceScatter).landing, Landing::kPlace);
    }
    one.do_jobs();
    EXPECT_TRUE(one.operation.has_next(Rank{2}));
    EXPECT_FALSE(one.operation.has_next(Rank{0}));
    EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{8, 9}));
  }
}

// ---- contributions that go before their receivers have launched ----

TEST(DirectOperation, EagerContributionsGoToAllRanksWithoutAGrant) {
  Direct one(Direct::native_request_of(), kPiecesEach);
  ASSERT_EQ(one.operation.eager_segments(), kPiecesEach);
  EXPECT_FALSE(one.operation.has_next());
  one.grant_eager();
  EXPECT_EQ(one.sent(0), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{8, 9, 10, 11}));
}

TEST(DirectOperation, SegmentsAreEagerUntilTheirReceiverHasLaunched) {
  for (const bool granted : {false, true}) {
    SCOPED_TRACE(granted);
    Direct one(Direct::native_request_of(), kPiecesEach);
    one.grant_eager();
    EXPECT_EQ(one.sent_eagerly(0), (std::vector<bool>{true, true, true, true}));
    const auto first = one.operation.next(Rank{2}, kOnly, kFirst);
    ASSERT_TRUE(first);
    EXPECT_TRUE(first->eager);
    if (granted) {
      EXPECT_TRUE(one.operation.grant(Rank{2}, {}, kOnly, kFirst));
    } else {
      EXPECT_EQ(one.begin(2, 4, Phase::kReduceScatter).landing, Landing::kPlace);  // it contributes: it has launched
    }
    EXPECT_EQ(one.sent_eagerly(2), (std::vector<bool>{false, false, false}));
  }
}

TEST(DirectOperation, AFinalIsNotEager) {
  Direct one(Direct::native_request_of(), kPiecesEach);
  one.grant_eager();
  (void)one.sent_eagerly(0);
  (void)one.sent_eagerly(2);
  one.land(0, 4, Phase::kReduceScatter);
  one.land(2, 4, Phase::kReduceScatter);
  one.do_jobs();
  for (const std::uint32_t other : {0U, 2U}) {
    const auto next = one.operation.next(Rank{other}, kOnly, kFirst);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->phase, Phase::kAllGather);
    EXPECT_FALSE(next->eager);
  }
}

TEST(DirectOperation, SegmentsThatDoNotFitSlotsOrRoomAreNotEager) {
  const auto eager_segments = [](std::uint32_t segment_bytes, std::uint32_t turns, std::uint64_t elements) {
    ring::Request request = Direct::native_request_of();
    const std::uint64_t bytes = elements * sizeof(float);
    request.tensors = {{{BufferId{16}, 0, bytes}, {BufferId{17}, 0, bytes}, elements}};
    request.scratch.length = ring::scratch_bytes(request);
    Segmenting segmenting = Direct::segmenting_of(request, turns);
    segmenting.configured = segment_bytes;
    return DirectOperation(request, Rank{1}, kRanks, 0, {}, segmenting).eager_segments();
  };
  EXPECT_EQ(eager_segments(1024, 0, kElements), kPiecesEach);
  EXPECT_EQ(eager_segments(1024, kPiecesEach, kElements), kPiecesEach);
  EXPECT_EQ(eager_segments(1024, kPiecesEach - 1, kElements), 0U) << "pieces take turns";
  constexpr std::uint64_t kSlot = kEarlySlotBytes / sizeof(float);
  EXPECT_EQ(eager_segments(kEarlySlotBytes, 0, 3 * kSlot), 1U);
  EXPECT_EQ(eager_segments(2 * kEarlySlotBytes, 0, 3 * kSlot), 1U);
  EXPECT_EQ(eager_segments(2 * kEarlySlotBytes, 0, 3 * (kSlot + 1)), 0U) << "a piece is larger than a slot";
  EXPECT_EQ(eager_segments(1024, 0, 0), 0U) << "there is nothing to send";
}

// A rank may own all pieces, and then sends no contribution.
TEST(DirectOperation, AnOwnerOfEverythingSendsNothingEagerly) {
  ring::Request request = Direct::native_request_of();
  request.tensors = {{{BufferId{16}, 0, 64}, {BufferId{17}, 0, 64}, 16}};  // one piece, of rank 0
  request.scratch.length = ring::scratch_bytes(request);
  Segmenting segmenting = Direct::segmenting_of(request, 0);
  segmenting.configured = 0;
  EXPECT_EQ(DirectOperation(request, Rank{0}, kRanks, 0, {}, segmenting).eager_segments(), 0U);
  EXPECT_EQ(DirectOperation(request, Rank{1}, kRanks, 0, {}, segmenting).eager_segments(), 1U);
}

TEST(DirectOperation, ALostEagerContributionIsRepeatedUntilTheReceiverGrants) {
  Direct one(Direct::native_request_of(), kPiecesEach);
  one.grant_eager();
  EXPECT_EQ(one.sent(2), (std::vector<std::uint32_t>{8, 9, 10, 11}));
  EXPECT_EQ(one.sent(0), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  one.operation.send_partial_again(Rank{2}, StripeIndex{1}, kNext);  // they went on another
  one.operation.send_partial_again(Rank{2}, kOnly, kFirst);
  one.operation.prepare(one.jobs);
  EXPECT_TRUE(one.jobs.empty());
  one.operation.send_partial_again(Rank{2}, kOnly, kNext);
  EXPECT_FALSE(one.operation.has_next(Rank{2}));  // they are compared with their checksums first
  one.operation.prepare(one.jobs);
  ASSERT_EQ(one.jobs.size(), kPiecesEach);
  for (const KernelJob& job : one.jobs) EXPECT_TRUE(std::get<VerifyJob>(job.work).again);
  one.do_jobs();
  EXPECT_EQ(one.sent(2, kNext), (std::vector<std::uint32_t>{8, 9, 10, 11}));
  EXPECT_FALSE(one.operation.has_next(Rank{0}));
  // Rank 2 launches, and says what it has: the other one is repeated for that Ready.
  const std::vector<std::uint64_t> has{1U << 8U | 1U << 9U | 1U << 11U};
  EXPECT_TRUE(one.operation.grant(Rank{2}, has, kOnly, StreamId{5}));
  one.operation.prepare(one.jobs);
  EXPECT_EQ(one.jobs.size(), 1U);
  one.do_jobs();
  EXPECT_EQ(one.sent(2, StreamId{5}), std::vector<std::uint32_t>{10});
  one.operation.send_partial_again(Rank{2}, kOnly, StreamId{6});
  one.operation.prepare(one.jobs);
  EXPECT_TRUE(one.jobs.empty());  // it has what it has named, and asks again for the other one
}

TEST(DirectOperation, TheFinalCancelsTheRepetitionOfAnEagerContribution) {
  Direct one(Direct::native_request_of(), kPiecesEach);
  one.grant_eager();
  EXPECT_EQ(one.sent(2).size(), kPiecesEach);
  EXPECT_EQ(one.begin(2, 8, Phase::kAllGather, kNext).landing, Landing::kPlace);  // it had got there
  one.operation.send_partial_again(Rank{2}, kOnly, kNext);
  one.operation.prepare(one.jobs);
  EXPECT_EQ(one.jobs.size(), kPiecesEach - 1);
  EXPECT_EQ(one.begin(2, 9, Phase::kAllGather, kNext).landing, Landing::kLater);  // the check reads its place
  one.do_jobs();
  EXPECT_EQ(one.sent(2, kNext), (std::vector<std::uint32_t>{10, 11}));
}

TEST(DirectOperation, NothingIsRepeatedThatWasNotEager) {
  Direct one(Direct::native_request_of(), kPiecesEach);
  one.grant(2);
  EXPECT_EQ(one.sent(2).size(), kPiecesEach);
  one.operation.send_partial_again(Rank{2}, kOnly, kNext);
  one.operation.prepare(one.jobs);
  EXPECT_TRUE(one.jobs.empty());
}

// ---- limits ----

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

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

std::uint64_t room_of(const std::vector<std::uint64_t>& counts, std::optional<wire::Algorithm> algorithm = {},
                      wire::Collective collective = wire::Collective::kAllReduce) {
  ring::Request request;
  request.collective = collective;
  request.algorithm = algorithm;
  for (const std::uint64_t count : counts) request.tensors.push_back({{}, {}, count});
  return direct_room(request);
}

TEST(DirectOperation, ThereIsRoomForAllContributionsOrAsMuchAsIsUnderWay) {
  EXPECT_EQ(room_of({}), 0U);
  EXPECT_EQ(room_of({100}), 6400U) << "a tensor that is not cut has contributions of all ranks";
  EXPECT_EQ(room_of({kWholeBytes}), 64U * kWholeBytes);
  EXPECT_EQ(room_of({kWholeBytes + 1}), kWholeBytes + 1);
  EXPECT_EQ(room_of({100, kMiB}), 6400 + kMiB);
  EXPECT_EQ(room_of({16 * kMiB - 1}), 16 * kMiB - 1);
  EXPECT_EQ(room_of({16 * kMiB + 1}), 16 * kMiB);
  EXPECT_EQ(room_of({256 * kMiB}), 16 * kMiB);
  EXPECT_EQ(room_of({320 * kMiB}), 20 * kMiB) << "a sixteenth";
  EXPECT_EQ(room_of({1024 * kMiB}), 64 * kMiB);
  EXPECT_EQ(room_of({2048 * kMiB}), 64 * kMiB);
}

TEST(DirectOperation, OnlyACallThatMayGoDirectHasRoom) {
  EXPECT_EQ(room_of({kMiB}, wire::Algorithm::kDirect), kMiB);
  EXPECT_EQ(room_of({kMiB}, wire::Algorithm::kRing), 0U);
  EXPECT_EQ(room_of({kMiB}, {}, wire::Collective::kAllGather), 0U);
  EXPECT_EQ(room_of({kMiB}, {}, wire::Collective::kBroadcast), 0U);
}

// In a grid the root has links to its row and its column only: relays tell it of the others (rule 13).
TEST(DirectOperation, TheRootOfABroadcastInAGridIsDoneOnceAllHaveLaunched) {
  ring::Request request;
  request.collective = wire::Collective::kBroadcast;
  request.tensors = {{{}, {BufferId{17}, 0, 100}, 100}};
  DirectOperation root(request, Rank{0}, 9, 0, {}, {.algorithm = wire::Algorithm::kGrid});
  std::vector<KernelJob> jobs;
  for (const std::uint32_t linked : {1U, 2U, 3U, 6U}) EXPECT_TRUE(root.grant(Rank{linked}, {}, kOnly, kFirst));
  root.prepare(jobs);
  ASSERT_EQ(jobs.size(), 1U);
  root.job_done(jobs.front().token, {true, kChecksum}, jobs);
  for (const std::uint32_t linked : {1U, 2U, 3U, 6U}) EXPECT_TRUE(root.next(Rank{linked}, kOnly, kFirst));
  for (const std::uint32_t other : {4U, 5U, 7U, 8U, 4U}) {
    EXPECT_EQ(root.complete(), other == 4 && root.has_launched(Rank{8}));
    root.learn_launch(Rank{other});
    EXPECT_FALSE(root.has_next(Rank{other}));
  }
  EXPECT_TRUE(root.complete());
}

// The owner of a chunk stands in another row than the root. The relay in the root's row passes the chunk on to the
// owner and to its own row. The relay gets no final.
TEST(DirectOperation, ARelayInTheRowOfTheRootHasAChunkByPassingItOn) {
  ring::Request request;
  request.collective = wire::Collective::kBroadcast;
  request.tensors = {{{}, {BufferId{17}, 0, 9 * kMiB}, 9 * kMiB}};
  DirectOperation relay(request, Rank{1}, 9, 0, {}, {1U << 20U, {}, {}, wire::Algorithm::kGrid});
  const auto piece = static_cast<std::uint32_t>(std::ranges::find(relay.pieces(), 4U, &Piece::owner) -
                                                relay.pieces().begin());  // rank 4 is below rank 1
  std::vector<KernelJob> jobs;
  for (const std::uint32_t linked : {0U, 2U, 4U, 7U}) EXPECT_TRUE(relay.grant(Rank{linked}, {}, kOnly, kFirst));
  const wire::Segment segment{{}, {}, Phase::kReduceScatter, SegmentIndex{piece}, relay.pieces()[piece].length};
  EXPECT_EQ(relay.begin(Rank{2}, segment, kFirst, jobs).landing, Landing::kNonsense);  // not the root
  EXPECT_EQ(relay.begin(Rank{0}, segment, kFirst, jobs).landing, Landing::kPlace);
  relay.landed(Rank{0}, segment, false, kChecksum, jobs);
  ASSERT_EQ(jobs.size(), 1U);
  relay.job_done(jobs.front().token, {true, kChecksum}, jobs);
  const auto to_owner = relay.next(Rank{4}, kOnly, kFirst);
  ASSERT_TRUE(to_owner);
  EXPECT_EQ(to_owner->phase, Phase::kReduceScatter);
  const auto to_row = relay.next(Rank{2}, kOnly, kFirst);
  ASSERT_TRUE(to_row);
  EXPECT_EQ(to_row->phase, Phase::kAllGather);
  EXPECT_FALSE(relay.has_next(Rank{0}));
  wire::Segment final = segment;
  final.phase = Phase::kAllGather;
  EXPECT_EQ(relay.begin(Rank{4}, final, kFirst, jobs).landing, Landing::kNonsense);
}

// Their contributions lie in the scratch of the tensors: there is room for the elements that do not divide by the
// ranks, for the sums of relays, and for contributions that go straight to the root.
TEST(DirectOperation, AReduceScatterAndAReduceHaveAQuarterMoreThanTheirScratch) {
  constexpr std::uint64_t kOdd = 128;  // bytes of u8, for each tensor
  EXPECT_EQ(room_of({kMiB}, {}, wire::Collective::kReduceScatter), kOdd + kMiB / 4);
  EXPECT_EQ(room_of({kMiB}, wire::Algorithm::kGrid, wire::Collective::kReduceScatter), kOdd + kMiB);
  EXPECT_EQ(room_of({kMiB, kMiB, 0}, {}, wire::Collective::kReduceScatter), 3 * kOdd + kMiB / 2);
  EXPECT_EQ(room_of({100}, {}, wire::Collective::kReduce), kOdd + 25 + std::uint64_t{64} * 100);
  EXPECT_EQ(room_of({kMiB}, {}, wire::Collective::kReduce), kOdd + kMiB / 4 + 2 * kMiB);
  EXPECT_EQ(room_of({kMiB + 4}, {}, wire::Collective::kReduce), kOdd + kMiB / 4 + 1) << "goes through owners";
}

// In a grid: whatever the view of many members chooses, and a grid of any size whose caller asks for it.
TEST(DirectOperation, EveryRankHasRoomForWhatGoesInAGrid) {
  for (const auto collective : {wire::Collective::kReduceScatter, wire::Collective::kReduce}) {
    for (std::uint32_t world = 2; world <= 1024; world += world < 90 ? 1 : 89) {
      for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{world} + 1, std::uint64_t{2} * world - 1,
                                        std::uint64_t{20'011}, 2 * kMiB / (world + 1), kMiB, kMiB + world / 2}) {
        ring::Request request;
        request.collective = collective;
        if (world <= kMaxMeshed) request.algorithm = wire::Algorithm::kGrid;
        request.tensors = {{{BufferId{1}, 0, bytes}, {BufferId{2}, 0, bytes}, bytes}};
        request.scratch = {BufferId{3}, 0, ring::scratch_bytes(request)};
        ASSERT_EQ(choose(descriptor_of(request, 0), world, Reach::kGrid), wire::Algorithm::kGrid);
        const std::uint32_t step = world < 90 ? 1 : 23;
        for (std::uint32_t rank = 0; rank < world; rank += step) {  // it asserts that its contributions have room
          const DirectOperation operation(request, Rank{rank}, world, 1, {}, {.algorithm = wire::Algorithm::kGrid});
          EXPECT_FALSE(operation.pieces().empty());
        }
      }
    }
  }
}

// Whatever goes direct fits the scratch that the caller has lent before the view chose.
TEST(DirectOperation, EveryRankHasRoomForWhatGoesDirect) {
  for (const auto collective : {wire::Collective::kReduceScatter, wire::Collective::kReduce}) {
    for (std::uint32_t world = 2; world <= 64; world += world < 8 ? 1 : 7) {
      for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{world} + 1, std::uint64_t{20'011},
                                        kMiB / (world > 3 ? world - 3 : 1), kMiB, 2 * kMiB + 1}) {
        ring::Request request;
        request.collective = collective;
        request.tensors = {{{BufferId{1}, 0, bytes}, {BufferId{2}, 0, bytes}, bytes}};
        request.scratch = {BufferId{3}, 0, ring::scratch_bytes(request)};
        if (choose(descriptor_of(request, 0), world, Reach::kAll) != wire::Algorithm::kDirect) continue;
        for (const std::uint32_t rank : {0U, 1U, world - 1}) {  // it asserts that its contributions have room
          const DirectOperation operation(request, Rank{rank}, world, 1, {}, {.algorithm = wire::Algorithm::kDirect});
          EXPECT_FALSE(operation.pieces().empty());
        }
      }
    }
  }
}

TEST(AlgorithmChoice, ABroadcastOfManyBytesGoesAroundTheRing) {
  using wire::Algorithm;
  for (const auto collective : {wire::Collective::kBroadcast, wire::Collective::kReduce}) {
    const auto chosen = [&](std::uint64_t bytes, std::uint32_t world) {
      wire::Descriptor what;
      what.collective = collective;
      what.tensors = 1;
      what.count = bytes / 4;
      what.type = DataType::kF32;
      what.algorithm = Algorithm::kAuto;
      return choose(what, world, Reach::kAll);
    };
    for (const std::uint32_t world : {2U, 3U, 4U, 16U, 64U}) {
      const std::uint64_t most = kMiB * (world > 4 ? world - 3 : 1);
      EXPECT_EQ(chosen(most, world), Algorithm::kDirect) << world;
      EXPECT_EQ(chosen(most + 4, world), Algorithm::kRing) << world;
    }
  }
  EXPECT_TRUE(goes_straight(kMiB / 13, 16));
  EXPECT_FALSE(goes_straight(kMiB / 13 + 1, 16));
}

TEST(AlgorithmChoice, MoreFarMembersTakeAGrid) {
  using wire::Algorithm;
  const auto chosen = [&](wire::Collective collective, std::uint64_t bytes, std::uint32_t tensors = 1) {
    wire::Descriptor what;
    what.collective = collective;
    what.tensors = tensors;
    what.count = bytes;
    what.algorithm = Algorithm::kAuto;
    return choose(what, 100, Reach::kGrid);
  };
  EXPECT_EQ(chosen(wire::Collective::kReduce, kMiB, 5242), Algorithm::kGrid);
  EXPECT_EQ(chosen(wire::Collective::kReduce, kMiB, 5243), Algorithm::kRing) << "too many segments for the root";
  EXPECT_EQ(chosen(wire::Collective::kAllGather, 0), Algorithm::kGrid);
  EXPECT_EQ(chosen(wire::Collective::kBroadcast, 95 * kMiB), Algorithm::kGrid);
  EXPECT_EQ(chosen(wire::Collective::kBroadcast, 95 * kMiB + 1), Algorithm::kRing) << "bytes outweigh the hops";
  EXPECT_EQ(chosen(wire::Collective::kReduce, 95 * kMiB), Algorithm::kGrid);
  EXPECT_EQ(chosen(wire::Collective::kReduceScatter, 95 * kMiB + 1), Algorithm::kGrid);
  EXPECT_TRUE(goes_straight_in_grid(2 * kMiB / 17, 100));
  EXPECT_FALSE(goes_straight_in_grid(2 * kMiB / 17 + 1, 100)) << "the root has 18 links";
}

TEST(AlgorithmChoice, AsksTheViewIfTheCallerDoesNotCare) {
  using wire::Algorithm;
  wire::Descriptor what;
  what.collective = wire::Collective::kAllReduce;
  what.tensors = 1;
  what.algorithm = Algorithm::kAuto;
  EXPECT_EQ(choose(what, 64, Reach::kAll), Algorithm::kDirect);
  EXPECT_EQ(choose(what, 64, Reach::kNeighbours), Algorithm::kRing);
  what.tensors = 8192;
  EXPECT_EQ(choose(what, 64, Reach::kAll), Algorithm::kDirect);
  what.tensors = 8193;
  EXPECT_EQ(choose(what, 64, Reach::kAll), Algorithm::kRing) << "too many segments for one rank";
  what.tensors = 131'072;
  EXPECT_EQ(choose(what, 1024, Reach::kGrid), Algorithm::kGrid);
  what.tensors = 131'073;
  EXPECT_EQ(choose(what, 1024, Reach::kGrid), Algorithm::kRing) << "too many segments for one rank";
  what.tensors = 1;
  what.weighted = true;
  EXPECT_EQ(choose(what, 1024, Reach::kGrid), Algorithm::kRing) << "a relay cannot weigh";
  what.weighted = false;
  what.formats.up = WireFormat::kF16;
  EXPECT_EQ(choose(what, 1024, Reach::kGrid), Algorithm::kRing) << "a relay would encode again";
  what.formats = {};
  for (const Reach reach : {Reach::kNeighbours, Reach::kGrid, Reach::kAll}) {
    what.algorithm = Algorithm::kRing;
    EXPECT_EQ(choose(what, 64, reach), Algorithm::kRing);
    what.algorithm = Algorithm::kDirect;
    EXPECT_EQ(choose(what, 64, reach), Algorithm::kDirect);
    what.algorithm = Algorithm::kGrid;
    EXPECT_EQ(choose(what, 64, reach), Algorithm::kGrid);
  }
}

// A caller may ask for a grid of any size, for contributions that go as they are.
TEST(AlgorithmChoice, AGridHasNoWireFormatsAndNoWeights) {
  ring::Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = DataType::kF32;
  request.algorithm = wire::Algorithm::kGrid;
  EXPECT_FALSE(validate_encoding(request));
  EXPECT_FALSE(is_encoded(request));
  request.weight = 2.0F;
  EXPECT_NE(validate_encoding(request).value_or("").find("in a grid contributions go as they are"), std::string::npos);
  request.weight = {};
  request.formats.down = WireFormat::kInt8;
  EXPECT_NE(validate_encoding(request).value_or("").find("use the direct algorithm, or the ring"), std::string::npos);
}

TEST(AlgorithmChoice, ADescriptorSaysWhatTheCallerAsksFor) {
  ring::Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = DataType::kF32;
  request.tensors = {{{}, {}, 12}};
  EXPECT_EQ(descriptor_of(request, 0).algorithm, wire::Algorithm::kAuto);
  request.formats.up = WireFormat::kInt4;
  EXPECT_EQ(descriptor_of(request, 0).algorithm, wire::Algorithm::kDirect) << "too coarse for the ring";
  request.formats.up = WireFormat::kInt8;
  EXPECT_EQ(descriptor_of(request, 0).algorithm, wire::Algorithm::kAuto);
  request.algorithm = wire::Algorithm::kRing;
  EXPECT_EQ(descriptor_of(request, 0).algorithm, wire::Algorithm::kRing);
  request = {};
  for (const auto& [collective, may_choose] :
       {std::pair(wire::Collective::kReduceScatter, true), std::pair(wire::Collective::kReduce, true),
        std::pair(wire::Collective::kAllGather, true), std::pair(wire::Collective::kBroadcast, true),
        std::pair(wire::Collective::kGather, false), std::pair(wire::Collective::kAllToAll, false),
        std::pair(wire::Collective::kBarrier, false)}) {
    request.collective = collective;
    EXPECT_EQ(descriptor_of(request, 0).algorithm, may_choose ? wire::Algorithm::kAuto : wire::Algorithm::kRing);
  }
}

// A contribution without an encoding has the residual 0: a rank that has residuals changes no bit of the sum. But the
// ranks that have none do not know, so all of them refuse what cannot be encoded.
TEST(AlgorithmChoice, ACallIsEncodedIfSomeRankMayEncode) {
  ring::Request request;
  request.collective = wire::Collective::kAllReduce;
  request.type = DataType::kF32;
  request.tensors = {{{}, {}, 12}};
  EXPECT_FALSE(is_encoded(request));
  request.algorithm = wire::Algorithm::kDirect;
  EXPECT_TRUE(is_encoded(request));
  request.op = ReduceOp::kMax;
  EXPECT_FALSE(is_encoded(request));
  request.op = ReduceOp::kSum;
  request.type = DataType::kF64;
  EXPECT_FALSE(is_encoded(request));
}

}  // namespace
}  // namespace lockstep::ring
