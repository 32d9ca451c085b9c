// A state outside of any round: members publish it, and a peer that waits for its admission fetches it in advance. Pieces are
// asked for and sent as in a sync, by state::Sync; but nobody claims anything, and nobody relies on it. A share is known on
// streams by a key of no cohort, and by half of its root for an attempt: whoever has that root may answer, and what is older
// has another name.
#include <algorithm>
#include <utility>

#include "core/base/overloaded.h"
#include "core/peer/machine.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

Generation attempt_of(const Digest& root) { return Generation{root.low}; }

std::vector<PeerId> ids_of(const std::vector<wire::Source>& sources) {
  std::vector<PeerId> ids;
  ids.reserve(sources.size());
  for (const wire::Source& source : sources) ids.push_back(source.id);
  return ids;
}

}  // namespace

RoundKey Peer::Machine::key_of(const Share& share) const {
  return {CohortId{0}, context_.options.group, share.request.tag, 0};
}

Peer::Machine::Share* Peer::Machine::find_share(const RoundKey& key, Generation attempt) {
  const auto at = std::find_if(shares_.begin(), shares_.end(), [&](const auto& entry) {
    const Share& share = entry.second;
    const bool moves = share.stage == Share::Stage::kServing || share.stage == Share::Stage::kFetching;
    return moves && share.attempt == attempt && key_of(share) == key;
  });
  return at == shares_.end() ? nullptr : &at->second;
}

// Or will in a moment, when an older publication has been replaced: visitors stay.
bool Peer::Machine::serves() const {
  return std::any_of(shares_.begin(), shares_.end(), [](const auto& entry) {
    return entry.second.serves && entry.second.stage != Share::Stage::kEnding;
  });
}

std::optional<Error> Peer::Machine::refusal_of_share(const Request& request, bool serves) {
  const auto invalid = [](const char* text) { return Error{Status::kInvalidArgument, text}; };
  if (request.collective != Collective::kSync) return invalid("only a state is published");
  if (auto error = refusal_of_state(request)) return error;
  if (request.state->staged) return invalid("pieces come into their place, or none is staged");
  if (request.state->strategy != state::Strategy::kPopular) return invalid("only a sync has a strategy");
  if (serves && request.state->blank) return invalid("a state that is none yet (blank) is not published");
  return std::nullopt;
}

// ---- calls ----

void Peer::Machine::on_publish(Publish in) {
  if (life_ != Life::kMember) {
    return context_.fail(in.call, over_status_,
                         life_ == Life::kLeaving ? "this peer is leaving: no more calls" : over_text_);
  }
  for (auto& [order, share] : shares_) {
    if (share.request.tag == in.request.tag) finish_share(share, Status::kOk, {});
  }
  add_share(in.call, std::move(in.request), true);
}

void Peer::Machine::on_prefetch(Prefetch in) {
  if (life_ == Life::kMember) {  // just now: the next sync fetches what there is
    Outcome outcome;
    outcome.state_defined = in.request.state == nullptr || has_state(in.request);
    return context_.complete(in.call, std::move(outcome));
  }
  if (life_ != Life::kJoining) {
    return context_.fail(in.call, over_status_,
                         life_ == Life::kLeaving ? "this peer is leaving: no more calls" : over_text_);
  }
  const bool twice = std::any_of(shares_.begin(), shares_.end(),
                                 [&](const auto& entry) { return entry.second.request.tag == in.request.tag; });
  if (twice) {
    return context_.fail(
        in.call, Status::kInvalidArgument,
        "tag " + std::to_string(in.request.tag.value) + " is being fetched already: one call at a time");
  }
  add_share(in.call, std::move(in.request), false);
}

void Peer::Machine::add_share(CallId call, Request request, bool serves) {
  if (shares_.size() >= kMaxShares) {
    return context_.fail(
        call, Status::kTooManyInFlight,
        std::to_string(kMaxShares) + " states are published or fetched already: end one of them first");
  }
  if (auto error = refusal_of_share(request, serves)) return context_.fail(call, error->status, error->text);
  if (request.state->restored) torn_.erase(request.tag);
  const std::uint64_t order = ++shares_begun_;
  Share& share = shares_[order];
  share.jobs = context_.jobs.open(Jobs::Use::kTransfer, order);
  share.call = call;
  share.request = std::move(request);
  share.serves = serves;
  share.deadline = context_.deadline_after(share.request.timeout);
}

