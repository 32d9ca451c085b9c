// The coordinator's account of rounds: which cohorts live, which members are done with which rounds, and the verdicts
// on rounds when members are lost, leave or ask for a stop. Knows no streams and changes no membership. Two files carry
// it out: rounds.cc (the account) and verdicts.cc (the effect of a change).
//
// A cohort loses members without changing its id. Each loss starts a generation of the group that it touches, and of
// the groups that gangs bind to this group (rules 8 and 32 of docs/protocol.md). A round is attempted in the newest
// generation. Rounds that a leaver had launched are kept in the generation that still has the leaver (rule 22).
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
#include "core/coordinator/context.h"
#include "core/coordinator/repairs.h"
#include "core/coordinator/state_fingerprints.h"
#include "core/coordinator/tally.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

// Takes a decided round out of a peer's list of open rounds.
inline void remove_round(std::vector<wire::OpenRound>& open, const RoundKey& key) {
  std::erase_if(open, [&](const wire::OpenRound& round) { return round.key == key; });
}

class Rounds {
 public:
  // ---- commits ----

  struct Committed {
    wire::Commit commit;                // admit_here is the caller's to set
    std::vector<wire::Member> members;  // recipients of the commit: the contributors
    std::uint64_t bytes = 0;            // of the round's tensors
    bool repairs = false;               // a sync that overwrote states that had strayed (rule 55)
  };
  struct DoneResult {
    std::vector<Committed> committed;   // one per group whose round commits with this message
    std::optional<wire::Verdict> stop;  // for the next proposal
    std::string violation;              // not empty: the sender breaks the protocol
    std::vector<Eviction> misfits;      // newcomers whose arguments differ, or whose state is ahead (rules 52, 53)
    struct Elected {
      wire::Elected state;                // to take over
      std::vector<wire::Member> members;  // to whom it is said: with this message the round may be over
    };
    std::vector<Elected> elected;
    Comparison::Questions questions;  // about states that differ
    bool compares_watched = false;    // from now on a commit waits for the answers
  };
  DoneResult on_done(PeerId from, const wire::Done& done);
  // A member claims its state, for a sync. Members that have the elected state are done with the round.
  DoneResult on_claim(PeerId from, const wire::Claim& claim);
  // Answers of the two members whose states are compared. In the end, the first difference is the reason of a stop, or
  // comes with the commit (rule 40).
  DoneResult on_outline(PeerId from, wire::StateOutline outline);
  DoneResult on_entry(PeerId from, wire::StateEntry entry);
  // All members are done with a round, and its commit waits for two members whose watched states differ.
  [[nodiscard]] bool compares_watched() const { return comparison_ && comparison_->watched(); }
  // Commits without the missing answers.
  DoneResult give_up_comparison();
  [[nodiscard]] static bool has_member(const std::vector<wire::Member>& members, PeerId peer);
  // In rank order. Empty if this attempt is not the present one.
  [[nodiscard]] const std::vector<wire::Member>& contributors(const RoundKey& key, Generation attempt) const;

  // ---- stops ----

  // A member asks to end a round (rule 15). Ignores a round that is decided already, and an older attempt.
  DoneResult on_stop(PeerId from, const wire::StopRound& stop);
  [[nodiscard]] bool has_stops() const { return !stops_.empty() || !closed_.empty(); }

  // ---- proposals ----

  // The part of a proposal that concerns rounds.
  struct Change {
    std::set<PeerId> lost;
    std::set<PeerId> left;
    std::set<GroupId> relinked;  // groups whose rings were laid around broken links
    std::string around;          // names of the ends of the newest of these links
    std::set<RoundKey> kept;
    std::map<PeerId, std::vector<wire::OpenRound>> flushed;  // what each recipient has open
    std::optional<CohortId> closes;                          // the cohort that an admission ends
    std::map<PeerId, std::vector<wire::OpenRound>> admits;   // rounds that each member had open when it called admit
    template <typename Archive>
    void archive(Archive& a) {
      a.all(lost, left, relinked, around, kept, flushed, closes, admits);
    }
  };
  // The verdicts on all rounds that the change touches or closes, or that are to be stopped, by the present knowledge:
  // at most as many as one message carries (rule 29). They hold once all recipients have acknowledged exactly these
  // verdicts (rule 6).
  [[nodiscard]] std::vector<wire::Verdict> verdicts(const Change& change, const wire::View& next) const;

  // Verdicts on the rounds of the closing cohort that some member can never launch (rule 21), however many. `open`: the
  // rounds that each member had open when it called admit.
  [[nodiscard]] std::vector<wire::Verdict> closed_by_admission(
      CohortId cohort, const std::map<PeerId, std::vector<wire::OpenRound>>& open) const;

