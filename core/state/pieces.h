// A state cut into pieces of 1 MiB, unless the manifest gives another size; the last piece of a tensor is shorter. A
// digest is the XXH3-128 of a piece, of the digests of a tensor's pieces, or of all of them (the root). Equal roots
// mean equal states. Piece numbers run through all tensors; a tensor that may differ has no pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/state/manifest.h"

namespace lockstep::state {

using PieceIndex = Number<struct PieceName, std::uint32_t>;

// The places of the pieces.
class Pieces {
 public:
  explicit Pieces(const Manifest& manifest);

  struct PiecePlace {
    std::uint32_t tensor = 0;
    std::uint64_t offset = 0;  // bytes from the start of the tensor
    std::uint32_t bytes = 0;
  };
  [[nodiscard]] std::uint32_t count() const { return first_.back(); }
  [[nodiscard]] PiecePlace place(PieceIndex piece) const;
  [[nodiscard]] std::uint64_t piece_bytes() const { return piece_bytes_; }
  // The compared bytes of all tensors before this one. With the number of tensors as argument: of all tensors.
  [[nodiscard]] std::uint64_t bytes_before(std::size_t tensor) const { return before_[tensor]; }
  // The pieces of a tensor: from first(tensor) up to, not including, first(tensor + 1).
  [[nodiscard]] std::uint32_t first(std::size_t tensor) const { return first_[tensor]; }
  [[nodiscard]] std::size_t tensors() const { return bytes_.size(); }
  // False for a tensor that may differ.
  [[nodiscard]] bool is_compared(std::size_t tensor) const { return compared_[tensor]; }

 private:
  std::uint64_t piece_bytes_;
  std::vector<std::uint64_t> bytes_;  // of each tensor; 0 for a tensor that peers may hold differently
  std::vector<bool> compared_;
  std::vector<std::uint64_t> before_;  // compared bytes before each tensor, and the total
  std::vector<std::uint32_t> first_;   // first piece of each tensor, and the number of all pieces
};

// The digests of one peer's state: one for each piece, and the values (ValueSpec) as their 64 bits.
struct Digests {
  std::vector<Digest> pieces;
  std::vector<std::uint64_t> values;

  bool operator==(const Digests&) const = default;
  template <typename Archive>
  void archive(Archive& a) {
    a.all(pieces, values);
  }
};

Digest tensor_digest(const Pieces& pieces, const Digests& digests, std::size_t tensor);

// The root: a digest of all compared tensors and of the values.
Digest root_of(const Pieces& pieces, const Digests& digests);

}  // namespace lockstep::state
