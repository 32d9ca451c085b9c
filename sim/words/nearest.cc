#include "sim/words/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lockstep::sim {
namespace {

// Levenshtein's distance, a row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t swap = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, swap});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMistakes = 2;
  std::string answer;
  std::size_t best = kMistakes + 1;
  for (const std::string& candidate : candidates) {
    std::size_t d = distance(word, candidate);
    if (!word.empty() && candidate.starts_with(word)) d = std::min(d, kMistakes);
    if (d < best && d < std::max(word.size(), candidate.size())) {
      best = d;
      answer = candidate;
    }
  }
  return answer;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string guess = nearest(word, candidates);
  return guess.empty() ? "" : "; did you mean '" + guess + "'?";
}

}  // namespace lockstep::sim
