#include "core/peer/state_transfers.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// A transfer has a name on streams: a key of no cohort, and half of the root of its state. Every peer that has this
// root may answer, and an older state has another name.
AttemptId attempt_id(const Digest& root) { return AttemptId{root.low}; }

constexpr std::int64_t kLeastRest = 2;  // heartbeats

std::vector<PeerId> ids_of(const std::vector<wire::Source>& sources) {
  std::vector<PeerId> ids;
  ids.reserve(sources.size());
  for (const wire::Source& source : sources) ids.push_back(source.id);
  return ids;
}

}  // namespace

RoundKey StateTransfers::key_of(const Transfer& transfer) const {
  return {CohortId{0}, context_.options.group, transfer.request.tag, 0};
}

StateTransfers::Transfer* StateTransfers::find(const RoundKey& key, AttemptId attempt) {
  const auto at = std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& entry) {
    const Transfer& transfer = entry.second;
    return transfer.moves() && transfer.attempt == attempt && key_of(transfer) == key;
  });
  return at == transfers_.end() ? nullptr : &at->second;
}

bool StateTransfers::serves() const {
  return std::any_of(transfers_.begin(), transfers_.end(), [](const auto& entry) {
    return entry.second.serves && entry.second.stage != Transfer::Stage::kEnding;
  });
}

Instant StateTransfers::deadline() const {
  Instant next = kNever;
  for (const auto& [order, transfer] : transfers_) {
    next = std::min(next, transfer.deadline);
    if (transfer.sync) next = std::min(next, transfer.sync->deadline());
    const bool rests = transfer.stage == Transfer::Stage::kHolding && is_offered(transfer);
    if (rests && may_fetch_) next = std::min(next, transfer.rests_until);
  }
  return next;
}

bool StateTransfers::has_pieces() const {
  return std::any_of(transfers_.begin(), transfers_.end(), [](const auto& entry) {
    const Transfer& transfer = entry.second;
    return transfer.sync && transfer.sync->has_next();
  });
}

// ---- calls ----

std::optional<Error> StateTransfers::validate(const Request& request, bool serves) {
  const auto invalid = [](const char* text) { return Error{Status::kInvalidArgument, text}; };
  if (request.collective != Collective::kSync) return invalid("only a state is published");
  if (auto error = LocalStates::validate_state(request)) return error;
  if (serves && request.state->staged) return invalid("staged is not allowed for publish");
  if (request.state->strategy != state::Strategy::kPopular) return invalid("only a sync has a strategy");
  if (serves && request.state->blank) return invalid("a state that is none yet (blank) is not published");
  return std::nullopt;
}

void StateTransfers::publish(CallId call, Request request) {
  for (auto& [order, transfer] : transfers_) {
    if (transfer.request.tag == request.tag) finish(transfer, Status::kOk, {});
  }
  add(call, std::move(request), true);
}

void StateTransfers::prefetch(CallId call, Request request) {
  const bool twice = std::any_of(transfers_.begin(), transfers_.end(),
                                 [&](const auto& entry) { return entry.second.request.tag == request.tag; });
  if (twice) {
    return context_.fail(call, Status::kInvalidArgument,
                         "tag " + std::to_string(request.tag.value) + " is being fetched already: one call at a time");
  }
  add(call, std::move(request), false);
}

void StateTransfers::add(CallId call, Request request, bool serves) {
  if (transfers_.size() >= kMaxShares) {
    return context_.fail(
        call, Status::kTooManyInFlight,
        std::to_string(kMaxShares) + " states are published or fetched already: end one of them first");
  }
  if (auto error = validate(request, serves)) return context_.fail(call, error->status, error->text);
  if (request.state->restored) states_.restored(request.tag);
  const std::uint64_t order = ++begun_;
  Transfer& transfer = transfers_[order];
  transfer.order = order;
  transfer.jobs = context_.jobs.open(Jobs::Use::kTransfer, order);
  transfer.call = call;
  transfer.request = std::move(request);
  transfer.serves = serves;
  transfer.deadline = context_.deadline_after(transfer.request.timeout);
}

