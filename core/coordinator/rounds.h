// The coordinator's account of rounds: which cohorts live, who is done with what, and what becomes of a round when members are
// lost, leave, or ask to stop it. Knows no streams and changes no membership. Two files carry it out: rounds.cc (the account) and
// verdicts.cc (what a change does to it).
//
// A cohort loses members without changing its id. Each loss starts a generation of the group that it touches, and of those that
// are bound with it by gangs; a round is attempted in the newest one, except that rounds which a leaver had launched are kept in
// the generation that still has it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/coordinator/claims.h"
#include "core/coordinator/comparison.h"
#include "core/coordinator/parities.h"
#include "core/coordinator/tally.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Rounds {
 public:
  // ---- commits ----

  struct Committed {
    wire::Commit commit;                // admit_here is the caller's to set
    std::vector<wire::Member> members;  // to be told; also the contributors
    std::uint64_t bytes = 0;            // of the round's tensors
  };
  struct DoneResult {
    std::vector<Committed> committed;    // one per group whose round commits with this Done
    std::optional<wire::Verdict> stop;   // the arguments or results differ: to be proposed
    std::string violation;               // not empty: the sender breaks the protocol
    std::vector<wire::Elected> elected;  // states are to be taken over: to be told to the members of their groups
    Comparison::Questions questions;     // of states that differ: to be asked
    bool compares_watched = false;       // a commit waits for the answers, from now on
  };
  DoneResult on_done(PeerId from, const wire::Done& done);
  // A state is claimed, for a sync. Those who have the one that is elected are done with it.
  DoneResult on_claim(PeerId from, const wire::Claim& claim);
  // What those answer whose states are compared: at the end, the first difference is why the round is stopped, or the news that
  // comes with its commit.
  DoneResult on_outline(PeerId from, wire::StateOutline outline);
  DoneResult on_entry(PeerId from, wire::StateEntry entry);
  // All are done with a round, and its commit waits for what two of them answer, who watch states that differ.
  [[nodiscard]] bool compares_watched() const { return comparison_ && comparison_->watched(); }
  // It has waited long enough.
  DoneResult give_up_comparison();
  [[nodiscard]] const std::vector<wire::Member>& contributors(const wire::Elected& elected) const {
    return members_of(elected.key, elected.attempt);
  }

  // ---- stops ----

  // A member asks to end a round. Nothing happens when it is decided already, or belongs to an older attempt. Not empty: the
  // sender breaks the protocol.
  std::string on_stop(PeerId from, const wire::StopRound& stop);
  [[nodiscard]] bool has_stops() const { return !stops_.empty() || !closed_.empty(); }

  // ---- proposals ----

  // What a proposal changes, as far as rounds care.
  struct Change {
    std::set<PeerId> lost;
    std::set<PeerId> left;
    std::set<GroupId> relinked;  // their rings were laid around broken links
    std::set<RoundKey> kept;
    std::map<PeerId, std::vector<wire::OpenRound>> flushed;  // what each participant has open
    std::optional<CohortId> closes;                          // an admission: the cohort that ends by it
    std::map<PeerId, std::vector<wire::OpenRound>> admits;   // and what each member had open when it called admit
    template <typename Archive>
    void state(Archive& a) {
      a.all(lost, left, relinked, kept, flushed, closes, admits);
    }
  };
  // The verdicts on all rounds that the change touches, that are to be stopped or that it closes, from what is known now, as
  // many as one message carries. Settled once a proposal that carries just these was acknowledged by everybody.
  [[nodiscard]] std::vector<wire::Verdict> verdicts(const Change& change, const wire::View& next) const;

  // Rounds of the closing cohort that can never be launched by all: `open` is what each member had open when it called admit.
  // All of them, however many.
  [[nodiscard]] std::vector<wire::Verdict> closed_by_admission(
      CohortId cohort, const std::map<PeerId, std::vector<wire::OpenRound>>& open) const;

  // The proposal holds: verdicts are carried out, generations move on. Returns the committed ones.
  std::vector<Committed> install(const Change& change, const wire::View& next,
                                 const std::vector<wire::Verdict>& verdicts);
  // The admission holds: a new cohort begins; the old one lives on for the rounds that are open in it.
  void admit(const wire::View& next, const std::map<PeerId, std::vector<wire::OpenRound>>& open);

  // The keys whose outcomes are bound together with this one: itself, or with gangs the same use of the tag in all groups that
  // have gangs with its own.
  [[nodiscard]] std::vector<RoundKey> bound_with(const RoundKey& key) const;

  // Takes out of a member's list what was decided before it knew, and what it cannot have open.
  void drop_not_open(PeerId from, std::vector<wire::OpenRound>& open) const;

  // Rounds that can still be finished by those who leave now, among the ones that they have open and the ones that were kept for
  // earlier leavers: every leaver that a round needs must have it open. As many as one message names, and those that are bound
  // together or none of them.
  [[nodiscard]] std::set<RoundKey> kept_for(const std::map<PeerId, std::vector<wire::OpenRound>>& leavers) const;

  // Whether a round that was kept for this leaver is undecided.
  [[nodiscard]] bool keeps(PeerId leaver) const;
  // None is any more, and it goes.
  void let_go(PeerId leaver) { claims_.gone({leaver}); }

  [[nodiscard]] std::vector<wire::RoundStatus> status() const;
  [[nodiscard]] std::size_t size() const { return rounds_.size(); }
  // States that were agreed on, and who has them.
  [[nodiscard]] std::size_t agreed_entries() const { return claims_.agreed_entries(); }

  template <typename Archive>
  void state(Archive& a) {
    a.all(cohorts_, rounds_, done_by_, claims_, comparison_, stops_, asked_by_, closed_, kept_);
  }

 private:
  struct Group {
    std::size_t binding = 0;  // place in Cohort::bound
    Generation current;
    std::map<Generation, std::vector<wire::Member>> generations;  // in rank order; the newest, and those of kept rounds
    template <typename Archive>
    void state(Archive& a) {
      a.all(binding, current, generations);
    }
  };
  struct Cohort {
    std::map<GroupId, Group> groups;
    std::set<RoundKey> live;                  // an older cohort lives while these are undecided
    std::vector<std::vector<GroupId>> bound;  // lists of groups in which a tag has one outcome
    template <typename Archive>
    void state(Archive& a) {
      a.all(groups, live, bound);
    }
  };
  struct Round {
    Generation attempt;
    wire::Descriptor what;
    PeerId first;  // who said `what`
    std::uint64_t hash = 0;
    std::set<PeerId> done;
    bool differs = false;  // the arguments or results of those who are done
    Parities parities;
    template <typename Archive>
    void state(Archive& a) {
      a.all(attempt, what, first, hash, done, differs, parities);
    }
  };

  struct Stop {
    wire::Verdict verdict;
    PeerId by;  // who asked; nobody when the arguments or results differ
    template <typename Archive>
    void state(Archive& a) {
      a.all(verdict, by);
    }
  };

  // ---- rounds.cc ----

  [[nodiscard]] static bool has_member(const std::vector<wire::Member>& members, PeerId peer);
  [[nodiscard]] const Cohort* cohort_of(const RoundKey& key) const;
  [[nodiscard]] const Group* group_of(const RoundKey& key) const;
  // In which generation the round is attempted now; nothing when there is no such cohort or group.
  [[nodiscard]] std::optional<Generation> attempt_of(const RoundKey& key) const;
  // The contributors of an attempt, in rank order.
  [[nodiscard]] const std::vector<wire::Member>& members_of(const RoundKey& key, Generation attempt) const;
  // One name for all keys that are bound together.
  [[nodiscard]] RoundKey bundle_of(const RoundKey& key) const;
  // Whether all members but the lost are done with the round and agree on its result.
  [[nodiscard]] bool all_done(const RoundKey& key, Generation attempt, const std::set<PeerId>& lost) const;
  void drop_stops_of_nobody();
  // Whether the sender may speak of this attempt: it is the one that is due, and has it. `what`: for the text of the violation.
  [[nodiscard]] bool is_due(PeerId from, const RoundKey& key, Generation attempt, std::string_view what,
                            std::string& violation) const;
  template <typename Answer>
  DoneResult on_answer(PeerId from, Answer answer);
  void stop(const RoundKey& key, Generation attempt, Status status, std::string text, DoneResult& result);
  // All have claimed in this group. If they have in all groups that are bound with it, states of one revision are elected; when
  // there is no such revision, the round ends before anything is overwritten.
  void begin_takeovers(const RoundKey& key, Generation attempt, DoneResult& result);
  // Commits the round, and those that are bound with it, if all are done. If members watch states that differ, it is found out
  // first where, unless that is being done for another round.
  void commit_if_done(const RoundKey& key, Generation attempt, DoneResult& result);
  void commit_all(const std::vector<RoundKey>& bound, Generation attempt, DoneResult& result);
  [[nodiscard]] bool begins_comparison(const std::vector<RoundKey>& bound, Generation attempt, DoneResult& result);
  void end_comparison(DoneResult& result);
  // Whose states differ, among those who are done and watch; empty: nobody's.
  [[nodiscard]] std::string describe_difference(const RoundKey& key, Generation attempt) const;
  // Somebody is done with it, or claims a state in it; and it has not ended.
  [[nodiscard]] bool is_undecided(const RoundKey& key) const { return rounds_.contains(key) || claims_.has(key); }
  void note_agreed(const RoundKey& key, Generation attempt);
  [[nodiscard]] Committed committed(const RoundKey& key, Generation attempt, std::uint64_t hash) const;
  void forget(const RoundKey& key);
  void move_on(Group& group, GroupId id, CohortId cohort, const std::set<RoundKey>& kept, const wire::View& next);
  // The entry goes: the tallies know. Always true.
  bool uncount(const Round& round);
  bool uncount(const Stop& stop);
  void drop_unused_generations(CohortId id);
  void drop_cohort(CohortId id);

  // ---- verdicts.cc ----

  // Whether the ring of a group that is bound with this one, or its own, is laid anew.
  [[nodiscard]] bool relinks(const Change& change, const RoundKey& key) const;
  [[nodiscard]] bool touched(const RoundKey& key, Generation attempt, const Change& change) const;
  [[nodiscard]] std::string describe_waiting(const RoundKey& key, Generation attempt, const Change& change) const;
  // The verdicts on rounds that the change touches, as many as one message carries. Those that must not be tried again and did
  // not fit are stops for the next proposal, in `unsaid` if it is not null.
  [[nodiscard]] std::vector<wire::Verdict> touched_verdicts(const Change& change, const wire::View& next,
                                                            std::map<RoundKey, Stop>* unsaid) const;
  // Adds the commits of these rounds if all survivors are done with them.
  [[nodiscard]] bool commit(const RoundKey& bundle, Generation attempt, const std::set<PeerId>& lost,
                            std::vector<wire::Verdict>& verdicts) const;

  std::map<CohortId, Cohort> cohorts_;
  std::map<RoundKey, Round> rounds_;
  Tally done_by_;  // of rounds_
  Claims claims_;
  std::optional<Comparison> comparison_;      // the one under way: it holds an outline of half a mebibyte
  std::map<RoundKey, Stop> stops_;            // by bundle
  Tally asked_by_;                            // of stops_
  std::map<RoundKey, wire::Verdict> closed_;  // by an admission whose message they did not fit; by key
  std::map<RoundKey, Generation> kept_;
};

}  // namespace lockstep::coordinator
