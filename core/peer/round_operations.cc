#include "core/peer/round_operations.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/describe.h"

namespace lockstep::peer {

// ---- the course of an attempt ----

void RoundOperations::begin(Round& round) {
  if (!round.has_rank_parameters()) return begin_operation(round);
  Attempt& attempt = *round.attempt;
  round.stage = stage::ExchangingParameters{};
  attempt.rank_parameters.resize(attempt.world());
  const ring::LineReport line = attempt.by_rate ? context_.mesh.line() : ring::LineReport{};
  learn_rank_parameter(round, context_.options.id, attempt.rank, round.own_rank_parameter(context_.options.id, line));
  if (!round.is<stage::ExchangingParameters>()) return;
  greetings_.announce(round);
  take_readies(round);
}

void RoundOperations::begin_operation(Round& round) {
  if (!round.root()) {
    return refuse(round, Status::kInvalidArgument,
                  std::string(wire::name_of(round.request.collective)) + " root " +
                      context_.name_of(round.request.root) + " is not a member of this group: give the id of a member");
  }
  if (const PeerId stranger = round.receiver_that_is_no_member(); !stranger.is_nobody()) {
    return refuse(round, Status::kInvalidArgument,
                  std::string(wire::name_of(round.request.collective)) + ": " + context_.name_of(stranger) +
                      ", which a block is for, is not a member of this group: give each member one block");
  }
  if (const auto why = round.validate_operation(context_.options)) return refuse(round, why->status, why->text);
  Attempt& attempt = *round.attempt;
  LOCKSTEP_ASSERT(!attempt.operation && !attempt.jobs);
  attempt.operation = round.new_operation(context_.options);
  attempt.jobs = context_.jobs.open(Jobs::Use::kRound, round.order);
  round.stage = stage::Running{};
  if (attempt.by_rate) asking_.emplace_back(attempt.key, attempt_id(attempt.generation));
  if (attempt.world() > 1) {
    take_all_early(round);
    greetings_.greet(round, eager_segments());
    attempt.silent = attempt.operation->is_one_small_segment();
    if (attempt.silent) announce_at_ = std::min(announce_at_, context_.now + context_.options.link_heartbeat / 4);
    take_readies(round);
  }
  if (!round.is<stage::Running>()) return;
  limit_under_way(round);
  attempt.operation->prepare(context_.jobs.collected());
  start_jobs(round);
  commits_.done_if_complete(round);
}

// Members that have called with other arguments may wait: the round ends for all, by
// verdict.
void RoundOperations::refuse(Round& round, Status status, const std::string& text) {
  round.stage = stage::Stuck{};
  if (round.attempt->by_rate) asking_.emplace_back(round.attempt->key, attempt_id(round.attempt->generation));
  stops_.ask_to_stop(round, status, context_.name_of(context_.options.id) + ": " + text);
}

void RoundOperations::limit_under_way(Round& round) {
  if (!round.attempt->direct || round.attempt->distance != ring::Distance::kFar) return;
  if (const auto most = context_.mesh.under_way()) round.operation()->limit(*most);
}

void RoundOperations::on_job_done(Round& round, const JobDone& in) {
  const Attempt& attempt = *round.attempt;
  const auto finished = attempt.operation->job_done(Jobs::own(in.token), in.result, context_.jobs.collected());
  start_jobs(round);
  if (const auto& early = finished.used_early)
    announcements_.eager().used(attempt.peer_at(early->from), attempt.key, attempt.generation, early->index);
  if (finished.corrupt) {  // rule 35
    context_.mesh.reopen(finished.stream, attempt.peer_at(finished.from), "a segment whose checksum is wrong",
                         context_.now, context_.out());
  }
  if (finished.placeable) context_.mesh.place(*finished.placeable, finished.place, context_.now, context_.out());
  if (finished.fault) on_fault(round, finished);
  if (round.is<stage::Running>()) commits_.done_if_complete(round);
}

void RoundOperations::on_fault(Round& round, const ring::Operation::Finished& finished) {
  if (!round.is<stage::Running>() && !round.is<stage::Done>()) return;
  std::string text = finished.fault->text;
  if (finished.suspect) {
    text += " (" + context_.name_of(round.attempt->peer_at(*finished.suspect)) + " sent to " +
            context_.name_of(context_.options.id) + ")";
  }
  if (round.is<stage::Running>()) return refuse(round, finished.fault->status, text);
  // In a reduce-scatter this peer has its own chunk, and passes on those of others.
  stops_.ask_to_stop(round, finished.fault->status, context_.name_of(context_.options.id) + ": " + text);
}

void RoundOperations::ask_again() {
  for (const auto& [key, attempt] : std::exchange(asking_, {}))
    context_.mesh.ask_again(key, attempt, context_.now, context_.out());
}

std::uint32_t RoundOperations::eager_segments() const {
  std::uint32_t segments = 0;
  for (const auto& [order, round] : rounds_) segments += round.attempt ? round.attempt->eager : 0;
  return segments;
}

// A peer that neither sends the first segment of a small round nor asks for one says nothing: its upstream neighbour,
// which may keep the call in its queue, would never begin it.
void RoundOperations::announce_if_silent(Round& round) {
  if (!round.is<stage::Running>() || !std::exchange(round.attempt->silent, false)) return;
  if (round.bytes_moved() == 0) greetings_.announce(round);
}

void RoundOperations::on_timer() {
  if (context_.now < announce_at_) return;
  announce_at_ = kNever;
  for (auto& [order, round] : rounds_) announce_if_silent(round);
}

// ---- neighbours ----

void RoundOperations::exchange_greetings(Round& round) {
  const Attempt& attempt = *round.attempt;
  if (attempt.world() == 1) return;
  greetings_.announce(round);
  take_readies(round);
  for (const PeerId from : announcements_.eager().offering(attempt.key, attempt.generation)) {
    const auto* const early = announcements_.eager().find(from, attempt.key, attempt.generation);
    stops_.stops_as_mismatch(round, from, greetings_.compare(round, from, early->what));
  }
}

void RoundOperations::take_early(Round& round, PeerId from) {
  stops_.stops_as_mismatch(round, from, greetings_.take_early(round, from));
}

void RoundOperations::take_all_early(Round& round) {
  const Attempt& attempt = *round.attempt;
  for (const PeerId from : announcements_.eager().offering(attempt.key, attempt.generation)) take_early(round, from);
}

// Rule 10.
void RoundOperations::on_ready(Round& round, PeerId from, Announcements::EarlyReady in) {
  const wire::Ready& ready = in.ready;
  const std::optional<Rank> receiver = round.attempt->receiver(from);
  if (!receiver || stops_.stops_as_mismatch(round, from, greetings_.compare(round, from, ready.what))) return;
  const bool knew = std::exchange(round.attempt->downstream_ready, true);
  const bool asks = round.attempt->in_grid() ? !ready.landing : !knew;  // one that lands knows all parameters
  if (asks) greetings_.tell_rank_parameters(round, from);
  if (ready.has_parameter && round.attempt->direct) learn_rank_parameter(round, from, *receiver, ready.parameter);
  if (!ready.landing) return;
  if (round.operation() == nullptr) return keep(from, std::move(in));
  if (!greetings_.grant(round, *receiver, ready, in.stripe, in.stream)) {
    (void)context_.mesh.reset(in.stream, "a Ready that does not fit its round", context_.now, context_.out());
    return;
  }
  greetings_.tell_launch(round, *receiver);
  greetings_.tell_launches(round, from);
  commits_.done_if_complete(round);  // the root of a broadcast, which waits for all to launch it
}

void RoundOperations::keep(PeerId from, Announcements::EarlyReady early) {
  if (mutant(Mutant::kEarlyReadyForgotten)) return;
  const StreamId stream = early.stream;
  if (announcements_.keep(from, std::move(early))) return;
  (void)context_.mesh.reset(stream, "more announcements than rounds can be in flight", context_.now, context_.out());
}

// What those have said who take segments from here, before this attempt began.
void RoundOperations::take_readies(Round& round) {
  const Attempt& attempt = *round.attempt;
  if (!attempt.direct) return take_ready(round, attempt.downstream());
  for (const PeerId peer : *attempt.ring) {
    if (peer != context_.options.id) take_ready(round, peer);
  }
}

void RoundOperations::take_ready(Round& round, PeerId from) {
  if (!round.runs(*round.key, round.generation)) return;  // what another member has said has ended the attempt
  if (auto early = announcements_.take(from, *round.key, round.generation)) on_ready(round, from, *std::move(early));
}

void RoundOperations::learn_rank_parameter(Round& round, PeerId from, Rank rank, std::uint64_t value) {
  if (!round.is<stage::ExchangingParameters>()) return;
  if (const auto flaw = round.validate_rank_parameter(rank, value)) {
    return stops_.ask_to_stop(round, Status::kProtocolError, context_.name_of(from) + " states " + *flaw);
  }
  const Attempt& attempt = *round.attempt;
  const bool errs = attempt.by_rate && attempt.rank == Rank{0} && rank == attempt.before();
  if (errs && mutant(Mutant::kOwnsByItsOwnRates)) value /= 4;
  if (greetings_.learn_rank_parameter(round, rank, value)) begin_operation(round);
}

}  // namespace lockstep::peer