// Tells the coordinator that a state is published or wanted here, or that this ends.
void StateTransfers::announce(Transfer& transfer, bool ends) {
  if (transfer.announced != ends) return;
  transfer.announced = !ends;
  const wire::Descriptor what = descriptor_of(transfer.request, context_.options.segment_bytes);
  const Tag tag = transfer.request.tag;
  if (transfer.serves) {
    const state::Sync& sync = *transfer.sync;
    context_.session.say(wire::Publish{tag, what, sync.revision(), sync.root(), sync.lineage(), ends});
  } else {
    context_.session.say(wire::WantState{tag, what, ends});
  }
}

// The memory comes back first (rule 16); drive() sees to the rest.
void StateTransfers::finish(Transfer& transfer, Status status, std::string text) {
  if (transfer.stage == Transfer::Stage::kEnding) return;
  announce(transfer, true);
  transfer.stage = Transfer::Stage::kEnding;
  transfer.status = status;
  transfer.text = std::move(text);
  transfer.deadline = kNever;
  if (transfer.sync) transfer.sync->stop();
}

void StateTransfers::finish(Status status, const std::string& text) {
  for (auto& [order, transfer] : transfers_) finish(transfer, status, text);
}

void StateTransfers::finish_all(bool serving, Status status, const std::string& text) {
  for (auto& [order, transfer] : transfers_) {
    if (transfer.serves == serving) finish(transfer, status, text);
  }
}

bool StateTransfers::stop(CallId call, const std::string& why) {
  for (auto& [order, transfer] : transfers_) {
    if (transfer.call != call) continue;
    if (transfer.serves) {
      finish(transfer, Status::kOk, {});
    } else {
      finish(transfer, Status::kAborted, "aborted by " + context_.name_of(context_.options.id) + ": " + why);
    }
    return true;
  }
  return false;
}

std::string StateTransfers::timed_out(const Transfer& transfer) {
  const std::string time = std::to_string(transfer.request.timeout.ns / 1'000'000) + " ms";
  if (transfer.serves) return "published for " + time + ", as was asked for";
  const std::string where = " in tag " + std::to_string(transfer.request.tag.value) + " within " + time;
  const std::uint64_t wanted = transfer.sync ? transfer.sync->bytes_wanted() : 0;
  if (wanted == 0) return "no state came" + where + ": does a member publish one?";
  const std::uint64_t here = wanted - transfer.sync->bytes_left();
  return std::to_string(here) + " of " + std::to_string(wanted) + " bytes came" + where;
}

void StateTransfers::on_timer() {
  for (auto& [order, transfer] : transfers_) {
    if (transfer.sync && context_.now >= transfer.sync->deadline()) transfer.sync->on_timer(context_.now);
    if (context_.now < transfer.deadline) continue;
    finish(transfer, Status::kTimedOut, timed_out(transfer));
  }
}

// ---- after every step ----

bool StateTransfers::drive(Standing standing) {
  bool relink = false;
  may_fetch_ = standing == Standing::kWaits;
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    Transfer& transfer = at->second;
    bool over = false;
    for (bool moves = true; moves && !over;) {  // one stage may lead to the next at once
      const auto before = transfer.stage;
      relink = follow_offer(transfer, standing) || relink;
      over = drive(transfer, standing);
      moves = transfer.stage != before;
    }
    relink = relink || (over && !transfer.sources.empty());
    at = over ? transfers_.erase(at) : std::next(at);
  }
  return relink;
}

bool StateTransfers::drive(Transfer& transfer, Standing standing) {
  using Stage = Transfer::Stage;
  switch (transfer.stage) {
    case Stage::kQueued:
      if (!begin_digesting(transfer)) return false;
      [[fallthrough]];
    case Stage::kDigesting:
      if (!transfer.sync->digested()) return false;
      if (transfer.serves) {
        begin_serving(transfer);
      } else {
        transfer.stage = Stage::kFetching;
        ask_sources(transfer);
      }
      return false;
    case Stage::kServing: answer_questions(transfer); return false;
    case Stage::kFetching:
      if (!keeps_own(transfer)) ask_sources(transfer);
      return false;
    case Stage::kTurning:
      if (!is_released(transfer)) return false;
      transfer.sync->begin_again();
      transfer.attempt.reset();
      transfer.stage = Stage::kFetching;
      return false;
    case Stage::kSwapping:
      if (swap(transfer)) hold(transfer);
      return false;
    case Stage::kHolding: return false;  // follow_offer() goes on
    case Stage::kEnding: return end(transfer, standing);
  }
  LOCKSTEP_UNREACHABLE();
}

