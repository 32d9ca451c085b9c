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
// In a grid the same goes in two steps (grid.h): contributions pass a relay, which folds those of its row, and finals
// come back by it. To a piece, a rank has one parent, unless it owns the piece, and children, if it is the owner or a
// relay. Direct, the owner is the parent of all others. The relay that passes on what the root of a broadcast
// contributes has the final by that; a relay between an owner and the root of a reduce has the final in passing.
//
// The contributions of an all-reduce lie in room behind the scratch of the tensors. The pieces of a lane, those of the
// owners of one column, take turns in this room: piece p + turns is sent when the final of piece p has arrived. Direct,
// each owner has a lane of its own. The contributions of a reduce-scatter and a reduce lie all in the scratch, where
// the partial sums of a ring would be; that of a broadcast lies in its place.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/base/mutant.h"
#include "core/ring/grid.h"
#include "core/ring/operation.h"

namespace lockstep::ring {

class DirectOperation final : public Operation {
 public:
  DirectOperation(const Request& request, Rank rank, std::uint32_t world, std::uint32_t root,
                  std::vector<std::uint64_t> rank_parameters, Segmenting segmenting);

  SegmentPlace begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) override;
  void landed(Rank from, const wire::Segment& arrived, bool taken_back, std::uint64_t checksum,
              std::vector<KernelJob>& jobs) override;
  bool take(Rank from, const wire::Segment& arrived, BufferRef memory, std::uint64_t checksum, StreamId stream,
            std::vector<KernelJob>& jobs) override;
  [[nodiscard]] bool has_launched(Rank rank) const override { return others_[rank.value].granted; }
  void learn_launch(Rank rank) override { note_launch(others_[rank.value]); }
  void stream_closed(StreamId stream) override;
  [[nodiscard]] std::vector<std::uint64_t> have(Rank from) const override;

  bool grant(Rank by, std::span<const std::uint64_t> have, StripeIndex stripe, StreamId stream) override;
  void grant_eager() override { eager_ = true; }
  void send_partial_again(Rank to, StripeIndex stripe, StreamId stream) override;
  [[nodiscard]] std::uint32_t eager_segments() const override;
  [[nodiscard]] bool has_next() const override;
  [[nodiscard]] bool has_next(Rank to) const override;
  std::optional<Outgoing> next(Rank to, StripeIndex stripe, StreamId stream) override;
  void limit(const UnderWay& most) override;
  void prepare(std::vector<KernelJob>& jobs) override;

  Finished job_done(JobToken token, const JobResult& result, std::vector<KernelJob>& jobs) override;

  [[nodiscard]] std::uint64_t result_hash() const override;

  // Restores an operation that was constructed with the same arguments. Left out, because they follow from the
  // arguments: grid_, owned_, lanes_, ordinals_, first_, piece_of_, rooms_, turns_, root_ and
  // segments_in_one_.
  template <typename Archive>
  void archive(Archive& a) {
    const std::size_t exchanges = exchanges_.size();
    state_of_all(a);
    a.all(exchanges_, finals_, others_, unchecked_, under_way_, eager_, prepared_, ahead_);
    if constexpr (Archive::kLoads) {
      if (exchanges_.size() != exchanges || finals_.size() != pieces_.size() || others_.size() != world_) a.fail();
    }
  }

