#include "sim/workload/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/assert.h"

namespace lockstep::sim {
namespace {

using ring::Request;
using ring::Tensor;
using wire::Collective;

constexpr Tag kLoopTag{7};
constexpr std::uint64_t kStepBits = 0xffffff;                   // of a step, or of an index, in an event
constexpr std::uint64_t kFreshTags = 2000;                      // and above
constexpr std::uint64_t kTagsToNext = std::uint64_t{1} << 32U;  // and above
constexpr std::uint64_t kManyTags = 1000;                       // of each step

constexpr std::uint64_t kPrimes[] = {2, 3, 5, 7, 11, 13, 31, 97, 101, 251, 997, 1009, 4999};

}  // namespace

App::App(AppHost& host, const Plan& plan, std::uint32_t process, std::uint32_t on_host, PeerId peer, GroupId group,
         bool scripted)
    : host_(host),
      plan_(plan),
      dice_(plan.seed),
      process_(process),
      on_host_(on_host),
      peer_(peer),
      group_(group),
      scripted_(scripted),
      uses_(first_use_of(plan)) {
  shared_.pieces = count_pieces();
  const auto draws = [&](std::uint64_t permille, std::uint64_t n) {
    return dice_.permille(permille, Purpose::kTorn, process, 0, n);
  };
  if (scripted || !plan.state.shared || plan.gangs.groups > 1 || !draws(plan.state.torn_permille, 10)) return;
  shared_.half = true;
  shared_.stateless = shared_.was_blank = draws(500, 11);
}

void App::later(Do what, std::uint64_t index, std::int64_t delay_ns) {
  host_.app_after(process_, nanoseconds(delay_ns), static_cast<std::uint64_t>(what) | index << 8U | generation_ << 32U);
}

std::int64_t App::pause(std::uint64_t at_most) {
  return 1 + static_cast<std::int64_t>(dice_.skewed(at_most, Purpose::kThink, process_, draws_++));
}

void App::begin() { later(Do::kConnect, 0, pause(1'000'000)); }

void App::on_event(std::uint64_t what) {
  const auto index = (what >> 8U) & kStepBits;
  if (phase_ == Phase::kOver) return;
  switch (static_cast<Do>(what & 0xffU)) {
    case Do::kStop: host_.app_command(process_, peer::Stop{CallId{index}, "the nemesis asked for it"}); return;
    case Do::kLeave: do_leave(); return;
    case Do::kAbandon: host_.app_command(process_, peer::Abandon{"the nemesis asked for it"}); return;
    case Do::kStopSends: stop_sends(); return;
    default: break;
  }
  if (phase_ == Phase::kLeaving) return;
  if (static_cast<Do>(what & 0xffU) == Do::kTransfer) {  // an admission that was asked for meanwhile does not stop it
    if (index == (step_ & kStepBits) && (phase_ == Phase::kStepping || phase_ == Phase::kAdmitting)) transfer();
    return;
  }
  if (what >> 32U != generation_) return;
  switch (static_cast<Do>(what & 0xffU)) {
    case Do::kConnect: connect(); return;
    case Do::kSync: sync(); return;
    case Do::kAgain: share_state(); return;
    case Do::kStep: begin_step(); return;
    case Do::kLaunch: launch_op(index); return;
    case Do::kAdmit: admit(); return;
    case Do::kPublish: publish(); return;
    case Do::kPrefetch: prefetch(); return;
    case Do::kLeave:
    case Do::kStop:
    case Do::kTransfer:
    case Do::kStopSends:
    case Do::kAbandon: return;
  }
}

// ---- calls ----

void App::connect() {
  Call& call = host_.app_call(process_, CallKind::kConnect);
  host_.app_command(process_, peer::Connect{call.id, "coordinator:4000", Duration{0}});
  // The groups of gangs are at the same step. But a peer that continues from a prefetched state when the others are
  // gone decides for its own group alone.
  const bool alone = plan_.gangs.size == 1;
  if (plan_.state.publish && alone && dice_.permille(700, Purpose::kState, process_, launches_, 2)) {
    later(Do::kPrefetch, 0, pause(static_cast<std::uint64_t>(plan_.heartbeat.ns)));
  }
}

void App::launch(Request request, std::uint64_t here, const Contents& contents) {
  Call& call = lend_memory(CallKind::kCollective, request, here, contents);
  call.group = group_;
  call.launch.cohort = uses_.cohort();
  call.launch.use = uses_.launch(request.tag);
  const bool watches = contents.watches || (plan_.state.watch && plan_.state.shared && !scripted_);
  const bool is_watched = watches && request.collective != Collective::kSync && !contents.refused;
  if (is_watched) watch(call, request, drift_of_launch() + contents.drift);
  call.request = request;
  const float weight = request.weight.value_or(1);
  call.data.odd_weight = !(weight >= 0.25F && weight <= 1000);
  call.launch.segment_bytes = plan_.links.segment_bytes;
  call.launch.by_rate_bytes = plan_.links.by_rate_bytes;
  call.refused = contents.refused;
  const CallId id = call.id;
  host_.app_launched(call);
  std::optional<peer::Refusal> refused;
  if (contents.refused)
    refused = {Status::kInvalidArgument, std::string(wire::name_of(request.collective)), kWhyRefused};
  host_.app_command(process_, peer::Launch{id, std::move(request), std::move(refused)});
}

// While a state drifts it changes from call to call, also between two that are in flight together.
std::uint64_t App::drift_of_launch() const {
  const bool again = shared_.drift != 0 && dice_.permille(400, Purpose::kOverlap, process_, launches_);
  return again ? dice_.range(0, 1'000'000, Purpose::kOverlap, process_, launches_, 1) : shared_.drift;
}

CallId App::share(CallKind kind, Request request, const Contents& contents) {
  Call& call = lend_memory(kind, request, 0, contents);
  call.told_to_wait = true;  // it waits for receivers, or for a publisher
  call.request = request;
  const CallId id = call.id;
  if (kind == CallKind::kPublish) {
    host_.app_command(process_, peer::Publish{id, std::move(request)});
  } else {
    host_.app_command(process_, peer::Prefetch{id, std::move(request)});
  }
  return id;
}

// Lends memory for the tensors of a call. `here`: elements of a block, where blocks may differ.
void App::lend_tensors(const Call& call, Request& request, std::uint64_t here, const Lend& lend) const {
  const std::uint64_t width = size_of(request.type);
  for (Tensor& tensor : request.tensors) {
    const std::uint64_t bytes = tensor.count * width;
    switch (request.collective) {
      case Collective::kAllReduce: {
        const bool in_place = dice_.permille(500, Purpose::kLaunch, process_, launches_, call.buffers.size());
        tensor.send = lend(bytes);
        tensor.recv = in_place ? tensor.send : lend(bytes);
        const bool feeds_back = ring::goes_direct(request) && ring::can_encode(request) &&
                                dice_.permille(400, Purpose::kLaunch, process_, launches_, 79);
        tensor.residual = feeds_back ? lend(bytes) : BufferRef{};
        break;
      }
      case Collective::kReduceScatter:
        tensor.send = lend(bytes);
        tensor.recv = lend(bytes);
        break;
      case Collective::kReduce:
        tensor.send = lend(bytes);
        if (request.root == peer_) tensor.recv = lend(bytes);
        break;
      case Collective::kAllGather:
        tensor.send = lend(bytes);
        tensor.recv = lend((here + 16) * width * plan_.peers);
        break;
      case Collective::kGather:
        tensor.send = lend(bytes);
        if (request.root == peer_) tensor.recv = lend((here + 16) * width * plan_.peers);
        break;
      case Collective::kScatter:
      case Collective::kAllToAll:
        tensor.send = lend(bytes);
        tensor.recv = lend((here + std::uint64_t{16} * plan_.peers) * width);
        break;
      case Collective::kBroadcast:
      case Collective::kSync: tensor.recv = lend(bytes); break;
      case Collective::kBarrier: break;
    }
  }
}

Call& App::lend_memory(CallKind kind, Request& request, std::uint64_t here, const Contents& contents) {
  Memory& memory = host_.memory_of(process_);
  Call& call = host_.app_call(process_, kind);
  launches_ += 1;
  call.data.content = contents.drawn.value_or(dice_.bits(Purpose::kContent, process_, launches_));
  call.told.step = step_;
  call.told.state = state_;
  const std::uint64_t width = size_of(request.type);
  std::vector<BufferId> left;  // the first one last
  if (contents.left_by.value != 0) left = std::exchange(host_.app_made(process_, contents.left_by).buffers, {});
  std::reverse(left.begin(), left.end());
  const bool taken_over = !left.empty();
  const auto lend = [&](std::uint64_t bytes) {
    const bool fresh = left.empty();
    const BufferId id = fresh ? memory.make(bytes) : left.back();
    if (!fresh) left.pop_back();
    call.buffers.push_back(id);
    return BufferRef{id, 0, bytes};
  };
  lend_tensors(call, request, here, lend);
  const bool fills = request.state && !scripted_ && !taken_over;
  if (fills) fill_state(request);
  if (fills && contents.drift != 0) drift_byte(contents.drift, request);
  for (std::size_t t = 0; t < request.tensors.size(); ++t) {
    const BufferRef input = input_of(request, request.tensors[t]);
    const bool is_state = fills && !request.state->manifest.tensors[t].may_differ;
    if (!is_state && !taken_over) {
      memory.fill(input, content_of(call.data.content, t), request.type, ring::is_encoded(request));
    }
    if (t == 0 && !taken_over && !scripted_) call.data.odd = odd_element(request);
    if (t == 0 && call.data.odd) memory.write(input.slice(call.data.odd->element * width, width), call.data.odd->value);
    if (t == 0 && contents.changed > 0) memory.fill(input.slice(0, contents.changed), ~call.data.content, request.type);
    call.prints.inputs.push_back(memory.fingerprint(input));
    const BufferRef& residual = request.tensors[t].residual;
    if (residual.length > 0) memory.fill(residual, content_of_residual(call.data.content, t), request.type, true);
    call.prints.residuals.push_back(residual.length > 0 ? memory.fingerprint(residual) : 0);
  }
  call.buffers.insert(call.buffers.end(), left.begin(), left.end());  // of no use any more
  left.clear();
  request.scratch = {};
  if (const std::uint64_t scratch = scratch_bytes(request); scratch > 0) request.scratch = lend(scratch);
  for (const BufferId id : call.buffers) memory.lend(id);
  if (kind != CallKind::kCollective) return call;
  if (next_.timeout.ns != 0) {
    request.timeout = next_.timeout;
    next_.timeout = {};
  } else if (request.timeout.ns == 0) {
    request.timeout = plan_.program.call_timeout;
  }
  return call;
}

// One element of the first tensor, rarely. Tokens stand for elements that all are numbers.
std::optional<OddElement> App::odd_element(const Request& request) const {
  const bool may = ring::is_encoded(request) && !request.tensors.empty() && request.tensors.front().count > 0;
  if (is_calm() || plan_.mode != Mode::kBytes || !may || !dice_.permille(40, Purpose::kOddElement, process_, launches_))
    return {};
  constexpr float kOdd[] = {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::signaling_NaN()};
  const auto which = dice_.range(0, std::size(kOdd) - 1, Purpose::kOddElement, process_, launches_, 1);
  return OddElement{0, dice_.range(0, request.tensors.front().count - 1, Purpose::kOddElement, process_, launches_, 2),
                    kOdd[which]};
}

// ---- steps ----

Request App::given_request(const Work& work, std::uint64_t op) const {
  Request request = sim::request_of(work);
  request.tag = Tag{op};
  request.retry = work.collective == Collective::kAllReduce || work.collective == Collective::kBarrier;
  request.minimum_world = plan_.minimum_world;
  if (work.collective != Collective::kBarrier) request.tensors.push_back({{}, {}, work.count});
  if (wire::has_root(work.collective))
    request.root = in_sync_.roots.empty() ? peer_ : in_sync_.roots[step_ % in_sync_.roots.size()];
  return request;
}

Request App::request_of(std::uint64_t op) {
  if (!plan_.program.work.empty()) return given_request(plan_.program.work[op], op);
  std::uint64_t k = 0;
  const auto range = [&](std::uint64_t lo, std::uint64_t hi) {
    return dice_.range(lo, hi, Purpose::kOp, step_, op, k++);
  };
  Request request;
  const std::uint64_t kind = range(0, 99);
  request.collective = kind < 60   ? Collective::kAllReduce
                       : kind < 70 ? Collective::kReduceScatter
                       : kind < 80 ? Collective::kAllGather
                       : kind < 90 ? Collective::kBroadcast
                                   : Collective::kBarrier;
  const bool reduces = request.collective == Collective::kBroadcast && plan_.program.reduces &&
                       dice_.permille(500, Purpose::kReduce, step_, op);
  if (reduces) request.collective = Collective::kReduce;
  const bool is_copied =
      request.collective == Collective::kReduceScatter || request.collective == Collective::kAllGather;
  if (is_copied && plan_.program.exchanges && dice_.permille(500, Purpose::kExchange, step_, op)) {
    constexpr Collective kExchanges[] = {Collective::kGather, Collective::kScatter, Collective::kAllToAll};
    request.collective = kExchanges[dice_.range(0, std::size(kExchanges) - 1, Purpose::kExchange, step_, op, 1)];
  }
  request.type = static_cast<DataType>(range(0, kDataTypeCount - 1));
  request.op = static_cast<ReduceOp>(range(0, kReduceOpCount - 1));
  if (!is_defined(request.type, request.op)) request.op = ReduceOp::kMax;  // every type has a maximum
  request.tag = Tag{range(0, 1) == 0 ? op : 10 + op};
  request.retry = range(0, 9) < 7;
  request.minimum_world = plan_.minimum_world;
  const auto count = [&]() -> std::uint64_t {
    switch (range(0, 4)) {
      case 0: return range(0, plan_.peers + 1);
      case 1: return std::min(plan_.program.max_count, kPrimes[range(0, std::size(kPrimes) - 1)]);
      case 2: return range(0, plan_.program.max_count);
      case 3: return plan_.program.max_count / (range(1, 8));
      default: return range(0, std::min<std::uint64_t>(64, plan_.program.max_count));
    }
  };
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast: {
      const std::uint64_t tensors = range(0, 3) == 0 ? range(0, 4) : 1;
      for (std::uint64_t t = 0; t < tensors; ++t) request.tensors.push_back({{}, {}, count()});
      break;
    }
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
    case Collective::kAllGather: request.tensors.push_back({{}, {}, count()}); break;
    case Collective::kBarrier:
    case Collective::kSync: break;
  }
  if (wire::has_root(request.collective))
    request.root = in_sync_.roots.empty() ? peer_ : in_sync_.roots[range(0, in_sync_.roots.size() - 1)];
  if (request.collective != Collective::kAllReduce && request.collective != Collective::kBarrier) request.retry = false;
  if (request.collective == Collective::kAllReduce && dice_.permille(250, Purpose::kOp, step_, op, 100)) {
    encode(request, op);
  } else if (request.collective == Collective::kAllReduce) {  // as often left to the view as asked for
    const std::uint64_t form = dice_.range(0, 3, Purpose::kOp, step_, op, 99);
    if (form == 0) request.algorithm = wire::Algorithm::kRing;
    if (form == 1) {
      const bool grid = plan_.program.grids && dice_.permille(500, Purpose::kOp, step_, op, 97);
      request.algorithm = grid ? wire::Algorithm::kGrid : wire::Algorithm::kDirect;
    }
  } else if (wire::has_choice(request.collective) && plan_.program.grids) {  // some of them in a grid
    if (dice_.permille(250, Purpose::kOp, step_, op, 97)) request.algorithm = wire::Algorithm::kGrid;
  }
  return request;
}