// False: it must wait, or cannot be published.
bool StateTransfers::begin_digesting(Transfer& transfer) {
  const bool first = std::none_of(transfers_.begin(), transfers_.find(transfer.order), [&](const auto& entry) {
    return entry.second.request.tag == transfer.request.tag;  // its memory has the same name on streams
  });
  if (!first) return false;
  if (transfer.serves && !states_.is_defined(transfer.request)) {
    finish(transfer, Status::kInvalidArgument,
           "the state was being taken over, and is undefined: sync it before it is published");
    return false;
  }
  transfer.sync = states_.new_sync(transfer.request);
  transfer.stage = Transfer::Stage::kDigesting;
  transfer.sync->digest_some(context_.jobs.collected());
  context_.start_jobs(transfer.jobs);
  return true;
}

// Whether no stream and no kernel holds its memory any more (rule 16). A transfer without a name on streams has lent
// no memory to streams.
bool StateTransfers::is_released(const Transfer& transfer) {
  const bool returned =
      !transfer.attempt || context_.mesh.release(key_of(transfer), *transfer.attempt, context_.now, context_.out());
  return returned && transfer.sync->jobs_running() == 0;
}

bool StateTransfers::end(Transfer& transfer, Standing standing) {
  if (transfer.sync && !is_released(transfer)) return false;
  if (transfer.is_staged() && !transfer.in_place && transfer.sync->complete() && !swap(transfer)) return false;
  Outcome outcome;
  outcome.status = transfer.status;
  outcome.text = std::move(transfer.text);
  if (transfer.sync) {
    // A publication only reads its memory, which may be a copy: it says nothing of what a sync has left since it began.
    if (!transfer.serves) states_.note_torn(transfer.request.tag, *transfer.sync);
    if (transfer.holds && mutant(Mutant::kHeldStateForgotten)) states_.note_torn(transfer.request.tag);
    LocalStates::describe(*transfer.sync, standing == Standing::kMember, outcome);
    outcome.bytes_sent = transfer.sync->bytes_sent();
    outcome.bytes_received = transfer.sync->bytes_received();
  } else {
    outcome.state_defined = states_.is_defined(transfer.request);
  }
  context_.jobs.close(transfer.jobs);
  context_.complete(transfer.call, std::move(outcome));
  return true;
}

// ---- a member that publishes ----

// Rule 27: what is served does not change until the publication ends.
void StateTransfers::begin_serving(Transfer& transfer) {
  const Digest root = transfer.sync->root();
  transfer.attempt = attempt_id(root);
  transfer.stage = Transfer::Stage::kServing;
  transfer.sync->elected(
      {key_of(transfer), *transfer.attempt},
      {transfer.sync->revision(), root, state::lineage_of(transfer.sync->lineage(), root), {context_.options.id}, {}});
  announce(transfer, false);
}

// One answer to each prefetcher in a step: an answer may be long, and a prefetcher that floods this peer with
// questions gets no more than its stream holds (rule 3).
void StateTransfers::answer_questions(Transfer& transfer) {
  const auto questions = std::exchange(transfer.questions, {});
  if (questions.empty()) return;
  for (const auto& [peer, question] : questions) {
    if (!transfer.sync->on_ask(peer, wire::AskDigests{key_of(transfer), *transfer.attempt, question.first})) {
      context_.mesh.reset(question.stream, "asks for digests beyond the end", context_.now, context_.out());
    }
  }
  state::Sync::Messages answers;
  transfer.sync->ask({}, context_.now, answers);
  for (const auto& [to, message] : answers) context_.mesh.say_on(questions.at(to).stream, message);
}

std::optional<std::string> StateTransfers::validate_prefetcher(PeerId peer) const {
  if (!serves()) return "nothing is published here";
  const std::optional<wire::Propose>& proposal = views_.proposal();
  const bool is_member =
      Views::has_member(*context_.view, peer) || (proposal && Views::has_member(proposal->view, peer));
  if (is_member) return "a member does not prefetch";
  return std::nullopt;
}

bool StateTransfers::next_segment(PeerId to, StripeIndex /*stripe*/, StreamId /*stream*/, wire::LinkWriter& writer) {
  for (auto& [order, transfer] : transfers_) {
    if (transfer.stage == Transfer::Stage::kServing &&
        states_.send_next(*transfer.sync, key_of(transfer), *transfer.attempt, to, context_.now,
                          context_.session.term(), writer)) {
      return true;
    }
  }
  return false;
}

