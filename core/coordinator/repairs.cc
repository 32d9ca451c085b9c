#include "core/coordinator/repairs.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/coordinator/names.h"

namespace lockstep::coordinator {

namespace {

// So many members that strayed, and so many holders of the elected state, are named: the text fits kMaxTextBytes if
// their names are short.
constexpr std::size_t kMostStrayedNamed = 3;

std::string and_more(std::size_t all) {
  return all > kMostStrayedNamed ? " and " + std::to_string(all - kMostStrayedNamed) + " more" : std::string{};
}

}  // namespace

void Repairs::elected(const RoundKey& key, const std::vector<wire::Member>& members,
                      const std::vector<state::Claim>& claims, const wire::Elected& won,
                      const std::set<PeerId>& agreed) {
  std::map<PeerId, Strayed> strayed;
  if (const auto before = rounds_.find(key); before != rounds_.end()) strayed = std::move(before->second.strayed);
  const std::vector<PeerId> now = state::strayed({won.revision, won.root, won.lineage, {}, {}}, claims, agreed);
  for (const state::Claim& claim : claims) {
    if (std::find(now.begin(), now.end(), claim.peer) != now.end()) {
      strayed[claim.peer] = {name_in(members, claim.peer), claim.revision, claim.root, false, {}};
      continue;
    }
    const auto earlier = strayed.find(claim.peer);
    if (earlier == strayed.end() || !claim.defined) continue;  // an undefined state: an attempt was overwriting it
    Strayed& one = earlier->second;
    const bool holds = claim.revision == won.revision && claim.root == won.root;
    const bool kept = claim.revision == one.revision && claim.root == one.root;
    if (holds && !kept) {
      one.over = true;
    } else {  // its own state was elected, or nobody is left who knows better
      strayed.erase(earlier);
    }
  }
  if (strayed.empty()) return forget(key);
  Round& round = rounds_[key];
  round = {won.revision, {}, std::move(strayed)};
  for (const PeerId source : won.sources) {
    if (!round.strayed.contains(source)) round.holders.push_back(name_in(members, source));
  }
}

void Repairs::done(const RoundKey& key, PeerId from, const std::string& fetched) {
  const auto round = rounds_.find(key);
  if (round == rounds_.end()) return;
  const auto at = round->second.strayed.find(from);
  if (at == round->second.strayed.end()) return;
  at->second.over = true;
  at->second.fetched = fetched;
}

std::string Repairs::describe(const RoundKey& key) const {
  const auto at = rounds_.find(key);
  if (at == rounds_.end() || mutant(Mutant::kRepairUntold)) return {};
  std::string text;
  std::size_t all = 0;
  for (const auto& [peer, strayed] : at->second.strayed) {
    if (!strayed.over || ++all > kMostStrayedNamed) continue;
    text += (text.empty() ? "" : "; ") + describe(strayed, at->second);
  }
  return text + and_more(all);
}

// "state of revision 7 differed on d in 'w' (3 of 12 pieces) and was overwritten with that of a, b"
std::string Repairs::describe(const Strayed& strayed, const Round& round) {
  std::string text = "state of revision " + std::to_string(strayed.revision);
  if (strayed.revision == round.revision) {
    text += " differed on " + strayed.name + (strayed.fetched.empty() ? "" : " " + strayed.fetched) +
            " and was overwritten with that of ";
  } else {
    text += " on " + strayed.name + " was behind revision " + std::to_string(round.revision) +
            (strayed.fetched.empty() ? "" : ", differed " + strayed.fetched) + " and was overwritten with that of ";
  }
  for (std::size_t i = 0; i < round.holders.size() && i < kMostStrayedNamed; ++i)
    text += (i == 0 ? "" : ", ") + round.holders[i];
  return text + (round.holders.empty() ? "members that are gone" : and_more(round.holders.size()));
}

void Repairs::forget(CohortId cohort) {
  std::erase_if(rounds_, [&](const auto& entry) { return entry.first.cohort == cohort; });
}

}  // namespace lockstep::coordinator
