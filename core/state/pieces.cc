#include "core/state/pieces.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/kernels/checksum.h"
#include "core/state/statement.h"
#include "core/wire/limits.h"

namespace lockstep::state {

namespace {

void append(std::vector<std::byte>& bytes, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<std::byte>(value >> shift & 0xffU));
}
void append(std::vector<std::byte>& bytes, const Digest& value) {
  append(bytes, value.high);
  append(bytes, value.low);
}

}  // namespace

Pieces::Pieces(const Manifest& manifest) : piece_bytes_(manifest.piece_bytes) {
  LOCKSTEP_ASSERT(!validate_manifest(manifest));
  std::uint64_t pieces = 0;
  before_.push_back(0);
  for (const TensorSpec& tensor : manifest.tensors) {
    first_.push_back(static_cast<std::uint32_t>(pieces));
    bytes_.push_back(tensor.may_differ ? 0 : tensor.bytes());
    before_.push_back(before_.back() + bytes_.back());
    compared_.push_back(!tensor.may_differ);
    pieces += (bytes_.back() + piece_bytes_ - 1) / piece_bytes_;
  }
  first_.push_back(static_cast<std::uint32_t>(pieces));
}

Pieces::PiecePlace Pieces::place(PieceIndex piece) const {
  LOCKSTEP_ASSERT(piece.value < count());
  const auto after = std::upper_bound(first_.begin(), first_.end(), piece.value);
  const auto tensor = static_cast<std::uint32_t>(after - first_.begin() - 1);
  const std::uint64_t offset = std::uint64_t{piece.value - first_[tensor]} * piece_bytes_;
  const std::uint64_t rest = bytes_[tensor] - offset;
  return {tensor, offset, static_cast<std::uint32_t>(std::min<std::uint64_t>(rest, piece_bytes_))};
}

std::uint64_t staging_bytes(const Manifest& manifest) { return Pieces(manifest).bytes_before(manifest.tensors.size()); }

Digest tensor_digest(const Pieces& pieces, const Digests& digests, std::size_t tensor) {
  std::vector<std::byte> bytes;
  for (std::uint32_t piece = pieces.first(tensor); piece < pieces.first(tensor + 1); ++piece) {
    append(bytes, digests.pieces[piece]);
  }
  return digest(bytes);
}

Digest root_of(const Pieces& pieces, const Digests& digests) {
  LOCKSTEP_ASSERT(digests.pieces.size() == pieces.count());
  std::vector<std::byte> bytes;
  for (std::size_t tensor = 0; tensor < pieces.tensors(); ++tensor) {
    if (pieces.is_compared(tensor)) append(bytes, tensor_digest(pieces, digests, tensor));
  }
  for (const std::uint64_t value : digests.values) append(bytes, value);
  return digest(bytes);
}

}  // namespace lockstep::state
