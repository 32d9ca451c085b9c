#include "core/peer/greetings.h"

#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

// Segments of an attempt that was given up may still lie in their slots when the next ones come.
static_assert(2 * kMaxEagerSegments <= kEarlySlotsEach);

void Greetings::greet(Round& round, std::uint32_t eager) {
  Attempt& attempt = *round.attempt;
  ring::Operation& operation = *attempt.operation;
  const auto may_go = [&](std::uint32_t segments) { return eager + segments <= context_.options.eager_segments; };
  if (operation.is_one_small_segment()) {
    if (!operation.sends_partial()) return operation.grant_eager();  // receivers have launched when the final comes
    attempt.eager = may_go(1) ? 1 : 0;
    if (attempt.eager > 0) return operation.grant_eager();
    context_.mesh.say(attempt.downstream(), wire::Offer{*round.key, round.generation, round.what, false});
    return;
  }
  const std::uint32_t segments = attempt.by_rate ? 0 : operation.eager_segments();
  if (segments > 0 && may_go(segments) &&
      std::uint64_t{eager + segments} * (attempt.linked_ranks() + 1) <= kEarlySlots / 4) {
    attempt.eager = segments;
    operation.grant_eager();
  }
  if (!attempt.by_rate) announce(round);  // by rate it has been, with the rates
}

void Greetings::announce(const Round& round) {
  const Attempt& attempt = *round.attempt;
  if (!attempt.direct) return announce(round, attempt.upstream());
  for (const PeerId peer : *attempt.ring) {
    if (attempt.sender(peer)) announce(round, peer);
  }
}

void Greetings::announce(const Round& round, PeerId to, std::optional<StreamId> stream) {
  // By rate, a rank has memory for contributions before it knows to which pieces.
  const bool lands_soon = round.attempt->by_rate && round.is<stage::ExchangingParameters>();
  const bool landing = round.is<stage::Running>() || round.is<stage::Done>() || lands_soon;
  wire::Ready ready{*round.key, round.generation, round.what, landing, {}, false, 0};
  if (round.operation() != nullptr) ready.have = round.operation()->have(*round.attempt->sender(to));
  if (round.attempt->direct && !round.attempt->rank_parameters.empty()) {
    ready.has_parameter = true;
    ready.parameter = wire::exchanges(round.request.collective)
                          ? ring::block_bytes_to(round.request, to)
                          : *round.attempt->rank_parameters[round.attempt->rank.value];
  }
  if (stream) {
    context_.mesh.say_on(*stream, ready);
  } else {
    context_.mesh.say(to, ready);
  }
}

void Greetings::offer_again(Round& round, Rank receiver, StripeIndex stripe, StreamId stream) {
  const Attempt& attempt = *round.attempt;
  ring::Operation& operation = *attempt.operation;
  if (attempt.eager > 0) {
    // Although the receiver may have launched: its Ready can overtake the welcome of this stream, on another stripe.
    operation.send_partial_again(receiver, stripe, stream);
    operation.prepare(context_.jobs.collected());
    return context_.start_jobs(attempt.jobs);
  }
  if (!operation.is_one_small_segment() || !operation.sends_partial() || attempt.downstream_ready) return;
  context_.mesh.say_on(stream, wire::Offer{*round.key, round.generation, round.what, false});
}

std::string Greetings::take_early(Round& round, PeerId from) {
  const Attempt& attempt = *round.attempt;
  EagerReceiveBuffer::Entry* entry = announcements_.eager().find(from, attempt.key, attempt.generation);
  if (entry == nullptr) return {};
  if (std::string why = compare(round, from, entry->what); !why.empty()) return why;
  const std::optional<Rank> sender = attempt.sender(from);
  if (!sender) return {};
  if (!entry->follows) {
    announce(round);
    return {};
  }
  if (!attempt.operation) return {};
  for (auto& [index, early] : entry->early) {
    if (std::exchange(early.taken, true)) continue;
    const wire::SegmentEnded& segment = early.segment;
    if (!attempt.operation->take(*sender, segment.segment, segment.into, segment.checksum, early.stream,
                                 context_.jobs.collected())) {
      context_.mesh.reset(early.stream, "a segment that no round expects", context_.now, context_.out());
    }
  }
  context_.start_jobs(attempt.jobs);
  return {};
}

