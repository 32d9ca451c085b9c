#include "core/peer/local_states.h"

#include <string>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/peer/jobs.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

std::vector<BufferRef> memory_of(const Request& request) {
  std::vector<BufferRef> memory;
  memory.reserve(request.tensors.size());
  for (const Tensor& tensor : request.tensors) memory.push_back(tensor.recv);
  return memory;
}

Error invalid(std::string text) { return Error{Status::kInvalidArgument, std::move(text)}; }

}  // namespace

LocalStates::LocalStates(const PeerOptions& options)
    : own_(options.id),
      patience_(options.link_silence),
      reach_(options.link_timeout + options.link_silence),
      pace_(options.sending.state_bytes_per_second) {}

std::optional<Error> LocalStates::validate_state(const Request& request) {
  if (!request.state) return invalid("a sync without a state");
  return validate(*request.state, memory_of(request));
}

std::optional<Error> LocalStates::validate(const state::Statement& state, std::span<const BufferRef> memory) {
  if (const auto error = validate_manifest(state.manifest)) return invalid(*error);
  if (state.values.size() != state.manifest.values.size() || memory.size() != state.manifest.tensors.size()) {
    return invalid("a state of " + std::to_string(state.manifest.tensors.size()) + " tensors and " +
                   std::to_string(state.manifest.values.size()) + " values, of which " + std::to_string(memory.size()) +
                   " and " + std::to_string(state.values.size()) + " are here");
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const state::TensorSpec& spec = state.manifest.tensors[i];
    if (memory[i].length == spec.bytes()) continue;
    return invalid("tensor " + spec.name + " has " + std::to_string(spec.bytes()) + " bytes, its memory " +
                   std::to_string(memory[i].length));
  }
  return std::nullopt;
}

std::optional<Error> LocalStates::validate_watch(const Request& request) {
  if (!request.watch) return std::nullopt;
  if (request.collective == Collective::kSync) return invalid("a sync watches no state: it compares its own");
  if (!request.watch->state) return invalid("watches without a state");
  if (request.watch->state->blank) return invalid("a state that is none yet is not watched");
  return validate(*request.watch->state, request.watch->memory);
}

bool LocalStates::is_defined(const Request& request) const {
  return !request.state->blank && !torn_.contains(request.tag);
}

std::unique_ptr<state::Sync> LocalStates::new_sync(const Request& request) const {
  auto sync = new_sync(*request.state, memory_of(request), request.scratch);
  if (torn_.contains(request.tag)) sync->disown();
  return sync;
}

std::unique_ptr<state::Sync> LocalStates::new_sync(const state::Statement& state, std::vector<BufferRef> memory,
                                                   BufferRef staging) const {
  return std::make_unique<state::Sync>(state, std::move(memory), staging, own_, patience_, reach_);
}

void LocalStates::recall(Tag tag, std::uint64_t layout, state::Sync& sync) const {
  const auto last = known_.find(tag);
  if (last != known_.end() && last->second.layout == layout) sync.know(last->second.pieces);
}

void LocalStates::remember(Tag tag, std::uint64_t layout, const state::Sync& sync, bool committed) {
  known_.erase(tag);
  if (!committed) return;
  if (known_.size() >= kMaxStates) known_.erase(known_.begin());
  known_.emplace(tag, Known{layout, sync.digests()});
  if (mutant(Mutant::kDigestsPileUp)) known_.emplace(Tag{sync.root().low}, Known{layout, sync.digests()});
}

// Rule 26: a state of which a part was overwritten in place is undefined until a sync succeeds.
void LocalStates::note_torn(Tag tag, const state::Sync& sync) {
  if (sync.torn() && !mutant(Mutant::kTornVotes)) {
    torn_.insert(tag);
  } else {
    torn_.erase(tag);
  }
}

void LocalStates::describe(const state::Sync& sync, bool is_member, Outcome& outcome) {
  outcome.state_defined = sync.defined();
  outcome.revision = sync.revision();
  outcome.root = sync.root();
  outcome.lineage = sync.lineage();
  outcome.values = sync.values();
  if (outcome.status == Status::kOk || outcome.state_defined) return;
  if (!sync.torn()) {
    outcome.text += "; this peer still has no state";
    return;
  }
  outcome.text += "; the state was being taken over, and is undefined";
  if (is_member) outcome.text += ": sync again, which this peer takes part in without a state";
}

std::unique_ptr<state::Sync> LocalStates::new_watch(const Request& request) const {
  return new_sync(*request.watch->state, request.watch->memory, {});
}

// Rule 40.
std::unique_ptr<state::Sync> LocalStates::watch(const Request& request, std::uint64_t launch, bool in_order) {
  auto sync = new_watch(request);
  if (!in_order) {  // what has not changed since the call before is unknown
    forget_watched();
    return sync;
  }
  const std::uint64_t layout = state::digest_of(request.watch->state->manifest).low;
  if (watched_.layout == layout && !watched_.pieces.empty()) sync->know(watched_.pieces);
  watched_ = Known{layout, sync->digests()};
  watched_by_ = launch;
  return sync;
}

void LocalStates::watched(std::uint64_t launch, const state::Sync& sync) {
  LOCKSTEP_ASSERT(sync.digested());
  if (watched_by_ == launch) watched_.pieces = sync.digests();
}

void LocalStates::forget_watched() {
  watched_ = {};
  watched_by_ = 0;
}

bool LocalStates::send_next(state::Sync& sync, const RoundKey& key, AttemptId attempt, PeerId to, Instant now,
                            Term term, wire::LinkWriter& writer) {
  if (!pace_.allows(now)) return false;
  const auto next = sync.next(to);
  if (!next) return false;
  const SegmentIndex index{next->piece.value};
  const auto length = static_cast<std::uint32_t>(next->payload.length);
  pace_.sent(length, now);
  writer.segment({key, attempt, wire::Phase::kState, index, length}, term, next->payload, next->checksum);
  return true;
}

ring::Operation::SegmentPlace LocalStates::place_of(const state::Sync::LandingPlace& place) {
  using Landing = ring::Operation::Landing;
  switch (place.landing) {
    case state::Sync::Landing::kPlace: return {Landing::kPlace, place.into};
    case state::Sync::Landing::kSink: return {Landing::kSink, {}};
    case state::Sync::Landing::kNonsense: return {Landing::kNonsense, {}};
  }
  LOCKSTEP_UNREACHABLE();
}

std::optional<PeerId> LocalStates::job_done(state::Sync& sync, CallId call, const JobDone& in, Effects& out) {
  const std::uint64_t left = sync.bytes_left();
  const auto liar = sync.job_done(Jobs::own(in.token), in.result);
  const std::uint64_t now_left = sync.bytes_left();
  const std::uint64_t wanted = sync.bytes_wanted();
  LOCKSTEP_ASSERT(now_left <= wanted);
  if (now_left < left) out.emplace_back(Progress{call, wanted - now_left, wanted});
  return liar;
}

std::size_t LocalStates::digests() const {
  std::size_t digests = watched_.pieces.size();
  for (const auto& [tag, known] : known_) digests += known.pieces.size();
  return digests;
}

}  // namespace lockstep::peer
