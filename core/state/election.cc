#include "core/state/election.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/mutant.h"

namespace lockstep::state {

namespace {

using Content = std::pair<std::uint64_t, Digest>;  // revision, root

Content content_of(const Claim& claim) { return {claim.revision, claim.root}; }

bool may_send(const Claim& claim) { return claim.defined && claim.strategy != Strategy::kReceiveOnly; }

// Of the highest revision: the most popular, of those the smallest root.
Content winner_among(const std::vector<Content>& votes) {
  std::map<Digest, std::size_t> popularity;
  const std::uint64_t highest = std::max_element(votes.begin(), votes.end())->first;
  for (const auto& [revision, root] : votes) {
    if (revision == highest) ++popularity[root];
  }
  const auto best = std::max_element(popularity.begin(), popularity.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return {highest, best->first};
}

}  // namespace

std::variant<Elected, Undecided> elect(const std::vector<Claim>& claims, const std::set<PeerId>& agreed) {
  const Claim* sender = nullptr;  // the first that may not be written to
  std::vector<Content> members;   // votes of those who agreed last
  std::vector<Content> all;
  for (const Claim& claim : claims) {
    if (claim.strategy == Strategy::kSendOnly) {
      if (!claim.defined) return Undecided{Undecided::Why::kNobodySends, claim.peer, {}};
      if (sender != nullptr && content_of(*sender) != content_of(claim)) {
        return Undecided{Undecided::Why::kSendersDisagree, sender->peer, claim.peer};
      }
      if (sender == nullptr) sender = &claim;
    }
    if (!may_send(claim)) continue;
    all.push_back(content_of(claim));
    if (agreed.contains(claim.peer) && !mutant(Mutant::kStaleRevisionWins)) members.push_back(content_of(claim));
  }
  if (all.empty()) return Undecided{};
  const Content won = sender != nullptr ? content_of(*sender) : winner_among(members.empty() ? all : members);

  Elected elected{won.first, won.second, {}, {}};
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

}  // namespace lockstep::state
