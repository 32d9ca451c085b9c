// The data that programs share: a state that they sync, publish, prefetch and watch; or a few numbers that one program
// broadcasts.
#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "sim/workload/workload.h"

namespace lockstep::sim {
namespace {

using ring::Request;
using ring::Tensor;
using wire::Collective;

constexpr Tag kSyncTag{1000};
constexpr Tag kStateTag{1001};

// A drift changes a byte of one of the compared tensors, or a value.
constexpr std::size_t drifting_tensor(std::uint64_t drift) { return drift % 2 == 0 ? 0 : 2; }

bool drifts_in_value(std::uint64_t drift, const state::Manifest& manifest) {
  return drift % 3 == 0 || manifest.tensors[drifting_tensor(drift)].bytes() == 0;
}

}  // namespace

void App::sync() {
  if (plan_.auto_admit) {
    begin_step();
    return;
  }
  phase_ = Phase::kSyncing;
  in_sync_.sharing = false;
  if (plan_.state.shared) {
    sync_state();
    return;
  }
  Request request;
  request.collective = Collective::kAllGather;
  request.tag = kSyncTag;
  request.retry = false;
  Tensor tensor;
  tensor.count = 8 + on_host_ % 3;
  request.tensors.push_back(tensor);
  launch(std::move(request), 16, {});
}

void App::share_state() {
  in_sync_.sharing = true;
  Request request;
  request.collective = Collective::kBroadcast;
  request.type = DataType::kU64;
  request.tag = kStateTag;
  request.retry = false;
  request.root = in_sync_.source;
  Tensor tensor;
  tensor.count = 40;
  request.tensors.push_back(tensor);
  launch(std::move(request), 0, {});
}

// Once the run has shown that it lives, it is to come to its end.
bool App::all_vote() const { return plan_.state.all_vote || plan_.gangs.groups > 1 || host_.last_step() != UINT64_MAX; }

state::Strategy App::strategy() {
  // Otherwise the library ensures that no peer takes this state over.
  const bool keeps_out =
      shared_.stateless && (shared_.was_blank || dice_.permille(500, Purpose::kState, process_, launches_, 13));
  if (keeps_out) return state::Strategy::kReceiveOnly;
  if (all_vote()) return state::Strategy::kPopular;
  const std::uint64_t drawn = dice_.range(0, 99, Purpose::kState, process_, launches_, 5);
  const bool may_insist = on_host_ <= 5;  // two of them, as a rule, disagree
  return drawn < 6 && may_insist ? state::Strategy::kSendOnly
         : drawn < 25            ? state::Strategy::kReceiveOnly
         : drawn < 45            ? state::Strategy::kNewest
                                 : state::Strategy::kPopular;
}

// To the last checkpoint; a step from which all went back is not one to go back from again.
void App::go_back() {
  const Checkpoint& last = host_.app_checkpoint(on_host_);
  step_ = last.step;
  state_ = last.state;
  shared_.lineage = last.lineage;
}

// The program has trained elsewhere since its checkpoint, for example in a run that is over; on some hosts for longer.
void App::go_ahead() {
  const bool stays = plan_.gangs.groups > 1 || host_.app_checkpoint(on_host_).lets_go;
  if (stays) return;  // groups must stay in step with each other
  if (!dice_.permille(plan_.state.ahead_permille, Purpose::kState, process_, 0, 18)) return;
  step_ += std::uint64_t{10} * on_host_ + dice_.range(1, 10, Purpose::kState, process_, 0, 19);
  state_ = mix64(state_ + process_);
}

// The next process on this host does not bring the state again that was ahead of the run.
void App::let_go() {
  host_.app_checkpoint(on_host_) = {};
  host_.app_checkpoint(on_host_).lets_go = true;
}

// Peers of the same step and state hold the same bytes; the manifest is that of the program.
std::shared_ptr<state::Statement> App::statement() const {
  const auto draw = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t n) {
    return dice_.range(lo, hi, Purpose::kState, 0, 0, n);
  };
  auto state = std::make_shared<state::Statement>();
  const std::uint64_t piece = std::min<std::uint64_t>(draw(1, 3, 3) * 700, plan_.program.max_count + 1);
  const std::uint64_t weights = plan_.state.pieces != 0 ? plan_.state.pieces * piece : draw(0, kStatePieces * piece, 0);
  state->manifest.piece_bytes = static_cast<std::uint32_t>(piece);
  state->manifest.tensors = {{"weights", DataType::kU8, weights, false},
                             {"own", DataType::kU8, draw(0, 100, 1), true},
                             {"moments", DataType::kU8, draw(0, piece, 2), false}};
  state->manifest.values = {{"step", state::ValueType::kUint}, {"state", state::ValueType::kUint}};
  state->values = {step_, state_};
  state->revision = step_;
  state->lineage = shared_.lineage;
  return state;
}

