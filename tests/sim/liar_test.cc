#include "sim/network/liar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "core/wire/codec.h"
#include "tests/support/sample_messages.h"

namespace lockstep::sim {
namespace {

using Bytes = std::vector<std::byte>;

// A stream with every kind of message. The trailer follows each segment; payloads do not pass a liar.
Bytes every_message() {
  Bytes bytes;
  wire::encode(wire::Preamble{}, bytes);
  for (const wire::Message& message : test::sample_messages()) {
    wire::encode(message, Term{3}, bytes);
    if (std::holds_alternative<wire::Segment>(message)) bytes.resize(bytes.size() + wire::kTrailerBytes);
  }
  return bytes;
}

Bytes told(const Bytes& bytes, std::size_t piece, const Liar::Manner& manner, Liar& liar) {
  Bytes out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    liar.pass(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)), manner, out);
  }
  return out;
}

TEST(Liar, TellsTheTruthUnlessItIsToLie) {
  const Bytes bytes = every_message();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100}, bytes.size()}) {
    Liar liar;
    EXPECT_EQ(told(bytes, piece, {}, liar), bytes) << piece;
    EXPECT_EQ(liar.lies(), 0U);
  }
}

TEST(Liar, SaysTheSameWhereverTheBytesAreCut) {
  const Bytes bytes = every_message();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Liar::Manner manner{2, Dice(seed), 1, true, false};
    Liar whole;
    Liar pieces;
    EXPECT_EQ(told(bytes, bytes.size(), manner, whole), told(bytes, 5, manner, pieces));
    EXPECT_GT(whole.lies(), 0U);
  }
}

// The receiver reads frame by frame, and each has the right checksums.
TEST(Liar, SaysWhatIsWellFormed) {
  const Bytes bytes = every_message();
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Liar liar;
    const Bytes out = told(bytes, bytes.size(), {1, Dice(seed), 1, true, true}, liar);
    differs = differs || out != bytes;
    std::span<const std::byte> rest = std::span(out).subspan(wire::kPreambleBytes);
    while (!rest.empty()) {
      ASSERT_GE(rest.size(), wire::kHeaderBytes);
      const auto header = wire::decode_header(rest.first<wire::kHeaderBytes>());
      ASSERT_TRUE(header.ok()) << header.error().text;
      rest = rest.subspan(wire::kHeaderBytes);
      ASSERT_GE(rest.size(), header->length);
      EXPECT_EQ(header->checksum, wire::frame_checksum(*header, rest.first(header->length)));
      rest = rest.subspan(header->length);
      if (header->type == wire::type_of(wire::Segment{})) rest = rest.subspan(wire::kTrailerBytes);
    }
  }
  EXPECT_TRUE(differs);
}

// Strangers on the host of a liar say what is no frame.
TEST(Liar, LeavesNoiseAsItIs) {
  Bytes noise(300, std::byte{0x5a});
  Liar liar;
  EXPECT_EQ(told(noise, 10, {1, Dice(1), 1, true, false}, liar), noise);
}

}  // namespace
}  // namespace lockstep::sim