// An exchange of `count` elements, which all peers draw alike: what this peer sends to whom. The sizes of blocks differ
// by a few elements.
void App::add_blocks(Request& request) const {
  if (!wire::exchanges(request.collective)) return;
  const std::uint64_t count = std::exchange(request.tensors.front().count, 0);
  const auto add = [&](PeerId to, std::uint64_t elements) {
    request.blocks.push_back({to, elements});
    request.tensors.front().count += elements;
  };
  if (request.collective == Collective::kGather) return add(request.root, count + on_host_ % 7);
  if (request.collective == Collective::kScatter && request.root != peer_) return;
  for (std::size_t i = 0; i < in_sync_.roots.size(); ++i) {
    add(in_sync_.roots[i], count / in_sync_.roots.size() + (i + on_host_) % 5);
  }
}

// All peers use the same formats; each peer draws its own weight.
void App::encode(Request& request, std::uint64_t op) {
  std::uint64_t k = 101;
  const auto up_to = [&](std::uint64_t most) { return dice_.range(0, most, Purpose::kOp, step_, op, k++); };
  request.type = DataType::kF32;
  request.op = up_to(1) == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
  request.formats.up = static_cast<WireFormat>(up_to(kWireFormatCount - 1));
  request.formats.down = static_cast<WireFormat>(up_to(kWireFormatCount - 1));
  // The tails of blocks: one element, or all but one.
  if (!request.tensors.empty() && dice_.permille(400, Purpose::kOddTail, step_, op)) {
    const std::uint64_t block = request.formats.block_elements();
    const std::uint64_t blocks = dice_.range(0, plan_.program.max_count / block, Purpose::kOddTail, step_, op, 1);
    const bool short_of = dice_.permille(500, Purpose::kOddTail, step_, op, 2);
    request.tensors.front().count = std::min(plan_.program.max_count, blocks * block + (short_of ? block - 1 : 1));
  }
  const bool coarse = ring::goes_direct(request);
  if (const std::uint64_t form = up_to(2); form > 0) {
    request.algorithm = form == 1 && !coarse ? wire::Algorithm::kRing : wire::Algorithm::kDirect;
  }
  if (up_to(request.op == ReduceOp::kSum ? 3 : 1) == 0) return;
  constexpr float kOfOne[] = {1, 0.5F, 3, 1000};
  request.weight = kOfOne[dice_.range(0, std::size(kOfOne) - 1, Purpose::kLaunch, process_, launches_, 78)];
  // Odd weights: missing, tiny, huge, and not a number.
  constexpr float kOdd[] = {
      0, 0, 0x1p-149F, 0x1.8p-130F, 0x1p-126F, 0x1p127F, std::numeric_limits<float>::max(), -1, HUGE_VALF};
  if (is_calm() || !dice_.permille(150, Purpose::kOddWeight, process_, launches_)) return;
  request.weight = kOdd[dice_.range(0, std::size(kOdd) - 1, Purpose::kOddWeight, process_, launches_, 1)];
}