std::size_t App::count_pieces() const {
  const state::Manifest manifest = statement()->manifest;
  std::size_t pieces = 0;
  for (const state::TensorSpec& tensor : manifest.tensors)
    pieces += (tensor.bytes() + manifest.piece_bytes - 1) / manifest.piece_bytes;
  return pieces;
}

Request App::request_of(std::shared_ptr<const state::Statement> state) {
  Request request;
  request.collective = Collective::kSync;
  request.tag = kStateTag;
  for (const state::TensorSpec& tensor : state->manifest.tensors) request.tensors.push_back({{}, {}, tensor.count});
  request.state = std::move(state);
  return request;
}

void App::sync_state() {
  // Groups have a state each, and must stay in step with each other.
  const bool goes_on = plan_.gangs.groups > 1 || host_.last_step() != UINT64_MAX || step_ <= shared_.furthest;
  const Checkpoint here{step_, state_, {}};
  // Not for ever, as one that is alone comes to the same state again: seed 2737.
  if (!goes_on && here != shared_.went_back_from && dice_.permille(60, Purpose::kState, step_, state_, 6)) {
    shared_.went_back_from = here;
    go_back();
  }
  Contents contents;
  contents.left_by = std::exchange(shared_.torn_by, {});
  if (take_prefetched()) contents.left_by = std::exchange(shared_.prefetched, {});
  shared_.furthest = std::max(shared_.furthest, step_);
  const auto state = statement();
  state->staged = dice_.permille(plan_.state.staged_permille, Purpose::kState, process_, launches_);
  state->strategy = strategy();
  const bool only_receives = state->strategy == state::Strategy::kReceiveOnly;
  state->restored = shared_.restored;
  state->blank = only_receives && dice_.permille(500, Purpose::kState, process_, launches_, 11);
  for (std::uint32_t t = 0; t < state->manifest.tensors.size(); ++t) {
    if (same_since_synced(state->manifest, t)) state->unchanged.insert(t);
  }
  contents.drift = stray(*state);
  launch(request_of(state), 0, contents);
}

// A step changes some pieces: each every one, two, four or eight steps, and one in four with all that was reduced
// before.
void App::fill_state(const Request& request) {
  Memory& memory = host_.memory_of(process_);
  const state::Manifest& manifest = request.state->manifest;
  for (std::size_t t = 0; t < request.tensors.size(); ++t) {
    if (manifest.tensors[t].may_differ) continue;
    const BufferRef whole = input_of(request, request.tensors[t]);
    for (std::uint64_t at = 0, piece = 0; at < whole.length; at += manifest.piece_bytes, ++piece) {
      const bool other =
          shared_.half && !shared_.synced && dice_.permille(500, Purpose::kTorn, process_, t << 32U | piece, 12);
      const Checkpoint at_start{step_ + 64, mix64(state_), {}};
      const std::uint64_t content = piece_content(t, piece, other ? at_start : Checkpoint{step_, state_, {}});
      memory.fill(whole.slice(at, std::min<std::uint64_t>(manifest.piece_bytes, whole.length - at)), content);
    }
  }
}

