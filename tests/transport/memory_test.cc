#include "transport/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/sanitized.h"
#include "transport/pages.h"

namespace lockstep::transport {
namespace {

TEST(Memory, HasTheSinkAndTheZeros) {
  Memory memory;
  EXPECT_EQ(memory.at({kSinkBuffer, 0, kStandingBufferBytes}).size(), kStandingBufferBytes);
  for (const std::byte zero : memory.at({kZeroBuffer, 0, kStandingBufferBytes})) ASSERT_EQ(zero, std::byte{0});
  EXPECT_EQ(memory.size(), 0U);
}

TEST(Memory, AReferenceNamesAPartOfItsBuffer) {
  Memory memory;
  std::array<std::byte, 100> bytes{};
  const BufferId id = memory.add(bytes);
  const auto part = memory.at({id, 10, 20});
  EXPECT_EQ(part.data(), bytes.data() + 10);
  EXPECT_EQ(part.size(), 20U);
  EXPECT_EQ(memory.at({id, 100, 0}).size(), 0U);
}

TEST(MemoryDeathTest, MemoryThatIsNotRegisteredCannotBeAccessed) {
  Memory memory;
  std::array<std::byte, 100> bytes{};
  const BufferId id = memory.add(bytes);
  EXPECT_DEATH((void)memory.at({id, 90, 11}), "assertion failed");
  EXPECT_DEATH((void)memory.at({id, 101, std::numeric_limits<std::uint64_t>::max()}), "assertion failed");
  memory.remove(id);
  EXPECT_DEATH((void)memory.at({id, 0, 1}), "assertion failed");
  EXPECT_DEATH((void)memory.at({BufferId{4'000'000'000U}, 0, 0}), "assertion failed");
}

TEST(Memory, IdsAreReusedButNeverSharedByTwoBuffers) {
  Memory memory;
  std::byte byte{};
  std::set<std::uint32_t> ids;
  std::vector<BufferId> all;
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(memory.add({&byte, 1}));
    EXPECT_GE(all.back().value, kFirstFreeBuffer.value);
    EXPECT_TRUE(ids.insert(all.back().value).second);
  }
  for (const BufferId id : all) memory.remove(id);
  EXPECT_EQ(memory.size(), 0U);
  EXPECT_TRUE(ids.contains(memory.add({&byte, 1}).value));
}

TEST(Scratch, IsUsedAgain) {
  ScratchPool pool;
  std::byte* first = nullptr;
  {
    const Scratch scratch = pool.take(10U << 20U);
    ASSERT_GE(scratch.bytes().size(), 10U << 20U);
    first = scratch.bytes().data();
    EXPECT_EQ(pool.footprint().cached, 0U);
  }
  EXPECT_EQ(pool.footprint().lent, 0U);
  const Scratch again = pool.take(9U << 20U);
  EXPECT_EQ(again.bytes().data(), first);
}

TEST(Scratch, KeepsNoMoreThanTheMostThatWasLentAtOnce) {
  ScratchPool pool;
  std::size_t most = 0;
  for (const std::size_t mebibytes : {8U, 1U, 64U, 2U, 32U, 5U, 64U}) {
    const Scratch scratch = pool.take(std::size_t{mebibytes} << 20U);
    most = std::max(most, pool.footprint().lent);
    EXPECT_LE(pool.footprint().lent + pool.footprint().cached, most);
  }
  EXPECT_LE(pool.footprint().cached, most);
}

TEST(Scratch, LargeFreshMemoryHasItsPagesBeforeItIsUsed) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer has memory of its own for each byte, and its pages come with the use";
  const auto faults = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  ScratchPool pool;
  const Scratch scratch = pool.take(32U << 20U);
  std::array<std::byte, 1> probe{};
  if (::madvise(scratch.bytes().data(), 4096, 23) != 0) GTEST_SKIP() << "Linux before 5.14 cannot populate";
  const auto before = faults();
  for (std::size_t at = 0; at < scratch.bytes().size(); at += 4096) scratch.bytes()[at] = probe[0];
  EXPECT_LT(faults() - before, 8) << "one for each 2 MiB at least, if nothing was populated";
}

TEST(Pages, HugePagesThatCostMoreThanSmallOnesAreGivenUp) {
  PageSizes sizes;
  EXPECT_TRUE(sizes.huge());
  sizes.took(16 * kHugePage, PageSizes::kMostOfHugePage * 16);
  sizes.took(100, seconds(1));  // less than a page tells nothing
  EXPECT_TRUE(sizes.huge());
  sizes.took(16 * kHugePage, PageSizes::kMostOfHugePage * 17);
  EXPECT_FALSE(sizes.huge());
  sizes.took(16 * kHugePage, Duration{0});
  EXPECT_FALSE(sizes.huge()) << "what is free stays in small pieces for the rest of the memory";
}

TEST(Scratch, AnImpossibleSizeReturnsAnEmptyBlock) {
  ScratchPool pool;
  EXPECT_TRUE(pool.take(std::numeric_limits<std::size_t>::max()).bytes().empty());
  EXPECT_TRUE(pool.take(std::size_t{1} << 60U).bytes().empty());
  EXPECT_EQ(pool.footprint().lent, 0U);
}

}  // namespace
}  // namespace lockstep::transport
