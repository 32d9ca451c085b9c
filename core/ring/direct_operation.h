// Collectives that go direct. The whole of one, an all-reduce, has two phases: every rank sends its contribution to a
// chunk straight to the owner of the chunk; the owner folds all contributions in the order of the ring, and sends the
// result, the final, to all ranks. So an element takes two hops instead of two rounds of the ring, and the result has
// the same bits as around the ring. With a wire format, each contribution is encoded once, and so is the result; the
// owner adds in f32. The others have a part of it:
//   reduce-scatter  contributions only
//   all-gather      finals only: a rank owns its block
//   reduce          contributions, and finals for the root; of few bytes, contributions to the root only
//   broadcast       the root alone contributes; of few bytes, finals of the root only (goes_straight())
// A link between every two ranks is needed.
//
// The contributions of an all-reduce lie in room behind the scratch of the tensors. The pieces of an owner take turns
// in this room: piece p + turns is sent when the final of piece p has arrived. The contributions of a reduce-scatter
// and a reduce lie all in the scratch, where the partial sums of a ring would be; that of a broadcast lies in its
// place.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/base/mutant.h"
#include "core/ring/operation.h"

namespace lockstep::ring {

class DirectOperation final : public Operation {
 public:
  DirectOperation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                  std::vector<std::uint64_t> rank_parameters, Segmenting segmenting);

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
  // arguments: owned_, ordinals_, first_, piece_of_, rooms_, turns_ and root_.
  template <typename Archive>
  void archive(Archive& a) {
    const std::size_t exchanges = exchanges_.size();
    state_of_all(a);
    a.all(exchanges_, finals_, others_, unchecked_, eager_, prepared_, ahead_);
    if constexpr (Archive::kLoads) {
      if (exchanges_.size() != exchanges || finals_.size() != pieces_.size() || others_.size() != world_) a.fail();
    }
  }

 private:
  // The exchange between this rank and another for one piece. If this rank owns the piece, the other's contribution
  // comes in and the final goes out; otherwise our contribution goes out and the final comes in. Either may be
  // kNotOurs.
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
    bool departed = false;  // to a rank, if this rank owns the piece
    std::uint64_t checksum = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(missing, here, departed, checksum);
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
  [[nodiscard]] bool is(wire::Collective collective) const { return request_.collective == collective; }
  // Whether this rank sends the owner of the piece a contribution.
  [[nodiscard]] bool contributes(std::uint32_t rank, std::size_t piece) const;
  // Whether this rank gets the final from the owner of the piece.
  [[nodiscard]] bool gets_final(std::uint32_t rank, std::size_t piece) const;
  // To the pieces that this rank owns.
  [[nodiscard]] bool has_contributions() const {
    return reduces(request_.collective) || (is(wire::Collective::kBroadcast) && rank_.value != root_);
  }
  // Whether the final is a part of this rank's result.
  [[nodiscard]] bool keeps_final(std::size_t piece) const;
  // Whether the final of this piece, which this rank owns, lies where the caller wants a result. Else it lies behind
  // the contributions.
  [[nodiscard]] bool result_has_place(std::size_t piece) const;
  // The root of a broadcast is done once all have launched it: its Done proves that they took part (rule 13).
  [[nodiscard]] bool waits_for_launches() const {
    const bool is_source = is(wire::Collective::kBroadcast) && rank_.value == root_ && !pieces_.empty();
    return is_source && !mutant(Mutant::kRootDoneUnasked);
  }
  void lay_out_rooms(const Segmenting& segmenting);
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
  // The place of a rank in the order in which the contributions to a piece are folded.
  [[nodiscard]] std::uint32_t place_in_fold(std::uint32_t rank, std::size_t piece) const;
  [[nodiscard]] BufferRef room_of(std::size_t piece) const;
  [[nodiscard]] BufferRef final_of(std::size_t piece) const;
  [[nodiscard]] BufferRef landing(std::size_t piece, Rank from) const;
  // Only contributions are sent eagerly. Wherever there are some, a final is ready once the contributions of all ranks
  // are here: all have launched the round, and have memory.
  [[nodiscard]] bool may_go(const Other& other) const {
    return (other.granted || eager_) && !stopped_ && !other.ready.empty();
  }
  void launched(Rank by, std::vector<KernelJob>& jobs);
  void note_launch(Other& other);
  void send_again(std::size_t at);
  void prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs);
  void prepare_finals(std::vector<KernelJob>& jobs);
  void gather(std::size_t index, std::vector<KernelJob>& jobs);
  void copied(const JobName& name, Finished& finished, std::vector<KernelJob>& jobs);
  void arrived(const JobName& name, const JobResult& result, Finished& finished, std::vector<KernelJob>& jobs);
  void complete_final(std::size_t index, std::uint64_t checksum);
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
  std::vector<std::uint64_t> rooms_;     // offset in the scratch of the contributions to each of our pieces
  std::uint64_t turns_ = 0;              // number of pieces that have room at the same time; 0: all
  std::uint32_t root_;

  std::vector<Exchange> exchanges_;
  std::vector<Final> finals_;  // by piece
  std::vector<Other> others_;  // by rank
  // exchanges whose departing segments are to be compared with their checksums before they are sent again
  std::deque<std::uint32_t> unchecked_;
  bool eager_ = false;        // contributions go before their receivers have launched the round
  std::size_t prepared_ = 0;  // our pieces, without contributions, that were handed to a job
  std::size_t ahead_ = 0;     // of those, pieces that have departed to nobody
};

}  // namespace lockstep::ring
