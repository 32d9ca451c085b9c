// One attempt of one collective on one rank: which segments are expected, which can go, what is to be computed, and when the
// whole result is in hand. Emits jobs; never sees a stream, a clock or a tensor byte. Owned by peer::Rounds, one per attempt.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
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
  // `stakes`: of every rank, where the collective has stakes (wire::Stake). The request outlives the operation.
  Operation(const peer::Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
            std::vector<std::uint64_t> stakes, Segmenting segmenting);

  // Why this operation cannot run on this peer (a receive buffer that is too small, too many segments), or nothing. Asked before
  // there is one: its memory would not be what its pieces need, and listing them might take seconds.
  [[nodiscard]] static std::optional<Error> refusal(const peer::Request& request, Rank rank, std::uint32_t world,
                                                    std::span<const std::uint64_t> stakes, Segmenting segmenting);

  // ---- receiving, from the upstream neighbour ----

  enum class Landing { kPlace, kLater, kSink, kNonsense };
  struct Place {
    Landing landing = Landing::kSink;
    BufferRef into;  // kPlace
  };
  // A segment begins on `stream`. kLater: a job must finish first; take_placeable() names the stream then. kSink: it is here
  // already, or on its way on another stream. kNonsense: the neighbour breaks the protocol.
  Place begin(const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs);
  // Its payload is whole (or was taken back by the sender).
  void landed(const wire::Segment& arrived, bool taken_back, std::uint64_t checksum, std::vector<KernelJob>& jobs);
  // A whole segment that came before this operation was there, and lies at `from` until job_done() says that it is used, or the
  // operation is over. False: it is none that we expect. If it turns out not to be what was sent, job_done() names `stream`.
  bool take(const wire::Segment& arrived, BufferRef from, std::uint64_t checksum, StreamId stream,
            std::vector<KernelJob>& jobs);
  // The stream is gone, and with it what was landing from it.
  void stream_closed(StreamId stream);
  // What has arrived, as told in Ready: a bit per segment, reduce-scatter first, then all-gather.
  [[nodiscard]] std::vector<std::uint64_t> have() const;

  // ---- sending, to the downstream neighbour ----

  // Downstream has places for everything but `have`. What was sent on an earlier stream of this stripe and is not there goes
  // again. Returns false if `have` is not a bit for each of our segments.
  bool grant(std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream);
  // Whether all is one segment so small that downstream has a place for it whether it has launched or not; and whether ours may get
  // there before it has: the final does not. Such a segment is owned by rank 0, so that whatever arguments ranks have launched
  // with, somebody tells another of those that differ.
  [[nodiscard]] bool is_one_small_segment() const;
  [[nodiscard]] bool sends_partial() const;
  // It has that place. What was sent there on an earlier stream of this stripe goes again, unless the final comes first and
  // proves that it is there.
  void grant_unasked() { granted_ = true; }
  void send_partial_again(StripeIndex stripe, StreamId stream);
  struct Outgoing {
    wire::Phase phase{};
    SegmentIndex index;
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  // Whether next() has one now.
  [[nodiscard]] bool has_next() const { return granted_ && !stopped_ && !ready_.empty(); }
  // The next segment to go, on this stream; nothing when none is ready now.
  std::optional<Outgoing> next(StripeIndex stripe, StreamId stream);
  // Starts preparing own segments, so that next() finds some.
  void prepare(std::vector<KernelJob>& jobs);

  // ---- jobs ----

  struct Finished {
    bool corrupt = false;  // what arrived was not what was sent: reset `stream`
    StreamId stream;
    std::optional<StreamId> placeable;  // a stream whose segment waited for this job; into `place`
    BufferRef place;
    bool used_early = false;  // what take() was given is read no more
    std::optional<Error>
        fault;  // encoded: there are elements that cannot be, or what came is no encoding: the round cannot go on
  };
  Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs);

  // ---- ending ----

  // The whole result is in hand.
  [[nodiscard]] bool complete() const { return finals_missing_ == 0; }
  // Of the result; the same on every peer. 0 for a reduce-scatter, whose results differ.
  [[nodiscard]] std::uint64_t result_hash() const;
  // Nothing new is begun. Jobs that run still have to answer.
  void stop() { stopped_ = true; }
  [[nodiscard]] std::size_t jobs_running() const { return running_; }
  // Encoded: makes the result of what lies encoded, once the round has committed; call it until no job runs. After stop(), and when
  // nothing lands or leaves any more.
  void decode_some(std::vector<KernelJob>& jobs);
  // Gives the input its bits back (promise S3), after stop() and when nothing runs or lands any more.
  void restore(std::vector<KernelJob>& jobs);

  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return bytes_received_; }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

  // For one that was made of the same arguments. Left out: those, request_, rank_, world_ and stakes_, and what follows from them:
  // encoded_, weight_, total_, pieces_, scratch_offsets_ and own_.
  template <typename Archive>
  void state(Archive& a) {
    a.all(segments_, finals_missing_, granted_, stopped_, own_prepared_, own_ready_, ready_, running_, decoded_,
          bytes_sent_, bytes_received_);
    if constexpr (Archive::kLoads) {
      if (segments_.size() != pieces_.size()) a.fail();
    }
  }

 private:
  static std::optional<Error> refusal_of_blocks(const peer::Request& request, Rank rank,
                                                std::span<const std::uint64_t> blocks);
  enum class Arrival : std::uint8_t { kNotOurs, kExpected, kBackingUp, kLanding, kWorking, kHere };
  enum class Departure : std::uint8_t { kNotOurs, kNotReady, kReady, kSent };
  struct Half {
    Arrival arrival = Arrival::kNotOurs;
    Departure departure = Departure::kNotOurs;
    StripeIndex stripe;          // kSent
    StreamId stream;             // kLanding or kBackingUp: from; kSent: on
    std::uint64_t checksum = 0;  // once kReady or kHere
    bool again = false;          // was sent once, for nothing as far as we know
    template <typename Archive>
    void state(Archive& a) {
      a.all(arrival, departure, stripe, stream, checksum, again);
    }
  };
  struct Segment {
    std::array<Half, 2> half;  // by phase
    bool backed_up = false;
    BufferRef early;  // came before the operation, and lies here instead of in its place
    template <typename Archive>
    void state(Archive& a) {
      a.all(half, backed_up, early);
    }
  };
  enum class Purpose : std::uint8_t { kBackUp, kOwn, kOwnCopy, kArrived, kDecode, kRestore };

  [[nodiscard]] bool in_place(const Piece& piece) const;
  [[nodiscard]] BufferRef input(const Piece& piece) const;  // this rank's contribution
  [[nodiscard]] BufferRef work(const Piece& piece) const;   // where partial sums and finals lie
  // What arrives in a phase, and what departs: all of work(), or as much of it as the encoding takes. A partial sum arrives at its
  // end, so that what is made of it, from the beginning on, never overtakes what is still to be read.
  [[nodiscard]] BufferRef arrival(const Piece& piece, wire::Phase phase) const;
  [[nodiscard]] BufferRef departure(const Piece& piece, wire::Phase phase) const;
  [[nodiscard]] BufferRef backup(const Piece& piece) const;  // in place: the input's copy
  [[nodiscard]] BufferRef result(const Piece& piece) const;  // where the final goes
  [[nodiscard]] static bool partial_has_passed(const Segment& segment);
  void take_back_repeated(std::size_t index);
  [[nodiscard]] bool needs_backup(const Piece& piece, wire::Phase phase, const Segment& segment) const;
  KernelJob& start(std::vector<KernelJob>& jobs, JobKind kind, Purpose purpose, std::size_t index, wire::Phase phase);
  [[nodiscard]] Error not_finite(const Piece& piece, std::uint64_t element, bool of_sum) const;
  void weigh(float total);
  void finish_final(std::size_t index, std::uint64_t checksum);
  void make_ready(std::size_t index, wire::Phase phase, std::uint64_t checksum);
  [[nodiscard]] bool starts_here(const Piece& piece) const;

  const peer::Request& request_;
  Rank rank_;
  std::uint32_t world_;
  std::vector<std::uint64_t> stakes_;
  bool encoded_;
  // Of an average: what the contribution weighs, and all do, scaled by a power of two so that ranks weigh about 1 each: formats have
  // a smallest and a largest number, and were chosen for what is averaged.
  float weight_ = 1;
  float total_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Segment> segments_;
  std::vector<std::uint64_t> scratch_offsets_;  // of each tensor
  std::size_t finals_missing_ = 0;
  bool granted_ = false;
  bool stopped_ = false;

  std::vector<std::uint32_t> own_;   // segments that start here, in order of departure
  std::size_t own_prepared_ = 0;     // of those: handed to a job
  std::size_t own_ready_ = 0;        // prepared (or being prepared) and not departed
  std::deque<std::uint64_t> ready_;  // index * 2 + phase
  std::size_t running_ = 0;
  std::size_t decoded_ = 0;  // pieces of which the result was asked for
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
};

}  // namespace lockstep::ring
