// Collective calls: how they become rounds, how their data flows, and how they end.
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/peer/machine.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

std::optional<Error> Peer::Machine::check(const Request& request) const {
  const auto invalid = [](std::string text) { return Error{Status::kInvalidArgument, std::move(text)}; };
  if (request.tensors.size() > kMaxTensorsPerCall) {
    return invalid(std::to_string(request.tensors.size()) + " tensors in one call, more than " +
                   std::to_string(kMaxTensorsPerCall));
  }
  if (request.collective == Collective::kSync) {
    if (auto error = LocalStates::validate_state(request)) return error;
  }
  if (auto error = LocalStates::validate_watch(request)) return error;
  if (request.collective == Collective::kAllGather && request.tensors.size() != 1) {
    return invalid("all_gather takes one tensor, not " + std::to_string(request.tensors.size()));
  }
  if (auto flaw = flaw_of_encoding(request)) return invalid(std::move(*flaw));
  if (request.scratch.length < scratch_bytes(request)) {
    return invalid("scratch of " + std::to_string(request.scratch.length) + " bytes, " +
                   std::to_string(scratch_bytes(request)) + " needed");
  }
  return std::nullopt;
}

void Peer::Machine::on_launch(Launch in) {
  if (!admission_.is_member()) {
    const Error why = admission_.refusal("this peer is leaving: no more calls");
    return context_.fail(in.call, why.status, why.text);
  }
  if (rounds_.size() >= kMaxRoundsInFlight) {
    return context_.fail(
        in.call, Status::kTooManyInFlight,
        std::to_string(kMaxRoundsInFlight) + " rounds are in flight: wait for one to end before the next");
  }
  if (auto error = check(in.request)) return context_.fail(in.call, error->status, error->text);
  Round& round = rounds_[++launches_];
  round.order = launches_;
  round.call = in.call;
  round.request = std::move(in.request);
  round.what = descriptor_of(round.request, context_.options.segment_bytes);
  round.limit = context_.deadline_after(round.request.timeout);
  round.deadline = round.limit;
  if (round.request.state != nullptr && round.request.state->restored) states_.restored(round.request.tag);
  syncs_.watch(round);
  if (!admission_.admits() || mutant(Mutant::kLaunchesAfterAdmit)) enter(round);  // else it belongs to the next cohort
}

Round* Peer::Machine::find(const RoundKey& key) {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : &rounds_.at(at->second);
}

// Gives the round its name in the newest cohort, and begins it unless an earlier attempt is still being given up.
void Peer::Machine::enter(Round& round) {
  Cohort& cohort = *views_.newest();
  const bool ending = round.requeue;
  if (ending) by_key_.erase(round.key);
  round.requeue = false;
  round.key = RoundKey{cohort.id, context_.options.group, round.request.tag, cohort.uses.launch(round.request.tag)};
  round.generation = cohort.attempt_of(round.key);
  if (round.stop && round.stop->status == Status::kCohortClosed) {  // it has found another
    round.stop.reset();
    round.deadline = round.limit;
  } else if (round.stop) {
    round.stop->key = round.key;
  }
  by_key_[round.key] = round.order;
  if (ending) return;
  round.state = Round::State::kHeld;
  begin_attempt(round);
}

