// The collective calls of a peer: how they become rounds, are attempted, and end (docs/protocol.md, "The life of a
// round"). Three files carry it out: rounds.cc (the life of a round), round_queue.cc (calls that wait for a place)
// and round_traffic.cc (what neighbours say and send). Decides nothing about views and links: what a decision on a
// round means for them is told to the caller.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
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
#include "core/peer/round_ends.h"
#include "core/peer/round_syncs.h"
#include "core/peer/round_table.h"
#include "core/peer/snapshot.h"
#include "core/peer/views.h"
#include "core/wire/link_writer.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class Rounds final : public NeighbourOwner {
 public:
  Rounds(Context& context, Views& views, Admission& admission, LocalStates& states)
      : context_(context),
        views_(views),
        admission_(admission),
        states_(states),
        syncs_(context, states, views),
        greetings_(context, announcements_),
        ends_(context, admission, states, syncs_, announcements_),
        queue_(context.options.queued_calls) {}

  // ---- calls ----

  void launch(Launch in);
  // False: it is none of these calls.
  [[nodiscard]] bool stop(CallId call, const std::string& why);
  // A stop had no verdict within its grace period (rule 15): the run ends for this peer.
  [[nodiscard]] std::optional<Admission::RunEnds> on_timer();
  void on_job_done(const Jobs::Owner& owner, const JobDone& in);
  [[nodiscard]] std::uint64_t launches() const { return rounds_.launches(); }

  // ---- admission (rules 18 and 21) ----

  // The program has called admit.
  void begin_admit();
  // Tells the coordinator that this peer admits, and which rounds it has open; unless it knows, a proposal is open, or
  // calls that were launched before have not begun.
  void say_admit();
  // With auto_admit: launches wait for the next cohort from here on.
  void admit_automatically();
  // Joins the admission that another member has called, if calls would wait for it.
  void join_admission();
  void on_admitting(const wire::Admitting& in);
  // The admit of this peer, or of another member, is over without an admission.
  void enter_queued();
  void refuse_anew();

  // ---- what the coordinator decides; not empty: how it breaks the protocol ----

  [[nodiscard]] std::string on_commit(const wire::Commit& commit);
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

  // What this peer has open, for the coordinator.
  [[nodiscard]] std::vector<wire::OpenRound> open_rounds() const;
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

  // ---- neighbours: NeighbourOwner ----

  void on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) override;
  void on_offer(PeerId from, StreamId stream, const wire::Offer& offer) override;
  void on_rank_parameter(PeerId from, const wire::RankParameter& parameter) override;
  void on_done(PeerId from, const wire::Done& done) override;
  void on_state_message(PeerId from, StreamId stream, const wire::Message& message) override;
  [[nodiscard]] ring::Operation::Place on_segment_began(PeerId from, StreamId stream,
                                                        const wire::Segment& segment) override;
  void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) override;
  [[nodiscard]] bool has_segments() const override;
  [[nodiscard]] bool has_segments_for(PeerId to) const override;
  [[nodiscard]] bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) override;
  void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) override;
  void on_stream_gone(PeerId peer, StreamId stream) override;

  // ---- links ----

  // Links to everybody in the group: a round has the direct algorithm, or a member wants such a round.
  [[nodiscard]] bool is_direct() const { return direct_; }
  void on_direct_caller(PeerId from);
  // Whether a round waits for a link that is not needed all the time.
  [[nodiscard]] bool needs_link(PeerId to) const;
  // True, once: the links that are needed have changed in this step.
  [[nodiscard]] bool take_relink() { return std::exchange(relinks_, false); }
  void add_links(Views::Links& links) const;
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
  void ask_again();

  // Checked after every step.
  void assert_invariants() const;

  // ---- for observers ----

  [[nodiscard]] bool empty() const { return rounds_.empty() && queue_.empty(); }
  [[nodiscard]] std::size_t size() const { return rounds_.size(); }
  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  [[nodiscard]] std::size_t waiting_bytes() const { return queue_.bytes(); }
  [[nodiscard]] std::size_t calls() const { return rounds_.calls() + queue_.calls(); }
  [[nodiscard]] Instant deadline() const {
    return std::min(
        {rounds_.deadline(), queue_.deadline(), rounds_.empty() ? kNever : std::min(look_at_, announce_at_)});
  }
  // Pieces of states that could be sent now, if the pace allows it.
  [[nodiscard]] bool has_pieces() const { return rounds_.has_pieces(); }
  [[nodiscard]] std::size_t remembered() const { return announcements_.size() + reported_.size(); }
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

  [[nodiscard]] static std::optional<Refusal> validate(const Request& request);
  void launch_refused(Launch in);
  // The round that a segment belongs to, if it is of the attempt that runs.
  [[nodiscard]] Round* running(const wire::Segment& segment);
  // Whether the place of a segment depends on what this rank still waits for.
  [[nodiscard]] bool awaits_parameters(PeerId from, const wire::Segment& segment);
  // The round in which a neighbour shares a state; null: its attempt does not run here.
  [[nodiscard]] Round* syncing(const RoundKey& key, AttemptId attempt);
  void start_jobs(const Round& round) { context_.start_jobs(round.attempt->jobs); }
  [[nodiscard]] bool is_frozen(const Round& round) const { return views_.freezes(*round.key, round.generation); }

  // ---- the queue (rule 43; round_queue.cc) ----

  [[nodiscard]] bool must_wait(const Request& request) const;
  // The call begins, or waits; the order of its launch.
  std::uint64_t place(LaunchQueue::Entry entry);
  void begin(std::uint64_t order, LaunchQueue::Entry entry);
  [[nodiscard]] bool begin_waiting(bool some_ended);
  [[nodiscard]] Round* find_or_pull(const RoundKey& key);
  void pull(const RoundKey& key);
  void announce_if_silent(Round& round);
  void announce_silent();
  void pull_launched(Tag tag);
  void pull_decided();
  void pull_announced();
  bool pass(Tag tag);
  void pass_some();
  void end_waiting(std::uint64_t order, Status status, const std::string& text);
  void close_waiting();
  void refuse_unlaunched(const RoundKey& key, Generation attempt);

  void enter(Round& round);
  void begin_attempt(Round& round);
  void drop_stop_of_misfit(Round& round);
  static void void_stop(Round& round);
  void begin_operation(Round& round);
  // Rule 61: what this peer knows of its line may have changed.
  void limit_under_way(Round& round);
  // Nobody else takes part, or waits for this round.
  [[nodiscard]] bool decides_alone(const Round& round) const;
  void done_if_complete(Round& round);
  void tell_done(const Round& round, const wire::Done& done);
  void commit_if_agreed(Round& round);
  void refuse(Round& round, Status status, const std::string& text);
  void refuse_if_closed(Round& round);
  [[nodiscard]] static PeerId member_that_closes(const Round& round, const Cohort& cohort,
                                                 const Cohort::Roster& members);
  // `other`: the member whose arguments differ, if that is why.
  void ask_to_stop(Round& round, Status status, std::string text, PeerId other = {});
  void say_stop(const Round& round, bool done);
  void end_queued(Round& round, Status status, std::string text);
  // The caller does not wait for this round any more. The round ends for the others once it has a key.
  static void end_early(Round& round, Status status, const std::string& text);
  [[nodiscard]] bool drive_ends_once(bool& unkept);
  void give_up(Round& round, const wire::Propose& change, bool cut);
  // A state that the coordinator asks about, or a round whose members claim a state. All null and empty: the round has
  // ended.
  struct Claimed {
    Round* round = nullptr;
    const state::Sync* state = nullptr;
    std::string violation;
  };
  [[nodiscard]] Claimed claimed(const RoundKey& key, Generation attempt, const std::string& said);
  [[nodiscard]] Claimed compared(const RoundKey& key, Generation attempt, const std::string& said);

  // ---- long waits ----

  void tell_long_waits();
  void tell_wait(Round& round);
  [[nodiscard]] std::string busy(Tag tag, const std::string& transfer) const;

  void go_direct() { relinks_ = !std::exchange(direct_, true) || relinks_; }
  [[nodiscard]] std::uint32_t eager_segments() const;
  // Takes the segments that neighbours have offered or sent before this peer began the round.
  void take_early(Round& round);
  // `why`: how the arguments of this neighbour differ; empty: they do not. True: the round is asked to stop.
  bool stops_as_mismatch(Round& round, PeerId from, std::string why);
  // A sync needs no greeting to go on. Neighbours that have called something else with this tag see the difference.
  void exchange_greetings(Round& round);
  void take_readies(Round& round);
  void take_ready(Round& round, PeerId from);
  void learn_rank_parameter(Round& round, PeerId from, Rank rank, std::uint64_t value);
  [[nodiscard]] bool has_segments_of(const Round& round) const;
  void on_fault(Round& round, const ring::Operation::Finished& finished);
  [[nodiscard]] bool needs_link(const Round& round, PeerId to) const;

  Context& context_;
  Views& views_;
  Admission& admission_;
  LocalStates& states_;
  Announcements announcements_;
  RoundSyncs syncs_;
  Greetings greetings_;
  RoundEnds ends_;
  RoundTable rounds_;
  LaunchQueue queue_;
  std::uint64_t last_begun_ = 0;  // the highest order of a call that has begun
  bool pulls_wait_ = false;       // rounds that wait in the queue shall begin, and there were no places
  // Peer commits (rule 14) that the coordinator has not confirmed yet: these rounds count as done until it has.
  std::map<RoundKey, wire::OpenRound> reported_;
  std::vector<std::pair<RoundKey, AttemptId>> asking_;  // in this step: ask_again()
  Instant look_at_ = kNever;                            // for calls that wait long
  Instant announce_at_ = kNever;                        // rounds of which no neighbour has heard
  bool direct_ = false;
  bool relinks_ = false;  // in this step
};

}  // namespace lockstep::peer
