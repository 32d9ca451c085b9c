// The peer's inside: hands each input to the part that it concerns, and carries out what a part's decision means for
// the others. The parts are Views (what the members are), Admission (in and out), Rounds (collective calls) and
// StateTransfers (publications and prefetches); Session talks to the coordinator, Mesh to the neighbours. state.cc
// names all that they hold, for recordings.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/peer/admission.h"
#include "core/peer/context.h"
#include "core/peer/local_states.h"
#include "core/peer/peer.h"
#include "core/peer/rounds.h"
#include "core/peer/state_transfers.h"
#include "core/peer/views.h"

namespace lockstep::peer {

class Peer::Machine final : private SessionOwner, private MeshOwner {
 public:
  Machine(const Options& options, Instant now);

  void step(Input& input, Instant now, Effects& out);  // takes what it wants of it
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] Footprint footprint() const;
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings();
  [[nodiscard]] Posture posture() const { return {standing(), rounds_.phases()}; }
  [[nodiscard]] RoundPhase phase_of(const RoundKey& key) const { return rounds_.phase_of(key); }
  [[nodiscard]] std::optional<RoundKey> round_of(CallId call) const { return rounds_.round_of(call); }
  [[nodiscard]] bool hears(StreamId stream) const;

  // What a recording begins with (core/flight/); defined in state.cc.
  template <typename Archive>
  void state(Archive& a);
  void lend_again(Effects& out) const;

 private:
  [[nodiscard]] Standing standing() const;
  void take(Input& input);

  // ---- calls ----

  void on_publish(Publish in);
  void on_prefetch(Prefetch in);
  void on_leave(const Leave& in);
  void on_stop(const Stop& in);
  void on_abandon(const Abandon& in);
  void on_timer();
  void on_job_done(const JobDone& in);
  void carry_out(const Admission::Decision& decision);
  void end_admit(Status status, const std::string& text);

  // ---- the coordinator ----

  void on_decision(wire::Message message) override;
  void on_session_over(Status status, std::string text) override { end_run(status, std::move(text)); }
  void on_unanswered(std::string text) override;
  void on_propose(wire::Propose proposal);
  void on_install(const wire::Install& install);
  void install(const wire::Propose& change);
  void on_put_off();
  void on_elected(const wire::Elected& elected);
  void on_admit_ended(const wire::AdmitEnded& ended);
  void on_left();
  // Not empty: the coordinator breaks the protocol, and this peer leaves the run.
  void check(const std::string& violation);

  // ---- neighbours: MeshOwner ----

  void on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) override {
    rounds_.on_ready(from, stripe, stream, std::move(ready));
  }
  void on_offer(PeerId from, StreamId stream, const wire::Offer& offer) override {
    rounds_.on_offer(from, stream, offer);
  }
  void on_stake(PeerId from, const wire::Stake& stake) override { rounds_.on_stake(from, stake); }
  void on_done(PeerId from, const wire::Done& done) override { rounds_.on_done(from, done); }
  void on_state_message(PeerId from, StreamId stream, const wire::Message& message) override {
    rounds_.on_state_message(from, stream, message);
  }
  ring::Operation::Place on_segment_began(PeerId from, StreamId stream, const wire::Segment& segment) override {
    return rounds_.on_segment_began(from, stream, segment);
  }
  void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) override {
    rounds_.on_segment_ended(from, stream, segment);
  }
  [[nodiscard]] bool has_segments() const override { return rounds_.has_segments(); }
  [[nodiscard]] bool has_segments_for(PeerId to) const override { return rounds_.has_segments_for(to); }
  bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) override {
    return rounds_.next_segment(to, stripe, stream, writer);
  }
  void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) override {
    rounds_.on_stripe_up(peer, stripe, stream);
  }
  void on_stream_gone(PeerId peer, StreamId stream) override { rounds_.on_stream_gone(peer, stream); }
  void on_link_broken(PeerId peer, const std::string& why) override;
  void on_direct_caller(PeerId from) override { rounds_.on_direct_caller(from); }
  [[nodiscard]] bool needs_link(PeerId to) const override { return rounds_.needs_link(to); }
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

  // ---- after every step ----

  void drive();
  void drive_transfers();
  void try_leave();
  void end_left();
  void end_run(Status status, std::string text, bool left = false);
  void update_links();

  Context context_;
  Views views_{context_};
  Admission admission_{context_};
  LocalStates states_{context_.options};
  Rounds rounds_{context_, views_, admission_, states_};
  StateTransfers transfers_{context_, states_};
};

}  // namespace lockstep::peer
