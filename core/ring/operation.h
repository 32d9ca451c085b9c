// One attempt of one collective on one rank: which segments are expected, which are ready to send, which jobs to run,
// and when the result is complete. Emits jobs. Never sees a stream, a clock or a tensor byte. Owned by peer::Rounds;
// each attempt has its own operation. Three classes implement it: the ring (ring_operation.h), the direct all-reduce
// (direct_operation.h), and blocks that go straight to their receivers (exchange_operation.h). Rules
// of docs/protocol.md: a segment arrives only where memory waits for it (rule 10), and is folded once, however often it
// arrives (rule 31).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/kernels/job.h"
#include "core/ring/request.h"
#include "core/ring/schedule.h"
#include "core/ring/under_way.h"
#include "core/wire/message.h"

namespace lockstep::ring {

// The sum of the weights of all contributions; each weight is given as the bits of an f32.
float total_weight(std::span<const std::uint64_t> weights);

class Operation {
 public:
  // Constructs the operation that the request asks for. `rank_parameters` holds those of all ranks, for a collective
  // with rank parameters (wire::RankParameter). The request outlives the operation.
  static std::unique_ptr<Operation> of(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                                       std::vector<std::uint64_t> rank_parameters, Segmenting segmenting);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // The reason why this operation cannot run on this peer (for example a receive buffer that is too small), or nothing.
  // Called before the operation is constructed: its memory might not fit its pieces, and listing the pieces might take
  // seconds.
  [[nodiscard]] static std::optional<Error> validate(const Request& request, Rank rank, std::uint32_t world,
                                                     std::uint32_t root, std::span<const std::uint64_t> rank_parameters,
                                                     Segmenting segmenting);

  // ---- receiving, from a rank that sends to this one ----

