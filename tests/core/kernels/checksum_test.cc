#include "core/kernels/checksum.h"

#include <gtest/gtest.h>

#include "tests/support/elements.h"
#include "tests/support/every_target.h"

namespace lockstep {
namespace {

std::uint64_t checksum_of(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

class Checksum : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Checksum);

// What xxHash 0.8.1 computes. The values travel on the wire: another version of xxHash must agree.
TEST_P(Checksum, GoldenValues) {
  EXPECT_EQ(checksum({}), 0x2d06800538d394c2U);
  EXPECT_EQ(checksum_of("a"), 0xe6c632b61e964e1fU);
  EXPECT_EQ(checksum_of("abc"), 0x78af5f94892f3950U);
  EXPECT_EQ(checksum_of("The quick brown fox jumps over the lazy dog"), 0xce7d19a5418fb365U);
  EXPECT_EQ(checksum_of(std::string(100'000, 'l')), 0xd6e69f5b9f4a349U);
}

// xxHash takes another path at 16, 128, 240 and 1024 bytes.
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
