#include "core/state/own_state.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/kernels/checksum.h"
#include "core/state/piece_digests.h"
#include "core/wire/limits.h"

namespace lockstep::state {

OwnState::OwnState(const Statement& statement, std::vector<BufferRef> memory, BufferRef staging)
    : statement_(statement),
      memory_(std::move(memory)),
      staging_(staging),
      pieces_(statement.manifest),
      digests_(pieces_.count()),
      revision_(statement.revision),
      lineage_(statement.lineage),
      values_(statement.values) {
  defined_ = !statement.blank;
  for (std::uint32_t piece = 0; piece < pieces_.count() && defined_; ++piece) undigested_.push_back(PieceIndex{piece});
  root_if_digested();
}

// ---- the digests of the pieces in memory ----

void OwnState::know(const std::vector<std::optional<Digest>>& digests) {
  LOCKSTEP_ASSERT(digests.size() == digests_.size() && digesting_ == 0);
  std::erase_if(undigested_, [&](PieceIndex piece) {
    if (!statement_.unchanged.contains(pieces_.place(piece).tensor) && !mutant(Mutant::kStaleHash)) return false;
    digests_[piece.value] = digests[piece.value];
    return digests_[piece.value].has_value();
  });
  root_if_digested();
}

// Rule 26: a partial state does not vote.
void OwnState::disown() {
  defined_ = false;
  torn_ = true;
  root_ = {};
}

std::optional<PieceIndex> OwnState::begin_digest() {
  if (undigested_.empty()) return std::nullopt;
  const PieceIndex piece = undigested_.front();
  undigested_.pop_front();
  ++digesting_;
  return piece;
}

void OwnState::end_digest(PieceIndex piece, const Digest& digest) {
  LOCKSTEP_ASSERT(digesting_ > 0);
  digests_[piece.value] = digest;
  --digesting_;
  root_if_digested();
}

void OwnState::root_if_digested() {
  if (digested() && defined_) root_ = root_of(pieces_, all_digests());
}

Digests OwnState::all_digests() const {
  Digests digests{{}, values_};
  for (const auto& digest : digests_) digests.pieces.push_back(*digest);
  return digests;
}

// ---- what this peer tells about the state ----

// Rule 25.
Claim OwnState::claim(PeerId self) const {
  LOCKSTEP_ASSERT(digested() && !(torn_ && defined_));
  return {self, statement_.strategy, defined_, revision_, root_, lineage_};
}

// Rule 40.
std::uint64_t OwnState::fingerprint() const {
  LOCKSTEP_ASSERT(digested() && defined_);
  const Digest described = digest_of(statement_.manifest);
  const std::uint64_t parts[] = {root_.high, root_.low, revision_, described.high, described.low};
  const std::uint64_t fingerprint = digest(std::as_bytes(std::span(parts))).low;
  return fingerprint == 0 ? 1 : fingerprint;
}

// Rule 40.
std::optional<wire::StateOutline> OwnState::outline(const wire::AskOutline& ask) const {
  const Manifest& manifest = statement_.manifest;
  wire::StateOutline outline{ask.key, ask.attempt, manifest.piece_bytes, {}, {}, 0};
  if (ask.of == wire::Outlined::kManifest) {
    for (const TensorSpec& tensor : manifest.tensors) outline.tensors.push_back(hash_of(tensor));
    for (const ValueSpec& value : manifest.values) outline.values.push_back(hash_of(value));
    return outline;
  }
  if (!defined_) return std::nullopt;
  const Digests own = all_digests();
  for (std::size_t tensor = 0; tensor < pieces_.tensors(); ++tensor) {
    outline.tensors.push_back(pieces_.is_compared(tensor) ? tensor_digest(pieces_, own, tensor).low : 0);
  }
  outline.values = own.values;
  outline.revision = revision_;
  return outline;
}

std::optional<wire::StateEntry> OwnState::entry(const wire::AskEntry& ask) const {
  const auto said = [&](const auto& list) -> std::optional<wire::StateEntry> {
    if (ask.index >= list.size()) return std::nullopt;
    return wire::StateEntry{ask.key, ask.attempt, describe(list[ask.index])};
  };
  return ask.is_value ? said(statement_.manifest.values) : said(statement_.manifest.tensors);
}

wire::PieceDigests OwnState::answer(const RoundKey& key, AttemptId attempt, std::uint32_t first) const {
  return digests_from(
      key, attempt, first, pieces_.count(), [&](std::uint32_t piece) { return *digests_[piece]; }, values_);
}

// ---- pieces of an elected state ----

BufferRef OwnState::place(PieceIndex piece) const {
  const Pieces::PiecePlace place = pieces_.place(piece);
  return memory_[place.tensor].slice(place.offset, place.bytes);
}

BufferRef OwnState::landing_place(PieceIndex piece) const {
  if (!statement_.staged) return place(piece);
  const Pieces::PiecePlace place = pieces_.place(piece);
  return staging_.slice(pieces_.bytes_before(place.tensor) + place.offset, place.bytes);
}

bool OwnState::has(PieceIndex piece, const Digest& digest) const {
  return digests_[piece.value] == digest || is_staged(piece, digest);
}

bool OwnState::is_staged(PieceIndex piece, const Digest& digest) const {
  const auto at = staged_.find(piece);
  return at != staged_.end() && at->second == digest;
}

OwnState::Content OwnState::content(PieceIndex piece) const {
  LOCKSTEP_ASSERT(digests_[piece.value].has_value());
  return {place(piece), digests_[piece.value]->low};
}

OwnState::Content OwnState::staged_content(PieceIndex piece) const {
  LOCKSTEP_ASSERT(statement_.staged);
  return {landing_place(piece), staged_.at(piece).low};
}

// Rule 26: from the first piece in place until the last, the state is undefined.
void OwnState::overwrite(PieceIndex piece) {
  if (statement_.staged) {
    staged_.erase(piece);
    return;
  }
  if (mutant(Mutant::kChimera)) return;
  digests_[piece.value].reset();
  defined_ = false;
  torn_ = true;
}

void OwnState::arrived(PieceIndex piece, const Digest& digest) {
  if (statement_.staged) {
    staged_[piece] = digest;
  } else {
    digests_[piece.value] = digest;
  }
}

std::optional<PieceIndex> OwnState::begin_copy(const Digests& elected) {
  LOCKSTEP_ASSERT(statement_.staged);
  while (copied_ < pieces_.count()) {
    const PieceIndex piece{copied_++};
    if (digests_[piece.value] == elected.pieces[piece.value]) continue;
    digests_[piece.value] = elected.pieces[piece.value];
    return piece;
  }
  return std::nullopt;
}

void OwnState::take_over(const Elected& elected, const std::vector<std::uint64_t>& values) {
  LOCKSTEP_ASSERT(values.size() == statement_.manifest.values.size());
  defined_ = true;
  torn_ = false;
  revision_ = elected.revision;
  root_ = elected.root;
  lineage_ = elected.lineage;
  values_ = values;
  staged_.clear();  // a prefetch may stage another state
  copied_ = 0;
}

}  // namespace lockstep::state
