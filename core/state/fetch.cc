#include "core/state/fetch.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/wire/limits.h"

namespace lockstep::state {

namespace {

// Requests beyond what the line holds: one piece that arrives and one behind it. Two pieces may arrive at once, on two
// stripes.
constexpr std::uint64_t kLeastWindow = 2;  // pieces
constexpr std::uint64_t kMostWindow = 64;
// Near the end, a piece may be requested from a second source.
constexpr std::uint32_t kMostAsked = 2;
// The newest piece has a weight of one eighth in the estimate of a source's rate, as in TCP's estimate of the round
// trip (RFC 6298).
constexpr std::int64_t kNewest = 8;

std::uint64_t per_second(std::uint64_t bytes, Duration time) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.ns, 1'000));
  return bytes * 1'000'000'000 / ns;
}

Duration time_of(std::uint64_t bytes, std::uint64_t per_second) {
  return microseconds(static_cast<std::int64_t>(bytes * 1'000'000 / std::max<std::uint64_t>(per_second, 1)));
}

std::uint64_t bytes_in(Duration time, std::uint64_t per_second) {
  return per_second / 1'000 * static_cast<std::uint64_t>(time.ns / 1'000) / 1'000;
}

}  // namespace

Fetch::Fetch(const Pieces& pieces, std::vector<PieceIndex> missing, std::size_t first, Duration patience)
    : missing_(std::move(missing)),
      pieces_(missing_.size()),
      piece_bytes_(pieces.piece_bytes()),
      patience_(patience),
      left_(missing_.size()) {
  for (const PieceIndex piece : missing_) {
    bytes_.push_back(pieces.place(piece).bytes);
    bytes_left_ += bytes_.back();
  }
  bytes_wanted_ = bytes_left_;
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    wanted_.push_back(static_cast<std::uint32_t>((first + i) % missing_.size()));
  }
}

std::uint32_t Fetch::index_of(PieceIndex piece) const {
  const auto at = std::lower_bound(missing_.begin(), missing_.end(), piece);
  LOCKSTEP_ASSERT(at != missing_.end() && *at == piece);
  return static_cast<std::uint32_t>(at - missing_.begin());
}

bool Fetch::is_here(PieceIndex piece) const {
  const auto at = std::lower_bound(missing_.begin(), missing_.end(), piece);
  if (at == missing_.end() || *at != piece) return true;  // the piece was never missing
  return pieces_[static_cast<std::size_t>(at - missing_.begin())].stage == Stage::kHere;
}

void Fetch::add_source(PeerId source, bool has_all) { sources_[source].has_all = has_all; }

void Fetch::offered(PeerId source, PieceIndex piece) {
  const auto at = sources_.find(source);
  if (at == sources_.end() || at->second.has_all || is_here(piece)) return;
  if (at->second.offers.size() >= missing_.size()) return;  // a peer that repeats its offers
  at->second.offers.push_back(index_of(piece));
}

void Fetch::has_all(PeerId source) {
  if (const auto at = sources_.find(source); at != sources_.end()) at->second.has_all = true;
}

void Fetch::remove_source(PeerId source) {
  forget_asked(source);
  sources_.erase(source);
}

void Fetch::forget_asked(PeerId source) {
  const auto at = sources_.find(source);
  if (at != sources_.end()) give_back(at->second);
}

void Fetch::lost_link(PeerId source) {
  const auto at = sources_.find(source);
  if (at == sources_.end()) return;
  Source& lost = at->second;
  lost.stalled = lost.stalled || (!lost.asked.empty() && !lost.delivers);
  lost.delivers = false;
  give_back(lost);
}

bool Fetch::has_stalled(PeerId source) const {
  const auto at = sources_.find(source);
  return at != sources_.end() && at->second.stalled;
}

// Returns all requested pieces of a source, except pieces that are arriving: those keep their place until they have
// landed or are lost.
void Fetch::give_back(Source& source) {
  while (!source.asked.empty()) {
    const std::uint32_t index = source.asked.begin()->first;
    if (!source.has_all) source.offers.push_back(index);
    unask(source, index);
    want_again(index);
  }
}

void Fetch::unask(Source& source, std::uint32_t index) {
  if (source.asked.erase(index) == 0) return;
  source.asked_bytes -= bytes(index);
  --pieces_[index].asked;
}

// Puts the piece at the front, for the source that is asked next.
void Fetch::want_again(std::uint32_t index) {
  Piece& piece = pieces_[index];
  if (piece.stage != Stage::kAsked || piece.asked > 0) return;
  piece.stage = Stage::kWanted;
  if (!std::exchange(piece.listed, true)) wanted_.push_front(index);
}

// Total bytes divided by total time. If two stripes deliver pieces in pairs, the second piece seems to take no time.
std::uint64_t Fetch::Source::rate() const { return landed_bytes == 0 ? 0 : per_second(landed_bytes, landed_in); }

std::uint64_t Fetch::window(const Source& source) const {
  if (source.stalled) return 1;
  const std::uint64_t held = bytes_in(source.round_trip, source.rate());
  return std::min(2 * held + kLeastWindow * piece_bytes_, kMostWindow * piece_bytes_);
}

// The moment when this source will have delivered its requested pieces. The delay of a late source counts as its rate.
Instant Fetch::end_of(const Source& source, Instant now) const {
  if (source.asked.empty()) return now + source.round_trip;
  const std::uint64_t late = per_second(piece_bytes_, now - source.progress);
  const std::uint64_t rate = source.rate() == 0 ? late : std::min(source.rate(), late);
  return std::max(now, source.progress + time_of(source.asked_bytes, rate));
}

