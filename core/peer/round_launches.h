// How launched calls become rounds, how they wait for their turn, and who goes first (rules 42 and 43 of
// docs/protocol.md). LaunchQueue keeps the calls that wait; RoundAttempts begins the rounds. Decides nothing about
// rounds that have begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/peer/admission.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/input.h"
#include "core/peer/launch_queue.h"
#include "core/peer/local_states.h"
#include "core/peer/round.h"
#include "core/peer/round_attempts.h"
#include "core/peer/round_ends.h"
#include "core/peer/round_operations.h"
#include "core/peer/round_syncs.h"
#include "core/peer/round_table.h"
#include "core/peer/views.h"

namespace lockstep::peer {

class RoundLaunches {
 public:
  // What rounds hold, and this class looks at.
  struct Holders {
    RoundTable& rounds;
    LaunchQueue& queue;
    const Announcements& announcements;
    LocalStates& states;
  };
  // The parts that carry on when a call begins, or ends without a round.
  struct Parts {
    RoundSyncs& syncs;
    const RoundEnds& ends;
    RoundOperations& operations;
    RoundAttempts& attempts;
  };

  RoundLaunches(Context& context, Views& views, const Admission& admission, const Holders& holders, const Parts& parts)
      : context_(context),
        views_(views),
        admission_(admission),
        rounds_(holders.rounds),
        queue_(holders.queue),
        announcements_(holders.announcements),
        states_(holders.states),
        syncs_(parts.syncs),
        ends_(parts.ends),
        operations_(parts.operations),
        attempts_(parts.attempts) {}

  [[nodiscard]] static std::optional<Refusal> validate(const Request& request);
  void launch(Launch in);
  // Ends the call if it waits. False: it does not.
  [[nodiscard]] bool stop(CallId call, const std::string& text);
  // Ends the calls whose time-out is over.
  void on_timer();
  // The round; or, if its call waits here, that begins now if it may. Null: there is none.
  [[nodiscard]] Round* find_or_pull(const RoundKey& key);
  // Rounds that wait here may be over for all members.
  void pull_decided();
  // `some_ended`: places have become free since the last time. True: calls have begun.
  [[nodiscard]] bool begin_waiting(bool some_ended);

  // Left out: context_, views_, admission_, rounds_, queue_, announcements_ and states_, which are saved before;
  // operations_, which is saved after; and syncs_, ends_ and attempts_, which hold nothing.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(last_begun_, pulls_wait_);
  }

 private:
  void launch_refused(Launch in);
  [[nodiscard]] bool must_wait(const Request& request) const;
  // The call begins, or waits; the order of its launch.
  std::uint64_t place(LaunchQueue::Entry entry);
  void begin(std::uint64_t order, LaunchQueue::Entry entry);
  void pull(const RoundKey& key);
  void pull_launched(Tag tag);
  void pull_announced();
  bool pass(Tag tag);
  void pass_some();
  void end_waiting(std::uint64_t order, Status status, const std::string& text);

  Context& context_;
  Views& views_;
  const Admission& admission_;
  RoundTable& rounds_;
  LaunchQueue& queue_;
  const Announcements& announcements_;
  LocalStates& states_;
  RoundSyncs& syncs_;
  const RoundEnds& ends_;
  RoundOperations& operations_;
  RoundAttempts& attempts_;
  std::uint64_t last_begun_ = 0;  // the highest order of a call that has begun
  bool pulls_wait_ = false;       // rounds that wait in the queue shall begin, and there were no places
};

}  // namespace lockstep::peer