  enum class Landing { kPlace, kLater, kSink, kNonsense };
  struct SegmentPlace {
    Landing landing = Landing::kSink;
    BufferRef into;  // kPlace
  };
  // A segment begins on `stream`. kLater: a job must finish first; then job_done() names the stream. kSink: the segment
  // is here already, or is arriving on another stream (rule 31). kNonsense: the sender violates the protocol.
  virtual SegmentPlace begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) = 0;
  // The payload is complete, or its sender withdrew it.
  virtual void landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
                      std::vector<KernelJob>& jobs) = 0;
  // Accepts a whole segment that arrived before this operation was constructed. The segment stays at `memory` until
  // job_done() names it in `used_early`, or the operation is over. Returns false if the segment is not expected. If the
  // checksum turns out to be wrong, job_done() names `stream`.
  virtual bool take(Rank /*from*/, const wire::Segment& /*arrived*/, BufferRef /*memory*/, std::uint64_t /*checksum*/,
                    StreamId /*stream*/, std::vector<KernelJob>& /*jobs*/) {
    return false;
  }
  // The root of a broadcast in a grid learns from relays which ranks have launched the round (rule 59).
  [[nodiscard]] virtual bool has_launched(Rank /*rank*/) const { return false; }
  virtual void learn_launch(Rank /*rank*/) {}
  // The stream is closed; the segment that was arriving on it is lost.
  virtual void stream_closed(StreamId stream) = 0;
  // Rule 31: the segments of this rank that have arrived, as Ready reports them: one bit per segment, first reduce-
  // scatter, then all-gather.
  [[nodiscard]] virtual std::vector<std::uint64_t> have(Rank from) const = 0;

  // ---- sending ----

  // That rank has memory for all segments that we send to it, except those in `have`. Segments that were sent on an
  // earlier stream of this stripe and are missing in `have` are sent again. Returns false if `have` does not hold one
  // bit for each of our segments.
  virtual bool grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) = 0;
  // Rule 10: whether the call is one segment so small that the downstream neighbour has memory for it before it
  // launches the round. sends_partial(): whether our own segment may arrive before that launch; a final never does.
  // Invariant: rank 0 owns such a segment, so that ranks whose arguments differ still exchange their arguments.
  [[nodiscard]] virtual bool is_one_small_segment() const { return false; }
  [[nodiscard]] virtual bool sends_partial() const { return false; }
  // The neighbour has that memory. A segment sent on an earlier stream of this stripe is sent again, unless the final
  // comes first and proves that the segment has arrived.
  virtual void grant_eager() {}
  virtual void send_partial_again(Rank /*to*/, StripeIndex /*stripe*/, StreamId /*stream*/) {}
  // Direct: the most segments that a rank would get from this one after grant_eager(), before it has launched the
  // round; 0: they are too large, or more than there is room for.
  [[nodiscard]] virtual std::uint32_t eager_segments() const { return 0; }
  struct Outgoing {
    wire::Phase phase{};
    SegmentIndex index;
    BufferRef payload;
    std::uint64_t checksum = 0;
    bool eager = false;  // the receiver has not granted it: an Offer goes before it
  };
  // Whether next() would return a segment: for any rank, or for this rank, which we send to.
  [[nodiscard]] virtual bool has_next() const = 0;
  [[nodiscard]] virtual bool has_next(Rank to) const = 0;
  // The next segment to send on this stream; nothing if no segment is ready.
  virtual std::optional<Outgoing> next(Rank to, StripeIndex stripe, StreamId stream) = 0;
  // Without a limit: as many contributions as the owners have room for.
  virtual void limit(const UnderWay& /*most*/) {}
  // Starts jobs that prepare own segments for next().
  virtual void prepare(std::vector<KernelJob>& jobs) = 0;

  // ---- jobs ----

  struct Finished {
    bool corrupt = false;  // the received segment has a wrong checksum: reset `stream`, on which `from` sent it
    StreamId stream;
    Rank from;
    std::optional<Rank> suspect;        // of `fault`: the rank that sent what is wrong, if its host may be at fault
    std::optional<StreamId> placeable;  // a stream whose segment waited for this job; the segment goes to `place`
    BufferRef place;
    struct Early {
      Rank from;
      SegmentIndex index;
    };
    std::optional<Early> used_early;  // the memory given to take() for this segment is no longer read
    // ends the round: an element that cannot be encoded, received bytes that are not a valid encoding, or memory that
    // changed during the call
    std::optional<Error> fault;
  };
  virtual Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) = 0;

  // ---- ending ----

  // The whole result has arrived: this rank is done (rule 12).
  [[nodiscard]] bool complete() const { return finals_missing_ == 0; }
  // The hash of the result that Done carries (rule 12), equal on every peer; 0 for a reduce-scatter, whose results
  // differ.
  [[nodiscard]] virtual std::uint64_t result_hash() const = 0;
  // Starts nothing new. Running jobs still have to answer.
  void stop() { stopped_ = true; }
  [[nodiscard]] std::size_t jobs_running() const { return running_; }
  // After the round has committed: decodes the result and updates the residuals, or copies the result from the scratch,
  // where the input was kept. Call it until no job runs. Allowed only after stop() and when no segment is arriving or
  // departing.
  void decode_some(std::vector<KernelJob>& jobs);
  // The first piece of the result that could not be decoded, although it was a valid encoding when it was ready.
  [[nodiscard]] std::optional<Error> damage() const;
  // Restores the input (rule 16). Allowed only after stop() and when no job runs and no segment is arriving.
  virtual void restore(std::vector<KernelJob>& /*jobs*/) {}

  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return bytes_received_; }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

 protected:
  Operation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
            std::vector<std::uint64_t> rank_parameters, Segmenting segmenting);

  // Own segments to one other rank that are hashed or encoded before their departure: enough to keep every stripe busy,
  // few enough to stay in cache.
  static constexpr std::size_t kPreparedAhead = 4;

  // Rule 35: a segment that was damaged on the way is sent again. A segment that arrives this often with a wrong
  // checksum was not damaged on the way.
  static constexpr std::uint8_t kMostCorrupt = 3;
  // The most segments that a receiver of wrong segments compares with their checksums: 1 GiB of large segments.
  static constexpr std::size_t kMostChecked = 4096;

  enum class Arrival : std::uint8_t { kNotOurs, kExpected, kBackingUp, kLanding, kWorking, kHere };
  // kChecking: a segment that was sent is compared with its checksum before it is sent again.
  enum class Departure : std::uint8_t { kNotOurs, kNotReady, kReady, kSent, kChecking };

  // A job's token names the purpose of the job. The owner of the operation adds the operation's own id.
  enum class Purpose : std::uint8_t {
    kBackUp,
    kOwn,
    kOwnCopy,
    kArrived,
    kGather,
    kUpdateResidual,
    kDecode,
    kRestore,
    kCheck
  };
  struct JobName {
    std::size_t index = 0;  // index in a list of the operation
    wire::Phase phase{};
    Purpose purpose{};
    [[nodiscard]] JobToken token() const;
    static JobName of(JobToken token);
  };
  void start(std::vector<KernelJob>& jobs, const JobName& name, const JobWork& work);

  static constexpr std::size_t index_of(wire::Phase phase) { return phase == wire::Phase::kReduceScatter ? 0 : 1; }

  // Refuses more segments than a round may have.
  static std::optional<Error> validate_segments(std::uint64_t segments);
  // Refuses memory of `room` bytes that is too small for all blocks (sizes in bytes, which may be lies).
  static std::optional<Error> validate_room(std::uint64_t room, std::span<const std::uint64_t> blocks);

  // `have` as Ready reports it: one bit for each segment of both phases, or no words if no segment has arrived.
  [[nodiscard]] bool can_be_have(std::span<const std::uint64_t> have) const;
  // No words, or as many as hold these bits, and no bit behind them.
  [[nodiscard]] static bool is_bit_set(std::span<const std::uint64_t> words, std::size_t bits);
  [[nodiscard]] static bool has_bit(std::span<const std::uint64_t> words, std::size_t bit);
  static void add_bit(std::vector<std::uint64_t>& words, std::size_t bit, std::size_t bits);
  [[nodiscard]] bool has(std::span<const std::uint64_t> have, wire::Phase phase, std::size_t piece) const;
  void add_to(std::vector<std::uint64_t>& have, wire::Phase phase, std::size_t piece) const;

  // A premultiplied sum of one rank is computed, too: everything else that is alone is copied.
  [[nodiscard]] bool multiplies_alone() const {
    return world_ == 1 && request_.weight.has_value() && request_.op == ReduceOp::kSum;
  }
  // The number of elements of an encoded piece.
  [[nodiscard]] static std::uint64_t elements_of(const Piece& piece) { return piece.length / sizeof(float); }
  [[nodiscard]] bool in_place(const Piece& piece) const;
  [[nodiscard]] BufferRef input(const Piece& piece) const;  // this rank's contribution
  [[nodiscard]] BufferRef work(const Piece& piece) const;   // memory of partial sums and finals
  // The memory of an arriving or departing segment: all of work(), or the part that the encoding needs. An arriving
  // partial sum is at the end of work(). So a result that is written from the beginning never overtakes the bytes that
  // are still to be read.
  [[nodiscard]] BufferRef arrival(const Piece& piece, wire::Phase phase) const;
  [[nodiscard]] BufferRef departure(const Piece& piece, wire::Phase phase) const;
  [[nodiscard]] BufferRef backup(const Piece& piece) const;  // in place: the copy of the input
  [[nodiscard]] BufferRef result(const Piece& piece) const;  // destination of the final
  // residual that is added to the input; empty if there is none
  [[nodiscard]] BufferRef residual(const Piece& piece) const;
  bool update_residual(std::size_t piece,
                       std::vector<KernelJob>& jobs);  // updates the residual; false if there is none
  void decode(std::size_t piece, std::vector<KernelJob>& jobs);
  void decoded(std::size_t piece, const JobResult& result);
  // A piece that was verified is no valid encoding any more. `what` names it.
  [[nodiscard]] static Error changed(const Piece& piece, std::string_view what);
  // A copy has a wrong checksum: request the segment again, at most `count` times. After that this rank compares what
  // it knows of its own memory, and the round ends; further wrong copies are dropped without resetting their stream.
  void take_corrupt(Finished& finished, std::uint8_t& count, const Piece& piece, wire::Phase phase, Rank from,
                    std::vector<KernelJob>& jobs);
  // Compares memory, whose checksum is known, with that checksum.
  void check(const JobName& name, BufferRef memory, std::uint64_t checksum, std::vector<KernelJob>& jobs);
  // Starts check() for segments that this rank has sent, or has verified, and that nothing overwrites meanwhile.
  virtual void check_known(std::vector<KernelJob>& jobs) = 0;
  // A job of check() has answered. Returns whether the memory is as it was.
  bool checked(Finished& finished, const Piece& piece, const JobResult& result);
  [[nodiscard]] Error not_finite(const Piece& piece, std::uint64_t element, bool of_sum) const;

  // Left out: the arguments of the constructor and the fields that follow from them.
  template <typename Archive>
  void state_of_all(Archive& a) {
    a.all(finals_missing_, stopped_, running_, decoded_, damaged_, checks_, given_up_, given_up_from_, bytes_sent_,
          bytes_received_);
  }

  const Request& request_;
  Rank rank_;
  std::uint32_t world_;
  std::vector<std::uint64_t> rank_parameters_;
  bool encoded_;
  bool keeps_input_;  // until the round has committed: in place, the result lies in the scratch until then
  // Average: the weight of this rank's contribution, and the total weight, scaled by a power of two so that a weight is
  // about 1. A wire format has a smallest and a largest number, and the format was chosen for the unscaled data.
  float weight_ = 1;
  float total_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> scratch_offsets_;  // offset of each tensor's scratch, and of the room behind them
  std::size_t finals_missing_ = 0;
  bool stopped_ = false;
  std::size_t running_ = 0;
  std::size_t decoded_ = 0;             // number of pieces whose decoding has begun
  std::optional<std::size_t> damaged_;  // the piece of damage()
  std::size_t checks_ = 0;              // jobs of check() that run
  std::string given_up_;                // why a segment is not requested any more; empty if none is
  Rank given_up_from_;                  // the rank that sent it
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;

 private:
  // "tensor 0, chunk 2, from byte 4096: "
  static std::string place_of(const Piece& piece);
  void give_up(Finished& finished);
  static std::optional<Error> validate_blocks(const Request& request, Rank rank, std::span<const std::uint64_t> blocks);
  static std::optional<Error> validate_exchanges(const Request& request, Rank rank, std::uint32_t world,
                                                 std::uint32_t root, std::span<const std::uint64_t> rank_parameters,
                                                 const Segmenting& segmenting);
  // All segments of the call; equal on every rank.
  static std::vector<Piece> pieces_of(const Request& request, std::uint32_t world, std::uint32_t root,
                                      std::span<const std::uint64_t> rank_parameters, Segmenting segmenting);
  void weigh(float total);
};

}  // namespace lockstep::ring
