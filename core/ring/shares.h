// Which rank owns how much of a direct all-reduce, where lines differ (rule 58 of docs/protocol.md). An owner of the
// share w of S bytes sends its contributions, (1 - w) S, and its results, (n - 1) w S; it receives as much. A rank with
// a thin line owns little or nothing. Integer arithmetic, so that all ranks compute the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ring/schedule.h"

namespace lockstep::ring {

// The rate of a line, in KiB a second; 0: not known.
using Rate = std::uint32_t;

// The report on a rank's line. It is the rank parameter of a call that is dealt out by rate.
struct LineReport {
  Rate rate = 0;
  bool loses = false;  // it needs many streams, because it loses packets (rule 60)

  static constexpr LineReport of(std::uint64_t parameter) {
    return {static_cast<Rate>(parameter), (parameter & kLoses) != 0};
  }
  [[nodiscard]] constexpr std::uint64_t parameter() const { return rate | (loses ? kLoses : 0); }
  static constexpr bool is_one(std::uint64_t parameter) { return parameter < 2 * kLoses; }

 private:
  static constexpr std::uint64_t kLoses = std::uint64_t{1} << 32U;
};

// All shares together.
inline constexpr std::uint32_t kAllShares = 1U << 16U;

// The shares with which the slowest rank is ready soonest. No measurement is exact: lines of at least two thirds of a
// faster one count as alike. A line that is not known counts as the slowest known one. Empty: the ranks own as much as
// each other, because their lines are alike, or there are only two ranks.
std::vector<std::uint32_t> shares_of(std::span<const Rate> rates);

// Deals the pieces out again, so that each rank owns its share of their bytes. Their order of folding stays, and so do
// the bits of the result. Changes nothing if a rank would have more exchanges than `most_exchanges`.
void deal(std::vector<Piece>& pieces, std::span<const std::uint32_t> shares, std::uint64_t most_exchanges);

}  // namespace lockstep::ring