void Peer::Machine::say_share(Share& share, bool ends) {
  if (share.said != ends) return;
  share.said = !ends;
  const wire::Descriptor what = descriptor_of(share.request);
  if (share.serves) {
    context_.session.say(wire::Publish{share.request.tag, what, share.sync->revision(), share.sync->root(), ends});
  } else {
    context_.session.say(wire::WantState{share.request.tag, what, ends});
  }
}

// The memory comes back first; drive_shares() sees to the rest.
void Peer::Machine::finish_share(Share& share, Status status, std::string text) {
  if (share.stage == Share::Stage::kEnding) return;
  say_share(share, true);
  share.stage = Share::Stage::kEnding;
  share.status = status;
  share.text = std::move(text);
  share.deadline = kNever;
  if (share.sync) share.sync->stop();
}

void Peer::Machine::finish_shares(bool serving, Status status, const std::string& text) {
  for (auto& [order, share] : shares_) {
    if (share.serves == serving) finish_share(share, status, text);
  }
}

bool Peer::Machine::stop_share(CallId call, const std::string& why) {
  for (auto& [order, share] : shares_) {
    if (share.call != call) continue;
    share.serves
        ? finish_share(share, Status::kOk, {})
        : finish_share(share, Status::kAborted, "aborted by " + context_.name_of(context_.options.id) + ": " + why);
    return true;
  }
  return false;
}

std::string Peer::Machine::over_time(const Share& share) {
  const std::string time = std::to_string(share.request.timeout.ns / 1'000'000) + " ms";
  if (share.serves) return "published for " + time + ", as was asked for";
  const std::string where = " in tag " + std::to_string(share.request.tag.value) + " within " + time;
  const std::uint64_t wanted = share.sync ? share.sync->bytes_wanted() : 0;
  if (wanted == 0) return "no state came" + where + ": does a member publish one?";
  return std::to_string(wanted - share.sync->bytes_left()) + " of " + std::to_string(wanted) + " bytes came" + where;
}

void Peer::Machine::on_share_timer() {
  for (auto& [order, share] : shares_) {
    if (share.sync && context_.now >= share.sync->deadline()) share.sync->on_timer(context_.now);
    if (context_.now < share.deadline) continue;
    finish_share(share, Status::kTimedOut, over_time(share));
  }
}

// ---- after every step ----

void Peer::Machine::drive_shares() {
  if (shares_.empty()) return;
  bool relink = false;
  for (auto at = shares_.begin(); at != shares_.end();) {
    Share& share = at->second;
    bool over = false;
    for (bool moves = true; moves && !over;) {  // one stage may lead to the next at once
      const auto before = share.stage;
      relink = follow_offer(share) || relink;
      over = drive_share(at->first, share);
      moves = share.stage != before;
    }
    relink = relink || (over && !share.sources.empty());
    at = over ? shares_.erase(at) : std::next(at);
  }
  if (relink) update_links();
  if (!serves()) context_.mesh.dismiss_visitors([](PeerId) { return true; }, context_.now, context_.out());
}

