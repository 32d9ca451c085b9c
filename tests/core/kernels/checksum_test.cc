#include "core/kernels/checksum.h"

#include <gtest/gtest.h>

#include "tests/support/elements.h"
#include "tests/support/every_target.h"

namespace lockstep {
namespace {

std::uint64_t checksum_of(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

class Checksum : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Checksum);

// The values of xxHash 0.8.1. They are part of the wire: another version of xxHash must compute the same.
TEST_P(Checksum, GoldenValues) {
  EXPECT_EQ(checksum({}), 0x2d06800538d394c2U);
  EXPECT_EQ(checksum_of("a"), 0xe6c632b61e964e1fU);
  EXPECT_EQ(checksum_of("abc"), 0x78af5f94892f3950U);
  EXPECT_EQ(checksum_of("The quick brown fox jumps over the lazy dog"), 0xce7d19a5418fb365U);
  EXPECT_EQ(checksum_of(std::string(100'000, 'l')), 0xd6e69f5b9f4a349U);
}

// The values of xxHash 0.8.1, as `xxhsum -H2` prints them. States of different builds are compared by these digests.
TEST_P(Checksum, GoldenDigests) {
  const auto digest_of = [](std::string_view text) { return digest(std::as_bytes(std::span(text))); };
  EXPECT_EQ(digest({}), (Digest{0x99aa06d3014798d8, 0x6001c324468d497f}));
  EXPECT_EQ(digest_of("a"), (Digest{0xa96faf705af16834, 0xe6c632b61e964e1f}));
  EXPECT_EQ(digest_of("abc"), (Digest{0x06b05ab6733a6185, 0x78af5f94892f3950}));
  EXPECT_EQ(digest_of("The quick brown fox jumps over the lazy dog"), (Digest{0xddd650205ca3e7fa, 0x24a1cc2e3a8a7651}));
  EXPECT_EQ(digest_of(std::string(100'000, 'l')), (Digest{0xcc8db0ed8142b995, 0x0d6e69f5b9f4a349}));
}

// xxHash uses other code paths from 16, 128, 240 and 1024 bytes on.
TEST_P(Checksum, PiecesGiveTheSameValue) {
  for (const std::size_t size : {0U, 1U, 16U, 17U, 128U, 129U, 240U, 241U, 1024U, 1025U, 5000U}) {
    const auto bytes = test::hostile_elements(DataType::kU8, size, size);
    const std::span all(bytes);
    for (const std::size_t piece : {1U, 7U, 64U, 255U, 1024U, 4096U}) {
      ChecksumStream stream;
      for (std::size_t at = 0; at < size; at += piece) stream.update(all.subspan(at, std::min(piece, size - at)));
      stream.update({});
      EXPECT_EQ(stream.value(), checksum(all)) << size << ' ' << piece;
    }
  }
}

}  // namespace
}  // namespace lockstep
