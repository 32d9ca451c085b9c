// A state cut into pieces, of 1 MiB unless the manifest says otherwise, the last of a tensor shorter; and their
// digests: XXH3-128 of each piece, of a tensor's pieces, and of all (the root). Equal roots: equal states. Pieces are
// counted through all tensors; one that may differ has none.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/state/manifest.h"

namespace lockstep::state {

using PieceIndex = Number<struct PieceName, std::uint32_t>;

// Where pieces lie.
class Pieces {
 public:
  explicit Pieces(const Manifest& manifest);

  struct Place {
    std::uint32_t tensor = 0;
    std::uint64_t offset = 0;  // bytes, in the tensor
    std::uint32_t bytes = 0;
  };
  [[nodiscard]] std::uint32_t count() const { return first_.back(); }
  [[nodiscard]] Place place(PieceIndex piece) const;
  [[nodiscard]] std::uint64_t piece_bytes() const { return piece_bytes_; }
  // Of all tensors before it, as far as they are compared; with the number of tensors: of all.
  [[nodiscard]] std::uint64_t bytes_before(std::size_t tensor) const { return before_[tensor]; }
  // Those of a tensor: from first(tensor), before first(tensor + 1).
  [[nodiscard]] std::uint32_t first(std::size_t tensor) const { return first_[tensor]; }
  [[nodiscard]] std::size_t tensors() const { return bytes_.size(); }
  // Not compared: may_differ.
  [[nodiscard]] bool is_compared(std::size_t tensor) const { return compared_[tensor]; }

 private:
  std::uint64_t piece_bytes_;
  std::vector<std::uint64_t> bytes_;  // of each tensor; 0 if it may differ
  std::vector<bool> compared_;
  std::vector<std::uint64_t> before_;  // bytes of those before each tensor, and of all
  std::vector<std::uint32_t> first_;   // piece of each tensor, and the number of all
};

// What one peer's state digests to: a digest for each piece, and the values (ValueSpec), as their 64 bits.
struct Digests {
  std::vector<Digest> pieces;
  std::vector<std::uint64_t> values;

  bool operator==(const Digests&) const = default;
  template <typename Archive>
  void state(Archive& a) {
    a.all(pieces, values);
  }
};

Digest tensor_digest(const Pieces& pieces, const Digests& digests, std::size_t tensor);

// Of all tensors that are compared, and of the values.
Digest root_of(const Pieces& pieces, const Digests& digests);

}  // namespace lockstep::state