void Peer::Machine::begin_attempt(Round& round) {
  Cohort& cohort = *views_.cohort_of(round.key);
  if (const auto spent = cohort.used_up.find(round.key); spent != cohort.used_up.end()) {
    const wire::Verdict verdict = spent->second;
    cohort.used_up.erase(spent);
    return finish(round, outcome_of(round, verdict.status, verdict.text), false);
  }
  if (views_.proposal()) {
    round.state = Round::State::kHeld;
    return;
  }
  round.generation = cohort.attempt_of(round.key);
  const Cohort::Membership& among = cohort.generations.at(round.generation);
  LOCKSTEP_ASSERT(!round.operation() && !(round.attempt && round.attempt->jobs));  // given up before (rule 16)
  round.attempt.emplace(round.key, round.generation, among, context_.options.id, round.what);
  if (round.attempt->direct) go_direct();
  if (round.stop) {
    round.stop->attempt = round.generation;
    round.stop->done = false;
    context_.session.say(*round.stop);
  }
  if (round.completed_early) {
    round.deadline = context_.now + context_.options.abort_grace;
    round.state = Round::State::kStuck;
    return;
  }
  if (round.attempt->world() < round.request.minimum_world && !mutant(Mutant::kMinimumIgnored)) {
    return refuse(round, Status::kBelowMinimum,
                  "the group has " + std::to_string(round.attempt->world()) + " members, the call wants at least " +
                      std::to_string(round.request.minimum_world) + ": wait_for_world waits for more");
  }
  if (round.request.weight && !is_weight(*round.request.weight)) {
    return refuse(round, Status::kInvalidArgument,
                  "a weight is a finite number that is not negative, not " + std::to_string(*round.request.weight));
  }
  refuse_if_closed(round);
  if (round.request.collective == Collective::kSync) return syncs_.begin(round);
  syncs_.begin_watch(round);
  if (const auto stake = stake_of(round.request)) {
    round.state = Round::State::kStakes;
    round.attempt->stakes.resize(round.attempt->world());
    if (round.attempt->world() > 1) announce(round);
    learn_stake(round, round.attempt->rank, *stake);
    if (round.state == Round::State::kStakes) take_readies(round);
    return;
  }
  begin_operation(round);
}

// We cannot take part. The others may have called it with other arguments, and wait: it ends for all, by verdict.
void Peer::Machine::refuse(Round& round, Status status, const std::string& text) {
  round.state = Round::State::kStuck;
  ask_to_stop(round, status, context_.name_of(context_.options.id) + ": " + text);
}

void Peer::Machine::begin_operation(Round& round) {
  if (!round.root()) {
    return refuse(round, Status::kInvalidArgument,
                  "broadcast root " + context_.name_of(round.request.root) + " is not a member of this group");
  }
  if (const auto why = round.validate_operation(context_.options)) return refuse(round, why->status, why->text);
  LOCKSTEP_ASSERT(!round.attempt->operation && !round.attempt->jobs);
  round.attempt->operation = round.new_operation(context_.options);
  round.attempt->jobs = context_.jobs.open(Jobs::Use::kRound, round.order);
  round.state = Round::State::kRunning;
  if (round.attempt->world() > 1) {
    greet_neighbours(round);
    take_readies(round);
    take_early(round);
  }
  if (round.state != Round::State::kRunning) return;
  round.operation()->prepare(context_.jobs.collected());
  start_jobs(round);
  done_if_complete(round);
}

// A member that has called admit will never launch this round.
void Peer::Machine::refuse_if_closed(Round& round) {
  const Cohort& cohort = *views_.cohort_of(round.key);
  if (round.stop) return;
  const Cohort::Membership& members = cohort.generations.at(round.generation);
  // Still giving up an attempt: the next one will be below its minimum, and that is what those have heard who have admitted.
  if (members.ring->size() < round.request.minimum_world) return;
  if (cohort.id == context_.view->cohort) {
    if (admission_.joins(cohort)) admit_by_itself();
    if (admission_.goes_on(cohort)) return;
  }
  for (const auto& [peer, closer] : cohort.closers) {
    if (std::find(members.bound.begin(), members.bound.end(), peer) == members.bound.end()) continue;
    const bool launched = std::any_of(closer.open.begin(), closer.open.end(), [&](const RoundKey& key) {
      return key.tag == round.key.tag && key.use == round.key.use && key.cohort == round.key.cohort;
    });
    if (launched) continue;
    return ask_to_stop(round, Status::kCohortClosed, wire::not_launched(context_.name_of(peer), round.key.tag));
  }
}

// The round that this segment belongs to, if it is of the attempt that runs.
Round* Peer::Machine::running(const wire::Segment& segment) {
  Round* round = find(segment.key);
  if (round == nullptr || round->operation() == nullptr || !round->attempted()) return nullptr;
  const bool of_this = round->attempt->generation == segment.attempt || mutant(Mutant::kOldSegmentTaken);
  return of_this && round->attempt->key == segment.key ? round : nullptr;
}

