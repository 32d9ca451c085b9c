// Saved values are loaded unchanged; loading any other bytes does no harm.
#include "core/archive/archive.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/coordinator/fields.h"
#include "core/peer/fields.h"

namespace lockstep::archive {
namespace {

template <typename T>
std::vector<std::byte> saved(const T& value) {
  std::vector<std::byte> bytes;
  Saver(bytes).all(value);
  return bytes;
}

template <typename T>
bool comes_back(const T& value) {
  const std::vector<std::byte> bytes = saved(value);
  Loader loader(bytes);
  T loaded{};
  loader.all(loaded);
  return !loader.failed() && loader.rest().empty() && loaded == value;
}

RC_GTEST_PROP(Archive, NumbersSurviveARoundTrip, (std::uint64_t a, std::int64_t b, std::uint16_t c, bool d)) {
  RC_ASSERT(comes_back(a) && comes_back(b) && comes_back(c) && comes_back(d));
  RC_ASSERT(unzigzag(zigzag(b)) == b);
}

TEST(Archive, LimitsOfNumbersSurviveARoundTrip) {
  for (const std::int64_t value : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, INT64_MAX}) {
    EXPECT_TRUE(comes_back(value)) << value;
    EXPECT_TRUE(comes_back(Instant{value}));
  }
  EXPECT_TRUE(comes_back(UINT64_MAX));
  EXPECT_EQ(saved(std::uint64_t{127}).size(), 1U);
  EXPECT_EQ(saved(std::uint64_t{128}).size(), 2U);
  EXPECT_EQ(saved(UINT64_MAX).size(), 10U);
}

RC_GTEST_PROP(Archive, ContainersSurviveARoundTrip,
              (const std::vector<std::string>& a, const std::map<std::uint32_t, std::set<std::uint64_t>>& b)) {
  RC_ASSERT(comes_back(a) && comes_back(b));
  RC_ASSERT(comes_back(std::optional(a)) && comes_back(std::optional<std::string>()));
  RC_ASSERT(comes_back(std::make_tuple(a.size(), b)) && comes_back(std::make_pair(a, b)));
  RC_ASSERT(comes_back(std::deque<std::string>(a.begin(), a.end())));
}

TEST(Archive, PointersAndResultsSurviveARoundTrip) {
  const auto bytes = [](const auto& value) { return saved(value); };
  const std::vector<std::byte> there = bytes(std::shared_ptr<const std::string>(std::make_shared<std::string>("x")));
  Loader loader(there);
  std::shared_ptr<const std::string> loaded;
  loader.all(loaded);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(*loaded, "x");

  const std::vector<std::byte> wrong = bytes(Result<std::uint16_t>(Error{Status::kUnreachable, "no"}));
  Loader second(wrong);
  Result<std::uint16_t> result(std::uint16_t{1});
  second.all(result);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, Status::kUnreachable);
  EXPECT_EQ(result.error().text, "no");
}

TEST(Archive, ANumberTooLargeForItsFieldIsAnError) {
  const std::vector<std::byte> bytes = saved(std::uint64_t{70'000});
  Loader loader(bytes);
  std::uint16_t small = 1;
  loader.all(small);
  EXPECT_TRUE(loader.failed());
  EXPECT_EQ(small, 0);
}

TEST(Archive, AListLongerThanItsBytesAllocatesNothing) {
  const std::vector<std::byte> bytes = saved(UINT64_MAX);
  Loader loader(bytes);
  std::vector<std::string> list;
  loader.all(list);
  EXPECT_TRUE(loader.failed());
  EXPECT_TRUE(list.empty());
}

TEST(Archive, AnUnknownEnumValueIsAnError) {
  const std::vector<std::byte> bytes{std::byte{200}};
  Loader loader(bytes);
  DataType type{};
  loader.all(type);
  EXPECT_TRUE(loader.failed());
}

RC_GTEST_PROP(Archive, AnyBytesCanBeLoaded, (std::vector<std::uint8_t> noise)) {
  Loader loader(std::as_bytes(std::span(noise)));
  peer::Launch launch{};
  std::map<PeerId, std::vector<std::string>> names;
  loader.all(launch, names);
  RC_ASSERT(loader.rest().size() <= noise.size());
}

}  // namespace
}  // namespace lockstep::archive
