#include "core/ring/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "core/base/rng.h"

namespace lockstep::ring {
namespace {

using Shares = std::vector<std::uint32_t>;

TEST(LineReport, IsItsParameter) {
  for (const bool loses : {false, true}) {
    for (const Rate rate : {Rate{0}, Rate{1}, Rate{UINT32_MAX}}) {
      const std::uint64_t parameter = LineReport{rate, loses}.parameter();
      EXPECT_TRUE(LineReport::is_one(parameter));
      EXPECT_EQ(LineReport::of(parameter).rate, rate);
      EXPECT_EQ(LineReport::of(parameter).loses, loses);
    }
  }
  EXPECT_FALSE(LineReport::is_one(LineReport{UINT32_MAX, true}.parameter() + 1));
}

TEST(Shares, AreEqualAmongLinesThatAreAlike) {
  EXPECT_EQ(shares_of(std::vector<Rate>{3000, 2500, 2000, 2999}), Shares{}) << "two thirds of the fastest";
  EXPECT_NE(shares_of(std::vector<Rate>{3000, 2500, 1999, 2999}), Shares{});
}

TEST(Shares, AreEqualWhereNoLineIsKnownOrOnlyTwoRanksAre) {
  EXPECT_EQ(shares_of(std::vector<Rate>{0, 0, 0}), Shares{});
  EXPECT_EQ(shares_of(std::vector<Rate>{100, 1}), Shares{}) << "both carry all bytes once, whoever owns them";
  EXPECT_EQ(shares_of(std::vector<Rate>{}), Shares{});
}

TEST(Shares, ALineThatIsNotKnownCountsAsTheSlowest) {
  EXPECT_EQ(shares_of(std::vector<Rate>{0, 100, 100, 0}), Shares{});
  EXPECT_EQ(shares_of(std::vector<Rate>{1000, 1000, 100, 0}), shares_of(std::vector<Rate>{1000, 1000, 100, 100}));
}

TEST(Shares, AThinLineOwnsNothingBesideFatOnes) {
  const Shares shares = shares_of(std::vector<Rate>{24'000, 24'500, 2400, 24'000, 25'000, 2400, 24'000, 24'000});
  EXPECT_EQ(shares[2], 0U);
  EXPECT_EQ(shares[5], 0U);
  for (const std::size_t fat : {0U, 1U, 3U, 4U, 6U, 7U}) EXPECT_NEAR(shares[fat], kAllShares / 6.0, 4) << fat;
}

// Four ranks: (1 + 2 w) / r is the same for all that share, w = (T r - 1) / 2 with T = (4 - 2 + 3) / 9.
TEST(Shares, ThoseWhoShareAreReadyAtTheSameTime) {
  const Shares shares = shares_of(std::vector<Rate>{4000, 1000, 2500, 2500});
  EXPECT_NEAR(shares[0], kAllShares * (4 * 5.0 / 9 - 1) / 2, 4);
  EXPECT_NEAR(shares[2], kAllShares * (2.5 * 5.0 / 9 - 1) / 2, 4);
  EXPECT_EQ(shares[3], shares[2]);
  EXPECT_EQ(shares[1], 0U);
}

TEST(Shares, ARankWhoseShareWouldBeNothingHasNone) {
  EXPECT_EQ(shares_of(std::vector<Rate>{4000, 2000, 1000}), (Shares{kAllShares, 0, 0}));
}

// Any rates: all is given out, and nobody could be ready sooner by giving something to another.
TEST(Shares, AddUpAndLeaveNobodyLaterThanNeeded) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto world = static_cast<std::size_t>(3 + below(draw(seed, 1), 62));
    std::vector<Rate> rates;
    for (std::size_t rank = 0; rank < world; ++rank) {
      const auto bits = static_cast<std::uint32_t>(below(draw(seed, 2, rank), 33));
      rates.push_back(static_cast<Rate>(draw(seed, 3, rank) >> (64U - bits) % 64U) * (bits == 0 ? 0 : 1));
    }
    const Shares shares = shares_of(rates);
    if (shares.empty()) continue;
    ASSERT_EQ(shares.size(), world);
    ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), kAllShares) << seed;
    // A faster line never owns less than a slower one, but for what rounding gives to the first.
    for (std::size_t a = 0; a < world; ++a) {
      for (std::size_t b = 0; b < world; ++b) {
        const bool faster = rates[a] > rates[b] && rates[b] != 0;
        ASSERT_TRUE(!faster || shares[a] + world >= shares[b]) << seed;
      }
    }
  }
}

std::vector<Piece> equal_pieces(std::uint32_t world, std::uint32_t each, std::uint32_t length) {
  std::vector<Piece> pieces;
  for (std::uint32_t owner = 0; owner < world; ++owner) {
    for (std::uint32_t i = 0; i < each; ++i) {
      const std::uint64_t offset = std::uint64_t{owner * each + i} * length;
      pieces.push_back({0, owner, owner, offset, length, {}});
    }
  }
  return pieces;
}

TEST(Shares, EachRankOwnsItsShareOfTheBytesAndTheOrderOfFoldingStays) {
  std::vector<Piece> pieces = equal_pieces(4, 8, 100);
  const Shares shares{kAllShares / 2, 0, kAllShares / 8, kAllShares / 8 * 3};
  deal(pieces, shares, 1000);
  std::vector<std::uint32_t> owned(4);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    ++owned[pieces[i].owner];
    EXPECT_EQ(pieces[i].last, i / 8);
  }
  EXPECT_EQ(owned, (std::vector<std::uint32_t>{16, 0, 4, 12}));
  EXPECT_TRUE(std::ranges::is_sorted(pieces, {}, &Piece::owner));
}

TEST(Shares, ThePieceBelongsToTheRankThatHasItsMiddle) {
  for (const std::uint32_t of_first : {kAllShares / 4 - 1, kAllShares / 4, kAllShares / 4 + 1}) {
    std::vector<Piece> pieces = equal_pieces(2, 1, 100);  // middles at a quarter and at three quarters
    deal(pieces, Shares{of_first, kAllShares - of_first}, 1000);
    EXPECT_EQ(pieces[0].owner, of_first > kAllShares / 4 ? 0U : 1U) << of_first;
    EXPECT_EQ(pieces[1].owner, 1U);
  }
}

TEST(Shares, NobodyGetsMoreExchangesThanItMayHave) {
  const Shares shares{kAllShares, 0, 0};  // 12 pieces, with two others each
  for (const std::uint64_t most : {23U, 24U}) {
    std::vector<Piece> pieces = equal_pieces(3, 4, 100);
    deal(pieces, shares, most);
    EXPECT_EQ(pieces.back().owner, most == 24 ? 0U : 2U) << most;
  }
}

TEST(Shares, WithoutSharesNothingChanges) {
  std::vector<Piece> pieces = equal_pieces(3, 4, 100);
  deal(pieces, {}, 1000);
  for (const Piece& piece : pieces) EXPECT_EQ(piece.owner, piece.last);
}

}  // namespace
}  // namespace lockstep::ring