ring::Operation::Place Peer::Machine::on_segment_began(PeerId from, StreamId stream, const wire::Segment& segment) {
  if (segment.phase == wire::Phase::kState) {
    Round* syncs = syncing(segment.key, segment.attempt);
    if (syncs == nullptr) return {ring::Operation::Landing::kSink, {}};
    return syncs_.on_piece_began(*syncs, from, stream, segment);
  }
  Round* round = running(segment);
  if (round == nullptr) return announcements_.eager().begin(from, stream, segment);
  if (round->attempt->mismatched) return {ring::Operation::Landing::kSink, {}};
  const std::optional<Rank> sender = round->attempt->sender(from);
  if (!sender) return {ring::Operation::Landing::kNonsense, {}};
  const auto place = round->operation()->begin(*sender, segment, stream, context_.jobs.collected());
  start_jobs(*round);
  return place;
}

void Peer::Machine::on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) {
  if (segment.segment.phase == wire::Phase::kState) {
    Round* syncs = syncing(segment.segment.key, segment.segment.attempt);
    if (syncs != nullptr) syncs_.on_piece_ended(*syncs, from, segment);
    return;
  }
  Round* round = running(segment.segment);
  if (segment.into.id == kEarlyBuffer) {
    if (announcements_.eager().landed(stream, segment) != nullptr && round != nullptr) take_early(*round);
    return;
  }
  const std::optional<Rank> sender = round == nullptr ? std::nullopt : round->attempt->sender(from);
  if (!sender) return;
  round->operation()->landed(*sender, segment.segment, segment.taken_back, segment.checksum, context_.jobs.collected());
  start_jobs(*round);
}

bool Peer::Machine::has_segments_of(const Round& round) const {
  if (!round.attempted()) return false;
  return round.sync ? round.sync->has_next() && states_.may_send(context_.now)
                    : round.operation() && round.operation()->has_next();
}

bool Peer::Machine::has_segments() const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return has_segments_of(entry.second); });
}

bool Peer::Machine::has_segments_for(PeerId to) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) {
    const Round& round = entry.second;
    if (round.sync || !round.operation()) return has_segments_of(round);
    const std::optional<Rank> receiver = round.attempt->receiver(to);
    return receiver && round.attempted() && round.operation()->has_next(*receiver);
  });
}

bool Peer::Machine::next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) {
  for (auto& [order, round] : rounds_) {
    if (round.sync && round.attempted() &&
        states_.send_next(*round.sync, round.key, round.generation, to, context_.now, context_.session.term(), writer))
      return true;
    if (!round.operation() || !round.operation()->has_next()) continue;
    const std::optional<Rank> receiver = round.attempted() ? round.attempt->receiver(to) : std::nullopt;
    if (!receiver) continue;
    const auto next = round.operation()->next(*receiver, stripe, stream);
    if (!next) continue;
    if (round.attempt->eager && next->phase == wire::Phase::kReduceScatter) {
      writer.message(wire::Offer{round.key, round.generation, round.what, true}, context_.session.term());
    }
    writer.segment(
        {round.key, round.generation, next->phase, next->index, static_cast<std::uint32_t>(next->payload.length)},
        context_.session.term(), next->payload, next->checksum);
    round.operation()->prepare(context_.jobs.collected());
    start_jobs(round);
    return true;
  }
  return false;
}

void Peer::Machine::on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) {
  for (auto& [order, round] : rounds_) {
    if (!round.attempted() || round.attempt->world() < 2) continue;
    if (round.attempt->sender(peer) && !mutant(Mutant::kReadyNotRepeated)) announce(round, peer, stream);
    if (round.attempt->direct || round.attempt->downstream() != peer) continue;
    if (round.attempt->downstream_ready) tell_stakes(round, peer);
    if (round.operation()) offer_again(round, stripe, stream);
  }
}

void Peer::Machine::on_stream_gone(PeerId peer, StreamId stream) {
  for (auto& [order, round] : rounds_) {
    if (round.operation()) round.operation()->stream_closed(stream);
    if (round.sync) round.sync->stream_closed(stream);
    if (round.sync) round.sync->relinked(peer);
  }
  announcements_.eager().stream_closed(stream);
}

void Peer::Machine::on_link_broken(PeerId peer, const std::string& why) {
  context_.note(
      {.kind = trace::Kind::kLinkReported, .view = context_.view->number, .peer = peer, .round = {}, .text = why});
  context_.session.say(wire::LinkBroken{peer, why});
}

// The links to all others of a round that goes direct. The one who dials sees whether there is one; the other may have launched, and
// wait, while it has not.
bool Peer::Machine::needs_link(PeerId to) const {
  return context_.options.id < to && std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) {
           const Round& round = entry.second;
           return round.attempted() && round.attempt->direct && round.attempt->other(to).has_value();
         });
}