// False: it is not over.
bool Peer::Machine::drive_share(std::uint64_t order, Share& share) {
  using Stage = Share::Stage;
  switch (share.stage) {
    case Stage::kQueued: {
      const bool first = std::none_of(shares_.begin(), shares_.find(order), [&](const auto& entry) {
        return entry.second.request.tag == share.request.tag;  // its memory has the same name on streams
      });
      if (!first) return false;
      if (share.serves && !has_state(share.request)) {
        finish_share(share, Status::kInvalidArgument,
                     "the state was being taken over, and is undefined: sync it before it is published");
        return false;
      }
      share.sync = new_sync(share.request);
      share.stage = Stage::kDigesting;
      share.sync->digest_some(context_.jobs.collected());
      context_.start_jobs(share.jobs);
      [[fallthrough]];
    }
    case Stage::kDigesting:
      if (share.sync->digested()) share.serves ? begin_serving(share) : begin_fetching(share);
      return false;
    case Stage::kServing: answer_visitors(share); return false;
    case Stage::kFetching: ask_hosts(share); return false;
    case Stage::kTurning:
      if (!context_.mesh.release(key_of(share), share.attempt, context_.now, context_.out()) ||
          share.sync->jobs_running() > 0)
        return false;
      share.sync->begin_again();
      share.attempt = {};
      share.stage = Stage::kFetching;
      return false;
    case Stage::kEnding: break;
  }
  if (share.sync) {
    if (!context_.mesh.release(key_of(share), share.attempt, context_.now, context_.out()) ||
        share.sync->jobs_running() > 0)
      return false;
  }
  Outcome outcome;
  outcome.status = share.status;
  outcome.text = std::move(share.text);
  if (share.sync) {
    leave_state(share.request, *share.sync, outcome, share.serves);
    outcome.bytes_sent = share.sync->bytes_sent();
    outcome.bytes_received = share.sync->bytes_received();
  } else {
    outcome.state_defined = has_state(share.request);
  }
  context_.jobs.close(share.jobs);
  context_.complete(share.call, std::move(outcome));
  return true;
}

// ---- a member that publishes ----

void Peer::Machine::begin_serving(Share& share) {
  const Digest root = share.sync->root();
  share.attempt = attempt_of(root);
  share.stage = Share::Stage::kServing;
  share.sync->elected({key_of(share), share.attempt, share.sync->revision(), root, {context_.options.id}, {}});
  say_share(share, false);
}

// One answer to each in a step: it may be long, and a visitor that floods us with questions gets no more than its stream holds.
void Peer::Machine::answer_visitors(Share& share) {
  const auto questions = std::exchange(share.questions, {});
  if (questions.empty()) return;
  for (const auto& [peer, question] : questions) {
    if (!share.sync->on_ask(peer, wire::AskDigests{key_of(share), share.attempt, question.first})) {
      context_.mesh.reset(question.stream, "asks for digests beyond the end", context_.now, context_.out());
    }
  }
  state::Sync::Messages answers;
  share.sync->ask({}, context_.now, answers);
  for (const auto& [to, message] : answers) context_.mesh.say_on(questions.at(to).stream, message);
}

std::optional<std::string> Peer::Machine::refusal_of_visitor(PeerId peer) const {
  if (!serves()) return "nothing is published here";
  const auto is_in = [&](const wire::View& view) {
    return std::any_of(view.members.begin(), view.members.end(), [&](const auto& member) { return member.id == peer; });
  };
  if (is_in(*context_.view) || (proposal_ && is_in(proposal_->view))) return "a member does not visit";
  return std::nullopt;
}

bool Peer::Machine::next_segment_for_visitor(PeerId to, wire::LinkWriter& writer) {
  for (auto& [order, share] : shares_) {
    if (share.stage == Share::Stage::kServing && next_piece(*share.sync, key_of(share), share.attempt, to, writer)) {
      return true;
    }
  }
  return false;
}

// ---- a peer that waits ----

void Peer::Machine::begin_fetching(Share& share) {
  share.stage = Share::Stage::kFetching;
  ask_hosts(share);
}

void Peer::Machine::on_published(wire::Published published) {
  if (life_ != Life::kJoining) return;  // it was said before the admission
  for (auto& [order, share] : shares_) {
    if (share.serves || !share.said || share.request.tag != published.tag) continue;
    if (!published.text.empty()) return finish_share(share, Status::kMismatch, std::move(published.text));
    share.offer = std::move(published);
    return;
  }
}