std::uint64_t App::piece_content(std::uint64_t tensor, std::uint64_t piece, const Checkpoint& at) const {
  const std::uint64_t which = tensor << 32U | piece;
  const bool by_state = dice_.permille(plan_.state.small_changes ? 40 : 250, Purpose::kState, which, at.state, 7);
  const std::uint64_t slower = plan_.state.small_changes ? 3 : 0;
  const std::uint64_t since = at.step >> (dice_.range(0, 3, Purpose::kState, which, 0, 8) + slower);
  return dice_.bits(Purpose::kState, which, by_state ? at.state : since, by_state ? 9 : 10);
}

bool App::same_since_synced(const state::Manifest& manifest, std::uint32_t tensor) const {
  // With these the source may have held other bytes.
  if (!shared_.synced || plan_.state.torn_permille > 0 || plan_.state.stray_permille > 0) return false;
  const std::uint64_t pieces = (manifest.tensors[tensor].bytes() + manifest.piece_bytes - 1) / manifest.piece_bytes;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    if (piece_content(tensor, piece, {step_, state_, {}}) != piece_content(tensor, piece, *shared_.synced))
      return false;
  }
  return true;
}

// Each call has a copy of its own, so that many may be in flight.
void App::watch(Call& call, Request& request, std::uint64_t drift) {
  Memory& memory = host_.memory_of(process_);
  const auto state = statement();
  Request copy = request_of(state);
  auto watched = std::make_shared<ring::Watched>();
  for (Tensor& tensor : copy.tensors) {
    tensor.recv = {memory.make(tensor.count), 0, tensor.count};
    memory.fill(tensor.recv, call.data.content);
    call.buffers.push_back(tensor.recv.id);
    watched->memory.push_back(tensor.recv);
  }
  fill_state(copy);
  if (drift != 0) {
    drift_value(drift, *state);
    drift_byte(drift, copy);
  }
  for (std::size_t t = 0; t < copy.tensors.size(); ++t) {
    const bool compared = !state->manifest.tensors[t].may_differ;
    call.prints.watched.push_back(compared ? memory.fingerprint(copy.tensors[t].recv) : 0);
    const bool same = t < shared_.watched.size() && shared_.watched[t] == call.prints.watched[t];
    if (same && dice_.permille(700, Purpose::kState, process_, launches_, 14 + t)) {
      state->unchanged.insert(static_cast<std::uint32_t>(t));
    }
    memory.lend(copy.tensors[t].recv.id);
  }
  shared_.watched = call.prints.watched;
  watched->state = state;
  request.watch = std::move(watched);
}

void App::drift_value(std::uint64_t drift, state::Statement& state) {
  if (drifts_in_value(drift, state.manifest)) state.values[1] ^= drift;
}

void App::drift_byte(std::uint64_t drift, const Request& of) {
  if (drifts_in_value(drift, of.state->manifest)) return;
  const BufferRef& tensor = of.tensors[drifting_tensor(drift)].recv;
  host_.memory_of(process_).fill(tensor.slice(drift % tensor.length, 1), drift);
}

// A program with a bug, or on a host whose memory is broken.
std::uint64_t App::stray(state::Statement& state) const {
  if (scripted_ || !dice_.permille(plan_.state.stray_permille, Purpose::kState, process_, launches_, 21)) return 0;
  const std::uint64_t drift = dice_.range(1, 1'000'000, Purpose::kState, process_, launches_, 22);
  const bool groups_stay_in_step = plan_.gangs.groups > 1;
  if (drift % 4 == 0 && state.revision > 0 && !groups_stay_in_step) {
    state.revision -= 1;
    return 0;
  }
  drift_value(drift, state);
  return drift;
}

void App::publish() { shared_.published = share(CallKind::kPublish, request_of(statement()), {}); }

// After a step: members publish different revisions then, or end a publication while newcomers fetch it.
bool App::publishes_again() const {
  return plan_.state.publish && dice_.permille(plan_.state.republish_permille, Purpose::kHolders, process_, step_);
}

void App::prefetch() {
  if (phase_ != Phase::kConnecting) return;
  const auto state = statement();
  state->staged = dice_.permille(600, Purpose::kState, process_, launches_, 3);  // holds until the admission
  shared_.prefetched = share(CallKind::kPrefetch, request_of(state), {});
}