  // The proposal holds: carries out the verdicts, and begins generations. Returns the committed rounds.
  std::vector<Committed> install(const Change& change, const wire::View& next,
                                 const std::vector<wire::Verdict>& verdicts);
  // The admission holds: a new cohort begins. The old cohort lives on for the rounds that are open in it.
  void admit(const wire::View& next, const std::map<PeerId, std::vector<wire::OpenRound>>& open);

  // The keys of the rounds that commit or end together with this round (rule 32): the same use of the tag in all bound
  // groups.
  [[nodiscard]] std::vector<RoundKey> bound_with(const RoundKey& key) const;

  // Takes rounds out of a member's list that were decided before the member knew, or that the member cannot have open.
  void drop_not_open(PeerId from, std::vector<wire::OpenRound>& open) const;

  // The rounds that the present leavers can still finish, and those that were kept for earlier leavers: every leaver
  // that a round needs must have it open (rule 22). At most as many as one message names; bound rounds are kept
  // together.
  [[nodiscard]] std::set<RoundKey> kept_for(const std::map<PeerId, std::vector<wire::OpenRound>>& leavers) const;

  // Whether a round is undecided that was kept for this leaver.
  [[nodiscard]] bool keeps(PeerId leaver) const;
  // The leaver has finished its rounds and is out of the run.
  void let_go(PeerId leaver) { gone({leaver}); }

