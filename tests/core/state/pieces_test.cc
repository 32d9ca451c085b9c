#include "core/state/pieces.h"

#include <gtest/gtest.h>

#include "core/wire/limits.h"

namespace lockstep::state {
namespace {

Manifest of_bytes(const std::vector<std::uint64_t>& sizes) {
  Manifest manifest;
  for (const std::uint64_t size : sizes) {
    manifest.tensors.push_back({"t" + std::to_string(manifest.tensors.size()), DataType::kU8, size, false});
  }
  return manifest;
}

Digests numbered(const Pieces& pieces) {
  Digests digests;
  for (std::uint32_t piece = 0; piece < pieces.count(); ++piece) digests.pieces.push_back({7, piece});
  digests.values = {1, 2};
  return digests;
}

TEST(Pieces, CoverEveryTensorOnce) {
  const std::vector<std::uint64_t> sizes = {
      0, 1, kStatePieceBytes - 1, kStatePieceBytes, 0, kStatePieceBytes + 1, 3 * std::uint64_t{kStatePieceBytes}, 0};
  const Pieces pieces(of_bytes(sizes));
  EXPECT_EQ(pieces.count(), 0U + 1 + 1 + 1 + 0 + 2 + 3 + 0);
  std::vector<std::uint64_t> covered(sizes.size());
  for (std::uint32_t piece = 0; piece < pieces.count(); ++piece) {
    const Pieces::PiecePlace place = pieces.place(PieceIndex{piece});
    EXPECT_EQ(place.offset, covered[place.tensor]) << piece;
    EXPECT_GT(place.bytes, 0U);
    EXPECT_LE(place.bytes, kStatePieceBytes);
    covered[place.tensor] += place.bytes;
  }
  EXPECT_EQ(covered, sizes);
}

TEST(Pieces, EveryPieceAndEveryValueChangesTheRoot) {
  const Pieces pieces(of_bytes({kStatePieceBytes + 1, 5, 0, 2 * std::uint64_t{kStatePieceBytes}}));
  const Digests ours = numbered(pieces);
  for (std::uint32_t piece = 0; piece < pieces.count(); ++piece) {
    Digests theirs = ours;
    ++theirs.pieces[piece].high;
    EXPECT_NE(root_of(pieces, theirs), root_of(pieces, ours));
  }
  Digests theirs = ours;
  theirs.values[1] = 3;
  EXPECT_NE(root_of(pieces, theirs), root_of(pieces, ours));
}

TEST(Pieces, TensorsThatMayDifferHaveNoPieces) {
  Manifest manifest = of_bytes({5, 5, 7});
  manifest.tensors[1].may_differ = true;
  const Pieces pieces(manifest);
  EXPECT_EQ(pieces.count(), 2U);
  EXPECT_EQ(pieces.place(PieceIndex{1}).tensor, 2U);
  EXPECT_NE(root_of(pieces, numbered(pieces)), root_of(Pieces(of_bytes({5, 0, 7})), numbered(pieces)));
}

// The same bytes with other boundaries between tensors are another state.
TEST(Pieces, WhereTensorsEndChangesTheRoot) {
  const Pieces one(of_bytes({2 * std::uint64_t{kStatePieceBytes}, kStatePieceBytes}));
  const Pieces two(of_bytes({kStatePieceBytes, 2 * std::uint64_t{kStatePieceBytes}}));
  EXPECT_NE(root_of(one, numbered(one)), root_of(two, numbered(two)));
}

TEST(Pieces, AnEmptyStateHasARoot) {
  const Pieces none(Manifest{});
  EXPECT_EQ(none.count(), 0U);
  EXPECT_EQ(root_of(none, {}), root_of(none, {}));
}

}  // namespace
}  // namespace lockstep::state