void Peer::Machine::go_direct() { relinks_ = !std::exchange(goes_direct_, true) || relinks_; }

void Peer::Machine::on_direct_caller(PeerId from) {
  const Cohort* cohort = views_.newest();
  if (cohort == nullptr) return;
  const std::vector<PeerId>& ring = *cohort->now().ring;
  if (std::find(ring.begin(), ring.end(), from) != ring.end()) go_direct();
}

void Peer::Machine::on_job_done(const JobDone& in) {
  const Jobs::Owner owner = context_.jobs.owner_of(in.token);
  if (owner.use == Jobs::Use::kTransfer) return transfers_.on_job_done(owner.id, in);
  Round& round = rounds_.at(owner.id);
  if (owner.use == Jobs::Use::kWatch) {
    if (syncs_.on_watch_job_done(round, in)) done_if_complete(round);
    return;
  }
  if (round.sync) return syncs_.on_job_done(round, in);
  const auto finished = round.operation()->job_done(Jobs::own(in.token), in.result, context_.jobs.collected());
  start_jobs(round);
  if (finished.used_early)
    announcements_.eager().used(round.attempt->upstream(), round.attempt->key, round.attempt->generation);
  if (finished.corrupt) {
    const char* const why = "a segment whose checksum is wrong";
    if (!context_.mesh.reset(finished.stream, why, context_.now, context_.out())) {
      context_.mesh.reset_link((*round.attempt->ring)[finished.from.value], why, context_.now, context_.out());
    }
  }
  if (finished.placeable) context_.mesh.place(*finished.placeable, finished.place, context_.now, context_.out());
  if (finished.fault && (round.state == Round::State::kRunning || round.state == Round::State::kDone)) {
    const std::string sender =
        finished.corrupt ? " (" + context_.name_of((*round.attempt->ring)[finished.from.value]) + ")" : "";
    if (finished.corrupt) context_.mesh.forgive((*round.attempt->ring)[finished.from.value]);
    const std::string text = finished.fault->text + sender;
    if (round.state == Round::State::kRunning) {
      refuse(round, finished.fault->status, text);
    } else {  // in a reduce-scatter it has its own chunk, and passes on those of others
      ask_to_stop(round, finished.fault->status, context_.name_of(context_.options.id) + ": " + text);
    }
  }
  if (round.state == Round::State::kRunning) done_if_complete(round);
}

void Peer::Machine::done_if_complete(Round& round) {
  if (round.state != Round::State::kRunning || !round.operation()) return;
  if (!round.operation()->complete() || !round.knows_parity() || views_.freezes(round.key, round.generation)) return;
  round.state = Round::State::kDone;
  round.hash = round.operation()->result_hash();
  const Cohort& cohort = *views_.cohort_of(round.key);
  // Nobody else to agree with; but the coordinator holds a leaver for the rounds that it had open, and a cohort for those that were
  // open when its members called admit.
  const bool newest = round.key.cohort == context_.view->cohort;
  const bool is_known = admission_.leaves() || admission_.has_said_admit() || !newest;
  if (round.attempt->world() == 1 && cohort.alone() && (!is_known || mutant(Mutant::kDoneAloneUnsaid))) {
    finish(round, outcome_of(round, Status::kOk, {}), false);
    if (context_.options.auto_admit && admission_.pending() > 0 && newest) admit_by_itself();
    return;
  }
  const wire::Done done{round.key, round.generation, round.what, round.hash, round.parity()};
  if (tells_directly(round)) {
    agree(round, context_.options.id, done);
    tell_all(round, done);
  } else {
    context_.session.say(done);
  }
  commit_if_agreed(round);
}

// Whether members tell each other that they are done, and who has heard it of all need not wait for the coordinator. If one of them
// is lost then, the others are done, too, which the coordinator can see: nobody is without everybody's contribution. Rounds that
// prove less than that, or that end together with another group's, wait.
bool Peer::Machine::tells_directly(const Round& round) {
  return round.attempt->peer_commit && round.request.collective == Collective::kAllReduce && round.what.count > 0;
}

