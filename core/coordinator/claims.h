// The states that members claim in a sync, until all members of a group have claimed; the election; and the members
// that had the last agreed state, which vote in the next election (rule 25 of docs/protocol.md).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/coordinator/comparison.h"
#include "core/coordinator/tally.h"
#include "core/state/election.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Claims {
 public:
  struct Answer {
    std::optional<std::pair<Status, std::string>> stop;  // no state can be taken over, or arguments differ
    std::optional<Comparison> compare;                   // with a stop: a comparison that finds the difference
    std::optional<std::pair<PeerId, PeerId>> differ;     // with a stop: members whose arguments differ
    std::string violation;                               // not empty: the sender breaks the protocol
  };
  // `members`: of the present attempt, which is the claim's attempt, in rank order. `from` is one of them.
  Answer add(const std::vector<wire::Member>& members, PeerId from, const wire::Claim& claim);

  [[nodiscard]] bool has(const RoundKey& key) const { return open_.contains(key); }
  // The votes of this attempt; null until all members have claimed.
  [[nodiscard]] const state::Votes* votes(const RoundKey& key, Generation attempt) const;
  // The claims of these members, as far as they have claimed.
  [[nodiscard]] std::vector<state::Claim> of(const RoundKey& key, const std::vector<wire::Member>& members) const {
    return claims_of(open_.at(key), members);
  }
  // The members that had the last agreed state.
  [[nodiscard]] const std::set<PeerId>& agreed_peers(const RoundKey& key) const;
  // The winner of this revision, which must have votes.
  [[nodiscard]] wire::Elected elect(const RoundKey& key, const std::vector<wire::Member>& members,
                                    std::uint64_t revision) const;
  // Whether a member does not have this state, or has it under another lineage.
  [[nodiscard]] bool is_news(const wire::Elected& elected) const;
  // Newcomers whose states are ahead of this revision, with which the group goes on, and why each of them ends (rule
  // 53). The round must have votes.
  struct Ahead {
    PeerId peer;
    std::string why;
  };
  [[nodiscard]] std::vector<Ahead> ahead_of(std::uint64_t revision, const RoundKey& key,
                                            const std::vector<wire::Member>& members) const;
  // The first member that has claimed in this attempt, and its arguments; nothing if none has.
  [[nodiscard]] std::optional<std::pair<PeerId, const wire::Descriptor*>> first(const RoundKey& key,
                                                                                Generation attempt) const;
  // The descriptor of a round that has claims.
  [[nodiscard]] const wire::Descriptor& what(const RoundKey& key) const { return open_.at(key).what; }
  // The round is over, or all rounds of a cohort are.
  void forget(const RoundKey& key);
  void forget(CohortId cohort);
  // The round has committed: these members hold the same state.
  void agreed(const RoundKey& key, const std::vector<wire::Member>& members);
  // These peers are out of the run. They return as newcomers, if at all.
  void gone(const std::set<PeerId>& peers);

  [[nodiscard]] std::size_t agreed_entries() const {
    std::size_t sum = agreed_.size();
    for (const auto& [name, agreement] : agreed_) sum += agreement.peers.size();
    return sum;
  }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(open_, claimed_by_, agreed_, agreements_);
  }

 private:
  struct Round {
    Generation attempt;
    PeerId first;  // the member whose descriptor is `what`
    wire::Descriptor what;
    std::map<PeerId, wire::Claim> claims;
    std::optional<state::Votes> votes;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(attempt, first, what, claims, votes);
    }
  };
  // The members that had the last agreed state of a tag.
  struct Agreement {
    CohortId cohort;
    std::set<PeerId> peers;
    std::uint64_t order = 0;  // number of the agreement; the newest is the highest
    template <typename Archive>
    void archive(Archive& a) {
      a.all(cohort, peers, order);
    }
  };
  void drop_claims(const Round& round);
  static std::vector<state::Claim> claims_of(const Round& round, const std::vector<wire::Member>& members);

  std::map<RoundKey, Round> open_;
  Tally claimed_by_;  // of open_
  std::map<std::pair<GroupId, Tag>, Agreement> agreed_;
  std::uint64_t agreements_ = 0;
};

}  // namespace lockstep::coordinator
