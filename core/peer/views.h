// Views as this peer knows them: the proposal that is open, the cohorts in use, and the addresses and keys of their
// members. Checks what the coordinator proposes. Knows neither rounds nor calls, and says nothing to anybody.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/cohort.h"
#include "core/peer/context.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class Views {
 public:
  explicit Views(Context& context) : context_(context) {}

  [[nodiscard]] static bool has_member(const wire::View& view, PeerId peer);
  [[nodiscard]] static bool are_neighbours(const Cohort::Roster& roster, PeerId a, PeerId b);
  // Whether this peer is in that view.
  [[nodiscard]] bool is_in(const wire::View& view) const { return has_member(view, context_.options.id); }

  // ---- proposals (rules 4, 5 and 28 of docs/protocol.md) ----

  [[nodiscard]] const std::optional<wire::Propose>& proposal() const { return proposal_; }
  // The reason why the coordinator may not propose this, or nullopt: the proposal can be carried out. All that follows
  // relies on this check. `leaves`: the coordinator knows that this peer leaves.
  [[nodiscard]] std::optional<std::string> validate(const wire::Propose& proposal, bool leaves) const;
  // An empty proposal to a peer that waits: the coordinator asks whether it answers (rule 19).
  [[nodiscard]] bool is_question(const wire::Propose& proposal) const;
  // Takes a proposal that was validated. A question is not kept.
  void propose(wire::Propose proposal);
  void withdraw() { proposal_.reset(); }
  // The open proposal, which holds from now on.
  [[nodiscard]] wire::Propose take_proposal();
  // Whether a round is frozen: it does nothing that it could not take back (rule 5).
  [[nodiscard]] bool freezes(const RoundKey& key, Generation attempt) const;

  // ---- cohorts ----

  // Null: no round of it is open, or it has not begun.
  [[nodiscard]] Cohort* cohort_of(const RoundKey& key);
  [[nodiscard]] const Cohort* cohort_of(const RoundKey& key) const;
  // The cohort of the view; null before the first admission.
  [[nodiscard]] Cohort* newest();
  [[nodiscard]] const std::map<CohortId, Cohort>& cohorts() const { return cohorts_; }
  void found(const wire::View& view);
  // The change holds. `is_open(key)`: this peer has the round.
  template <typename IsOpen>
  void install(const wire::Propose& change, IsOpen is_open) {
    for (auto& [id, cohort] : cohorts_) {
      cohort.install(change);
      // A round that was committed while the proposal was open is not kept.
      std::erase_if(cohort.retained_for_leavers, [&, &uses = cohort.uses](const auto& entry) {
        return is_earlier_use(entry.first.use, uses.next(entry.first.tag)) && !is_open(entry.first);
      });
      cohort.drop_unused();
    }
  }
  // Cohorts are over when another one has begun and `in_use(id)` does not hold. True: some were.
  template <typename InUse>
  [[nodiscard]] bool drop_cohorts(InUse in_use) {
    if (cohorts_.size() < 2) return false;
    const auto is_over = [&](const auto& entry) {
      return entry.first != context_.view->cohort && !in_use(entry.first);
    };
    return std::erase_if(cohorts_, is_over) > 0;
  }
  // Members that have called admit and are gone hinder no launch any more. True: there were some.
  [[nodiscard]] bool forget_admits();
  // The outcome of a use that this peer may still launch (rule 9).
  void remember(const wire::Verdict& verdict);
  // The run is over: no remembered outcome is asked for any more.
  void forget_outcomes();
  // Whether a neighbour that names this attempt is ahead of this peer; otherwise the round is over. `launched`: here.
  [[nodiscard]] bool is_to_come(const RoundKey& key, Generation attempt, bool launched) const;
  // Whether this attempt is over, or will never begin here.
  [[nodiscard]] bool is_stale(const RoundKey& key, Generation attempt, bool launched) const;

  // Checked whenever the view changes.
  void assert_invariants() const;

  // ---- links ----

  using Links = std::map<PeerId, Mesh::Wanted>;
  // The neighbours in this ring. `direct`: rounds take the direct algorithm, so that everybody is a neighbour.
  // `needed`: otherwise RoundLinks::needs_link() tells whether they are.
  void add_ring(const Cohort::Roster& roster, bool direct, bool needed, Links& links) const;
  // Those in the rings of all cohorts, as they are and as they are proposed.
  void add_rings(bool direct, Links& links) const;
  // Those in the ring of the view that is proposed.
  void add_proposed_ring(bool direct, Links& links) const;
  [[nodiscard]] const Contact& contact_of(PeerId peer) const { return contacts_.at(peer); }
  // Null: no member of a view in use or proposed.
  [[nodiscard]] const Contact* find_contact(PeerId peer) const {
    const auto at = contacts_.find(peer);
    return at == contacts_.end() ? nullptr : &at->second;
  }
  void forget_contacts();

  // Remembered outcomes.
  [[nodiscard]] std::size_t remembered() const;

  // Left out: context_, which is saved before it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(cohorts_, own_, contacts_, proposal_, last_proposal_);
  }

 private:
  [[nodiscard]] std::optional<std::string> validate_members(const wire::View& view) const;
  [[nodiscard]] std::optional<std::string> validate_numbers(const wire::Propose& proposal) const;

  Context& context_;
  std::map<CohortId, Cohort> cohorts_;  // the newest, and older ones with open rounds
  wire::Member own_;                    // this peer, as the last view that has it names it
  std::map<PeerId, Contact> contacts_;
  std::optional<wire::Propose> proposal_;
  ProposalNumber last_proposal_;
};

}  // namespace lockstep::peer