// Who hears it needs no word of the coordinator, which may hear of many rounds at once then. One that is far is told at once:
// somebody may wait for it whose link to another has just broken.
void Peer::Machine::tell_all(const Round& round, const wire::Done& done) {
  bool all_hear = true;
  for (const PeerId peer : *round.attempt->ring) {
    if (peer != context_.options.id) all_hear = context_.mesh.say(peer, done) && all_hear;
  }
  if (all_hear && round.attempt->distance != ring::Distance::kFar) return context_.session.say_soon(done, context_.now);
  context_.session.say(done);
}

// Results that differ are the coordinator's to judge, and so are states that are watched.
void Peer::Machine::agree(Round& round, PeerId who, const wire::Done& done) {
  const auto at = std::find(round.attempt->ring->begin(), round.attempt->ring->end(), who);
  if (at == round.attempt->ring->end() || (round.attempt->agreed != 0 && round.attempt->agreed_hash != done.hash))
    return;
  const bool drifted =
      done.parity != 0 && round.attempt->agreed_parity != 0 && done.parity != round.attempt->agreed_parity;
  if (drifted && !mutant(Mutant::kWatchBlind)) return;
  round.attempt->agreed |= 1U << static_cast<std::uint32_t>(at - round.attempt->ring->begin());
  round.attempt->agreed_hash = done.hash;
  if (done.parity != 0) round.attempt->agreed_parity = done.parity;
}

void Peer::Machine::commit_if_agreed(Round& round) {
  if (round.state != Round::State::kDone || round.attempt->agreed == 0) return;
  const std::uint32_t all = (1U << (round.attempt->world() - (mutant(Mutant::kAgreesWithoutOne) ? 1 : 0))) - 1;
  if ((round.attempt->agreed & all) != all) return;
  if (round.attempt->agreed_hash != round.hash || views_.freezes(round.key, round.generation)) return;
  if (reported_.size() >= kMaxReported) return;  // the coordinator is that far behind
  reported_.emplace(round.key, wire::OpenRound{round.key, round.generation, true, round.what.retry, round.hash});
  finish(round, outcome_of(round, Status::kOk, {}), false);
}

void Peer::Machine::on_done(PeerId from, const wire::Done& done) {
  Round* round = find(done.key);
  if (round == nullptr || !round->runs(done.key, done.attempt) || !tells_directly(*round)) return;
  if (differ(*round, from, done.what)) return;
  agree(*round, from, done);
  commit_if_agreed(*round);
}

void Peer::Machine::ask_to_stop(Round& round, Status status, std::string text) {
  if (status == Status::kTimedOut && mutant(Mutant::kAbortsAlone)) {
    return finish(round, outcome_of(round, status, std::move(text)), true);
  }
  if (round.stop || (round.state == Round::State::kEnding && round.outcome)) return;
  if (round.state == Round::State::kQueued) return end_queued(round, status, std::move(text));
  round.stop = wire::StopRound{round.key, round.generation, status, round.said_all(), text.substr(0, kMaxTextBytes)};
  round.deadline = context_.now + context_.options.abort_grace;
  context_.session.say(*round.stop);
}

// Its caller waits for nobody, and has its memory back. The others' calls of this use of the tag end by the same stop, in the
// cohort that they wait for: otherwise its next call would be taken for this one.
void Peer::Machine::end_queued(Round& round, Status status, std::string text) {
  round.stop = wire::StopRound{{}, {}, status, false, text.substr(0, kMaxTextBytes)};
  round.deadline = kNever;
  round.completed_early = true;
  context_.complete(round.call, outcome_of(round, status, std::move(text)));
}

Outcome Peer::Machine::outcome_of(const Round& round, Status status, std::string text) const {
  Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(text);
  outcome.round = round.key;
  outcome.attempt = round.generation;
  outcome.retries = round.retries;
  if (round.request.state != nullptr) {  // until it has begun to be shared; see end_sync()
    outcome.state_defined = states_.is_defined(round.request);
    outcome.revision = round.request.state->revision;
  }
  if (status != Status::kOk) return outcome;
  outcome.world = round.attempt->world();
  outcome.contributors = round.attempt->ring;
  outcome.hash = round.hash;
  if (round.request.collective == Collective::kReduceScatter && round.request.tensors.size() == 1) {
    const auto chunk =
        ring::chunk_of(round.attempt->rank.value, round.attempt->world(), round.request.tensors.front().count);
    outcome.chunk_begin = chunk.begin;
    outcome.chunk_count = chunk.size();
  }
  if (round.request.collective == Collective::kAllGather) {
    for (const std::uint64_t bytes : round.attempt->known_stakes())
      outcome.blocks.push_back(bytes / size_of(round.request.type));
  }
  if (round.request.weight) outcome.weight = ring::total_weight(round.attempt->known_stakes());
  return outcome;
}

