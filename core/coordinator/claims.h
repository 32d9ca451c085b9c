// What members claim of the states that they come to a sync with, until all of a group have; who is elected then; and who had the
// state that was agreed on last, which is who votes the next time.
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
    std::optional<std::pair<Status, std::string>> stop;  // nobody's state can be taken over, or arguments differ
    std::optional<Comparison> compare;                   // with a stop: what would tell more
    std::string violation;                               // not empty: the sender breaks the protocol
  };
  // `members`: of the attempt that is due, in rank order; `from` is one of them, and so is the claim's attempt.
  Answer add(const std::vector<wire::Member>& members, PeerId from, const wire::Claim& claim);

  [[nodiscard]] bool has(const RoundKey& key) const { return open_.contains(key); }
  // What has votes in this attempt; null until all have claimed.
  [[nodiscard]] const state::Votes* votes(const RoundKey& key, Generation attempt) const;
  // Whose state of this revision, which has votes, is to be taken over.
  [[nodiscard]] wire::Elected elect(const RoundKey& key, const std::vector<wire::Member>& members,
                                    std::uint64_t revision) const;
  // What all claim a state of, in a round that has claims.
  [[nodiscard]] const wire::Descriptor& what(const RoundKey& key) const { return open_.at(key).what; }
  // The round is over, however it ended; or all of a cohort's are.
  void forget(const RoundKey& key);
  void forget(CohortId cohort);
  // It has committed: these hold the same state.
  void agreed(const RoundKey& key, const std::vector<wire::Member>& members);
  // They are out of the run, and come back as newcomers if they do.
  void gone(const std::set<PeerId>& peers);

  [[nodiscard]] std::size_t agreed_entries() const {
    std::size_t sum = agreed_.size();
    for (const auto& [name, agreement] : agreed_) sum += agreement.peers.size();
    return sum;
  }

  template <typename Archive>
  void state(Archive& a) {
    a.all(open_, claimed_by_, agreed_, agreements_);
  }

 private:
  struct Round {
    Generation attempt;
    PeerId first;  // who said `what`
    wire::Descriptor what;
    std::map<PeerId, wire::Claim> claims;
    std::optional<state::Votes> votes;
    template <typename Archive>
    void state(Archive& a) {
      a.all(attempt, first, what, claims, votes);
    }
  };
  // Who had the state that was agreed on last.
  struct Agreement {
    std::set<PeerId> peers;
    std::uint64_t order = 0;  // the newest has the highest
    template <typename Archive>
    void state(Archive& a) {
      a.all(peers, order);
    }
  };
  void drop_claims(const Round& round);
  // Of those members who have claimed.
  static std::vector<state::Claim> claims_of(const Round& round, const std::vector<wire::Member>& members);

  std::map<RoundKey, Round> open_;
  Tally claimed_by_;  // of open_
  std::map<std::pair<GroupId, Tag>, Agreement> agreed_;
  std::uint64_t agreements_ = 0;
};

}  // namespace lockstep::coordinator