// ---- a peer that waits ----

// A newer state never gives way to an older one: neither one that is held (rule 49) nor the caller's own (rule 53).
bool StateTransfers::is_offered(const Transfer& transfer) const {
  if (!transfer.offer || transfer.offer->sources.empty()) return false;
  if (mutant(Mutant::kHeldStateGoesBack)) return true;
  if (transfer.holds) return transfer.offer->revision > transfer.sync->revision();
  return !is_ahead(transfer);
}

bool StateTransfers::is_ahead(const Transfer& transfer) const {
  return states_.is_defined(transfer.request) && transfer.offer->revision < transfer.request.state->revision;
}

// Rule 53: members publish what is older than the caller's own state, which is held in its stead.
bool StateTransfers::keeps_own(Transfer& transfer) {
  const bool offers = transfer.offer && !transfer.offer->sources.empty();
  const bool keeps = offers && !transfer.attempt && is_ahead(transfer);
  if (!keeps || mutant(Mutant::kHeldStateGoesBack)) return false;
  if (transfer.is_staged()) {
    transfer.since = context_.now;
    hold(transfer);
  } else {
    finish(transfer, Status::kOk, {});
  }
  return true;
}

void StateTransfers::complete_fetch(Transfer& transfer) {
  if (!transfer.is_staged()) return finish(transfer, Status::kOk, {});
  transfer.stage = Transfer::Stage::kSwapping;
}

// The state in memory stays whole: pieces have come beside it, and are copied when all of them are here. The call does
// not end in between.
bool StateTransfers::swap(Transfer& transfer) {
  if (!is_released(transfer)) return false;
  transfer.sync->swap_some(context_.jobs.collected());
  context_.start_jobs(transfer.jobs);
  transfer.in_place = transfer.sync->jobs_running() == 0;
  return transfer.in_place;
}

// Rule 49. The peer rests as long as it has fetched, so that newer states take half of its time at most.
void StateTransfers::hold(Transfer& transfer) {
  transfer.stage = Transfer::Stage::kHolding;
  const Duration took = context_.now - transfer.since;
  transfer.rests_until = context_.now + std::max(took, context_.options.link_heartbeat * kLeastRest);
  context_.note({.kind = trace::Kind::kStateHeld,
                 .view = {},
                 .peer = {},
                 .round = {},
                 .number = transfer.sync->revision(),
                 .text = "tag " + std::to_string(transfer.request.tag.value)});
  if (std::exchange(transfer.holds, true)) return;
  const wire::Descriptor what = descriptor_of(transfer.request, context_.options.segment_bytes);
  context_.session.say(wire::WantState{transfer.request.tag, what, false, true});
}

// Rule 39.
void StateTransfers::on_published(wire::Published published) {
  for (auto& [order, transfer] : transfers_) {
    if (transfer.serves || !transfer.announced || transfer.request.tag != published.tag) continue;
    if (!published.text.empty()) return finish(transfer, Status::kMismatch, std::move(published.text));
    transfer.offer = std::move(published);
    return;
  }
}

// Rule 38: goes on with the sources that there are now, or gives up what it was fetching for a newer state. A peer that
// is being admitted has no sources: its neighbours are linked then. True: other sources are to be linked.
bool StateTransfers::follow_offer(Transfer& transfer, Standing standing) {
  const bool published = standing == Standing::kWaits && !transfer.serves && is_offered(transfer);
  if (transfer.stage == Transfer::Stage::kHolding) {
    if (!published || context_.now < transfer.rests_until) return !std::exchange(transfer.sources, {}).empty();
    transfer.sync->begin_again();
    transfer.attempt.reset();
    transfer.stage = Transfer::Stage::kFetching;
  }
  if (transfer.stage != Transfer::Stage::kFetching) return false;
  if (published && transfer.attempt && *transfer.attempt != attempt_id(transfer.offer->root)) {
    transfer.sync->stop();
    transfer.stage = Transfer::Stage::kTurning;
    return !std::exchange(transfer.sources, {}).empty();
  }
  if (published && !transfer.attempt) {
    const wire::Published& offer = *transfer.offer;
    transfer.attempt = attempt_id(offer.root);
    transfer.in_place = false;
    transfer.since = context_.now;
    transfer.sync->elected({key_of(transfer), *transfer.attempt},
                           {offer.revision, offer.root, offer.lineage, {}, {context_.options.id}});
  }
  const std::vector<wire::Source> sources = published ? transfer.offer->sources : std::vector<wire::Source>{};
  if (sources == transfer.sources) return false;
  transfer.sources = sources;
  transfer.sync->sources_changed(ids_of(sources));
  return true;
}

