#include "tests/lab/wan/disturbance.h"

#include <algorithm>
#include <charconv>

namespace lockstep::wan {

void Disturbance::on_call(std::uint32_t number, Connections& connections) {
  connections.forget_orders();  // of a call that carried less than the one before
  before_.resize(number, connections.resets().size());
  const std::uint32_t next = (number - 1) / 2;  // of disturbed calls, from 0
  const std::size_t rank = next % hosts_.size();
  const std::uint32_t from = hosts_[rank];
  const std::uint32_t to = hosts_[(rank + 1) % hosts_.size()];
  const std::uint64_t so_far = connections.carried(from, to);
  if (!disturbs(number)) {
    carried_ = so_far;
    return;
  }
  const std::uint64_t bytes = so_far - carried_;
  for (std::uint32_t i = 1; i <= resets_; ++i) connections.reset_after(from, to, bytes * i / (resets_ + 1));
}

std::vector<Disturbance::Hits> Disturbance::hits(std::uint32_t calls, const std::vector<ResetRecord>& resets) const {
  std::vector<Hits> hits(calls);
  for (std::uint32_t call = 0; call < calls && call < before_.size(); ++call) {
    const std::size_t end = call + 1 < before_.size() ? before_[call + 1] : resets.size();
    if (disturbs(call + 1)) hits[call].wanted = resets_;
    for (std::size_t i = before_[call]; i < end; ++i) hits[call].hit += resets[i].hit ? 1 : 0;
  }
  return hits;
}

std::optional<std::uint32_t> call_in(std::string_view line) {
  constexpr std::string_view kWord = "call ";
  if (!line.starts_with(kWord)) return std::nullopt;
  std::uint32_t number = 0;
  const auto [rest, error] = std::from_chars(line.data() + kWord.size(), line.data() + line.size(), number);
  if (error != std::errc{} || rest != line.data() + line.size() || number == 0) return std::nullopt;
  return number;
}

Effect effect_of(const std::vector<double>& calls, const std::vector<Disturbance::Hits>& hits) {
  Effect effect;
  for (std::size_t i = 0; i < calls.size() && i < hits.size(); ++i) {
    effect.wanted += hits[i].wanted;
    effect.hit += hits[i].hit;
    if (hits[i].hit != hits[i].wanted) continue;
    (hits[i].wanted > 0 ? effect.disturbed : effect.undisturbed).push_back(calls[i]);
  }
  return effect;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace lockstep::wan
