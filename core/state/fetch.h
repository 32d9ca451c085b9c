// How one receiver obtains its missing pieces (rule 38 of docs/protocol.md): which pieces it requests from which
// source, and how many at a time. A source with a higher rate gets more requests: twice what its line holds, and two
// pieces. So all sources stay busy to the end, whatever their speed. Pieces that a source does not deliver are
// requested from another source. At the end, a piece is also requested from a source that would deliver it sooner. Sees
// no stream and no byte: its owner sends the requests, receives the pieces and verifies them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/state/pieces.h"

namespace lockstep::state {

class Fetch {
 public:
  // `missing`: sorted, without duplicates. `first`: the index in `missing` to begin with. Receivers of the same state
  // begin at different pieces, so that they soon have pieces for each other. `patience`: a source has stalled if it was
  // asked for pieces and delivers none for this long.
  Fetch(const Pieces& pieces, std::vector<PieceIndex> missing, std::size_t first, Duration patience);

  // ---- sources ----

  // Adds a source that has all missing pieces, or a fellow receiver, which has the pieces that it offers.
  void add_source(PeerId source, bool has_all);
  void offered(PeerId source, PieceIndex piece);
  // The fellow receiver has all pieces now. Ignores a stranger.
  void has_all(PeerId source);
  // Removes a source that was lost or sent wrong data. Its pending pieces are requested from others; a piece that is
  // arriving, after lost().
  void remove_source(PeerId source);
  // The requests to this source, or its answers, may be lost. They are repeated, to this source or to others.
  void forget_asked(PeerId source);
  // The same, because a link broke. A source that has delivered nothing over that link has stalled: its line may drip,
  // and break each link in turn.
  void lost_link(PeerId source);
  [[nodiscard]] std::size_t sources() const { return sources_.size(); }

  // Ask others first.
  [[nodiscard]] bool has_stalled(PeerId source) const;
  // The pieces to request from this source now.
  [[nodiscard]] std::vector<PieceIndex> ask(PeerId from, Instant now);

  // ---- pieces ----

  // A piece begins to arrive. Returns false if the piece is here, is arriving from another source, or does not come
  // from a source: discard it.
  bool begin(PeerId from, PieceIndex which, Instant now);
  // landed(): the whole piece is in its place. lost(): its sender withdrew it, or its stream was closed.
  void landed(PeerId from, PieceIndex which, Instant now);
  void lost(PeerId from, PieceIndex which);
  // verified(): the piece has the right digest. spoilt(): it has a wrong digest and is requested again.
  void verified(PieceIndex which);
  void spoilt(PieceIndex which);

  [[nodiscard]] bool complete() const { return left_ == 0; }
  [[nodiscard]] bool is_here(PieceIndex piece) const;
  [[nodiscard]] std::uint64_t bytes_wanted() const { return bytes_wanted_; }
  [[nodiscard]] std::uint64_t bytes_left() const { return bytes_left_; }
  [[nodiscard]] const std::vector<PieceIndex>& missing() const { return missing_; }

  // ---- time ----

  // The moment when the next source will have stalled.
  [[nodiscard]] Instant deadline() const;
  // Requests the pieces of stalled sources from other sources. A stalled source gets one request at a time until it
  // delivers again.
  void on_timer(Instant now);

  // Restores a fetch that was constructed with the same arguments. Left out, because they follow from the arguments:
  // missing_, bytes_, bytes_wanted_, piece_bytes_ and patience_.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(pieces_, wanted_, sources_, left_, bytes_left_);
    if constexpr (Archive::kLoads) {
      if (pieces_.size() != missing_.size()) a.fail();
    }
  }

 private:
  enum class Stage : std::uint8_t { kWanted, kAsked, kLanding, kLanded, kHere };
  struct Piece {
    Stage stage = Stage::kWanted;
    bool listed = true;       // contained in wanted_
    std::uint32_t asked = 0;  // number of sources that it was requested from
    PeerId from;              // kLanding, kLanded
    template <typename Archive>
    void archive(Archive& a) {
      a.all(stage, listed, asked, from);
    }
  };
  struct Source {
    bool has_all = false;
    bool stalled = false;
    bool delivers = false;                   // over its present link
    std::deque<std::uint32_t> offers;        // offered by a fellow receiver and not requested yet
    std::map<std::uint32_t, Instant> asked;  // requested pieces that have not landed, and the time of each request
    std::uint64_t asked_bytes = 0;
    std::uint64_t landed_bytes = 0;  // recent bytes; older bytes count less
    Duration landed_in;              // the time in which they arrived
    Duration round_trip;             // shortest time from a request to the first byte of its piece; 0: not known
    Instant progress;                // time of the first request, or of the last delivery
    template <typename Archive>
    void archive(Archive& a) {
      a.all(has_all, stalled, delivers, offers, asked, asked_bytes, landed_bytes, landed_in, round_trip, progress);
    }
    [[nodiscard]] std::uint64_t rate() const;  // bytes per second; 0: not known
  };

  [[nodiscard]] std::uint32_t index_of(PieceIndex piece) const;
  [[nodiscard]] std::uint64_t window(const Source& source) const;
  [[nodiscard]] Instant end_of(const Source& source, Instant now) const;
  [[nodiscard]] std::optional<std::uint32_t> choose(Source& source, Instant now);
  [[nodiscard]] std::optional<std::uint32_t> choose_again(const Source& source, Instant now) const;
  void give_back(Source& source);
  void want_again(std::uint32_t index);
  void unask(Source& source, std::uint32_t index);
  [[nodiscard]] std::uint32_t bytes(std::uint32_t index) const { return bytes_[index]; }

  std::vector<PieceIndex> missing_;
  std::vector<std::uint32_t> bytes_;
  std::vector<Piece> pieces_;
  std::uint64_t piece_bytes_ = 0;     // size of a whole piece
  std::deque<std::uint32_t> wanted_;  // pieces in kWanted; may contain others, which are skipped
  std::map<PeerId, Source> sources_;
  Duration patience_;
  std::size_t left_ = 0;
  std::uint64_t bytes_wanted_ = 0;
  std::uint64_t bytes_left_ = 0;
};

}  // namespace lockstep::state
