#include "sim/cover/judge.h"

#include <algorithm>

namespace lockstep::sim::cover {

Verdict judge(const Tally& tally, const Reasons& reasons) {
  Verdict verdict;
  for (Cell cell = 0; cell < cell_count(); ++cell) {
    const bool excluded = !reasons.impossible[cell].empty();
    const bool owed = !reasons.unreached[cell].empty();
    if (tally.of(cell) > 0) {
      verdict.hit += 1;
      verdict.rarest.push_back(cell);
      if (excluded) verdict.stale.push_back(cell);
      if (owed) verdict.paid.push_back(cell);
    } else {
      verdict.impossible += excluded ? 1 : 0;
      verdict.unreached += owed ? 1 : 0;
      if (!excluded && !owed) verdict.open.push_back(cell);
    }
  }
  std::stable_sort(verdict.rarest.begin(), verdict.rarest.end(),
                   [&](Cell a, Cell b) { return tally.of(a) < tally.of(b); });
  verdict.rarest.resize(std::min(verdict.rarest.size(), kRarest));
  return verdict;
}

}  // namespace lockstep::sim::cover
