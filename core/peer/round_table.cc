#include "core/peer/round_table.h"

#include <algorithm>

#include "core/base/assert.h"

namespace lockstep::peer {

Round& RoundTable::begin(std::uint64_t order) {
  Round& round = rounds_[order];
  round.order = order;
  return round;
}

void RoundTable::set_key(Round& round, const RoundKey& key) {
  LOCKSTEP_ASSERT(!by_key_.contains(key));  // a use of a tag is launched once (rule 9)
  round.key = key;
  by_key_[key] = round.order;
}

Round* RoundTable::find(const RoundKey& key) {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : &rounds_.at(at->second);
}

const Round* RoundTable::find(const RoundKey& key) const {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : &rounds_.at(at->second);
}

Round* RoundTable::find(CallId call) {
  const auto at =
      std::find_if(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return entry.second.call == call; });
  return at == rounds_.end() ? nullptr : &at->second;
}

const Round* RoundTable::find(CallId call) const {
  const auto at =
      std::find_if(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return entry.second.call == call; });
  return at == rounds_.end() ? nullptr : &at->second;
}

Round* RoundTable::find(std::uint64_t order) {
  const auto at = rounds_.find(order);
  return at == rounds_.end() ? nullptr : &at->second;
}

const wire::OpenRound* RoundTable::find_reported(const RoundKey& key) const {
  const auto at = reported_.find(key);
  return at == reported_.end() ? nullptr : &at->second;
}

std::vector<wire::OpenRound> RoundTable::open_rounds() const {
  std::vector<wire::OpenRound> open;
  for (const auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    open.push_back({*round.key, round.generation, round.said_all(), round.what.retry, round.hash, false});
  }
  for (const auto& [key, round] : reported_) open.push_back(round);
  return open;
}

std::size_t RoundTable::calls() const {
  return static_cast<std::size_t>(
      std::count_if(rounds_.begin(), rounds_.end(), [](const auto& entry) { return !entry.second.completed_early; }));
}

Instant RoundTable::deadline() const {
  Instant next = kNever;
  for (const auto& [order, round] : rounds_) {
    next = std::min(next, round.deadline);
    if (round.sync) next = std::min(next, round.sync->deadline());
  }
  return next;
}

bool RoundTable::has_pieces() const {
  return std::any_of(rounds_.begin(), rounds_.end(), [](const auto& entry) {
    const Round& round = entry.second;
    return round.sync && round.attempted() && round.sync->has_next();
  });
}

std::uint16_t RoundTable::phases() const {
  std::uint16_t phases = 0;
  for (const auto& [order, round] : rounds_) {
    phases = static_cast<std::uint16_t>(phases | 1U << static_cast<unsigned>(round.phase()));
  }
  return phases;
}

bool RoundTable::has_cohort(CohortId id) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) {
    const std::optional<RoundKey>& key = entry.second.key;
    return key && key->cohort == id;
  });
}

}  // namespace lockstep::peer
