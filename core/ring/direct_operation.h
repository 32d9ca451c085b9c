// The direct form of an all-reduce, in two phases: every rank encodes its part of a chunk once and sends it straight to
// the chunk's owner, who adds them all up in f32, in ring order, encodes the result once, and sends it to everybody.
// Two hops instead of two times around, and contributions are rounded once; it takes links between every two.
//
// Contributions lie in room behind the scratch of the tensors, where the pieces of an owner take turns: the one that is
// so many pieces later goes when this one's final has come.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/ring/operation.h"

namespace lockstep::ring {

class DirectOperation final : public Operation {
 public:
  DirectOperation(const peer::Request& request, Rank rank, std::uint32_t world, std::vector<std::uint64_t> stakes,
                  Segmenting segmenting);

  Place begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) override;
  void landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
              std::vector<KernelJob>& jobs) override;
  void stream_closed(StreamId stream) override;
  [[nodiscard]] std::vector<std::uint64_t> have(Rank from) const override;

  bool grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) override;
  [[nodiscard]] bool has_next() const override;
  [[nodiscard]] bool has_next(Rank to) const override;
  std::optional<Outgoing> next(Rank to, StripeIndex stripe, StreamId stream) override;
  void prepare(std::vector<KernelJob>& jobs) override;

  Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) override;

  [[nodiscard]] std::uint64_t result_hash() const override;

  // For one that was made of the same arguments. Left out: what follows from those, owned_, ordinals_, first_,
  // piece_of_, room_each_ and turns_.
  template <typename Archive>
  void state(Archive& a) {
    const std::size_t exchanges = exchanges_.size();
    state_of_all(a);
    a.all(exchanges_, finals_, others_);
    if constexpr (Archive::kLoads) {
      if (exchanges_.size() != exchanges || finals_.size() != pieces_.size() || others_.size() != world_) a.fail();
    }
  }

 private:
  // What goes between this rank and another for one piece: its contribution to us and the final back, or ours to it and
  // back.
  struct Exchange {
    Arrival arrival = Arrival::kExpected;
    Departure departure = Departure::kNotReady;
    StripeIndex stripe;          // kSent
    StreamId from;               // kLanding, and until it has been checked
    StreamId on;                 // kSent
    std::uint64_t checksum = 0;  // of what departs, once kReady
    bool again = false;          // was sent once, for nothing as far as we know
    std::uint8_t corrupt = 0;    // arrivals with a checksum that is not theirs
    template <typename Archive>
    void state(Archive& a) {
      a.all(arrival, departure, stripe, from, on, checksum, again, corrupt);
    }
  };
  struct Final {
    std::uint32_t missing = 0;  // contributions, where this rank owns the piece
    bool here = false;
    std::uint64_t checksum = 0;
    template <typename Archive>
    void state(Archive& a) {
      a.all(missing, here, checksum);
    }
  };
  struct Other {
    bool granted = false;
    std::size_t prepared = 0;         // contributions to its pieces that were handed to a job
    std::size_t ahead = 0;            // of those: not departed
    std::deque<std::uint32_t> ready;  // exchanges
    template <typename Archive>
    void state(Archive& a) {
      a.all(granted, prepared, ahead, ready);
    }
  };

  [[nodiscard]] bool is_mine(std::size_t piece) const { return pieces_[piece].owner == rank_.value; }
  // In the order of the ring, from the one behind us on.
  [[nodiscard]] std::uint32_t hop_of(Rank other) const { return (other.value + world_ - rank_.value - 1) % world_; }
  [[nodiscard]] std::size_t exchange_of(std::size_t piece, Rank other) const {
    return first_[piece] + (is_mine(piece) ? hop_of(other) : 0);
  }
  [[nodiscard]] Rank other_of(std::size_t exchange) const;
  [[nodiscard]] static wire::Phase phase_to(bool owner) {
    return owner ? wire::Phase::kReduceScatter : wire::Phase::kAllGather;
  }
  [[nodiscard]] bool in_turn(std::size_t piece) const;
  [[nodiscard]] BufferRef room_of(std::size_t piece) const;
  [[nodiscard]] BufferRef landing(std::size_t piece, Rank from) const;
  [[nodiscard]] bool may_go(const Other& other) const { return other.granted && !stopped_ && !other.ready.empty(); }
  void prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs);
  void gather(std::size_t index, std::vector<KernelJob>& jobs);
  void make_ready(std::size_t at, std::uint64_t checksum);
  void finish_final(std::size_t piece, std::uint64_t checksum);
  void take_back_repeated(std::size_t at);

  std::vector<std::vector<std::uint32_t>> owned_;  // pieces of each rank, in order
  std::vector<std::uint32_t> ordinals_;            // of each piece: its place among those
  std::vector<std::uint32_t> first_;     // exchange of each piece; an owner has one with each other, in ring order
  std::vector<std::uint32_t> piece_of_;  // of each exchange
  std::uint64_t room_each_ = 0;          // for the contributions to a piece
  std::uint64_t turns_ = 0;              // pieces that have room at once

  std::vector<Exchange> exchanges_;
  std::vector<Final> finals_;  // of each piece
  std::vector<Other> others_;  // by rank
};

}  // namespace lockstep::ring
