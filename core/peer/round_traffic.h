// What neighbours say and send about rounds, and which segments go to them (rules 10, 14, 31 and 35 of
// docs/protocol.md). Finds the round that a message or a segment is about, and hands it to the part that it concerns.
// Holds nothing, and begins and ends no round.
#pragma once

#include "core/base/ids.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/greetings.h"
#include "core/peer/local_states.h"
#include "core/peer/mesh_owners.h"
#include "core/peer/round.h"
#include "core/peer/round_admissions.h"
#include "core/peer/round_commits.h"
#include "core/peer/round_launches.h"
#include "core/peer/round_operations.h"
#include "core/peer/round_stops.h"
#include "core/peer/round_syncs.h"
#include "core/peer/round_table.h"
#include "core/peer/views.h"

namespace lockstep::peer {

class RoundTraffic final : public NeighbourOwner {
 public:
  // What rounds hold, and this class looks at.
  struct Holders {
    RoundTable& rounds;
    Announcements& announcements;
    LocalStates& states;
  };
  // The parts that messages and segments concern.
  struct Parts {
    RoundSyncs& syncs;
    Greetings& greetings;
    RoundStops& stops;
    RoundAdmissions& admissions;
    RoundCommits& commits;
    RoundOperations& operations;
    RoundLaunches& launches;
  };

  RoundTraffic(Context& context, const Views& views, const Holders& holders, const Parts& parts)
      : context_(context),
        views_(views),
        rounds_(holders.rounds),
        announcements_(holders.announcements),
        states_(holders.states),
        syncs_(parts.syncs),
        greetings_(parts.greetings),
        stops_(parts.stops),
        admissions_(parts.admissions),
        commits_(parts.commits),
        operations_(parts.operations),
        launches_(parts.launches) {}

  void on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) override;
  void on_offer(PeerId from, StreamId stream, const wire::Offer& offer) override;
  void on_rank_parameter(PeerId from, const wire::RankParameter& parameter) override;
  void on_done(PeerId from, const wire::Done& done) override;
  void on_state_message(PeerId from, StreamId stream, const wire::Message& message) override;
  [[nodiscard]] ring::Operation::SegmentPlace on_segment_began(PeerId from, StreamId stream,
                                                               const wire::Segment& segment) override;
  void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) override;
  [[nodiscard]] bool has_segments() const override;
  [[nodiscard]] bool has_segments_for(PeerId to) const override;
  [[nodiscard]] bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) override;
  void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) override;
  void on_stream_gone(PeerId peer, StreamId stream) override;

 private:
  // The round that a segment belongs to, if it is of the attempt that runs.
  [[nodiscard]] Round* running(const wire::Segment& segment);
  // Whether the place of a segment depends on what this rank still waits for.
  [[nodiscard]] bool awaits_parameters(PeerId from, const wire::Segment& segment);
  // The round in which a neighbour shares a state. Null if its attempt does not run here.
  [[nodiscard]] Round* syncing(const RoundKey& key, AttemptId attempt);
  [[nodiscard]] bool has_segments_of(const Round& round) const;
  void start_jobs(const Round& round) { context_.start_jobs(round.attempt->jobs); }

  Context& context_;
  const Views& views_;
  RoundTable& rounds_;
  Announcements& announcements_;
  LocalStates& states_;
  RoundSyncs& syncs_;
  Greetings& greetings_;
  RoundStops& stops_;
  RoundAdmissions& admissions_;
  RoundCommits& commits_;
  RoundOperations& operations_;
  RoundLaunches& launches_;
};

}  // namespace lockstep::peer
