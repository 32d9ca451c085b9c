// The peer's inside. Session talks to the coordinator, Mesh to the neighbours; this machine holds the calls in between. Its files:
// machine.cc (inputs, and the calls that are about membership), rounds.cc, stakes.cc and greetings.cc (collectives and their data),
// syncs.cc (shared state), decisions.cc (what the coordinator decides), state.cc (all that it holds, for recordings).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/peer/admission.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/local_states.h"
#include "core/peer/peer.h"
#include "core/peer/round.h"
#include "core/peer/round_syncs.h"
#include "core/peer/state_transfers.h"
#include "core/peer/views.h"
#include "core/ring/operation.h"
#include "core/state/sync.h"

namespace lockstep::peer {

class Peer::Machine final : private SessionOwner, private MeshOwner {
 public:
  Machine(const Options& options, Instant now);

  void step(Input& input, Instant now, Effects& out);  // takes what it wants of it
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] Footprint footprint() const;
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings();
  [[nodiscard]] std::size_t passing();
  [[nodiscard]] Posture posture() const;
  [[nodiscard]] RoundPhase phase_of(const RoundKey& key) const;
  [[nodiscard]] std::optional<RoundKey> round_of(CallId call) const;
  [[nodiscard]] bool hears(StreamId stream) const;

  // What a recording begins with (core/flight/); defined in state.cc.
  template <typename Archive>
  void state(Archive& a);
  void lend_again(Effects& out) const;

 private:
  using Life = Admission::Life;

  template <typename Archive>
  void state_of(Archive& a, Round& round);
  [[nodiscard]] bool can_run(const Round& round) const;
  using Rounds = std::map<std::uint64_t, Round>;  // in the order of their launch

  // ---- posture.cc ----
  [[nodiscard]] Standing standing() const;

  // ---- machine.cc ----
  void on_admit(const Admit& in);
  void on_leave(const Leave& in);
  void on_stop(const Stop& in);
  void on_abandon(const Abandon& in);
  void on_timer();
  void say_admit();
  void try_leave();
  void carry_out(const Admission::Decision& decision);

  // ---- decisions.cc ----
  void on_decision(wire::Message message) override;
  void on_session_over(Status status, std::string text) override;
  void on_unanswered(std::string text) override;
  void on_propose(wire::Propose proposal);
  void on_install(const wire::Install& install);
  void on_commit(const wire::Commit& commit);
  void renew_grace();
  void on_put_off();
  void on_admit_ended(const wire::AdmitEnded& ended);
  void on_admitting(const wire::Admitting& in);
  void on_pending(const wire::Pending& pending);
  void give_up_admit(Status status, const std::string& text);
  void refuse_anew();
  void on_evicted(Status status, const std::string& text);
  void on_verdict(const wire::Verdict& verdict, bool rejoins);
  void give_up_touched(const wire::Propose& change);
  void enter_cohort(const wire::View& view);
  void end_left();
  void end_run(Status status, std::string text, bool left = false);
  void update_links();
  [[nodiscard]] std::vector<wire::OpenRound> open_rounds() const;
  void violation(const std::string& what);

  // ---- stakes.cc ----
  void tell_stakes(Round& round, PeerId to);
  void learn_stake(Round& round, Rank rank, std::uint64_t value);
  void on_stake(PeerId from, const wire::Stake& stake) override;

