// Calls that wait long (rule 54 of docs/protocol.md): tells the coordinator about them, and answers what this peer does
// while other members wait for its call. Ends no call.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/admission.h"
#include "core/peer/context.h"
#include "core/peer/launch_queue.h"
#include "core/peer/round.h"
#include "core/peer/round_table.h"
#include "core/peer/snapshot.h"
#include "core/peer/views.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class RoundWaits {
 public:
  RoundWaits(Context& context, const Views& views, const Admission& admission, RoundTable& rounds,
             const LaunchQueue& queue)
      : context_(context), views_(views), admission_(admission), rounds_(rounds), queue_(queue) {}

  // An attempt of the round begins.
  void begin(const Round& round);
  void on_timer();
  [[nodiscard]] Instant deadline() const { return look_at_; }
  // Members wait long for a call. `round`: the round of the call; null if this peer has none. `phase`: of that round
  // here. `transfer`: the send or receive that the program waits for; empty: none.
  void on_awaited(const wire::CallAwaited& in, Round* round, RoundPhase phase, const std::string& transfer);

  // Left out: context_, views_, admission_, rounds_ and queue_, which are saved before.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(look_at_);
  }

 private:
  void tell_wait(Round& round);
  [[nodiscard]] std::string busy(Tag tag, const std::string& transfer) const;

  Context& context_;
  const Views& views_;
  const Admission& admission_;
  RoundTable& rounds_;
  const LaunchQueue& queue_;
  Instant look_at_ = kNever;  // for calls that wait long
};

}  // namespace lockstep::peer
