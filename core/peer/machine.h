// The peer's inside: hands each input to the part that it concerns, and carries out what a part's decision means for
// the others. The parts are Views (what the members are), Admission (in and out), Rounds (collective calls),
// PointToPoint (sends and receives) and StateTransfers (publications and prefetches); Session talks to the
// coordinator, Mesh to the neighbours. archive.cc names all that they hold, for recordings.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/peer/admission.h"
#include "core/peer/context.h"
#include "core/peer/local_states.h"
#include "core/peer/peer.h"
#include "core/peer/point_to_point.h"
#include "core/peer/rounds.h"
#include "core/peer/state_transfers.h"
#include "core/peer/views.h"

namespace lockstep::peer {

class Peer::Machine final : private SessionOwner, private LinkOwner {
 public:
  Machine(const PeerOptions& options, Instant now);

  void step(Input& input, Instant now, Effects& out);  // takes what it wants of it
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] Footprint footprint() const;
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings();
  [[nodiscard]] Snapshot snapshot() const { return {lifecycle(), rounds_.phases()}; }
  [[nodiscard]] RoundPhase phase_of(const RoundKey& key) const { return rounds_.phase_of(key); }
  [[nodiscard]] std::optional<RoundKey> round_of(CallId call) const { return rounds_.round_of(call); }
  [[nodiscard]] bool hears(StreamId stream) const;

  // What a recording begins with (core/flight/); defined in archive.cc.
  template <typename Archive>
  void archive(Archive& a);
  void lend_again(Effects& out) const;

 private:
  [[nodiscard]] Lifecycle lifecycle() const;
  void take(Input& input);

  // ---- calls ----

  void on_send(const Send& in);
  void on_receive(const Receive& in);
  void on_publish(Publish in);
  void on_prefetch(Prefetch in);
  void on_leave(const Leave& in);
  void on_stop(const Stop& in);
  void on_abandon(const Abandon& in);
  void on_timer();
  void on_job_done(const JobDone& in);
  void carry_out(const Admission::Decision& decision);
  void end_admit(Status status, const std::string& text);
  void continue_without_admission();

  // ---- the coordinator ----

  void on_decision(wire::Message message) override;
  void on_session_over(Status status, std::string text) override { end_run(status, std::move(text)); }
  void on_unanswered(std::string text) override;
  void on_propose(wire::Propose proposal);
  void on_install(const wire::Install& install);
  void install(std::shared_ptr<const wire::View> view, const wire::Propose& change);
  void on_put_off();
  void on_elected(const wire::Elected& elected);
  void on_admit_ended(const wire::AdmitEnded& ended);
  void on_left();
  // Not empty: the coordinator breaks the protocol, and this peer leaves the run.
  void check(const std::string& violation);

  // ---- links ----

  void on_link_broken(PeerId peer, const std::string& why, bool avoid) override;
  void on_direct_caller(PeerId from) override { rounds_.links().on_direct_caller(from); }
  void on_transfer_caller(PeerId from) override { point_to_point_.on_caller(from); }
  [[nodiscard]] const Contact* find_contact(PeerId peer) const override { return views_.find_contact(peer); }
  void ask_to_dial(PeerId peer) override { context_.session.say(wire::Knock{peer}); }
  [[nodiscard]] bool needs_link(PeerId to) const override { return rounds_.links().needs_link(to); }

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
  StateTransfers transfers_{context_, states_, views_};
  PointToPoint point_to_point_{context_, views_};
};

}  // namespace lockstep::peer
