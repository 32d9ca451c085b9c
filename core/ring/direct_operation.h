// The direct all-reduce, in two phases. Every rank sends its contribution to a chunk straight to the owner of the
// chunk. The owner folds all contributions in the order of the ring, and sends the result to all ranks. So an element
// takes two hops instead of two rounds of the ring, and the result has the same bits as around the ring. With a wire
// format, each contribution is encoded once, and so is the result; the owner adds in f32. The direct algorithm needs a
// link between every two ranks.
//
// Contributions lie in room behind the scratch of the tensors. The pieces of an owner take turns in this room: piece p
// + turns is sent when the final of piece p has arrived.
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
  DirectOperation(const Request& request, Rank rank, std::uint32_t world, std::vector<std::uint64_t> rank_parameters,
                  Segmenting segmenting);

  Place begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) override;
  void landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
              std::vector<KernelJob>& jobs) override;
  bool take(Rank from, const wire::Segment& arrived, BufferRef memory, std::uint64_t checksum, StreamId stream,
            std::vector<KernelJob>& jobs) override;
  void stream_closed(StreamId stream) override;
  [[nodiscard]] std::vector<std::uint64_t> have(Rank from) const override;

  bool grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) override;
  void grant_eager() override { eager_ = true; }
  void send_partial_again(Rank to, StripeIndex stripe, StreamId stream) override;
  [[nodiscard]] std::uint32_t eager_segments() const override;
  [[nodiscard]] bool has_next() const override;
  [[nodiscard]] bool has_next(Rank to) const override;
  std::optional<Outgoing> next(Rank to, StripeIndex stripe, StreamId stream) override;
  void prepare(std::vector<KernelJob>& jobs) override;

  Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) override;

  [[nodiscard]] std::uint64_t result_hash() const override;

  // Restores an operation that was constructed with the same arguments. Left out, because they follow from the
  // arguments: owned_, ordinals_, first_, piece_of_, room_each_ and turns_.
  template <typename Archive>
  void archive(Archive& a) {
    const std::size_t exchanges = exchanges_.size();
    state_of_all(a);
    a.all(exchanges_, finals_, others_, unchecked_, eager_);
    if constexpr (Archive::kLoads) {
      if (exchanges_.size() != exchanges || finals_.size() != pieces_.size() || others_.size() != world_) a.fail();
    }
  }

 private:
  // The exchange between this rank and another for one piece. If this rank owns the piece, the other's contribution
  // comes in and the final goes out; otherwise our contribution goes out and the final comes in.
  struct Exchange {
    Arrival arrival = Arrival::kExpected;
    Departure departure = Departure::kNotReady;
    StripeIndex stripe;          // kSent
    StreamId from;               // kLanding, and until the segment has been verified
    StreamId on;                 // kSent
    std::uint64_t checksum = 0;  // checksum of the departing segment, once kReady
    std::uint64_t stated = 0;    // checksum of a contribution that came early, while it is copied into the room
    bool again = false;          // the segment was sent once and is assumed lost
    bool eager = false;          // it was sent before its receiver had granted it
    bool final_began = false;    // the final may have overwritten a part of the contribution
    std::uint8_t checks = 0;     // running checks of the departing segment: the final must not overwrite it
    std::uint8_t corrupt = 0;    // number of arrivals with a wrong checksum
    template <typename Archive>
    void archive(Archive& a) {
      a.all(arrival, departure, stripe, from, on, checksum, stated, again, eager, final_began, checks, corrupt);
    }
  };
  struct Final {
    std::uint32_t missing = 0;  // missing contributions, if this rank owns the piece
    bool here = false;
    std::uint64_t checksum = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(missing, here, checksum);
    }
  };
  struct Other {
    bool granted = false;
    std::size_t prepared = 0;         // contributions to its pieces that were handed to a job
    std::size_t ahead = 0;            // of those, contributions that have not departed
    std::deque<std::uint32_t> ready;  // indices of exchanges
    template <typename Archive>
    void archive(Archive& a) {
      a.all(granted, prepared, ahead, ready);
    }
  };

  [[nodiscard]] bool is_mine(std::size_t piece) const { return pieces_[piece].owner == rank_.value; }
  // The distance in ring order, counted from the rank behind this one.
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
  // A final is ready once the contributions of all ranks are here: all have launched the round, and have memory.
  [[nodiscard]] bool may_go(const Other& other) const {
    return (other.granted || eager_) && !stopped_ && !other.ready.empty();
  }
  void launched(Rank by, std::vector<KernelJob>& jobs);
  void send_again(std::size_t at);
  void prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs);
  void gather(std::size_t index, std::vector<KernelJob>& jobs);
  void make_ready(std::size_t at, std::uint64_t checksum);
  [[nodiscard]] JobWork verification(std::size_t piece, wire::Phase phase, BufferRef memory,
                                     std::uint64_t checksum) const;
  void finish_final(std::size_t piece, std::uint64_t checksum);
  void take_back_repeated(std::size_t at);
  [[nodiscard]] BufferRef payload(std::size_t exchange) const;  // of the departing segment
  void check_exchange(std::size_t at, std::vector<KernelJob>& jobs);
  void check_known(std::vector<KernelJob>& jobs) override;
  Finished check_done(std::size_t at, const JobResult& result);

  std::vector<std::vector<std::uint32_t>> owned_;  // pieces of each rank, in order
  std::vector<std::uint32_t> ordinals_;            // of each piece: its index among the pieces of its owner
  // first exchange of each piece; an owner has one exchange with each other rank, in ring order
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> piece_of_;  // piece of each exchange
  std::uint64_t room_each_ = 0;          // bytes of room for the contributions to one piece
  std::uint64_t turns_ = 0;              // number of pieces that have room at the same time

  std::vector<Exchange> exchanges_;
  std::vector<Final> finals_;  // by piece
  std::vector<Other> others_;  // by rank
  // exchanges whose departing segments are to be compared with their checksums before they are sent again
  std::deque<std::uint32_t> unchecked_;
  bool eager_ = false;  // contributions go before their receivers have launched the round
};

}  // namespace lockstep::ring
