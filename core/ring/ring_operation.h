// The ring algorithm: segments come from the upstream neighbour and go to the downstream neighbour. It supports every
// collective.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/ring/operation.h"

namespace lockstep::ring {

class RingOperation final : public Operation {
 public:
  RingOperation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                std::vector<std::uint64_t> rank_parameters, Segmenting segmenting);

  SegmentPlace begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) override;
  void landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
              std::vector<KernelJob>& jobs) override;
  bool take(Rank from, const wire::Segment& arrived, BufferRef memory, std::uint64_t checksum, StreamId stream,
            std::vector<KernelJob>& jobs) override;
  void stream_closed(StreamId stream) override;
  [[nodiscard]] std::vector<std::uint64_t> have(Rank from) const override;

  bool grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) override;
  [[nodiscard]] bool is_one_small_segment() const override;
  [[nodiscard]] bool sends_partial() const override;
  void grant_eager() override { eager_ = true; }
  void send_partial_again(Rank to, StripeIndex stripe, StreamId stream) override;
  [[nodiscard]] bool has_next() const override { return may_send() && !stopped_ && !ready_.empty(); }
  [[nodiscard]] bool has_next(Rank) const override { return has_next(); }
  std::optional<Outgoing> next(Rank to, StripeIndex stripe, StreamId stream) override;
  void prepare(std::vector<KernelJob>& jobs) override;

  Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) override;

  [[nodiscard]] std::uint64_t result_hash() const override;
  void restore(std::vector<KernelJob>& jobs) override;

  // Restores an operation that was constructed with the same arguments. Left out, because it follows from them: own_.
  template <typename Archive>
  void archive(Archive& a) {
    state_of_all(a);
    a.all(segments_, eager_, asked_, unasked_, own_prepared_, own_ready_, ready_, unchecked_);
    if constexpr (Archive::kLoads) {
      if (segments_.size() != pieces_.size()) a.fail();
    }
  }

 private:
  struct PhaseState {
    Arrival arrival = Arrival::kNotOurs;
    Departure departure = Departure::kNotOurs;
    StripeIndex stripe;          // kSent
    StreamId stream;             // kLanding or kBackingUp: stream that it arrives on; kSent: stream that it was sent on
    std::uint64_t checksum = 0;  // once kReady or kHere
    bool again = false;          // the segment was sent once and is assumed lost
    std::uint8_t corrupt = 0;    // number of arrivals with a wrong checksum
    template <typename Archive>
    void archive(Archive& a) {
      a.all(arrival, departure, stripe, stream, checksum, again, corrupt);
    }
  };
  struct Segment {
    std::array<PhaseState, 2> phases;  // by phase
    bool backed_up = false;
    bool final_began = false;  // the final has overwritten a part of the partial sum, or all of it
    std::uint8_t checks = 0;   // running checks of the partial sum: the final must not overwrite it
    BufferRef early;           // memory of a segment that arrived before the operation was constructed
    template <typename Archive>
    void archive(Archive& a) {
      a.all(phases, backed_up, final_began, checks, early);
    }
  };

  // The downstream neighbour has memory for our segments.
  [[nodiscard]] bool may_send() const { return asked_ || eager_; }
  void back_up(std::size_t index, wire::Phase phase, std::vector<KernelJob>& jobs);
  [[nodiscard]] JobWork verification(std::size_t index, std::uint64_t checksum) const;
  [[nodiscard]] JobWork addition(std::size_t index, std::uint64_t checksum) const;
  [[nodiscard]] Rank upstream() const { return Rank{(rank_.value + world_ - 1) % world_}; }
  [[nodiscard]] static bool partial_has_passed(const Segment& segment);
  void take_back_repeated(std::size_t index);
  [[nodiscard]] BufferRef payload(std::size_t index, wire::Phase phase) const;  // of a departing segment
  void send_again(std::size_t index, wire::Phase phase);
  void check_segment(std::size_t index, wire::Phase phase, std::vector<KernelJob>& jobs);
  void check_known(std::vector<KernelJob>& jobs) override;
  Finished check_done(std::size_t index, wire::Phase phase, const JobResult& result, std::vector<KernelJob>& jobs);
  void place_final(std::size_t index, Finished& finished, std::vector<KernelJob>& jobs);
  [[nodiscard]] bool needs_backup(const Piece& piece, wire::Phase phase, const Segment& segment) const;
  void finish_final(std::size_t index, std::uint64_t checksum);
  void make_ready(std::size_t index, wire::Phase phase, std::uint64_t checksum);
  [[nodiscard]] bool starts_here(const Piece& piece) const;

  std::vector<Segment> segments_;
  bool eager_ = false;               // without being asked
  bool asked_ = false;               // the downstream neighbour has said Ready
  bool unasked_ = false;             // our partial sum went before that, and that Ready does not name it
  std::vector<std::uint32_t> own_;   // segments that start at this rank, in order of departure
  std::size_t own_prepared_ = 0;     // own segments that were handed to a job
  std::size_t own_ready_ = 0;        // own segments that are prepared or being prepared, and have not departed
  std::deque<std::uint64_t> ready_;  // index * 2 + phase
  // index * 2 + phase of segments that are to be compared with their checksums before they are sent again
  std::deque<std::uint64_t> unchecked_;
};

}  // namespace lockstep::ring