// Goes on with the sources that there are now, or gives up what it was fetching for a newer state. While this peer is being
// admitted there are none: its neighbours are linked then. True: others are to be linked.
bool Peer::Machine::follow_offer(Share& share) {
  if (share.stage != Share::Stage::kFetching) return false;
  const bool waits = life_ == Life::kJoining && !proposal_;
  const bool published = waits && share.offer && !share.offer->sources.empty();
  const bool begun = share.attempt.value != 0;
  if (published && begun && share.attempt != attempt_of(share.offer->root)) {
    share.sync->stop();
    share.stage = Share::Stage::kTurning;
    return !std::exchange(share.sources, {}).empty();
  }
  if (published && !begun) {
    const wire::Published& offer = *share.offer;
    share.attempt = attempt_of(offer.root);
    share.sync->elected({key_of(share), share.attempt, offer.revision, offer.root, {}, {context_.options.id}});
  }
  const std::vector<wire::Source> sources = published ? share.offer->sources : std::vector<wire::Source>{};
  if (sources == share.sources) return false;
  share.sources = sources;
  share.sync->sources_changed(ids_of(sources));
  return true;
}

void Peer::Machine::ask_hosts(Share& share) {
  if (context_.session.welcomed()) say_share(share, false);
  state::Sync::Messages messages;
  share.sync->ask(context_.mesh.hosts(), context_.now, messages);
  say_all(messages);
  if (share.sync->complete()) finish_share(share, Status::kOk, {});
}

// ---- what comes on visits ----

void Peer::Machine::on_visit_message(PeerId from, StreamId stream, const wire::Message& message) {
  const bool good = std::visit(overloaded{[&](const wire::AskDigests& in) {
                                            Share* share = find_share(in.key, in.attempt);
                                            if (share != nullptr && share->serves)
                                              share->questions[from] = {in.first, stream};
                                            return true;
                                          },
                                          [&](const wire::AskPieces& in) {
                                            Share* share = find_share(in.key, in.attempt);
                                            return share == nullptr || (share->serves && share->sync->on_ask(from, in));
                                          },
                                          [&](const wire::PieceDigests& in) {
                                            Share* share = find_share(in.key, in.attempt);
                                            if (share == nullptr || share->serves) return share == nullptr;
                                            state::Sync::Messages more;
                                            const bool fits = share->sync->on_digests(from, in, context_.now, more);
                                            say_all(more);
                                            if (!fits) share->sync->distrust(from);
                                            return fits;
                                          },
                                          [](const auto&) { return false; }},
                               message);
  if (!good)
    context_.mesh.reset(stream, "a message that does not fit the state that is published", context_.now,
                        context_.out());
}

ring::Operation::Place Peer::Machine::on_visit_segment_began(PeerId from, StreamId stream,
                                                             const wire::Segment& segment) {
  Share* share = find_share(segment.key, segment.attempt);
  if (segment.phase != wire::Phase::kState || (share != nullptr && share->serves)) {
    return {ring::Operation::Landing::kNonsense, {}};
  }
  if (share == nullptr) return {ring::Operation::Landing::kSink, {}};
  return place_of(share->sync->begin(from, segment, stream, context_.now));
}

void Peer::Machine::on_visit_segment_ended(PeerId from, const wire::SegmentEnded& ended) {
  Share* share = find_share(ended.segment.key, ended.segment.attempt);
  if (share == nullptr || share->serves) return;
  share->sync->landed(from, ended.segment, ended.taken_back, context_.now, context_.jobs.collected());
  context_.start_jobs(share->jobs);
}

void Peer::Machine::on_visit_gone(PeerId peer, StreamId stream) {
  for (auto& [order, share] : shares_) {
    share.questions.erase(peer);
    if (!share.sync) continue;
    share.sync->stream_closed(stream);
    share.sync->relinked(peer);
  }
}

void Peer::Machine::share_job_done(Share& share, const JobDone& in) {
  const auto liar = sync_job_done(*share.sync, share.call, in);
  if (liar) context_.mesh.reset_link(*liar, "a piece of the state whose digest is wrong", context_.now, context_.out());
  if (share.stage != Share::Stage::kDigesting) return;
  share.sync->digest_some(context_.jobs.collected());
  context_.start_jobs(share.jobs);
}

}  // namespace lockstep::peer