std::optional<std::uint32_t> Fetch::choose(Source& source, Instant now) {
  while (!source.has_all && !source.offers.empty()) {
    const std::uint32_t index = source.offers.front();
    if (pieces_[index].stage == Stage::kWanted) {
      source.offers.pop_front();
      return index;
    }
    if (pieces_[index].stage == Stage::kAsked) break;  // requested from another source, which may fail
    source.offers.pop_front();
  }
  if (!source.has_all) return std::nullopt;
  while (!wanted_.empty()) {
    const std::uint32_t index = wanted_.front();
    wanted_.pop_front();
    pieces_[index].listed = false;
    if (pieces_[index].stage == Stage::kWanted) return index;
  }
  return choose_again(source, now);
}

// Rule 38. Every missing piece has been requested. Find the source that will finish last, and request the last piece of
// that source here, if this source would deliver it sooner. The slow source still sends the piece, so it crosses the
// network twice.
std::optional<std::uint32_t> Fetch::choose_again(const Source& source, Instant now) const {
  if (source.rate() == 0) return std::nullopt;
  std::optional<std::uint32_t> best;
  Instant latest = end_of(source, now) + time_of(piece_bytes_, source.rate());
  for (const auto& [peer, other] : sources_) {
    if (&other == &source || end_of(other, now) <= latest) continue;
    std::optional<std::uint32_t> last;
    for (const auto& [index, since] : other.asked) {
      const Piece& piece = pieces_[index];
      if (piece.stage != Stage::kAsked || piece.asked >= kMostAsked) continue;
      if (!last || since >= other.asked.at(*last)) last = index;
    }
    if (!last) continue;
    latest = end_of(other, now);
    best = last;
  }
  return best;
}

std::vector<PieceIndex> Fetch::ask(PeerId from, Instant now) {
  std::vector<PieceIndex> pieces;
  const auto at = sources_.find(from);
  if (at == sources_.end()) return pieces;
  Source& source = at->second;
  while (source.asked_bytes < window(source) && source.asked.size() < kMaxPiecesAsked) {
    const auto index = choose(source, now);
    if (!index) break;
    if (source.asked.empty()) source.progress = now;
    source.asked.emplace(*index, now);
    source.asked_bytes += bytes(*index);
    pieces_[*index].stage = Stage::kAsked;
    ++pieces_[*index].asked;
    pieces.push_back(missing_[*index]);
  }
  return pieces;
}

bool Fetch::begin(PeerId from, PieceIndex which, Instant now) {
  const auto source = sources_.find(from);
  if (is_here(which) || source == sources_.end()) return false;
  const std::uint32_t index = index_of(which);
  if (const auto asked = source->second.asked.find(index); asked != source->second.asked.end()) {
    Duration& least = source->second.round_trip;
    const Duration delay = now - asked->second;
    least = least.ns == 0 ? delay : std::min(least, delay);
  }
  Piece& piece = pieces_[index];
  if (piece.stage == Stage::kLanding || piece.stage == Stage::kLanded) {
    unask(source->second, index);  // it has delivered; if the other source fails, this copy is not used either
    return false;
  }
  piece.stage = Stage::kLanding;
  piece.from = from;
  return true;
}

void Fetch::landed(PeerId from, PieceIndex which, Instant now) {
  const std::uint32_t index = index_of(which);
  LOCKSTEP_ASSERT(pieces_[index].stage == Stage::kLanding && pieces_[index].from == from);
  pieces_[index].stage = Stage::kLanded;
  const auto at = sources_.find(from);
  if (at == sources_.end()) return;
  Source& source = at->second;
  if (const auto asked = source.asked.find(index); asked != source.asked.end()) {
    // Only the time in which the source had pieces to send counts.
    const Duration took = now - std::max(source.progress, asked->second + source.round_trip);
    source.landed_bytes += bytes(index) - source.landed_bytes / kNewest;
    source.landed_in = source.landed_in + took - source.landed_in / kNewest;
    unask(source, index);
  }
  source.progress = now;
  source.stalled = false;
  source.delivers = true;
}

void Fetch::lost(PeerId from, PieceIndex which) {
  const std::uint32_t index = index_of(which);
  Piece& piece = pieces_[index];
  if (piece.stage != Stage::kLanding || piece.from != from) return;
  piece.stage = Stage::kAsked;
  if (const auto at = sources_.find(from); at != sources_.end()) unask(at->second, index);
  want_again(index);
}

void Fetch::verified(PieceIndex which) {
  const std::uint32_t index = index_of(which);
  Piece& piece = pieces_[index];
  LOCKSTEP_ASSERT(piece.stage == Stage::kLanded);
  piece.stage = Stage::kHere;
  for (auto& [peer, source] : sources_) unask(source, index);
  --left_;
  bytes_left_ -= bytes(index);
}

// Rule 38.
void Fetch::spoilt(PieceIndex which) {
  Piece& piece = pieces_[index_of(which)];
  LOCKSTEP_ASSERT(piece.stage == Stage::kLanded);
  piece.stage = Stage::kAsked;
  want_again(index_of(which));
}

Instant Fetch::deadline() const {
  Instant next = kNever;
  for (const auto& [peer, source] : sources_) {
    if (!source.asked.empty()) next = std::min(next, source.progress + patience_);
  }
  return next;
}

// Rule 38: the pieces of a slow source are requested from the other sources.
void Fetch::on_timer(Instant now) {
  for (auto& [peer, source] : sources_) {
    if (source.asked.empty() || now < source.progress + patience_) continue;
    source.stalled = true;
    give_back(source);
  }
}

}  // namespace lockstep::state
