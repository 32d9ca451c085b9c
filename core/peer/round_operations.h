// The operations of attempts: the ranks exchange rank parameters and greetings, then the operation begins, and its jobs
// end (rules 10, 11, 58 and 61 of docs/protocol.md). What neighbours said of an attempt before it began is taken here.
// Decides neither which attempt a round makes nor how the round ends.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/greetings.h"
#include "core/peer/input.h"
#include "core/peer/round.h"
#include "core/peer/round_commits.h"
#include "core/peer/round_stops.h"
#include "core/peer/round_table.h"
#include "core/ring/operation.h"

namespace lockstep::peer {

class RoundOperations {
 public:
  RoundOperations(Context& context, RoundTable& rounds, Announcements& announcements, Greetings& greetings,
                  RoundStops& stops, RoundCommits& commits)
      : context_(context),
        rounds_(rounds),
        announcements_(announcements),
        greetings_(greetings),
        stops_(stops),
        commits_(commits) {}

  // ---- the course of an attempt ----

  // A new attempt: exchanges rank parameters, if the round has any, and then begins the operation.
  void begin(Round& round);
  // A sync needs no greeting to go on. Neighbours that have called something else with this tag see the difference.
  void exchange_greetings(Round& round);
  // This peer cannot take part.
  void refuse(Round& round, Status status, const std::string& text);
  void on_job_done(Round& round, const JobDone& in);
  // Rule 61: what this peer knows of its line may have changed.
  void limit_under_way(Round& round);

  // ---- neighbours, about the attempt that runs ----

  void on_ready(Round& round, PeerId from, Announcements::EarlyReady in);
  // Keeps the message until an operation takes it.
  void keep(PeerId from, Announcements::EarlyReady early);
  // Takes the segments that a neighbour has offered or sent before this peer began the round.
  void take_early(Round& round, PeerId from);
  // `from`: who told it.
  void learn_rank_parameter(Round& round, PeerId from, Rank rank, std::uint64_t value);

  // ---- rounds of which no neighbour has heard (rule 43) ----

  void on_timer();
  [[nodiscard]] Instant deadline() const { return announce_at_; }
  void announce_if_silent(Round& round);

  // ---- after every step ----

  // Segments that came before the ranks of their attempt knew who owns what get their places.
  void ask_again();
  [[nodiscard]] bool asks() const { return !asking_.empty(); }

  // Left out: context_, rounds_ and announcements_, which are saved before; greetings_, stops_ and commits_, which hold
  // nothing; and asking_, which is set in steps only.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(announce_at_);
  }

 private:
  void begin_operation(Round& round);
  void take_all_early(Round& round);
  void take_readies(Round& round);
  void take_ready(Round& round, PeerId from);
  [[nodiscard]] std::uint32_t eager_segments() const;
  void on_fault(Round& round, const ring::Operation::Finished& finished);
  void start_jobs(const Round& round) { context_.start_jobs(round.attempt->jobs); }

  Context& context_;
  RoundTable& rounds_;
  Announcements& announcements_;
  Greetings& greetings_;
  RoundStops& stops_;
  RoundCommits& commits_;
  std::vector<std::pair<RoundKey, AttemptId>> asking_;  // in this step: ask_again()
  Instant announce_at_ = kNever;                        // rounds of which no neighbour has heard
};

}  // namespace lockstep::peer
