// How long an identity that has broken the protocol stays out.
#include "core/coordinator/exclusions.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/wire/limits.h"

namespace lockstep::coordinator {
namespace {

constexpr io::TokenId kSomeToken{0x0123456789abcdef};
constexpr io::TokenId kOtherToken{5};

// Of the holder of a token, with one of many keys.
io::Identity holder(std::uint64_t key, io::TokenId token = kSomeToken) {
  io::Identity identity{{}, token, true};
  for (std::size_t i = 0; i < 8; ++i) identity.key.bytes[i] = static_cast<std::uint8_t>(key >> (8 * i));
  identity.key.bytes[31] = 1;
  return identity;
}

struct Book {
  static constexpr Instant at(std::int64_t s) { return Instant{} + seconds(s); }

  void personal(const io::Identity& who, Instant now) { exclusions.violated(who, true, now); }
  void shared(const io::Identity& who, Instant now) { exclusions.violated(who, false, now); }
  [[nodiscard]] bool admits(const io::Identity& who, Instant now) const {
    return !exclusions.validate_join(who, now).has_value();
  }

  Exclusions exclusions;
};

TEST(Exclusions, AdmitAnIdentityWithoutAViolation) {
  Book book;
  EXPECT_TRUE(book.admits(holder(1), Book::at(0)));
  book.shared(holder(2), Book::at(0));
  EXPECT_TRUE(book.admits(holder(1), Book::at(0)));
}

TEST(Exclusions, APersonalTokenIsExcludedWithEveryKey) {
  Book book;
  book.personal(holder(1), Book::at(100));
  for (const std::uint64_t key : {1U, 2U}) {
    const auto error = book.exclusions.validate_join(holder(key), Book::at(103));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, Status::kRefused);
    EXPECT_NE(error->text.find("token 0123456789abcdef admits nobody for another 7 s, because peers that joined by it "
                               "have broken the protocol"),
              std::string::npos)
        << error->text;
  }
  EXPECT_FALSE(book.admits(holder(1), Book::at(110) - nanoseconds(1)));
  EXPECT_TRUE(book.admits(holder(1), Book::at(110)));
}

TEST(Exclusions, OfASharedTokenOneKeyIsExcluded) {
  Book book;
  book.shared(holder(1), Book::at(0));
  const auto error = book.exclusions.validate_join(holder(1), Book::at(0));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->text, "this peer has broken the protocol: it may join again in 10 s");
  EXPECT_FALSE(book.admits(holder(1, kOtherToken), Book::at(0)));  // another token does not help
  EXPECT_TRUE(book.admits(holder(2), Book::at(0)));
}

TEST(Exclusions, EachIsTwiceAsLongUpToTenMinutes) {
  Book book;
  Instant now = Book::at(0);
  for (const std::int64_t length : {10, 20, 40, 80, 160, 320, 600, 600}) {
    book.personal(holder(1), now);
    EXPECT_FALSE(book.admits(holder(1), now + seconds(length) - nanoseconds(1))) << length;
    now = now + seconds(length);
    EXPECT_TRUE(book.admits(holder(1), now)) << length;
  }
}

TEST(Exclusions, AreForgottenOneHourAfterTheirEnd) {
  Book book;
  book.personal(holder(1), Book::at(0));
  book.personal(holder(1), Book::at(10 + 3600));
  EXPECT_FALSE(book.admits(holder(1), Book::at(10 + 3600 + 19)));
  const Instant later = Book::at(10 + 3600 + 20 + 3601);
  book.personal(holder(1), later);
  EXPECT_TRUE(book.admits(holder(1), later + seconds(10)));
  EXPECT_EQ(book.exclusions.entries(), 1U);
}

// A liar makes a new key for each Join.
TEST(Exclusions, ThreeViolationsWithinTenMinutesExcludeASharedToken) {
  Book book;
  book.shared(holder(1), Book::at(0));
  book.shared(holder(2), Book::at(300));
  EXPECT_TRUE(book.admits(holder(9), Book::at(300)));
  book.shared(holder(3), Book::at(600));
  EXPECT_FALSE(book.admits(holder(9), Book::at(609)));
  EXPECT_TRUE(book.admits(holder(9, kOtherToken), Book::at(609)));
  EXPECT_TRUE(book.admits(holder(9), Book::at(610)));
  book.shared(holder(4), Book::at(700));  // with those at 300 s and 600 s
  EXPECT_FALSE(book.admits(holder(9), Book::at(719)));
  EXPECT_TRUE(book.admits(holder(9), Book::at(720)));
}

TEST(Exclusions, ViolationsThatAreFarApartExcludeNoSharedToken) {
  Book book;
  for (std::int64_t i = 0; i < 10; ++i) {
    book.shared(holder(1 + static_cast<std::uint64_t>(i)), Book::at(i * 301));
    EXPECT_TRUE(book.admits(holder(99), Book::at(i * 301))) << i;
  }
}

TEST(Exclusions, AFullTableDropsTheOneThatEndsFirst) {
  Book book;
  for (std::uint64_t i = 0; i < kMaxExclusions; ++i) {
    book.personal(holder(1, io::TokenId{100 + i}), Book::at(0) + milliseconds(1) * (i == 7 ? 0 : 1));
  }
  EXPECT_FALSE(book.admits(holder(1, io::TokenId{107}), Book::at(1)));
  book.personal(holder(1, kOtherToken), Book::at(1));
  EXPECT_EQ(book.exclusions.entries(), kMaxExclusions);
  EXPECT_TRUE(book.admits(holder(1, io::TokenId{107}), Book::at(1)));
  EXPECT_FALSE(book.admits(holder(1, kOtherToken), Book::at(1)));
  EXPECT_FALSE(book.admits(holder(1, io::TokenId{100}), Book::at(1)));
}

}  // namespace
}  // namespace lockstep::coordinator
