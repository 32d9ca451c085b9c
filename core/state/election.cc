#include "core/state/election.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"

namespace lockstep::state {

namespace {

using Content = std::pair<std::uint64_t, Digest>;  // revision, root

Content content_of(const Claim& claim) { return {claim.revision, claim.root}; }

// Rule 26: an undefined state neither votes nor is sent.
bool may_send(const Claim& claim) { return claim.defined && claim.strategy != Strategy::kReceiveOnly; }

// Of the content that won. Of equally popular lineages the smallest.
Lineage popular_lineage(const std::vector<Claim>& claims, const Content& won, const std::set<PeerId>& agreed) {
  std::map<Lineage, std::size_t> members;  // that had the last agreed state
  std::map<Lineage, std::size_t> all;
  for (const Claim& claim : claims) {
    if (!may_send(claim) || content_of(claim) != won || claim.lineage == Lineage{}) continue;
    ++all[claim.lineage];
    if (agreed.contains(claim.peer)) ++members[claim.lineage];
  }
  const auto& holders = members.empty() ? all : members;
  if (holders.empty()) return lineage_of({}, won.second);
  return std::max_element(holders.begin(), holders.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

Lineage lineage_of(Lineage known, const Digest& root) {
  if (known != Lineage{}) return known;
  return {root.low != 0 ? root.low : 1};
}

std::variant<Votes, Undecided> votes_of(const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  const Claim* sender = nullptr;  // the first claim of a send-only member
  Votes members;                  // the votes of members of the last agreed revision
  Votes all;
  for (const Claim& claim : claims) {
    if (claim.strategy == Strategy::kSendOnly) {
      if (!claim.defined) return Undecided{Undecided::Why::kNobodySends, claim.peer, {}};
      if (sender != nullptr && content_of(*sender) != content_of(claim)) {
        return Undecided{Undecided::Why::kSendersDisagree, sender->peer, claim.peer};
      }
      if (sender == nullptr) sender = &claim;
    }
    if (!may_send(claim)) continue;
    ++all[claim.revision][claim.root];
    if (agreed.contains(claim.peer) && !mutant(Mutant::kStaleRevisionWins)) ++members[claim.revision][claim.root];
  }
  if (all.empty()) return Undecided{};
  if (sender != nullptr) return Votes{{sender->revision, {{sender->root, 1}}}};
  if (members.empty()) return all;
  const std::uint64_t newest = members.rbegin()->first;
  for (const Claim& claim : claims) {
    const bool votes = claim.strategy == Strategy::kNewest && claim.defined && claim.revision > newest;
    if (votes) ++members[claim.revision][claim.root];
  }
  return members;
}

std::vector<PeerId> ahead_of(std::uint64_t revision, const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  const auto chosen = [](const Claim& claim) { return claim.strategy == Strategy::kSendOnly; };
  const auto was_there = [&](const Claim& claim) { return may_send(claim) && agreed.contains(claim.peer); };
  std::vector<PeerId> ahead;
  if (std::any_of(claims.begin(), claims.end(), chosen)) return ahead;
  if (std::none_of(claims.begin(), claims.end(), was_there)) return ahead;
  for (const Claim& claim : claims) {
    if (may_send(claim) && !agreed.contains(claim.peer) && claim.revision > revision) ahead.push_back(claim.peer);
  }
  return ahead;
}

std::optional<std::uint64_t> highest_common(std::span<const Votes* const> groups) {
  const Votes& first = *groups.front();
  const auto in_all = [&](const auto& votes) {
    return std::all_of(groups.begin(), groups.end(), [&](const Votes* group) { return group->contains(votes.first); });
  };
  const auto highest = std::find_if(first.rbegin(), first.rend(), in_all);
  return highest == first.rend() ? std::nullopt : std::optional(highest->first);
}

Elected elect(const std::vector<Claim>& claims, const Votes& votes, std::uint64_t revision,
              const std::set<PeerId>& agreed) {
  const auto& roots = votes.at(revision);
  const auto popular = std::max_element(roots.begin(), roots.end(),  // the first of equally popular roots
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  const Content won(revision, popular->first);
  Elected elected{revision, popular->first, popular_lineage(claims, won, agreed), {}, {}};
  for (const Claim& claim : claims) {
    const bool has_it = claim.defined && content_of(claim) == won;
    if (!has_it) {
      elected.receivers.push_back(claim.peer);
    } else if (may_send(claim) && elected.sources.size() < kMaxSources) {
      elected.sources.push_back(claim.peer);
    }
  }
  return elected;
}

std::vector<PeerId> strayed(const Elected& won, const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  const Content winner(won.revision, won.root);
  const auto chosen = [](const Claim& claim) { return claim.strategy == Strategy::kSendOnly; };
  const auto was_there = [&](const Claim& claim) {
    return may_send(claim) && (agreed.contains(claim.peer) || mutant(Mutant::kTakeOverIsARepair));
  };
  const auto holds_winner = [&](const Claim& claim) { return was_there(claim) && content_of(claim) == winner; };
  std::vector<PeerId> strayed;
  if (std::any_of(claims.begin(), claims.end(), chosen)) return strayed;
  if (std::none_of(claims.begin(), claims.end(), holds_winner)) return strayed;
  for (const Claim& claim : claims) {
    if (!was_there(claim) || content_of(claim) == winner || claim.revision > won.revision) continue;
    strayed.push_back(claim.peer);
  }
  return strayed;
}

}  // namespace lockstep::state
