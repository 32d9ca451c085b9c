#include "core/ring/shares.h"

#include <algorithm>

#include "core/base/mutant.h"

namespace lockstep::ring {

namespace {

// Fastest first: each line takes the rate of the slowest one that counts as alike.
struct Line {
  std::uint64_t rate = 0;
  std::uint32_t rank = 0;
};

std::vector<Line> sorted_lines(std::span<const Rate> rates) {
  Rate slowest = 0;
  for (const Rate rate : rates) {
    if (rate != 0 && (slowest == 0 || rate < slowest)) slowest = rate;
  }
  std::vector<Line> lines;
  lines.reserve(rates.size());
  for (const Rate rate : rates) lines.push_back({rate == 0 ? slowest : rate, static_cast<std::uint32_t>(lines.size())});
  std::ranges::stable_sort(lines, std::ranges::greater{}, &Line::rate);
  for (auto first = lines.begin(); first != lines.end();) {
    const std::uint64_t least = first->rate * 2;
    const auto next = std::find_if(first, lines.end(), [&](const Line& line) { return line.rate * 3 < least; });
    const std::uint64_t rate = (next - 1)->rate;
    for (; first != next; ++first) first->rate = rate;
  }
  return lines;
}

}  // namespace

// In units of the bytes, a rank of rate r and share w is ready after (1 + (n - 2) w) / r. Ranks with a share are ready
// at the same time T: w = (T r - 1) / (n - 2). The shares add up to 1: T = (n - 2 + k) / R, where k ranks have a share,
// and R is the sum of their rates. Those are the fastest ones, as long as the share of the slowest of them is not
// negative.
std::vector<std::uint32_t> shares_of(std::span<const Rate> rates) {
  const std::uint64_t world = rates.size();
  if (world < 3) return {};
  const std::vector<Line> lines = sorted_lines(rates);
  if (lines.front().rate == lines.back().rate) return {};
  std::uint64_t together = 0;
  std::size_t sharing = 0;
  for (; sharing < world; ++sharing) {
    const std::uint64_t with = together + lines[sharing].rate;
    if ((world - 1 + sharing) * lines[sharing].rate <= with) break;
    together = with;
  }
  std::vector<std::uint32_t> shares(world, 0);
  std::uint32_t given = 0;
  for (std::size_t i = 0; i < sharing; ++i) {
    const std::uint64_t part = (world - 2 + sharing) * lines[i].rate - together;
    const auto share = static_cast<std::uint32_t>(part * kAllShares / ((world - 2) * together));
    shares[lines[i].rank] = share;
    given += share;
  }
  shares[lines.front().rank] += kAllShares - given;
  return shares;
}

void deal(std::vector<Piece>& pieces, std::span<const std::uint32_t> shares, std::uint64_t most_exchanges) {
  if (shares.empty() || mutant(Mutant::kSharesUnused)) return;
  std::uint64_t all = 0;
  for (const Piece& piece : pieces) all += piece.length;
  std::vector<std::uint32_t> owners;
  owners.reserve(pieces.size());
  std::vector<std::uint64_t> owned(shares.size(), 0);
  std::uint32_t owner = 0;
  std::uint64_t until = shares[0];  // the shares of the ranks up to `owner`
  std::uint64_t before = 0;
  for (const Piece& piece : pieces) {
    const std::uint64_t middle = before + piece.length / 2;
    while (owner + 1 < shares.size() && middle * kAllShares >= until * all) until += shares[++owner];
    owners.push_back(owner);
    ++owned[owner];
    before += piece.length;
  }
  const std::uint64_t others = shares.size() - 1;
  const std::uint64_t most = std::ranges::max(owned);
  if (pieces.size() + most * (others - 1) > most_exchanges) return;
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].owner = owners[i];
}

}  // namespace lockstep::ring
