// The collective calls of a peer: how they become rounds, are attempted, and end (docs/protocol.md, "The life of a
// round"). Owns the parts that share this work, and moves rounds on when the membership changes, the coordinator
// decides, time passes or memory comes back. Decides nothing about views and links: what a decision on a round means
// for them is told to the caller.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/admission.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/greetings.h"
#include "core/peer/input.h"
#include "core/peer/launch_queue.h"
#include "core/peer/local_states.h"
#include "core/peer/mesh_owners.h"
#include "core/peer/round.h"
#include "core/peer/round_admissions.h"
#include "core/peer/round_attempts.h"
#include "core/peer/round_commits.h"
#include "core/peer/round_ends.h"
#include "core/peer/round_launches.h"
#include "core/peer/round_links.h"
#include "core/peer/round_operations.h"
#include "core/peer/round_stops.h"
#include "core/peer/round_syncs.h"
#include "core/peer/round_table.h"
#include "core/peer/round_traffic.h"
#include "core/peer/round_waits.h"
#include "core/peer/snapshot.h"
#include "core/peer/views.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class Rounds {
 public:
  Rounds(Context& context, Views& views, Admission& admission, LocalStates& states);

  // ---- parts that concern others ----

  [[nodiscard]] NeighbourOwner& neighbours() { return traffic_; }
  [[nodiscard]] RoundAdmissions& admissions() { return admissions_; }
  [[nodiscard]] RoundLinks& links() { return links_; }
  [[nodiscard]] const RoundLinks& links() const { return links_; }

  // ---- calls ----

  void launch(Launch in) { launches_.launch(std::move(in)); }
  // False: it is none of these calls.
  [[nodiscard]] bool stop(CallId call, const std::string& why);
  // A stop had no verdict within its grace period (rule 15): the run ends for this peer.
  [[nodiscard]] std::optional<Admission::RunEnds> on_timer();
  void on_job_done(const Jobs::Owner& owner, const JobDone& in);
  [[nodiscard]] std::uint64_t launches() const { return rounds_.launches(); }

  // ---- what the coordinator decides; not empty: how it breaks the protocol ----

  [[nodiscard]] std::string on_commit(const wire::Commit& commit) { return commits_.on_commit(commit); }
  // `rejoins`: the proposal begins a new cohort, and this peer is in it.
  [[nodiscard]] std::string on_verdict(const wire::Verdict& verdict, bool rejoins);
  struct Election {
    bool taken = false;  // the links that are needed have changed
    std::string violation;
  };
  [[nodiscard]] Election on_elected(const wire::Elected& elected);
  [[nodiscard]] std::string on_ask_outline(const wire::AskOutline& ask);
  [[nodiscard]] std::string on_ask_entry(const wire::AskEntry& ask);
  // Members wait long for a call (rule 54).
  // `transfer`: the send or receive that the program waits for; empty: none.
  void on_awaited(const wire::CallAwaited& in, const std::string& transfer);

  // ---- changes of the membership ----

  // The admit of this peer, or of another member, is over without an admission.
  void enter_queued();
  // What this peer has open, for the coordinator.
  [[nodiscard]] std::vector<wire::OpenRound> open_rounds() const { return rounds_.open_rounds(); }
  void renew_grace(Instant limit);
  // The change holds (rules 5, 13 and 17): rounds that lost a member, and have no verdict, are attempted again in the
  // new generation. Rounds that must not be attempted again are over.
  void give_up_touched(const wire::Propose& change);
  // A new cohort begins: queued rounds get their keys.
  void enter_cohort();
  // What neighbours have announced of attempts that are over now, or will never begin.
  void forget_stale_announcements();
  // No proposal is open any more: what was held or frozen goes on.
  void go_on();
  // This peer, a newcomer, ends alone in this round, which goes on without it (rules 52, 53).
  void end_alone(const RoundKey& key, Status status, const std::string& text);
  // The run is over for this peer (rule 37).
  void end(Status status, const std::string& text);
  void forget();
  template <typename IsNeighbour>
  void forget_others(IsNeighbour is_neighbour) {
    announcements_.forget_others(is_neighbour);
  }

  // ---- after every step ----

  // Ends what can be ended now that memory is back. True: the last round that a leaver stayed for has ended.
  [[nodiscard]] bool drive_ends();
  // Cohorts are over once no round of theirs is left, also when none has ended because nobody launches any. True: some
  // are.
  [[nodiscard]] bool drop_cohorts();
  void drive_syncs();
  // Segments that came before the ranks of their attempt knew who owns what get their places.
  void ask_again() { operations_.ask_again(); }

  // Checked after every step.
  void assert_invariants() const;

  // ---- for observers ----

  [[nodiscard]] bool empty() const { return rounds_.empty() && queue_.empty(); }
  [[nodiscard]] std::size_t size() const { return rounds_.size(); }
  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  [[nodiscard]] std::size_t waiting_bytes() const { return queue_.bytes(); }
  [[nodiscard]] std::size_t calls() const { return rounds_.calls() + queue_.calls(); }
  [[nodiscard]] Instant deadline() const {
    return std::min({rounds_.deadline(), queue_.deadline(),
                     rounds_.empty() ? kNever : std::min(waits_.deadline(), operations_.deadline())});
  }
  // Pieces of states that could be sent now, if the pace allows it.
  [[nodiscard]] bool has_pieces() const { return rounds_.has_pieces(); }
  [[nodiscard]] std::size_t remembered() const { return announcements_.size() + rounds_.reported().size(); }
  [[nodiscard]] std::uint16_t phases() const { return rounds_.phases(); }
  [[nodiscard]] RoundPhase phase_of(const RoundKey& key) const;
  [[nodiscard]] std::optional<RoundKey> round_of(CallId call) const;
  // Entries of rounds that neighbours have launched and this peer has not, and of those whose commit is on its way.
  [[nodiscard]] std::size_t passing() const;
  [[nodiscard]] const Announcements& announcements() const { return announcements_; }

  template <typename Archive>
  void archive(Archive& a);  // defined in archive.cc

 private:
  template <typename Archive>
  void archive_of(Archive& a, Round& round);
  [[nodiscard]] bool can_run(const Round& round) const;

  void give_up(Round& round, const wire::Propose& change, bool cut);
  [[nodiscard]] bool drive_ends_once(bool& unkept);
  // A state that the coordinator asks about, or a round whose members claim a state. All null and empty: the round has
  // ended.
  struct Claimed {
    Round* round = nullptr;
    const state::Sync* state = nullptr;
    std::string violation;
  };
  [[nodiscard]] Claimed claimed(const RoundKey& key, Generation attempt, const std::string& said);
  [[nodiscard]] Claimed compared(const RoundKey& key, Generation attempt, const std::string& said);

  Context& context_;
  Views& views_;
  Admission& admission_;
  LocalStates& states_;
  RoundTable rounds_;
  LaunchQueue queue_;
  Announcements announcements_;
  // Each part knows only parts that stand before it.
  RoundSyncs syncs_;
  Greetings greetings_;
  RoundEnds ends_;
  RoundLinks links_;
  RoundStops stops_;
  RoundAdmissions admissions_;
  RoundCommits commits_;
  RoundWaits waits_;
  RoundOperations operations_;
  RoundAttempts attempts_;
  RoundLaunches launches_;
  RoundTraffic traffic_;
};

}  // namespace lockstep::peer