// The calls of a step are the same on all peers. With auto_admit no peer knows the step of another, but all calls are
// alike.
std::uint64_t App::ops_of_step() const {
  if (plan_.auto_admit) return dice_.range(1, plan_.program.ops_per_step, Purpose::kStep, step_, process_ + 10);
  return plan_.program.work.empty() ? dice_.range(1, plan_.program.ops_per_step, Purpose::kStep, step_)
                                    : plan_.program.work.size();
}

// Whether to call admit before they have ended.
bool App::admits_early() const {
  if (plan_.auto_admit) {  // in half of the programs: in the others newcomers depend on the commits alone
    return dice_.permille(500, Purpose::kStep, 0, 0, 3) && dice_.permille(100, Purpose::kStep, step_, process_ + 10, 2);
  }
  return step_ + 1 - in_sync_.step >= plan_.program.steps_per_admit && dice_.permille(300, Purpose::kStep, step_, 2);
}

void App::begin_step() {
  generation_ += 1;
  phase_ = Phase::kStepping;
  in_step_.must_admit = false;
  in_step_.early = EarlyAdmission::kNo;
  in_step_.results.clear();
  in_step_.transfers.clear();
  if (plan_.auto_admit && step_ >= host_.last_step()) {
    host_.app_finished(process_);
    return;
  }
  const std::uint64_t ops = ops_of_step();
  in_step_.pending = static_cast<std::uint32_t>(ops);
  if (plan_.program.sends_to_next > 0) send_to_next();
  // Another order on every peer, and sometimes a while between two.
  std::int64_t at = 0;
  const std::uint64_t first = dice_.range(0, ops - 1, Purpose::kLaunch, process_, step_);
  const bool backwards = dice_.permille(300, Purpose::kLaunch, process_, step_, 1);
  for (std::uint64_t i = 0; i < ops; ++i) {
    at += pause(dice_.permille(200, Purpose::kLaunch, process_, step_, 2 + i) ? 2'000'000 : 20'000);
    later(Do::kLaunch, (first + (backwards ? ops - i : i)) % ops, at);
  }
  if (plan_.program.transfers && !plan_.auto_admit) later(Do::kTransfer, step_ & kStepBits, pause(2'000'000));
  if (admits_early()) {
    in_step_.early = EarlyAdmission::kAsked;
    later(Do::kAdmit, 0, at + pause(1'000'000));
  }
}

void App::launch_op(std::uint64_t index) {
  Request request;
  if (plan_.auto_admit) {
    request.collective = Collective::kAllReduce;
    request.type = DataType::kF32;
    request.tag = kLoopTag;
    request.minimum_world = plan_.minimum_world;
    request.tensors.push_back({{}, {}, plan_.program.max_count / 3});
  } else {
    request = request_of(index);
    if (plan_.fresh_tags) request.tag = Tag{kFreshTags + step_ * 64 + index};
  }
  if (next_.skip) {
    next_.skip = false;
    in_step_.pending -= 1;
    if (in_step_.pending == 0) step_is_over();
    return;
  }
  if (next_.mismatch) {
    next_.mismatch = false;
    if (ring::is_encoded(request)) {
      request.formats.down = request.formats.down == WireFormat::kInt8 ? WireFormat::kBF16 : WireFormat::kInt8;
    } else if (request.collective == Collective::kBarrier || wire::has_blocks(request.collective)) {
      request.minimum_world += 1;
    } else if (request.tensors.empty() || dice_.permille(300, Purpose::kLaunch, process_, launches_, 77)) {
      request.type = request.type == DataType::kF32 ? DataType::kF64 : DataType::kF32;
      if (!is_defined(request.type, request.op)) request.op = ReduceOp::kSum;
    } else {
      request.tensors.front().count += 1;
    }
  }
  std::uint64_t here = 0;
  if (wire::has_blocks(request.collective)) here = request.tensors.front().count;
  if (request.collective == Collective::kAllGather) request.tensors.front().count += on_host_ % 7;
  add_blocks(request);
  Contents contents;
  contents.refused = std::exchange(next_.refuse, false);
  launch(std::move(request), here, contents);
}

void App::stepped(const Call& call) {
  const Status status = call.outcome->status;
  if (status == Status::kOk) commits_ += 1;
  if (status == Status::kCohortClosed) in_step_.must_admit = true;
  if (status == Status::kBelowMinimum) in_step_.must_admit = in_step_.wait_for_world = true;
  in_step_.results.emplace_back(CallId{call.request.tag.value}, status == Status::kOk ? call.outcome->hash : 1);
  in_step_.pending -= 1;
  if (is_out(status)) return;
  if (in_step_.pending == 0) step_is_over();
}

void App::step_is_over() {
  std::sort(in_step_.results.begin(), in_step_.results.end());
  for (const auto& [tag, hash] : in_step_.results) state_ = mix64(state_ ^ mix64(hash ^ tag.value));
  step_ += 1;
  if (in_step_.early == EarlyAdmission::kAsked) return;  // the rest when it is answered
  generation_ += 1;
  if (in_step_.early == EarlyAdmission::kDone) {
    later(Do::kSync, 0, pause(200'000));
    return;
  }
  const bool refused = plan_.auto_admit && in_step_.must_admit;
  const bool far = refused || dice_.permille(600, Purpose::kStep, step_, 1);
  const auto think = static_cast<std::uint64_t>(plan_.program.think.ns);
  const std::int64_t wait = far ? static_cast<std::int64_t>(think) + pause(think) : pause(1'000'000);
  if (plan_.auto_admit && !in_step_.wait_for_world) {
    later(Do::kStep, 0, wait);
    return;
  }
  if (in_step_.must_admit || step_ - in_sync_.step >= plan_.program.steps_per_admit) {
    phase_ = Phase::kAdmitting;
    later(Do::kAdmit, 0, wait);
  } else {
    if (publishes_again()) later(Do::kPublish, 0, 1);
    later(Do::kStep, 0, wait);
  }
}

// ---- point to point ----

// All peers draw the same transfers, and each makes its own calls, in another order.
void App::transfer() {
  const std::vector<PeerId>& members = in_sync_.roots;
  if (members.size() < 2) return;
  std::uint64_t k = 0;
  const auto range = [&](std::uint64_t lo, std::uint64_t hi) {
    return dice_.range(lo, hi, Purpose::kTransfer, step_, k++);
  };
  std::vector<std::pair<CallKind, peer::Transfer>> own;
  const std::uint64_t pairs = range(1, kTransferPairs);
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const std::uint64_t from = range(0, members.size() - 1);
    const std::uint64_t to = (from + range(1, members.size() - 1)) % members.size();
    peer::Transfer what;
    what.tag = Tag{step_ * 8 + i};
    what.type = static_cast<DataType>(range(0, kDataTypeCount - 1));
    what.count = range(0, 2) == 0 ? range(0, plan_.program.max_count) : range(16, kSmallTransfer);
    const bool any = range(0, 3) == 0;
    const std::uint64_t beats = range(0, 1) == 0 ? 0 : range(4, 20);
    what.timeout = plan_.heartbeat * static_cast<std::int64_t>(beats);
    const bool is_small = what.count <= kSmallTransfer;
    const std::uint64_t repeats = range(0, 9) == 0 && is_small ? kManyTransfers : range(1, 3);
    for (std::uint64_t n = 0; n < repeats; ++n) {
      what.peer = members[to];
      if (members[from] == peer_) own.emplace_back(CallKind::kSend, what);
      what.peer = any ? PeerId{} : members[from];
      if (members[to] == peer_) own.emplace_back(CallKind::kReceive, what);
    }
  }
  if (own.empty()) return;
  const std::uint64_t first = dice_.range(0, own.size() - 1, Purpose::kTransfer, process_, step_, 1);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& [kind, what] = own[(first + i) % own.size()];
    transfer(kind, what);
  }
}

// To the next member of its group, and from the one before; neither waits for a peer that is at another step.
void App::send_to_next() {
  constexpr std::int64_t kBeats = 20;
  const std::vector<PeerId>& members = in_sync_.roots;
  const auto me = std::find(members.begin(), members.end(), peer_);
  if (members.size() < 2 || me == members.end()) return;
  const auto at = static_cast<std::size_t>(me - members.begin());
  peer::Transfer what;
  what.type = DataType::kF32;
  what.count = kSmallTransfer;
  what.timeout = plan_.heartbeat * kBeats;
  const auto call = [&](CallKind kind, std::size_t peer) {
    what.peer = members[peer % members.size()];
    const CallId id = transfer(kind, what);
    if (host_.app_made(process_, id).outcome) return;
    in_step_.transfers.insert(id);
    in_step_.pending += 1;
  };
  for (std::uint32_t i = 0; i < plan_.program.sends_to_next; ++i) {
    what.tag = Tag{kTagsToNext + step_ * kManyTags + i};
    call(CallKind::kSend, at + 1);
    call(CallKind::kReceive, at + members.size() - 1);
  }
}

CallId App::transfer(CallKind kind, peer::Transfer what) {
  Memory& memory = host_.memory_of(process_);
  Call& call = host_.app_call(process_, kind);
  launches_ += 1;
  call.told_to_wait = true;  // for the other side; see Transfers::overdue()
  call.group = group_;
  call.data.content = dice_.bits(Purpose::kContent, process_, launches_);
  const std::uint64_t bytes = what.count * size_of(what.type);
  what.memory = {kSinkBuffer, 0, 0};
  if (bytes > 0) {
    call.buffers.push_back(memory.make(bytes));
    what.memory = {call.buffers.back(), 0, bytes};
    memory.fill(what.memory, content_of(call.data.content, 0), what.type);
    call.prints.inputs.push_back(memory.fingerprint(what.memory));
    memory.lend(call.buffers.back());
  }
  call.transfer = what;
  const CallId id = call.id;
  if (kind == CallKind::kSend && what.timeout.ns == 0) endless_.push_back(id);
  host_.app_transfers(call);
  if (kind == CallKind::kSend) {
    host_.app_command(process_, peer::Send{id, what});
  } else {
    host_.app_command(process_, peer::Receive{id, what});
  }
  return id;
}

// A leave waits for every send, and the other side may never receive it: it may be at another step. A send whose
// receive was called ends by itself, or the leave hangs (L4).
void App::stop_sends() {
  std::vector<CallId> awaited;
  for (const CallId id : std::exchange(endless_, {})) {
    Call& call = host_.app_made(process_, id);
    if (call.outcome) continue;
    if (host_.app_is_awaited(call)) {
      awaited.push_back(id);
      continue;
    }
    call.stopped = true;
    host_.app_command(process_, peer::Stop{id, "nobody may receive it"});
  }
  endless_ = std::move(awaited);
  if (!endless_.empty()) later(Do::kStopSends, 0, plan_.heartbeat.ns);
}

// ---- coming and going ----

void App::admit() {
  generation_ += 1;
  phase_ = Phase::kAdmitting;
  if (plan_.auto_admit && step_ >= host_.last_step()) in_step_.wait_for_world = false;
  Call& call = host_.app_call(process_, CallKind::kAdmit);
  call.told_to_wait = in_step_.wait_for_world && plan_.minimum_world > 1;
  call.at_least = in_step_.wait_for_world ? plan_.minimum_world : 1;
  Duration timeout;
  const bool waits = in_step_.wait_for_world;
  const auto draws = [&](std::uint32_t permille, std::uint64_t n) {
    return !waits && dice_.permille(permille, Purpose::kLaunch, process_, launches_, n);
  };
  const bool wishes =
      plan_.auto_admit && on_host_ == 1 && draws(500, 78);  // one of them: else calls are always refused
  if (wishes) {
    call.at_least = static_cast<std::uint32_t>(dice_.range(1, plan_.peers, Purpose::kLaunch, process_, launches_, 79));
  }
  if (wishes || (!plan_.auto_admit && draws(100, 82))) {
    timeout =
        plan_.heartbeat * static_cast<std::int64_t>(dice_.range(1, 20, Purpose::kLaunch, process_, launches_, 80));
  }
  in_step_.wait_for_world = false;
  call.request.timeout = timeout;
  host_.app_command(process_, peer::Admit{call.id, call.at_least, timeout});
}

void App::leave() {
  if (phase_ == Phase::kConnecting || phase_ == Phase::kOver || leaving_) return;
  later(Do::kLeave, 0, 1);
}

void App::do_leave() {
  if (leaving_ || phase_ == Phase::kOver || phase_ == Phase::kConnecting) return;
  if (plan_.auto_admit && dice_.permille(500, Purpose::kLaunch, process_, launches_, 81)) launch_op(0);
  stop_sends();
  leaving_ = true;
  phase_ = Phase::kLeaving;
  Call& call = host_.app_call(process_, CallKind::kLeave);
  host_.app_command(process_, peer::Leave{call.id, Duration{0}});
}

void App::stop_call(CallId call) { later(Do::kStop, call.value, 1); }

void App::abandon() { later(Do::kAbandon, 0, 1); }

void App::misuse(const Entry& entry) {
  if (entry.fault == Fault::kTimeout) next_.timeout = entry.length;
  if (entry.fault == Fault::kMismatch) next_.mismatch = true;
  if (entry.fault == Fault::kRefuse) next_.refuse = true;
  if (entry.fault == Fault::kSkip) next_.skip = true;
  if (entry.fault == Fault::kDrift) shared_.drift = dice_.range(1, 1'000'000, Purpose::kState, process_, launches_, 13);
}

void App::on_complete(const Call& call) {
  if (call.outcome->status == Status::kStateConflict) let_go();
  if (scripted_ || phase_ == Phase::kOver || phase_ == Phase::kLeaving) return;
  const Status status = call.outcome->status;
  switch (call.kind) {
    case CallKind::kConnect:
      if (status == Status::kOk) {
        phase_ = Phase::kSyncing;
        if (plan_.state.shared && dice_.permille(500, Purpose::kState, process_, 0, 11)) go_back();
        go_ahead();
        later(Do::kSync, 0, pause(200'000));
      }
      return;
    case CallKind::kAdmit:
      if (is_out(status)) return;
      generation_ += 1;
      if ((status == Status::kOk || plan_.auto_admit) && in_step_.early == EarlyAdmission::kAsked &&
          in_step_.pending > 0) {
        in_step_.early = EarlyAdmission::kDone;
      } else if (status == Status::kOk || plan_.auto_admit) {
        later(Do::kSync, 0, pause(200'000));
      } else {
        later(Do::kAdmit, 0, pause(static_cast<std::uint64_t>(plan_.heartbeat.ns)));
      }
      return;
    case CallKind::kCollective:
      if (phase_ == Phase::kSyncing) {
        synced(call);
      } else {
        stepped(call);
      }
      return;
    case CallKind::kSend:
    case CallKind::kReceive:
      if (in_step_.transfers.erase(call.id) == 0 || is_out(status)) return;
      if (--in_step_.pending == 0) step_is_over();
      return;
    case CallKind::kLeave:
    case CallKind::kPublish:
    case CallKind::kPrefetch: return;
  }
}

}  // namespace lockstep::sim
