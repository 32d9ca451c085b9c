// The bytes of one message of each type, as version 1 put them on the wire. Whoever changes the layout sees it here
// first.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/wire/codec.h"
#include "tests/support/sample_messages.h"

namespace lockstep::wire {
namespace {

constexpr const char* kGolden = LOCKSTEP_SOURCE_DIR "/tests/golden/wire_v1.hex";
static_assert(kVersion == 1, "a new version: keep wire_v1.hex, and write wire_v2.hex with LOCKSTEP_UPDATE_GOLDEN=1");

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4U];
    text += "0123456789abcdef"[static_cast<unsigned>(byte) & 15U];
  }
  return text;
}

// Name and bytes, in the order of the wire.
std::vector<std::pair<std::string, std::string>> ours() {
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::byte> bytes;
  encode(Preamble{}, bytes);
  lines.emplace_back("preamble", hex(bytes));
  for (const Message& message : test::sample_messages()) {
    bytes.clear();
    encode(message, Term{0x0102030405060708}, bytes);
    lines.emplace_back(name_of_type(type_of(message)), hex(bytes));
  }
  for (const bool taken_back : {false, true}) {
    bytes.assign(kTrailerBytes, std::byte{});
    encode(Trailer{0x1122334455667788, taken_back}, std::span(bytes).first<kTrailerBytes>());
    lines.emplace_back(taken_back ? "trailer-taken-back" : "trailer", hex(bytes));
  }
  return lines;
}

std::map<std::string, std::string> golden() {
  std::map<std::string, std::string> lines;
  std::ifstream file(kGolden);
  for (std::string name, bytes; file >> name >> bytes;) lines[name] = bytes;
  return lines;
}

TEST(GoldenWire, BytesAreThoseOfVersionOne) {
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    std::ofstream file(kGolden);
    for (const auto& [name, bytes] : ours()) file << name << ' ' << bytes << '\n';
  }
  const auto expected = golden();
  ASSERT_EQ(expected.size(), ours().size())
      << "a message came or went: append only, and write it into " << kGolden << " with LOCKSTEP_UPDATE_GOLDEN=1";
  for (const auto& [name, bytes] : ours()) {
    ASSERT_TRUE(expected.contains(name)) << name << " is not in " << kGolden;
    EXPECT_EQ(bytes, expected.at(name)) << name << " has another layout than before: peers of this version no longer "
                                        << "understand it. Bump kVersion in core/wire/message.h.";
  }
}

TEST(GoldenWire, ThereIsASampleOfEachMessage) {
  const auto samples = test::sample_messages();
  ASSERT_EQ(samples.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i].index(), i);
}

}  // namespace
}  // namespace lockstep::wire
