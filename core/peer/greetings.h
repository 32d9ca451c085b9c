// The messages between neighbours before the segments of a round flow (rules 10 and 11 of docs/protocol.md): a Ready
// goes to each sender of segments, an Offer of one small segment goes downstream, and rank parameters go around the
// ring. Works on one round at a time and holds none. The caller learns of arguments that differ, and of complete rank
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/peer/announcements.h"
#include "core/peer/context.h"
#include "core/peer/round.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class Greetings {
 public:
  Greetings(Context& context, Announcements& announcements) : context_(context), announcements_(announcements) {}

  // ---- Ready and Offer ----

  // With the operation. A round of one small segment is offered to downstream, or sent without a request; any other is
  // announced to those whose segments come here, and a direct one of few small segments goes without a request, too.
  // `eager`: the segments of all rounds that a neighbour gets without a request.
  void greet(Round& round, std::uint32_t eager);
  // To everybody whose segments come here.
  void announce(const Round& round);
  // To one of them; on one stream, or on any.
  void announce(const Round& round, PeerId to, std::optional<StreamId> stream = std::nullopt);
  // Repeats on a new stream what was offered or sent on a stream that is gone. A receiver tells what it has, once it
  // has launched.
  void offer_again(Round& round, Rank receiver, StripeIndex stripe, StreamId stream);
  // Takes what this neighbour has offered or sent before the launch. Not empty: the arguments differ, and this is why
  // the round stops.
  [[nodiscard]] std::string take_early(Round& round, PeerId from);
  // Compares the arguments of a neighbour. Not empty: they differ, and this is why the round stops.
  [[nodiscard]] std::string compare(Round& round, PeerId from, const wire::Descriptor& what);
  // The receiver has places. False: it names other segments than this round has.
  [[nodiscard]] bool grant(Round& round, Rank receiver, const wire::Ready& ready, StripeIndex stripe, StreamId stream);

  // ---- rank parameters: once around the ring; direct, in Ready; in a grid, in Ready and on by relays ----

  // Tells the downstream neighbour, or a rank for which this one is a relay, the parameters that it may not know yet.
  // Does nothing if all ranks are linked.
  void tell_rank_parameters(const Round& round, PeerId to);
  // True: all rank parameters are known now.
  [[nodiscard]] bool learn_rank_parameter(Round& round, Rank rank, std::uint64_t value);
  // A broadcast in a grid: this rank may stand between another one and the root, and then tells the root, once the root
  // has launched the round, that the other has, too; or which ones have. Does nothing in any other round.
  void tell_launch(const Round& round, Rank of);
  void tell_launches(const Round& round, PeerId to);

 private:
  // Whether this rank stands between the two, in the tree of the owner.
  static bool is_between(const Attempt& attempt, Rank owner, Rank other);

  Context& context_;
  Announcements& announcements_;
};

}  // namespace lockstep::peer
