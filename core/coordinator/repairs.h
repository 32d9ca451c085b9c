// The states that a sync repairs: members that had the last agreed state come with another one, and it is overwritten
// (rule 55 of docs/protocol.md). Divergence is never healed in silence: the text goes to all members with the commit. A
// newcomer that takes a state over is none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/state/election.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Repairs {
 public:
  // An attempt elects a state. `members`: of this attempt, in rank order. `agreed`: the members that had the last
  // agreed state. An earlier attempt of the round may have overwritten some of the states already.
  void elected(const RoundKey& key, const std::vector<wire::Member>& members, const std::vector<state::Claim>& claims,
               const wire::Elected& won, const std::set<PeerId>& agreed);
  // A member has taken the elected state over. `fetched`: which part of it, in the member's words.
  void done(const RoundKey& key, PeerId from, const std::string& fetched);
  // The text about the states that the round has repaired. Empty if it has repaired none.
  [[nodiscard]] std::string describe(const RoundKey& key) const;
  // The round is over, or all rounds of a cohort are.
  void forget(const RoundKey& key) { rounds_.erase(key); }
  void forget(CohortId cohort);

  [[nodiscard]] std::size_t size() const { return rounds_.size(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(rounds_);
  }

 private:
  struct Strayed {
    std::string name;
    std::uint64_t revision = 0;
    Digest root;
    bool over = false;    // the elected state is in its place
    std::string fetched;  // what its last Done said
    template <typename Archive>
    void archive(Archive& a) {
      a.all(name, revision, root, over, fetched);
    }
  };
  // Invariant: some member has strayed.
  struct Round {
    std::uint64_t revision = 0;        // of the elected state
    std::vector<std::string> holders;  // names of members that had it
    std::map<PeerId, Strayed> strayed;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(revision, holders, strayed);
    }
  };
  static std::string describe(const Strayed& strayed, const Round& round);

  std::map<RoundKey, Round> rounds_;
};

}  // namespace lockstep::coordinator