// Rule 11.
std::string Greetings::compare(Round& round, PeerId from, const wire::Descriptor& what) {
  if (what == round.what || mutant(Mutant::kMismatchUnseen)) return {};
  const bool both_sync = what.collective == wire::Collective::kSync && round.what.collective == what.collective;
  if (both_sync) return {};  // the coordinator finds the first entry in which the states differ
  round.attempt->mismatched = true;
  return wire::arguments_differ(round.key->tag, context_.name_of(context_.options.id), round.what,
                                context_.name_of(from), what);
}

bool Greetings::grant(Round& round, Rank receiver, const wire::Ready& ready, StripeIndex stripe, StreamId stream) {
  Attempt& attempt = *round.attempt;
  if (!attempt.operation->grant(receiver, ready.have, stripe, stream)) return false;
  attempt.operation->prepare(context_.jobs.collected());
  context_.start_jobs(attempt.jobs);
  return true;
}

// ---- rank parameters ----

void Greetings::tell_rank_parameters(const Round& round, PeerId to) {
  const Attempt& attempt = *round.attempt;
  if (attempt.direct && !attempt.in_grid()) return;  // Ready tells
  for (std::uint32_t r = 0; r < attempt.rank_parameters.size(); ++r) {
    if (!attempt.rank_parameters[r] || attempt.peer_at(Rank{r}) == to) continue;
    if (attempt.in_grid() && !is_between(attempt, Rank{r}, *attempt.linked(to))) continue;
    context_.mesh.say(to, wire::RankParameter{*round.key, round.generation, Rank{r}, *attempt.rank_parameters[r]});
  }
}

bool Greetings::is_between(const Attempt& attempt, Rank owner, Rank other) {
  return owner != attempt.rank && other != attempt.rank && attempt.on_the_way(other, owner) == attempt.rank;
}

void Greetings::tell_launch(const Round& round, Rank of) {
  const Attempt& attempt = *round.attempt;
  if (!attempt.in_grid() || round.request.collective != wire::Collective::kBroadcast) return;
  const Rank root{*round.root()};
  if (!is_between(attempt, root, of) || !attempt.operation->has_launched(root)) return;
  if (mutant(Mutant::kLaunchesNotPassedOn)) return;
  context_.mesh.say(attempt.peer_at(root), wire::RankParameter{*round.key, round.generation, of, 0});
}

void Greetings::tell_launches(const Round& round, PeerId to) {
  const Attempt& attempt = *round.attempt;
  if (to != round.request.root || !attempt.in_grid() || !attempt.operation) return;
  for (std::uint32_t r = 0; r < attempt.world(); ++r) {
    if (attempt.operation->has_launched(Rank{r})) tell_launch(round, Rank{r});
  }
}

bool Greetings::learn_rank_parameter(Round& round, Rank rank, std::uint64_t value) {
  Attempt& attempt = *round.attempt;
  LOCKSTEP_ASSERT(rank.value < attempt.rank_parameters.size());
  if (attempt.rank_parameters[rank.value]) return false;
  attempt.rank_parameters[rank.value] = value;
  const bool relays = attempt.in_grid() && attempt.on_the_way(attempt.rank, rank) == rank;
  for (std::uint32_t r = 0; relays && r < attempt.world(); ++r) {  // to those that have launched
    if (!attempt.rank_parameters[r] || !is_between(attempt, rank, Rank{r})) continue;
    context_.mesh.say(attempt.peer_at(Rank{r}), wire::RankParameter{*round.key, round.generation, rank, value});
  }
  const PeerId downstream = attempt.downstream();
  if (attempt.downstream_ready && !attempt.direct && attempt.peer_at(rank) != downstream) {
    context_.mesh.say(downstream, wire::RankParameter{*round.key, round.generation, rank, value});
  }
  return attempt.knows_rank_parameters();
}

}  // namespace lockstep::peer