  // ---- rounds.cc ----
  void on_launch(Launch in);
  [[nodiscard]] std::optional<Error> check(const Request& request) const;
  void enter(Round& round);
  void begin_attempt(Round& round);
  void refuse(Round& round, Status status, const std::string& text);
  void begin_operation(Round& round);
  void done_if_complete(Round& round);
  [[nodiscard]] bool tells_directly(const Round& round);
  void tell_all(const Round& round, const wire::Done& done);
  void agree(Round& round, PeerId who, const wire::Done& done);
  void commit_if_agreed(Round& round);
  void on_done(PeerId from, const wire::Done& done) override;
  void ask_to_stop(Round& round, Status status, std::string text);
  void end_queued(Round& round, Status status, std::string text);
  void refuse_if_closed(Round& round);
  void finish(Round& round, std::optional<Outcome> outcome, bool restores);
  void drive_ends();
  void drop_cohorts();
  void admit_by_itself();
  // kWaits: memory is still out. kOver: the call is complete, the round can go. kBegan: it was attempted again.
  enum class End : std::uint8_t { kWaits, kOver, kBegan };
  [[nodiscard]] End drive_end(Round& round);
  [[nodiscard]] Outcome outcome_of(const Round& round, Status status, std::string text) const;
  [[nodiscard]] Round* find(const RoundKey& key);
  [[nodiscard]] Round* running(const wire::Segment& segment);
  void start_jobs(const Round& round) { context_.start_jobs(round.attempt->jobs); }
  void on_job_done(const JobDone& in);
  ring::Operation::Place on_segment_began(PeerId from, StreamId stream, const wire::Segment& segment) override;
  void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) override;
  [[nodiscard]] bool has_segments_of(const Round& round) const;
  [[nodiscard]] bool has_segments() const override;
  [[nodiscard]] bool has_segments_for(PeerId to) const override;
  bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) override;
  void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) override;
  void on_stream_gone(PeerId peer, StreamId stream) override;
  void on_link_broken(PeerId peer, const std::string& why) override;
  void on_direct_caller(PeerId from) override;
  [[nodiscard]] bool needs_link(PeerId to) const override;
  void go_direct();

  // ---- syncs.cc ----
  // The round that the coordinator speaks of, if it has not ended; a violation if no state was claimed in it, whose text
  // begins with `said`.
  [[nodiscard]] Round* claimed(const RoundKey& key, Generation attempt, const std::string& said);
  // The state in it that the coordinator compares with another's.
  [[nodiscard]] const state::Sync* compared(const RoundKey& key, Generation attempt, const std::string& said);
  void on_elected(const wire::Elected& elected);
  void on_ask_outline(const wire::AskOutline& ask);
  void on_ask_entry(const wire::AskEntry& ask);
  [[nodiscard]] Round* syncing(const RoundKey& key, Generation attempt);
  void on_state_message(PeerId from, StreamId stream, const wire::Message& message) override;
  void drive_syncs();

  // ---- state transfers ----
  void on_publish(Publish in);
  void on_prefetch(Prefetch in);
  void drive_transfers();
  [[nodiscard]] bool serves() const override { return transfers_.serves(); }
  [[nodiscard]] std::optional<std::string> refusal_of_visitor(PeerId peer) const override;
  void on_visit_message(PeerId from, StreamId stream, const wire::Message& message) override {
    transfers_.on_message(from, stream, message);
  }
  ring::Operation::Place on_visit_segment_began(PeerId from, StreamId stream, const wire::Segment& segment) override {
    return transfers_.on_segment_began(from, stream, segment);
  }
  void on_visit_segment_ended(PeerId from, const wire::SegmentEnded& ended) override {
    transfers_.on_segment_ended(from, ended);
  }
  bool next_segment_for_visitor(PeerId to, wire::LinkWriter& writer) override {
    return transfers_.next_segment(to, writer);
  }
  void on_visit_gone(PeerId peer, StreamId stream) override { transfers_.on_stream_gone(peer, stream); }

  // ---- greetings.cc ----
  void greet_neighbours(Round& round);
  void announce(Round& round);
  void announce(Round& round, PeerId to, std::optional<StreamId> stream = std::nullopt);
  void offer_again(Round& round, StripeIndex stripe, StreamId stream);
  void take_readies(Round& round);
  void take_ready(Round& round, PeerId from);
  void take_early(Round& round);
  [[nodiscard]] bool differ(Round& round, PeerId from, const wire::Descriptor& what);
  void forget_stale_announcements();
  void on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) override;
  void on_offer(PeerId from, StreamId stream, const wire::Offer& offer) override;

  Context context_;
  Views views_{context_};
  Admission admission_{context_};

  Rounds rounds_;
  std::uint64_t launches_ = 0;
  std::map<RoundKey, std::uint64_t> by_key_;
  // Committed and reported, because all members said so; the coordinator has not yet. They count as done until it has.
  std::map<RoundKey, wire::OpenRound> reported_;
  LocalStates states_{context_.options};
  RoundSyncs syncs_{context_, states_, views_};
  StateTransfers transfers_{context_, states_};
  Announcements announcements_;
  bool goes_direct_ = false;  // a round has gone direct, or somebody wants to: links to all of the group
  bool relinks_ = false;      // in this step: they are wanted from now on
};

}  // namespace lockstep::peer