// The prefetch left one of these in memory: the published state, this program's own state, or a part of a state, which
// counts for none.
bool App::take_prefetched() {
  if (!std::exchange(shared_.is_first_sync, false) || shared_.prefetched.value == 0) return false;
  const auto& outcome = host_.app_made(process_, shared_.prefetched).outcome;
  if (!outcome || outcome->status != Status::kOk) return false;
  if (!outcome->state_defined) {
    shared_.stateless = true;
    return true;
  }
  step_ = outcome->revision;
  state_ = outcome->values.at(1);
  shared_.lineage = outcome->lineage;
  return true;
}

void App::state_synced(const Call& call) {
  shared_.stateless = false;
  shared_.drift = 0;
  step_ = call.outcome->revision;
  state_ = call.outcome->values.at(1);
  shared_.lineage = call.outcome->lineage;
  shared_.synced = Checkpoint{step_, state_, {}};
  if (plan_.gangs.groups == 1) host_.app_checkpoint(on_host_) = {step_, state_, shared_.lineage};
  in_sync_.roots = *call.outcome->contributors;
  in_sync_.step = step_;
  if (step_ >= host_.last_step()) {
    host_.app_finished(process_);
    return;
  }
  if (plan_.state.publish && dice_.permille(600, Purpose::kState, process_, launches_, 1)) later(Do::kPublish, 0, 1);
  later(Do::kStep, 0, pause(100'000));
}

void App::synced(const Call& call) {
  const Status status = call.outcome->status;
  if (is_out(status)) return;  // RunOver comes, or came
  if (!call.outcome->state_defined) {
    shared_.stateless = true;
    shared_.was_blank = call.request.state->blank;
    shared_.torn_by = call.id;
    // A publish sends a copy, which says nothing about the memory.
    const bool ends = plan_.state.torn_permille > 0 && dice_.permille(500, Purpose::kTorn, process_, launches_, 13);
    if (ends && shared_.published.value != 0) later(Do::kStop, std::exchange(shared_.published, {}).value, 1);
  }
  shared_.restored = status == Status::kStateUndefined;  // for all
  if (shared_.restored) {
    shared_.stateless = false;
    shared_.torn_by = {};
    go_back();
  }
  if (status != Status::kOk) {
    in_sync_.failed += 1;
    generation_ += 1;
    const bool admits = status == Status::kCohortClosed || in_sync_.failed % 8 == 0;
    if (admits) {
      phase_ = Phase::kAdmitting;
      later(Do::kAdmit, 0, pause(static_cast<std::uint64_t>(plan_.program.think.ns) / 4 + 1));
    } else {
      later(Do::kSync, 0, pause(static_cast<std::uint64_t>(plan_.heartbeat.ns) / 4 + 1));
    }
    return;
  }
  in_sync_.failed = 0;
  generation_ += 1;
  if (call.request.collective == Collective::kSync) return state_synced(call);
  if (in_sync_.sharing) {
    in_sync_.step = step_;
    later(Do::kStep, 0, pause(100'000));
    return;
  }
  in_sync_.roots = *call.outcome->contributors;
  bool alike = true;
  const Call* best = nullptr;
  for (const PeerId& id : in_sync_.roots) {
    const Call* theirs = host_.contribution(id, call.outcome->round);
    if (theirs == nullptr) return;  // a checker has said so
    if (best != nullptr && (theirs->told.step != best->told.step || theirs->told.state != best->told.state))
      alike = false;
    if (best == nullptr || theirs->told.step > best->told.step) {
      best = theirs;
      in_sync_.source = id;
    }
  }
  LOCKSTEP_ASSERT(best != nullptr);  // a peer that commits a sync is a contributor
  step_ = best->told.step;
  state_ = best->told.state;
  in_sync_.step = step_;
  if (step_ >= host_.last_step()) {
    host_.app_finished(process_);
    return;
  }
  later(alike ? Do::kStep : Do::kAgain, 0, pause(100'000));
}

}  // namespace lockstep::sim