 private:
  // The exchange between this rank and another for one piece. From a child a contribution comes in, and the final goes
  // out; to the parent a contribution goes out, and the final comes in. Either may be kNotOurs.
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
    std::uint32_t missing = 0;  // contributions of children
    bool folded = false;        // with our own
    bool here = false;
    bool departed = false;  // to a rank, if this rank owns the piece
    std::uint64_t checksum = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(missing, folded, here, departed, checksum);
    }
  };
  struct Other {
    bool granted = false;
    std::size_t prepared = 0;         // contributions that it collects from this rank, and that were handed to a job
    std::size_t ahead = 0;            // of those, contributions that have not departed
    std::size_t finals = 0;           // that have arrived from it
    std::size_t window = 0;           // contributions that may be under way to it at once; 0: any number
    std::deque<std::uint32_t> ready;  // indices of exchanges
    template <typename Archive>
    void archive(Archive& a) {
      a.all(granted, prepared, ahead, finals, window, ready);
    }
  };

  [[nodiscard]] bool is_mine(std::size_t piece) const { return pieces_[piece].owner == rank_.value; }
  [[nodiscard]] bool is(wire::Collective collective) const { return request_.collective == collective; }
  [[nodiscard]] bool collects(std::size_t piece) const { return grid_.collects(rank_.value, pieces_[piece].owner); }
  [[nodiscard]] std::uint32_t children(std::size_t piece) const {
    return grid_.children(rank_.value, pieces_[piece].owner);
  }
  // Of a piece that this rank does not own.
  [[nodiscard]] Rank parent(std::size_t piece) const { return Rank{grid_.parent(rank_.value, pieces_[piece].owner)}; }
  [[nodiscard]] bool is_parent(Rank other, std::size_t piece) const {
    return !is_mine(piece) && parent(piece) == other;
  }
  [[nodiscard]] bool is_child(Rank other, std::size_t piece) const {
    return grid_.index_of_child(rank_.value, pieces_[piece].owner, other.value).has_value();
  }
  // Whether this rank contributes to the piece, by its parent.
  [[nodiscard]] bool contributes(std::uint32_t rank, std::size_t piece) const;
  // Whether that is this rank's own contribution, and not what it has collected.
  [[nodiscard]] bool contributes_own(std::size_t piece) const {
    return contributes(rank_.value, piece) &&
           (is(wire::Collective::kBroadcast) ? rank_.value == root_ : !collects(piece));
  }
  // Whether this rank stands between the root and the owner of a piece.
  [[nodiscard]] bool is_before_root(std::uint32_t rank, std::size_t piece) const {
    const std::uint32_t owner = pieces_[piece].owner;
    return root_ != owner && rank != owner && grid_.parent(root_, owner) == rank;
  }
  // Whether this rank gets the final of the piece from its parent.
  [[nodiscard]] bool gets_final(std::uint32_t rank, std::size_t piece) const;
  // The pieces whose contributions `parent` collects from `child`.
  [[nodiscard]] std::span<const std::uint32_t> pieces_between(std::uint32_t parent, std::uint32_t child) const;
  // The lane of a piece: the place in its row of the rank that collects it there.
  [[nodiscard]] std::uint32_t lane_of(std::size_t piece) const {
    return grid_.column_of(grid_.relay(grid_.row_of(rank_.value), pieces_[piece].owner));
  }
  // Calls visit(piece, whether it is the parent) for all pieces of which this other rank is a child or the parent.
  template <typename Visit>
  void for_each_between(Rank other, const Visit& visit) const {
    for (const std::uint32_t piece : pieces_between(rank_.value, other.value)) visit(piece, false);
    for (const std::uint32_t piece : pieces_between(other.value, rank_.value)) visit(piece, true);
  }
  // Others contribute to the pieces that this rank owns.
  [[nodiscard]] bool has_contributions() const {
    return reduces(request_.collective) || (is(wire::Collective::kBroadcast) && rank_.value != root_);
  }
  // Whether the final is a part of this rank's result.
  [[nodiscard]] bool keeps_final(std::size_t piece) const;
  // Whether the final of this piece, of which this rank is the owner or a relay, lies where the caller wants a result.
  // Else it lies behind the contributions, like the sum of a relay.
  [[nodiscard]] bool result_has_place(std::size_t piece) const;
  // The root of a broadcast is done once all have launched it: its Done proves that they took part (rule 13).
  [[nodiscard]] bool waits_for_launches() const {
    const bool is_source = is(wire::Collective::kBroadcast) && rank_.value == root_ && !pieces_.empty();
    return is_source && !mutant(Mutant::kRootDoneUnasked);
  }
  void lay_out_rooms(const Segmenting& segmenting);
  // Of this rank with a child, or with its parent: that is the last one of a piece.
  [[nodiscard]] std::size_t exchange_with_child(std::size_t piece, Rank child) const;
  [[nodiscard]] std::size_t exchange_with_parent(std::size_t piece) const { return first_[piece] + children(piece); }
  [[nodiscard]] std::size_t exchange_with(std::size_t piece, Rank other) const {
    return is_parent(other, piece) ? exchange_with_parent(piece) : exchange_with_child(piece, other);
  }
  [[nodiscard]] bool is_with_parent(std::size_t exchange) const {
    return exchange - first_[piece_of_[exchange]] == children(piece_of_[exchange]);
  }
  [[nodiscard]] Rank other_of(std::size_t exchange) const;
  [[nodiscard]] static wire::Phase phase_to(bool parent) {
    return parent ? wire::Phase::kReduceScatter : wire::Phase::kAllGather;
  }
  // Whether a parent has room for a contribution to this piece; and whether this rank, a parent, has.
  [[nodiscard]] bool in_turn(std::size_t piece) const;
  [[nodiscard]] bool has_room_for(std::size_t piece) const;
  [[nodiscard]] std::optional<std::size_t> before_in_room(std::size_t piece) const;
  // Direct: the place of a rank in the order in which the contributions to a piece are folded.
  [[nodiscard]] std::uint32_t place_in_fold(std::uint32_t rank, std::size_t piece) const;
  // How many contributions this rank folds before its own.
  [[nodiscard]] std::uint32_t before_own(std::size_t piece) const {
    if (!is_mine(piece) && mutant(Mutant::kRelayFoldsOwnFirst)) return 0;
    return is_direct() ? place_in_fold(rank_.value, piece) : children(piece);
  }
  [[nodiscard]] bool is_direct() const { return grid_.rows() == 1; }
  [[nodiscard]] BufferRef room_of(std::size_t piece) const;
  [[nodiscard]] BufferRef final_of(std::size_t piece) const;
  [[nodiscard]] BufferRef landing(std::size_t piece, Rank from) const;
  // Only contributions are sent eagerly. Wherever there are some, a final is ready once the contributions of all ranks
  // are here: all have launched the round, and have memory.
  [[nodiscard]] bool may_go(const Other& other) const {
    return (other.granted || eager_) && !stopped_ && !other.ready.empty();
  }
  // Whether this rank may prepare its contribution to this piece now. No contribution to that owner comes before it.
  [[nodiscard]] bool may_prepare(const Other& other, std::size_t piece) const;
  void launched(Rank by, std::vector<KernelJob>& jobs);
  void note_launch(Other& other);
  void send_again(std::size_t at);
  void prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs);
  void prepare_finals(std::vector<KernelJob>& jobs);
  void gather(std::size_t index, std::vector<KernelJob>& jobs);
  void copied(const JobName& name, Finished& finished, std::vector<KernelJob>& jobs);
  void arrived(const JobName& name, const JobResult& result, Finished& finished, std::vector<KernelJob>& jobs);
  void complete_final(std::size_t index, std::uint64_t checksum);
  void folded(std::size_t index, std::uint64_t checksum);
  void make_ready(std::size_t at, std::uint64_t checksum);
  [[nodiscard]] JobWork verification(std::size_t piece, wire::Phase phase, BufferRef memory,
                                     std::uint64_t checksum) const;
  void finish_final(std::size_t piece, std::uint64_t checksum);
  void take_back_repeated(std::size_t at);
  [[nodiscard]] BufferRef payload(std::size_t exchange) const;  // of the departing segment
  void check_exchange(std::size_t at, std::vector<KernelJob>& jobs);
  void check_known(std::vector<KernelJob>& jobs) override;
  Finished check_done(std::size_t at, const JobResult& result);

  Grid grid_;
  std::vector<std::vector<std::uint32_t>> owned_;  // pieces of each rank, in order
  // pieces that each rank of this rank's row collects, in order: in an all-reduce those of the owners of its column
  std::vector<std::vector<std::uint32_t>> lanes_;
  std::vector<std::uint32_t> ordinals_;  // of each piece: its index in its lane
  std::vector<std::uint32_t> first_;     // exchange of each piece: those with children, then with the parent
  std::vector<std::uint32_t> piece_of_;  // piece of each exchange
  std::vector<std::uint64_t> rooms_;     // offset in the scratch of the contributions to each piece of our lane
  std::uint64_t turns_ = 0;              // number of pieces that have room at the same time; 0: all
  std::uint32_t root_;
  std::uint32_t segments_in_one_;  // see lossy_segments_in_one()

  std::vector<Exchange> exchanges_;
  std::vector<Final> finals_;  // by piece
  std::vector<Other> others_;  // by rank
  // exchanges whose departing segments are to be compared with their checksums before they are sent again
  std::deque<std::uint32_t> unchecked_;
  UnderWay under_way_;        // the last limit
  bool eager_ = false;        // contributions go before their receivers have launched the round
  std::size_t prepared_ = 0;  // our pieces, without contributions, that were handed to a job
  std::size_t ahead_ = 0;     // of those, pieces that have departed to nobody
};

}  // namespace lockstep::ring
