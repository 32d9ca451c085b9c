// The shared state in one peer's memory: the digests of its pieces, and whether memory holds a whole state (rule 26 of
// docs/protocol.md). The pieces of an elected state land in place, or beside the state in staging memory, from which
// they are copied after the round has committed. Emits no jobs and no messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/buffers/buffer_ref.h"
#include "core/state/election.h"
#include "core/state/pieces.h"
#include "core/state/statement.h"
#include "core/wire/message.h"

namespace lockstep::state {

class OwnState {
 public:
  // The arguments are those of Sync.
  OwnState(const Statement& statement, std::vector<BufferRef> memory, BufferRef staging);

  [[nodiscard]] const Statement& statement() const { return statement_; }
  [[nodiscard]] const Pieces& pieces() const { return pieces_; }

  // ---- the digests of the pieces in memory ----

  // Digests from an earlier time; they still hold for unchanged tensors.
  void know(const std::vector<std::optional<Digest>>& digests);
  // Memory holds a partial state.
  void disown();
  // The next piece to digest; nothing if no piece is left. end_digest() follows.
  [[nodiscard]] std::optional<PieceIndex> begin_digest();
  void end_digest(PieceIndex piece, const Digest& digest);
  [[nodiscard]] std::size_t digesting() const { return digesting_; }
  [[nodiscard]] bool digested() const { return undigested_.empty() && digesting_ == 0; }
  // An unknown digest is empty.
  [[nodiscard]] const std::vector<std::optional<Digest>>& digests() const { return digests_; }

  // ---- what this peer tells about the state ----

  [[nodiscard]] Claim claim(PeerId self) const;
  [[nodiscard]] std::uint64_t fingerprint() const;
  [[nodiscard]] std::optional<wire::StateOutline> outline(const wire::AskOutline& ask) const;
  [[nodiscard]] std::optional<wire::StateEntry> entry(const wire::AskEntry& ask) const;
  [[nodiscard]] wire::PieceDigests answer(const RoundKey& key, AttemptId attempt, std::uint32_t first) const;

  [[nodiscard]] bool defined() const { return defined_; }
  [[nodiscard]] bool torn() const { return torn_; }
  [[nodiscard]] std::uint64_t revision() const { return revision_; }
  [[nodiscard]] const Digest& root() const { return root_; }
  [[nodiscard]] Lineage lineage() const { return lineage_; }
  [[nodiscard]] const std::vector<std::uint64_t>& values() const { return values_; }

  // ---- pieces of an elected state ----

  [[nodiscard]] BufferRef place(PieceIndex piece) const;
  // The memory in which a piece arrives: its place in the state, or its place in staging memory.
  [[nodiscard]] BufferRef landing_place(PieceIndex piece) const;
  // Whether memory holds a piece with this digest, in its place or staged.
  [[nodiscard]] bool has(PieceIndex piece, const Digest& digest) const;
  [[nodiscard]] bool is_staged(PieceIndex piece, const Digest& digest) const;
  // The payload and the checksum of a piece that is sent to another peer.
  struct Content {
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  [[nodiscard]] Content content(PieceIndex piece) const;
  [[nodiscard]] Content staged_content(PieceIndex piece) const;
  // A piece begins to arrive: the contents of its landing place are lost.
  void overwrite(PieceIndex piece);
  // A whole piece with this digest is in its landing place.
  void arrived(PieceIndex piece, const Digest& digest);
  // Staged: the next piece to copy from staging memory into the state; nothing if no piece is left.
  [[nodiscard]] std::optional<PieceIndex> begin_copy(const Digests& elected);
  // Memory holds the elected state already, which has this lineage.
  void belong_to(Lineage lineage) { lineage_ = lineage; }
  // Memory holds the whole elected state.
  void take_over(const Elected& elected, const std::vector<std::uint64_t>& values);

  // Left out: the arguments statement_, memory_ and staging_; and pieces_, which follows from them.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(digests_, undigested_, digesting_, staged_, copied_, defined_, torn_, revision_, root_, lineage_, values_);
    if constexpr (Archive::kLoads) {
      if (digests_.size() != pieces_.count()) a.fail();
    }
  }

 private:
  [[nodiscard]] Digests all_digests() const;  // once digested
  void root_if_digested();

  const Statement& statement_;
  std::vector<BufferRef> memory_;
  BufferRef staging_;
  Pieces pieces_;

  std::vector<std::optional<Digest>> digests_;  // of the pieces in memory_; empty: not known
  std::deque<PieceIndex> undigested_;
  std::size_t digesting_ = 0;            // pieces whose jobs run
  std::map<PieceIndex, Digest> staged_;  // verified pieces in staging_
  std::uint32_t copied_ = 0;             // pieces that the copy from staging_ has passed
  bool defined_ = true;                  // memory holds a whole state
  bool torn_ = false;                    // memory holds a mixture. Invariant: a torn state is not defined
  std::uint64_t revision_ = 0;
  Digest root_;  // once digested
  Lineage lineage_;
  std::vector<std::uint64_t> values_;
};

}  // namespace lockstep::state
