#include "core/peer/tag_uses.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "core/base/rng.h"

namespace lockstep::peer {
namespace {

TEST(TagUses, CountsTheLaunchesOfEachTag) {
  TagUses uses;
  EXPECT_EQ(uses.next(Tag{7}), 0U);
  EXPECT_EQ(uses.launch(Tag{7}), 0U);
  EXPECT_EQ(uses.launch(Tag{7}), 1U);
  EXPECT_EQ(uses.next(Tag{7}), 2U);
  EXPECT_EQ(uses.next(Tag{8}), 0U);
}

TEST(TagUses, ConsecutiveNewTagsShareOneEntry) {
  TagUses uses;
  for (std::uint64_t step = 0; step < 100'000; ++step) {
    EXPECT_EQ(uses.launch(Tag{2 * step + 1}), 0U);  // two in flight, launched in another order
    EXPECT_EQ(uses.launch(Tag{2 * step}), 0U);
  }
  EXPECT_EQ(uses.size(), 1U);
}

TEST(TagUses, TheSmallestAndTheLargestTagWork) {
  TagUses uses;
  constexpr std::uint64_t kLast = UINT64_MAX;
  for (const std::uint64_t tag : {kLast, std::uint64_t{0}, kLast - 1, std::uint64_t{1}}) uses.launch(Tag{tag});
  EXPECT_EQ(uses.size(), 2U);
  for (const std::uint64_t tag : {kLast, std::uint64_t{0}}) EXPECT_EQ(uses.launch(Tag{tag}), 1U);
  EXPECT_EQ(uses.next(Tag{kLast - 1}), 1U);
  EXPECT_EQ(uses.next(Tag{2}), 0U);
}

TEST(TagUses, BehavesLikeAPlainMap) {
  TagUses uses;
  std::map<std::uint64_t, std::uint32_t> plain;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t tag = draw(5, 1, i) % 40;
    EXPECT_EQ(uses.launch(Tag{tag}), plain[tag]++);
    const std::uint64_t other = draw(5, 2, i) % 42;
    const auto at = plain.find(other);
    EXPECT_EQ(uses.next(Tag{other}), at == plain.end() ? 0 : at->second);
  }
}

TEST(TagUses, UsesWrapAround) {
  TagUses uses(UINT32_MAX);
  EXPECT_EQ(uses.next(Tag{1}), UINT32_MAX);
  EXPECT_EQ(uses.launch(Tag{1}), UINT32_MAX);
  EXPECT_EQ(uses.launch(Tag{1}), 0U);
  EXPECT_TRUE(is_earlier_use(UINT32_MAX, 0));
  EXPECT_FALSE(is_earlier_use(0, UINT32_MAX));
  EXPECT_FALSE(is_earlier_use(3, 3));
}

}  // namespace
}  // namespace lockstep::peer
