// One attempt of one collective on one rank: which segments are expected, which can go, what is to be computed, and
// when the whole result is in hand. Emits jobs; never sees a stream, a clock or a tensor byte. Owned by peer::Rounds,
// one per attempt. There are two: around the ring (ring_operation.h), and direct (direct_operation.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/kernels/job.h"
#include "core/peer/request.h"
#include "core/ring/schedule.h"
#include "core/wire/message.h"

namespace lockstep::ring {

// What contributions weigh together that weigh this each (the bits of an f32).
float total_weight(std::span<const std::uint64_t> weights);

class Operation {
 public:
  // The one that the request asks for. `stakes`: of every rank, where the collective has stakes (wire::Stake). The
  // request outlives the operation.
  static std::unique_ptr<Operation> of(const peer::Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                                       std::vector<std::uint64_t> stakes, Segmenting segmenting);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Why this operation cannot run on this peer (a receive buffer that is too small, too many segments), or nothing.
  // Asked before there is one: its memory would not be what its pieces need, and listing them might take seconds.
  [[nodiscard]] static std::optional<Error> refusal(const peer::Request& request, Rank rank, std::uint32_t world,
                                                    std::span<const std::uint64_t> stakes, Segmenting segmenting);

  // ---- receiving, from a rank that sends to this one ----