  [[nodiscard]] std::vector<wire::RoundStatus> status() const;
  [[nodiscard]] std::size_t size() const { return rounds_.size(); }
  // Number of remembered states that members agreed on, and of the members that have them.
  [[nodiscard]] std::size_t agreed_entries() const { return claims_.agreed_entries(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(cohorts_, rounds_, done_by_, claims_, repairs_, comparison_, stops_, asked_by_, closed_, kept_, newcomers_,
          parting_);
  }

 private:
  struct Group {
    std::size_t binding = 0;  // index in Cohort::bound
    Generation current;
    // Members in rank order, of the newest generation and of those of kept rounds.
    // Invariant: `current` is a key of this map.
    std::map<Generation, std::vector<wire::Member>> generations;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(binding, current, generations);
    }
  };
  struct Cohort {
    std::map<GroupId, Group> groups;
    std::set<RoundKey> live;                  // undecided rounds, for which an older cohort lives on
    std::vector<std::vector<GroupId>> bound;  // lists of bound groups
    template <typename Archive>
    void archive(Archive& a) {
      a.all(groups, live, bound);
    }
  };
  struct Round {
    Generation attempt;
    wire::Descriptor what;
    PeerId first;  // the member whose descriptor is `what`
    std::uint64_t hash = 0;
    std::set<PeerId> done;
    bool differs = false;  // members are done with different arguments or results: the round never commits (rule 13)
    StateFingerprints fingerprints;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(attempt, what, first, hash, done, differs, fingerprints);
    }
  };

  struct Stop {
    wire::Verdict verdict;
    PeerId by;  // the member that asked; nobody: arguments or results differ
    template <typename Archive>
    void archive(Archive& a) {
      a.all(verdict, by);
    }
  };

  // ---- rounds.cc ----

  [[nodiscard]] const Cohort* cohort_of(const RoundKey& key) const;
  [[nodiscard]] const Group* group_of(const RoundKey& key) const;
  // The generation in which the round is attempted now. Nothing: there is no such cohort or group.
  [[nodiscard]] std::optional<Generation> attempt_of(const RoundKey& key) const;
  // The contributors of an attempt, in rank order.
  [[nodiscard]] const std::vector<wire::Member>& members_of(const RoundKey& key, Generation attempt) const;
  // One key that stands for all rounds that are bound together.
  [[nodiscard]] RoundKey bundle_of(const RoundKey& key) const;
  // Whether all survivors are done with equal results, which prove that the lost members took part (rule 13).
  [[nodiscard]] bool all_done(const RoundKey& key, Generation attempt, const std::set<PeerId>& lost) const;
  void drop_stops_of_nobody();
  // Whether the sender may report about this attempt: the attempt is the present one, and the sender is its member
  // (rule 31). `what`: for the text of the violation.
  [[nodiscard]] bool is_due(PeerId from, const RoundKey& key, Generation attempt, std::string_view what,
                            std::string& violation) const;
  template <typename Answer>
  DoneResult on_answer(PeerId from, Answer answer);
  void stop(const RoundKey& key, Generation attempt, Status status, std::string text, DoneResult& result);
  // The arguments of two members differ. If one of them is a newcomer, it leaves the run, and the round is attempted
  // again without it (rule 52); otherwise the round ends for all.
  void part(const RoundKey& key, Generation attempt, const std::pair<PeerId, PeerId>& two, std::string text,
            DoneResult& result);
  // This newcomer ends alone; its call ends with this status.
  void take_out(const RoundKey& key, PeerId newcomer, Status status, std::string text, DoneResult& result);
  // How far a member has got: in no round that has committed, in nothing but syncs, in another call (rule 52).
  enum class Standing : std::uint8_t { kNew, kSynced, kFull };
  [[nodiscard]] Standing standing_of(PeerId peer) const;
  // The one of these two that has got less far. Nothing: both have got equally far.
  [[nodiscard]] std::optional<PeerId> newcomer_of(const std::pair<PeerId, PeerId>& two) const;
  // A member of this attempt is being taken out of the run (rules 52, 53): the attempt decides nothing any more.
  [[nodiscard]] bool is_parting(const RoundKey& key, Generation attempt) const;
  // Members have taken part in a round that has committed.
  void has_contributed(const std::vector<wire::Member>& members, const wire::Descriptor& what);
  void gone(const std::set<PeerId>& peers);
  // All members of this group have claimed. If all members of the bound groups have, elects states of one revision
  // (rule 25). Without such a revision, the round ends before any state is overwritten. Newcomers whose states are
  // ahead leave the run (rule 53).
  void begin_transfers(const RoundKey& key, Generation attempt, DoneResult& result);
  // Commits the round and its bound rounds if all members are done. If watched states differ, finds the first
  // difference before, unless a comparison is under way (rule 40).
  void commit_if_done(const RoundKey& key, Generation attempt, DoneResult& result);
  void commit_all(const std::vector<RoundKey>& bound, Generation attempt, DoneResult& result);
  [[nodiscard]] bool begins_comparison(const std::vector<RoundKey>& bound, Generation attempt, DoneResult& result);
  void end_comparison(DoneResult& result);
  // The members that are done and whose watched states differ, or whose states a sync has repaired (rule 55); empty:
  // there are none.
  [[nodiscard]] std::string describe_difference(const RoundKey& key, Generation attempt) const;
  // A member is done with the round, or claims a state in it, and the round has not ended.
  [[nodiscard]] bool is_undecided(const RoundKey& key) const { return rounds_.contains(key) || claims_.has(key); }
  void note_agreed(const RoundKey& key, Generation attempt);
  [[nodiscard]] Committed committed(const RoundKey& key, Generation attempt, std::uint64_t hash) const;
  void forget(const RoundKey& key);
  void move_on(Group& group, GroupId id, CohortId cohort, const std::set<RoundKey>& kept, const wire::View& next);
  // Takes an entry that is dropped out of the tallies. Always true.
  bool uncount(const Round& round);
  bool uncount(const Stop& stop);
  void drop_unused_generations(CohortId id);
  void drop_cohort(CohortId id);

  // ---- verdicts.cc ----

  // Whether the ring of the round's group, or of a bound group, is laid around a broken link.
  [[nodiscard]] bool relinks(const Change& change, const RoundKey& key) const;
  [[nodiscard]] bool touched(const RoundKey& key, Generation attempt, const Change& change) const;
  [[nodiscard]] std::optional<wire::Verdict> agreed_among_members(const RoundKey& key, Generation attempt,
                                                                  const Change& change) const;
  [[nodiscard]] std::string describe_waiting(const RoundKey& key, Generation attempt, const Change& change) const;
  // The verdicts on rounds that the change touches, at most as many as one message carries. Other rounds that must not
  // be retried become stops for the next proposal, in `unsaid` if that is not null (rule 29).
  [[nodiscard]] std::vector<wire::Verdict> touched_verdicts(const Change& change, const wire::View& next,
                                                            std::map<RoundKey, Stop>* unsaid) const;
  // Adds commits of the bundle's rounds if rule 13 allows it, or rule 56 asks for it.
  [[nodiscard]] bool commit(const RoundKey& bundle, Generation attempt, const Change& change,
                            std::vector<wire::Verdict>& verdicts) const;

  std::map<CohortId, Cohort> cohorts_;
  std::map<RoundKey, Round> rounds_;
  Tally done_by_;  // of rounds_
  Claims claims_;
  Repairs repairs_;
  std::optional<Comparison> comparison_;      // at most one is under way: it holds an outline of half a mebibyte
  std::map<RoundKey, Stop> stops_;            // by bundle
  Tally asked_by_;                            // of stops_
  std::map<RoundKey, wire::Verdict> closed_;  // verdicts of an admission that its message could not carry
  std::map<RoundKey, Generation> kept_;       // for leavers
  std::map<PeerId, Standing> newcomers_;      // members that are not full ones
  std::set<PeerId> parting_;                  // newcomers that are being taken out of the run (rules 52, 53)
};

}  // namespace lockstep::coordinator
