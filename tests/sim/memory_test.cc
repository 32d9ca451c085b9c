// Memory of a simulated process: tokens add up, folds show their order, touches outside of a call are seen.
#include "sim/engine/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kContent = 77;

BufferRef lent(Memory& memory, std::uint64_t length) {
  const BufferId id = memory.make(length);
  memory.lend(id);
  return {id, 0, length};
}

KernelJob fold_job(BufferRef into, BufferRef from, BufferRef own, std::uint64_t expected) {
  FoldJob job;
  job.into = into;
  job.from = from;
  job.own = own;
  job.expected = expected;
  return {JobToken{}, job};
}

TEST(Token, PiecesOfAContentAddUpToTheWhole) {
  Token sum = token_of_content(kContent, 0, 10);
  sum += token_of_content(kContent, 10, 11);
  sum += token_of_content(kContent, 11, 100);
  EXPECT_EQ(sum, token_of_content(kContent, 0, 100));
}

TEST(Token, FoldsInAnotherOrderHaveTheSameSumAndAnotherChain) {
  const Token a = token_of_content(1, 0, 8);
  const Token b = token_of_content(2, 0, 8);
  const Token ab = fold(a, b, DataType::kF32, ReduceOp::kSum, 0);
  const Token ba = fold(b, a, DataType::kF32, ReduceOp::kSum, 0);
  EXPECT_EQ(ab.sum, ba.sum);
  EXPECT_NE(ab.chain, ba.chain);
}

TEST(TokenMemory, ATokenThatIsCutHasNoMeaning) {
  Memory memory(Mode::kToken);
  const BufferRef a = lent(memory, 100);
  memory.write_token(a.slice(0, 50), Touch::kLand, Token{1, 2});
  Token out;
  EXPECT_TRUE(memory.read_token(a.slice(0, 50), Touch::kJob, out));
  EXPECT_EQ(out, (Token{1, 2}));
  EXPECT_FALSE(memory.read_token(a.slice(0, 49), Touch::kJob, out));
  memory.spoil(a.slice(20, 1), Touch::kLand);
  EXPECT_FALSE(memory.read_token(a.slice(0, 50), Touch::kJob, out));
}

TEST(TokenMemory, BytesThatTrickleInArePiecesNoLongerThanTheyMeanSomething) {
  TokenMap map;
  map.reset(1000);
  map.write_content(0, 1000, kContent, 0);
  for (const std::uint64_t at : {500U, 502U, 501U, 100U, 503U, 99U}) map.spoil(at, 1);
  ASSERT_EQ(map.stretches().size(), 5U);
  EXPECT_EQ(map.stretches()[1].at, 99U);
  EXPECT_EQ(map.stretches()[1].length, 2U);
  EXPECT_EQ(map.stretches()[3].at, 500U);
  EXPECT_EQ(map.stretches()[3].length, 4U);
  map.spoil(101, 399);
  ASSERT_EQ(map.stretches().size(), 3U);
  EXPECT_EQ(map.stretches()[1].length, 405U);
  map.write_content(200, 10, kContent, 200);
  ASSERT_EQ(map.stretches().size(), 5U);
  Token out;
  EXPECT_TRUE(map.read(200, 10, out));
  EXPECT_FALSE(map.read(199, 2, out));
  EXPECT_TRUE(map.read(504, 496, out));
  map.spoil(0, 1000);
  EXPECT_EQ(map.stretches().size(), 1U);
}

TEST(TokenMemory, CopyAndFoldKeepTokens) {
  Memory memory(Mode::kToken);
  const BufferRef a = lent(memory, 64);
  const BufferRef b = lent(memory, 64);
  memory.fill(a, kContent);
  memory.run({JobToken{}, CopyJob{.into = b, .from = a}});
  EXPECT_EQ(memory.fingerprint(a), memory.fingerprint(b));

  const BufferRef in = lent(memory, 16);
  memory.write_token(in, Touch::kLand, Token{5, 6});
  EXPECT_FALSE(memory.run(fold_job(in, in, a.slice(16, 16), 1)).intact);  // another checksum than stated
  memory.write_token(in, Touch::kLand, Token{5, 6});
  EXPECT_TRUE(memory.run(fold_job(in, in, a.slice(16, 16), checksum_of(Token{5, 6}, 16))).intact);
  Token out;
  ASSERT_TRUE(memory.read_token(in, Touch::kJob, out));
  EXPECT_EQ(out, fold(Token{5, 6}, token_of_content(kContent, 16, 32), DataType::kU8, ReduceOp::kSum, 0));
}

