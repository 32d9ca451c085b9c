// How one receiver gets the pieces that it lacks: of whom it asks which, and how many at once. It asks for more of who
// delivers more: twice what its line holds, and two pieces, so that all sources are busy to the end, whatever their
// speed. What a source does not deliver is asked of another; at the end, what another would deliver sooner. Sees no
// stream and no byte; its owner asks, lands and verifies.
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
  // `missing`: in order, none twice. `first`: where in that list to begin; who receives beside others begins elsewhere,
  // so that they soon have pieces for each other. `patience`: a source that has been asked and delivers nothing for so
  // long has stalled.
  Fetch(const Pieces& pieces, std::vector<PieceIndex> missing, std::size_t first, Duration patience);

  // ---- sources ----

  // Has all pieces that are missing here, or, a fellow receiver, those that it offers.
  void add_source(PeerId source, bool has_all);
  void offered(PeerId source, PieceIndex piece);
  // Is gone, or has lied: its unfinished pieces are asked of others; one that is landing, once it is told to be lost.
  void remove_source(PeerId source);
  // What it was asked is lost (its link was broken), and is asked again, of it or of others.
  void forget_asked(PeerId source);
  [[nodiscard]] std::size_t sources() const { return sources_.size(); }

  // Which pieces to ask this source for now.
  [[nodiscard]] std::vector<PieceIndex> ask(PeerId from, Instant now);

  // ---- pieces ----

  // A piece comes. False: it is here, or coming from elsewhere, or from no source of ours; let it go by.
  bool begin(PeerId from, PieceIndex which, Instant now);
  // All of it is in its place; or it is not, because it was taken back or its stream was lost.
  void landed(PeerId from, PieceIndex which, Instant now);
  void lost(PeerId from, PieceIndex which);
  // What landed is what it should be; or it is not, and is asked for again.
  void verified(PieceIndex which);
  void spoilt(PieceIndex which);

  [[nodiscard]] bool complete() const { return left_ == 0; }
  [[nodiscard]] bool is_here(PieceIndex piece) const;
  [[nodiscard]] std::uint64_t bytes_wanted() const { return bytes_wanted_; }
  [[nodiscard]] std::uint64_t bytes_left() const { return bytes_left_; }
  [[nodiscard]] const std::vector<PieceIndex>& missing() const { return missing_; }

  // ---- time ----

  // When the next source will have stalled.
  [[nodiscard]] Instant deadline() const;
  // Asks others for what stalled sources were asked for. These are asked for one piece at a time until they deliver
  // again.
  void on_timer(Instant now);

  // For one that was made of the same arguments. Left out: missing_, bytes_, bytes_wanted_, piece_bytes_ and
  // patience_.
  template <typename Archive>
  void state(Archive& a) {
    a.all(pieces_, wanted_, sources_, left_, bytes_left_);
    if constexpr (Archive::kLoads) {
      if (pieces_.size() != missing_.size()) a.fail();
    }
  }

 private:
  enum class Stage : std::uint8_t { kWanted, kAsked, kLanding, kLanded, kHere };
  struct Piece {
    Stage stage = Stage::kWanted;
    bool listed = true;       // in wanted_
    std::uint32_t asked = 0;  // of so many sources
    PeerId from;              // kLanding, kLanded
    template <typename Archive>
    void state(Archive& a) {
      a.all(stage, listed, asked, from);
    }
  };
  struct Source {
    bool has_all = false;
    bool stalled = false;
    std::deque<std::uint32_t> offers;        // by a fellow, not asked for yet
    std::map<std::uint32_t, Instant> asked;  // and not landed
    std::uint64_t asked_bytes = 0;
    std::uint64_t landed_bytes = 0;  // of late: what is older counts less
    Duration landed_in;              // the time in which they came
    Duration round_trip;             // the least from asking for a piece to its first byte; 0: not known
    Instant progress;                // when it was first asked, or last delivered
    template <typename Archive>
    void state(Archive& a) {
      a.all(has_all, stalled, offers, asked, asked_bytes, landed_bytes, landed_in, round_trip, progress);
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
  std::uint64_t piece_bytes_ = 0;     // of a whole one
  std::deque<std::uint32_t> wanted_;  // kWanted, and maybe others, which are passed over
  std::map<PeerId, Source> sources_;
  Duration patience_;
  std::size_t left_ = 0;
  std::uint64_t bytes_wanted_ = 0;
  std::uint64_t bytes_left_ = 0;
};

}  // namespace lockstep::state