// Ends an attempt: with an outcome, or to try again. The memory comes back first; drive_ends() sees to the rest.
void Peer::Machine::finish(Round& round, std::optional<Outcome> outcome, bool restores) {
  const bool was_ending = round.state == Round::State::kEnding;
  round.outcome = std::move(outcome);
  if (round.outcome) round.deadline = kNever;
  round.restores = round.restores || restores;
  if (was_ending) return;
  round.state = Round::State::kEnding;
  if (round.operation()) round.operation()->stop();
  if (round.sync) round.sync->stop();
}

void Peer::Machine::drive_ends() {
  bool unkept = false;  // the last round that somebody stayed for
  for (auto at = rounds_.begin(); at != rounds_.end();) {
    Round& round = at->second;
    End end = End::kWaits;
    do {  // an attempt that begins again may end at once
      end = round.state == Round::State::kEnding ? drive_end(round) : End::kWaits;
    } while (end == End::kBegan);
    if (end == End::kWaits) {
      ++at;
      continue;
    }
    if (Cohort* cohort = views_.cohort_of(round.key)) unkept = cohort->forget_kept(round.key) || unkept;
    by_key_.erase(round.key);
    announcements_.forget(round.key);
    at = rounds_.erase(at);
  }
  if (unkept) update_links();
  drop_cohorts();
}

// Cohorts are over once no round of theirs is left, also when none has ended because nobody launches any.
void Peer::Machine::drop_cohorts() {
  const auto in_use = [&](CohortId id) {
    return std::any_of(rounds_.begin(), rounds_.end(),
                       [&](const auto& entry) { return entry.second.key.cohort == id; });
  };
  if (views_.drop_cohorts(in_use)) update_links();
}

Peer::Machine::End Peer::Machine::drive_end(Round& round) {
  if (round.moves()) {
    if (!context_.mesh.release(round.attempt->key, round.attempt->generation, context_.now, context_.out()))
      return End::kWaits;
  }
  if (round.sync) {
    if (round.sync->jobs_running() > 0) return End::kWaits;
    const bool swaps = round.outcome && round.outcome->status == Status::kOk && round.request.state->staged;
    if (swaps) {
      round.sync->swap_some(context_.jobs.collected());
      start_jobs(round);
      if (round.sync->jobs_running() > 0) return End::kWaits;
    }
    syncs_.end(round, admission_.is_member());
  }
  if (round.operation()) {
    if (round.operation()->jobs_running() > 0 && !mutant(Mutant::kJobsNotAwaited)) return End::kWaits;
    if (round.outcome && round.outcome->status == Status::kOk) {
      round.operation()->decode_some(context_.jobs.collected());
      start_jobs(round);
      if (round.operation()->jobs_running() > 0) return End::kWaits;
    }
    if (round.restores && !std::exchange(round.restoring, true)) {
      round.operation()->restore(context_.jobs.collected());
      start_jobs(round);
      if (round.operation()->jobs_running() > 0 && !mutant(Mutant::kToldBeforeRestore)) return End::kWaits;
    }
    round.bytes_sent += round.operation()->bytes_sent();
    round.bytes_received += round.operation()->bytes_received();
    context_.jobs.close(round.attempt->jobs);
    round.attempt->operation.reset();
    announcements_.eager().drop(round.attempt->key, round.attempt->generation);
  }
  round.restores = false;
  round.restoring = false;
  if (round.outcome && !RoundSyncs::end_watch(round)) return End::kWaits;
  if (!round.outcome) {
    round.state = Round::State::kHeld;
    if (!round.requeue) begin_attempt(round);
    return End::kBegan;
  }
  round.outcome->bytes_sent = round.bytes_sent;
  round.outcome->bytes_received = round.bytes_received;
  context_.jobs.close(round.watch_jobs);
  if (!round.completed_early) context_.complete(round.call, std::move(*round.outcome));
  return End::kOver;
}

}  // namespace lockstep::peer