class AnyMemory : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, AnyMemory, testing::Values(Mode::kToken, Mode::kBytes));

TEST_P(AnyMemory, TouchesOutsideOfACallAreSeen) {
  Memory memory(GetParam());
  const BufferRef a = lent(memory, 64);
  memory.fill(a, kContent);
  const KernelJob hash{JobToken{}, HashJob{a}};
  memory.run(hash);
  EXPECT_EQ(memory.trespass(), "");
  memory.take_back(a.id);
  memory.run(hash);
  EXPECT_NE(memory.trespass(), "");
}

TEST_P(AnyMemory, TouchesOfReleasedMemoryAndBeyondItsEndAreSeen) {
  Memory memory(GetParam());
  const BufferRef a = lent(memory, 64);
  memory.run({JobToken{}, HashJob{a.slice(60, 8)}});
  EXPECT_NE(memory.trespass().find("beyond its end"), std::string::npos);

  Memory other(GetParam());
  const BufferRef b = lent(other, 64);
  other.release(b.id);
  other.run({JobToken{}, HashJob{b}});
  EXPECT_NE(other.trespass().find("no call has lent"), std::string::npos);
}

TEST_P(AnyMemory, FingerprintsFollowTheContents) {
  Memory memory(GetParam());
  const BufferRef a = lent(memory, 64);
  const BufferRef b = lent(memory, 64);
  memory.fill(a, 1);
  memory.fill(b, 1);
  EXPECT_EQ(memory.fingerprint(a), memory.fingerprint(b));
  memory.fill(b, 2);
  EXPECT_NE(memory.fingerprint(a), memory.fingerprint(b));
}

TEST(Memory, AContentIsTheSameHoweverItIsCut) {
  for (std::size_t t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    const std::size_t width = size_of(type);
    std::vector<std::byte> whole(40 * width);
    fill_content(whole, 77, type, 0, false);
    for (std::size_t from = 0; from < 40; ++from) {
      for (std::size_t count = 0; from + count <= 40; ++count) {
        std::vector<std::byte> part(count * width);
        fill_content(part, 77, type, from * width, false);
        ASSERT_TRUE(std::ranges::equal(part, std::span(whole).subspan(from * width, part.size())))
            << name_of(type) << " from " << from << ", " << count;
      }
    }
    std::vector<std::byte> other(whole.size());
    fill_content(other, 78, type, 0, false);
    EXPECT_NE(whole, other) << name_of(type);
  }
}

TEST(Memory, BorrowedBytesAreTouchedWhereTheyLieUntilTheyAreReleased) {
  std::vector<std::byte> bytes(8, std::byte{3});
  Memory memory(Mode::kBytes);
  const BufferId id = memory.borrow(bytes);
  EXPECT_NE(memory.fingerprint(id), memory.fingerprint(BufferRef{id, 0, 4}));
  memory.lend(id);
  memory.open({id, 2, 2}, Touch::kLand)[0] = std::byte{9};
  EXPECT_EQ(bytes[2], std::byte{9});
  EXPECT_EQ(memory.trespass(), "");
  memory.release(id);
  EXPECT_TRUE(memory.open({id, 0, 1}, Touch::kLand).empty());
  EXPECT_NE(memory.trespass(), "");
  const BufferId own = memory.make(8);  // takes the buffer over, and not its bytes
  memory.fill({own, 0, 8}, kContent);
  EXPECT_EQ(bytes[0], std::byte{3});
}

}  // namespace
}  // namespace lockstep::sim