void StateTransfers::ask_sources(Transfer& transfer) {
  if (context_.session.welcomed()) announce(transfer, false);
  state::Sync::Messages messages;
  transfer.sync->ask(context_.mesh.sources(), context_.now, messages);
  say_all(messages);
  if (transfer.sync->complete()) complete_fetch(transfer);
}

void StateTransfers::add_sources(std::map<PeerId, Mesh::Wanted>& links) const {
  for (const auto& [order, transfer] : transfers_) {
    for (const wire::Source& source : transfer.sources) {
      links.try_emplace(source.id, Mesh::Wanted{{{source.address}, source.key, true}, false, transfer.offer->link_key});
    }
  }
}

void StateTransfers::say_all(const state::Sync::Messages& messages) {
  for (const auto& [to, message] : messages) (void)context_.mesh.say(to, message);
}

// ---- what comes ----

void StateTransfers::on_message(PeerId from, StreamId stream, const wire::Message& message) {
  const bool good =
      std::visit(overloaded{[&](const wire::AskDigests& in) {
                              Transfer* transfer = find(in.key, in.attempt);
                              if (transfer != nullptr && transfer->serves) {
                                transfer->questions[from] = {in.first, stream};
                              }
                              return true;
                            },
                            [&](const wire::AskPieces& in) {
                              Transfer* transfer = find(in.key, in.attempt);
                              return transfer == nullptr || (transfer->serves && transfer->sync->on_ask(from, in));
                            },
                            [&](const wire::PieceDigests& in) {
                              Transfer* transfer = find(in.key, in.attempt);
                              if (transfer == nullptr || transfer->serves) return transfer == nullptr;
                              state::Sync::Messages more;
                              const bool fits = transfer->sync->on_digests(from, in, context_.now, more);
                              say_all(more);
                              if (!fits) transfer->sync->distrust(from);
                              return fits;
                            },
                            [](const auto&) { return false; }},
                 message);
  if (good) return;
  context_.mesh.reset(stream, "a message that does not fit the state that is published", context_.now, context_.out());
}

ring::Operation::SegmentPlace StateTransfers::on_segment_began(PeerId from, StreamId stream,
                                                               const wire::Segment& segment) {
  using Landing = ring::Operation::Landing;
  Transfer* transfer = find(segment.key, segment.attempt);
  const bool serves = transfer != nullptr && transfer->serves;
  if (segment.phase != wire::Phase::kState || serves) return {Landing::kNonsense, {}};
  if (transfer == nullptr) return {Landing::kSink, {}};
  return LocalStates::place_of(transfer->sync->begin(from, segment, stream, context_.now));
}

void StateTransfers::on_segment_ended(PeerId from, StreamId /*stream*/, const wire::SegmentEnded& ended) {
  Transfer* transfer = find(ended.segment.key, ended.segment.attempt);
  if (transfer == nullptr || transfer->serves) return;
  transfer->sync->landed(from, ended.segment, ended.taken_back, context_.now, context_.jobs.collected());
  context_.start_jobs(transfer->jobs);
}

void StateTransfers::on_stream_gone(PeerId peer, StreamId stream) {
  for (auto& [order, transfer] : transfers_) {
    transfer.questions.erase(peer);
    if (!transfer.sync) continue;
    transfer.sync->stream_closed(stream);
    transfer.sync->link_lost(peer);
  }
}

void StateTransfers::on_job_done(std::uint64_t order, const JobDone& in) {
  Transfer& transfer = transfers_.at(order);
  const auto liar = LocalStates::job_done(*transfer.sync, transfer.call, in, context_.out());
  if (liar) {
    const char* const why = "a piece of the state whose digest is wrong";
    context_.mesh.reset_link(*liar, why, context_.now, context_.out());
  }
  if (transfer.stage != Transfer::Stage::kDigesting) return;
  transfer.sync->digest_some(context_.jobs.collected());
  context_.start_jobs(transfer.jobs);
}

}  // namespace lockstep::peer