  enum class Landing { kPlace, kLater, kSink, kNonsense };
  struct Place {
    Landing landing = Landing::kSink;
    BufferRef into;  // kPlace
  };
  // A segment begins on `stream`. kLater: a job must finish first; job_done() names the stream then. kSink: it is here
  // already, or on its way on another stream. kNonsense: the sender breaks the protocol.
  virtual Place begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) = 0;
  // Its payload is whole (or was taken back by the sender).
  virtual void landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                      std::vector<KernelJob>& jobs) = 0;
  // A whole segment that came before this operation was there, and lies at `memory` until job_done() says that it is
  // used, or the operation is over. False: it is none that we expect. If it turns out not to be what was sent,
  // job_done() names `stream`.
  virtual bool take(const wire::Segment& /*arrived*/, BufferRef /*memory*/, std::uint64_t /*checksum*/,
                    StreamId /*stream*/, std::vector<KernelJob>& /*jobs*/) {
    return false;
  }
  // The stream is gone, and with it what was landing from it.
  virtual void stream_closed(StreamId stream) = 0;
  // What has arrived of what this rank sends us, as told it in Ready: a bit per segment, reduce-scatter first, then
  // all-gather.
  [[nodiscard]] virtual std::vector<std::uint64_t> have(Rank from) const = 0;

  // ---- sending ----

  // That rank has places for everything that we send it but `have`. What was sent on an earlier stream of this stripe
  // and is not there goes again. Returns false if `have` is not a bit for each of our segments.
  virtual bool grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) = 0;
  // Whether all is one segment so small that downstream has a place for it whether it has launched or not; and whether
  // ours may get there before it has: the final does not. Such a segment is owned by rank 0, so that whatever arguments
  // ranks have launched with, somebody tells another of those that differ.
  [[nodiscard]] virtual bool is_one_small_segment() const { return false; }
  [[nodiscard]] virtual bool sends_partial() const { return false; }
  // It has that place. What was sent there on an earlier stream of this stripe goes again, unless the final comes first
  // and proves that it is there.
  virtual void grant_unasked() {}
  virtual void send_partial_again(StripeIndex /*stripe*/, StreamId /*stream*/) {}
  struct Outgoing {
    wire::Phase phase{};
    SegmentIndex index;
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  // Whether next() has one now: for anybody, or for this rank, which is one that we send to.
  [[nodiscard]] virtual bool has_next() const = 0;
  [[nodiscard]] virtual bool has_next(Rank to) const = 0;
  // The next segment to go, on this stream; nothing when none is ready now.
  virtual std::optional<Outgoing> next(Rank to, StripeIndex stripe, StreamId stream) = 0;
  // Starts preparing own segments, so that next() finds some.
  virtual void prepare(std::vector<KernelJob>& jobs) = 0;

  // ---- jobs ----

  struct Finished {
    bool corrupt = false;  // what arrived was not what was sent: reset `stream`, on which `from` sent it
    StreamId stream;
    Rank from;
    std::optional<StreamId> placeable;  // a stream whose segment waited for this job; into `place`
    BufferRef place;
    bool used_early = false;  // what take() was given is read no more
    std::optional<Error>
        fault;  // encoded: there are elements that cannot be, or what came is no encoding: the round cannot go on
  };
  virtual Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) = 0;

  // ---- ending ----

  // The whole result is in hand.
  [[nodiscard]] bool complete() const { return finals_missing_ == 0; }
  // Of the result; the same on every peer. 0 for a reduce-scatter, whose results differ.
  [[nodiscard]] virtual std::uint64_t result_hash() const = 0;
  // Nothing new is begun. Jobs that run still have to answer.
  void stop() { stopped_ = true; }
  [[nodiscard]] std::size_t jobs_running() const { return running_; }
  // Encoded: makes the result of what lies encoded, and residuals of what was lost on the way, once the round has
  // committed; call it until no job runs. After stop(), and when nothing lands or leaves any more.
  void decode_some(std::vector<KernelJob>& jobs);
  // Gives the input its bits back (promise S3), after stop() and when nothing runs or lands any more.
  virtual void restore(std::vector<KernelJob>& /*jobs*/) {}

  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return bytes_received_; }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

 protected:
  Operation(const peer::Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
            std::vector<std::uint64_t> stakes, Segmenting segmenting);

  // Own segments, to one other rank, that are hashed or encoded ahead of their departure: enough to keep every stripe
  // busy, few enough to stay in cache.
  static constexpr std::size_t kPreparedAhead = 4;

  // A bit that flips on the way is sent again, once. What comes so often with a checksum that is not its own was wrong
  // before it left.
  static constexpr std::uint8_t kMostCorrupt = 3;

  enum class Arrival : std::uint8_t { kNotOurs, kExpected, kBackingUp, kLanding, kWorking, kHere };
  enum class Departure : std::uint8_t { kNotOurs, kNotReady, kReady, kSent };

  // A job's token says what to do with its answer. The owner of the operation adds which operation it was.
  enum class Purpose : std::uint8_t { kBackUp, kOwn, kOwnCopy, kArrived, kGather, kLeave, kDecode, kRestore };
  struct JobName {
    std::size_t index = 0;  // of what the operation keeps a list
    wire::Phase phase{};
    Purpose purpose{};
    [[nodiscard]] JobToken token() const;
    static JobName of(JobToken token);
  };
  KernelJob& start(std::vector<KernelJob>& jobs, JobKind kind, const JobName& name, const Piece& piece);

  static constexpr std::size_t index_of(wire::Phase phase) { return phase == wire::Phase::kReduceScatter ? 0 : 1; }

  // What is here of what somebody sends, as Ready tells it: a bit for each segment of both phases, and no words where
  // nothing is.
  [[nodiscard]] bool can_be_have(std::span<const std::uint64_t> have) const;
  [[nodiscard]] bool has(std::span<const std::uint64_t> have, wire::Phase phase, std::size_t piece) const;
  void add_to(std::vector<std::uint64_t>& have, wire::Phase phase, std::size_t piece) const;

  [[nodiscard]] bool in_place(const Piece& piece) const;
  [[nodiscard]] BufferRef input(const Piece& piece) const;  // this rank's contribution
  [[nodiscard]] BufferRef work(const Piece& piece) const;   // where partial sums and finals lie
  // What arrives in a phase, and what departs: all of work(), or as much of it as the encoding takes. A partial sum
  // arrives at its end, so that what is made of it, from the beginning on, never overtakes what is still to be read.
  [[nodiscard]] BufferRef arrival(const Piece& piece, wire::Phase phase) const;
  [[nodiscard]] BufferRef departure(const Piece& piece, wire::Phase phase) const;
  [[nodiscard]] BufferRef backup(const Piece& piece) const;     // in place: the input's copy
  [[nodiscard]] BufferRef result(const Piece& piece) const;     // where the final goes
  [[nodiscard]] BufferRef residual(const Piece& piece) const;   // what is added to the input; or nothing
  bool leave(std::size_t piece, std::vector<KernelJob>& jobs);  // renews the residual; false: there is nothing to do
  void decode(std::size_t piece, std::vector<KernelJob>& jobs);
  // A copy is not what was sent: it is asked for again, `count` times at most. After that the sender is at fault and
  // the round is about to end; further copies are dropped, and their stream stays.
  static void take_corrupt(Finished& finished, std::uint8_t& count, const Piece& piece, wire::Phase phase, Rank from);
  [[nodiscard]] Error not_finite(const Piece& piece, std::uint64_t element, bool of_sum) const;

  // Left out of recordings are the arguments, and what follows from them: all but these.
  template <typename Archive>
  void state_of_all(Archive& a) {
    a.all(finals_missing_, stopped_, running_, decoded_, bytes_sent_, bytes_received_);
  }

  const peer::Request& request_;
  Rank rank_;
  std::uint32_t world_;
  std::vector<std::uint64_t> stakes_;
  bool encoded_;
  // Of an average: what the contribution weighs, and all do, scaled by a power of two so that ranks weigh about 1 each:
  // formats have a smallest and a largest number, and were chosen for what is averaged.
  float weight_ = 1;
  float total_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> scratch_offsets_;  // of each tensor, and of what lies behind them
  std::size_t finals_missing_ = 0;
  bool stopped_ = false;
  std::size_t running_ = 0;
  std::size_t decoded_ = 0;  // pieces of which the result was asked for
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;

 private:
  static std::optional<Error> refusal_of_blocks(const peer::Request& request, Rank rank,
                                                std::span<const std::uint64_t> blocks);
  static std::optional<Error> refusal_of_exchanges(const peer::Request& request, Rank rank, std::uint32_t world,
                                                   Segmenting segmenting);
  void weigh(float total);
};

}  // namespace lockstep::ring
