// What neighbours tell each other of a round before its segments go: Ready to upstream; for small tensors Offer to downstream,
// which needs no answer. And what is kept of both until the round is launched here.
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/peer/machine.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// What was given up may still lie in its slot when the next ones come.
static_assert(2 * kMaxUnasked <= kEarlySlotsEach);

}  // namespace

// A round of one small segment is offered to downstream; any other is announced to those whose segments come here.
void Peer::Machine::greet_neighbours(Round& round) {
  ring::Operation& operation = *round.operation();
  if (!operation.is_one_small_segment()) return announce(round);
  if (!operation.sends_partial()) return operation.grant_unasked();  // they have launched when they get the final
  const auto eager = std::count_if(rounds_.begin(), rounds_.end(), [](const auto& entry) {
    const std::optional<Attempt>& attempt = entry.second.attempt;
    return attempt && attempt->eager;
  });
  round.attempt->eager = eager < static_cast<std::ptrdiff_t>(context_.options.unasked);
  if (round.attempt->eager) return operation.grant_unasked();
  context_.mesh.say(round.attempt->downstream(), wire::Offer{round.key, round.generation, round.what, false});
}

// What was said or sent on a stream that is no more. Downstream tells what it has, if it has launched.
void Peer::Machine::offer_again(Round& round, StripeIndex stripe, StreamId stream) {
  if (round.attempt->downstream_ready || !round.operation()->is_one_small_segment() ||
      !round.operation()->sends_partial())
    return;
  if (round.attempt->eager) return round.operation()->send_partial_again(stripe, stream);
  context_.mesh.say_on(stream, wire::Offer{round.key, round.generation, round.what, false});
}

void Peer::Machine::on_offer(PeerId from, StreamId stream, const wire::Offer& offer) {
  if (offer.key.group != context_.options.group) {
    return (void)context_.mesh.reset(stream, "an offer of another group's round", context_.now, context_.out());
  }
  Round* round = find(offer.key);
  if (round != nullptr && round->runs(offer.key, offer.attempt)) {
    if (from != round->attempt->upstream()) return;
    if (differ(*round, from, offer.what)) return;
    const bool asks = !offer.follows && round->operation() && round->operation()->is_one_small_segment();
    if (asks && !mutant(Mutant::kOfferUnanswered)) announce(*round);
    return;
  }
  if (!views_.is_to_come(offer.key, offer.attempt, round != nullptr) || mutant(Mutant::kEarlyForgotten)) return;
  if (!announcements_.eager().expect(from, offer)) {
    context_.mesh.reset(stream, "more offers than rounds can be in flight", context_.now, context_.out());
  }
}

// Takes what upstream has offered or sent before we launched.
void Peer::Machine::take_early(Round& round) {
  Early::Entry* early =
      announcements_.eager().find(round.attempt->upstream(), round.attempt->key, round.attempt->generation);
  if (early == nullptr || early->taken) return;
  if (differ(round, round.attempt->upstream(), early->what)) return;
  if (!early->follows) return announce(round);
  if (!early->segment || !round.operation()) return;
  early->taken = true;
  const wire::SegmentEnded& segment = *early->segment;
  if (!round.operation()->take(segment.segment, segment.into, segment.checksum, early->stream,
                               context_.jobs.collected())) {
    context_.mesh.reset(early->stream, "a segment that no round expects", context_.now, context_.out());
  }
  start_jobs(round);
}

// Whether these arguments of a neighbour are not ours; then the round is to be stopped.
bool Peer::Machine::differ(Round& round, PeerId from, const wire::Descriptor& what) {
  if (what == round.what || mutant(Mutant::kMismatchUnseen)) return false;
  round.attempt->mismatched = true;
  ask_to_stop(round, Status::kMismatch,
              wire::arguments_differ(round.key.tag, context_.name_of(context_.options.id), round.what,
                                     context_.name_of(from), what));
  return true;
}

void Peer::Machine::announce(Round& round) {
  if (!round.attempt->direct) return announce(round, round.attempt->upstream());
  for (const PeerId peer : *round.attempt->ring) {
    if (peer != context_.options.id) announce(round, peer);
  }
}

// Tells one whose segments come here that we are ready; on one stream, or on any.
void Peer::Machine::announce(Round& round, PeerId to, std::optional<StreamId> stream) {
  const bool landing = round.state == Round::State::kRunning || round.state == Round::State::kDone;
  wire::Ready ready{round.key, round.generation, round.what, landing, {}};
  if (round.operation()) ready.have = round.operation()->have(*round.attempt->sender(to));
  if (stream) {
    context_.mesh.say_on(*stream, ready);
  } else {
    context_.mesh.say(to, ready);
  }
}

void Peer::Machine::take_readies(Round& round) {
  if (!round.attempt->direct) return take_ready(round, round.attempt->downstream());
  for (const PeerId peer : *round.attempt->ring) {
    if (peer != context_.options.id) take_ready(round, peer);
  }
}

void Peer::Machine::take_ready(Round& round, PeerId from) {
  auto early = announcements_.take(from, round.key, round.generation);
  if (early) on_ready(from, early->stripe, early->stream, std::move(early->ready));
}

void Peer::Machine::on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) {
  if (ready.key.group != context_.options.group) {
    return (void)context_.mesh.reset(stream, "an announcement of another group's round", context_.now, context_.out());
  }
  Round* round = find(ready.key);
  const bool current = round != nullptr && round->runs(ready.key, ready.attempt);
  const std::optional<Rank> receiver = current ? round->attempt->receiver(from) : std::nullopt;
  if (current && !receiver) return;
  if (current && differ(*round, from, ready.what)) return;
  if (current) {
    const bool knew = std::exchange(round->attempt->downstream_ready, true);
    if (!knew || round->attempt->direct) tell_stakes(*round, from);
    if (!ready.landing) return;
    if (round->operation()) {
      if (!round->operation()->grant(*receiver, ready.have, stripe, stream)) {
        return (void)context_.mesh.reset(stream, "a Ready that does not fit its round", context_.now, context_.out());
      }
      round->operation()->prepare(context_.jobs.collected());
      return start_jobs(*round);
    }
  } else if (!views_.is_to_come(ready.key, ready.attempt, round != nullptr)) {
    return;
  }
  if (mutant(Mutant::kEarlyReadyForgotten)) return;
  if (!announcements_.keep(from, {std::move(ready), stripe, stream})) {
    context_.mesh.reset(stream, "more announcements than rounds can be in flight", context_.now, context_.out());
  }
}

void Peer::Machine::forget_stale_announcements() {
  announcements_.forget_if(
      [&](const RoundKey& key, Generation attempt) { return views_.is_stale(key, attempt, find(key) != nullptr); });
}

}  // namespace lockstep::peer
