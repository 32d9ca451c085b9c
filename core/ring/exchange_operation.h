// A gather, a scatter or an all-to-all. A block has one sender and one receiver, and goes from the one straight to the
// other: between every two ranks there is a link. Blocks are copied, not combined, so each arrives in its place in the
// receiver's memory. The ranks know the sizes before (wire::RankParameter): each rank tells each other rank the size of
// the block that it sends there, and the places of blocks follow from the sizes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/ring/operation.h"

namespace lockstep::ring {

class ExchangeOperation final : public Operation {
 public:
  // `rank_parameters`: the bytes that each rank sends to this one. `ring`: the peers by rank.
  ExchangeOperation(const Request& request, std::span<const PeerId> ring, Rank rank,
                    std::vector<std::uint64_t> rank_parameters, Segmenting segmenting);

  // The reason why this exchange cannot run on this peer, such as a receive buffer that is too small, or nullopt.
  [[nodiscard]] static std::optional<Error> validate(const Request& request, std::span<const PeerId> ring, Rank rank,
                                                     std::span<const std::uint64_t> rank_parameters,
                                                     Segmenting segmenting);

  SegmentPlace begin(Rank from, const wire::Segment& wanted, StreamId stream, std::vector<KernelJob>& jobs) override;
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

  // The ranks end with different results.
  [[nodiscard]] std::uint64_t result_hash() const override { return 0; }

  // Restores an operation that was constructed with the same arguments. Left out, because they follow from the
  // arguments: arrival_pieces_, first_arrival_, departure_pieces_, first_departure_ and own_block_.
  template <typename Archive>
  void archive(Archive& a) {
    state_of_all(a);
    a.all(arrivals_, departures_, others_, unchecked_, own_begun_);
    if constexpr (Archive::kLoads) {
      const bool fits = arrivals_.size() == arrival_pieces_.size() && departures_.size() == departure_pieces_.size() &&
                        others_.size() == world_;
      if (!fits) a.fail();
    }
  }

 private:
  struct Arriving {
    Arrival state = Arrival::kExpected;
    StreamId on;               // kLanding, and until the segment has been verified
    std::uint8_t corrupt = 0;  // number of arrivals with a wrong checksum
    template <typename Archive>
    void archive(Archive& a) {
      a.all(state, on, corrupt);
    }
  };
  struct Departing {
    Departure state = Departure::kNotReady;
    StripeIndex stripe;          // kSent
    StreamId on;                 // kSent
    std::uint64_t checksum = 0;  // once kReady
    bool again = false;          // the segment was sent once and is assumed lost
    template <typename Archive>
    void archive(Archive& a) {
      a.all(state, stripe, on, checksum, again);
    }
  };
  struct Other {
    bool granted = false;
    std::size_t prepared = 0;         // segments to this rank that were handed to a job
    std::size_t ahead = 0;            // of those, segments that have not departed
    std::deque<std::uint32_t> ready;  // indices of departures
    template <typename Archive>
    void archive(Archive& a) {
      a.all(granted, prepared, ahead, ready);
    }
  };
  // The block that this rank sends to itself.
  struct OwnBlock {
    BufferRef from;
    BufferRef into;
  };

  [[nodiscard]] std::size_t arrivals_from(Rank from) const {
    return first_arrival_[from.value + 1] - first_arrival_[from.value];
  }
  [[nodiscard]] std::size_t departures_to(Rank to) const {
    return first_departure_[to.value + 1] - first_departure_[to.value];
  }
  [[nodiscard]] BufferRef place_of(std::size_t arrival) const;
  [[nodiscard]] bool may_go(const Other& other) const { return other.granted && !stopped_ && !other.ready.empty(); }
  void prepare_own(std::vector<KernelJob>& jobs);
  void check_known(std::vector<KernelJob>& jobs) override;
  void prepare_for(std::uint32_t to, std::vector<KernelJob>& jobs);

  std::vector<Piece> arrival_pieces_;         // by sender; `owner` is the sender, `offset` lies in recv
  std::vector<std::size_t> first_arrival_;    // of each sender, and the end
  std::vector<Piece> departure_pieces_;       // by receiver; `owner` is the receiver, `offset` lies in send
  std::vector<std::size_t> first_departure_;  // of each receiver, and the end
  OwnBlock own_block_;

  std::vector<Arriving> arrivals_;
  std::vector<Departing> departures_;
  std::vector<Other> others_;            // by rank
  std::deque<std::uint32_t> unchecked_;  // departures to be compared with their checksums before they are sent again
  bool own_begun_ = false;
};

}  // namespace lockstep::ring
