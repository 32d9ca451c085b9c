// What a round does with states: a sync claims the state in memory, and takes over the elected state where that
// differs (rules 25, 26 and 38 of docs/protocol.md); other rounds may watch a state (rule 40). Works on one round at a
// time and holds none; what is asked and sent is state::Sync's. A round that must stop, or a coordinator that breaks
// the protocol, is told to the caller.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "core/base/ids.h"
#include "core/peer/context.h"
#include "core/peer/input.h"
#include "core/peer/local_states.h"
#include "core/peer/round.h"
#include "core/peer/views.h"
#include "core/ring/operation.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class RoundSyncs {
 public:
  RoundSyncs(Context& context, LocalStates& states, const Views& views)
      : context_(context), states_(states), views_(views) {}

  // ---- the course of a sync ----

  void begin(Round& round);
  // Claims the state once it is digested and no proposal freezes the round.
  void claim_if_digested(Round& round);
  // A state is elected. Not empty: how the coordinator breaks the protocol.
  [[nodiscard]] std::string elect(Round& round, const wire::Elected& in);
  // Asks what can be asked now.
  void ask(Round& round, const std::set<PeerId>& linked);
  // Why the state can be had from nobody, if so. Nobody can tell who is to blame, and the run goes on without the
  // state: only the attempt ends, for all.
  [[nodiscard]] std::optional<std::string> stranded(const Round& round) const;
  // Says that the elected state is here.
  void done_if_complete(Round& round);
  void on_job_done(Round& round, const JobDone& in);
  // The sync commits. `text`: the states that it has repaired (rule 55); empty: none.
  void note_repaired(const Round& round, const std::string& text);
  // The attempt is over. The pieces in memory stay for the next one. `is_member`: this peer may sync again.
  void end(Round& round, bool is_member);

  // ---- neighbours, about the attempt that runs ----

  void on_message(Round& round, PeerId from, StreamId stream, const wire::Message& message);
  [[nodiscard]] ring::Operation::SegmentPlace on_piece_began(Round& round, PeerId from, StreamId stream,
                                                             const wire::Segment& segment);
  void on_piece_ended(Round& round, PeerId from, const wire::SegmentEnded& ended);

  // ---- watched states ----

  // At the launch.
  // `in_order`: no launch before it begins later.
  void watch(Round& round, bool in_order);
  // With the first attempt: digests the state, unless there is nobody to compare it with.
  void begin_watch(Round& round);
  // True: the state is digested now.
  [[nodiscard]] bool on_watch_job_done(Round& round, const JobDone& in);
  // False: jobs still read the memory.
  [[nodiscard]] static bool end_watch(Round& round);
  // The watched state of a round that is done, which the coordinator compares with another's; null: there is none.
  [[nodiscard]] static const state::Sync* watched(const Round& round, Generation attempt);

 private:
  void say_all(const state::Sync::Messages& messages);
  void note_lie(PeerId peer, std::string what);
  // A successful sync has put an older state, or one of another lineage, in the place of this peer's.
  void note_replaced(const Round& round, const Outcome& outcome);
  void start_jobs(const Round& round) { context_.start_jobs(round.attempt->jobs); }
  [[nodiscard]] bool is_frozen(const Round& round) const { return views_.freezes(*round.key, round.generation); }

  Context& context_;
  LocalStates& states_;
  const Views& views_;
};

}  // namespace lockstep::peer
