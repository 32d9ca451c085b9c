#include "core/peer/announcements.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// A neighbour runs ahead of this peer by as many rounds as can be in flight on either side.
constexpr std::size_t kMaxReadies = std::size_t{2} * kMaxRoundsInFlight;

}  // namespace

bool Announcements::keep(PeerId from, EarlyReady early) {
  auto& readies = readies_[from];
  const RoundKey key = early.ready.key;
  const auto known = readies.find(key);
  if (readies.size() >= kMaxReadies && known == readies.end()) return false;
  early.ready.have.clear();  // segments of an attempt that has not begun here have not come
  const bool tells_less = known != readies.end() && known->second.ready.attempt == early.ready.attempt &&
                          known->second.ready.landing && !early.ready.landing;
  if (!tells_less) readies.insert_or_assign(key, std::move(early));
  return true;
}

std::optional<Announcements::EarlyReady> Announcements::take(PeerId from, const RoundKey& key, Generation attempt) {
  const auto readies = readies_.find(from);
  if (readies == readies_.end()) return std::nullopt;
  LOCKSTEP_ASSERT(!readies->second.empty());
  const auto at = readies->second.find(key);
  if (at == readies->second.end() || at->second.ready.attempt != attempt) return std::nullopt;
  EarlyReady early = std::move(at->second);
  readies->second.erase(at);
  if (readies->second.empty()) readies_.erase(readies);
  return early;
}

void Announcements::forget(const RoundKey& key) {
  eager_.drop_if([&](const RoundKey& of, Generation, PeerId) { return of == key; });
  for (auto& [peer, readies] : readies_) readies.erase(key);
  drop_empty();
}

void Announcements::clear() {
  if (!mutant(Mutant::kHeraldsStay)) readies_.clear();
  eager_.drop_if([](const RoundKey&, Generation, PeerId) { return true; });
}

std::size_t Announcements::size() const {
  std::size_t size = eager_.size();
  for (const auto& [peer, readies] : readies_) size += readies.size();
  return size;
}

bool Announcements::has(const RoundKey& key) const {
  const auto knows = [&](const auto& entry) { return entry.second.contains(key); };
  return std::any_of(readies_.begin(), readies_.end(), knows) || eager_.has(key);
}

std::vector<std::pair<RoundKey, Generation>> Announcements::announced() const {
  std::set<std::pair<RoundKey, Generation>> announced;
  for (const auto& [peer, readies] : readies_) {
    for (const auto& [key, early] : readies) announced.emplace(key, early.ready.attempt);
  }
  eager_.for_each([&](const RoundKey& key, Generation attempt) { announced.emplace(key, attempt); });
  return {announced.begin(), announced.end()};
}

void Announcements::drop_empty() {
  std::erase_if(readies_, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace lockstep::peer
