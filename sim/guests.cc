// World, fourth part: programs from outside. They make calls with memory of their own, come and go as faults say, and are judged by the
// same checkers, but for what only the simulator's own program promises.
#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/liveness_bound.h"
#include "sim/text.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kMostGuests = 10'000;  // that begin, in one run

// S2 folds all inputs again, element by element, and keeps them: calls of more are judged by the other checkers only.
constexpr std::uint64_t kMostGivenBytes = 64U << 10U;
constexpr std::size_t kCallsWithInputs = 64;  // of a process, the newest

// In place of what a guest has asked for.
constexpr std::uint64_t kIsToLeave = 0;

CallKind kind_of(const peer::Input& input) {
  if (std::holds_alternative<peer::Connect>(input)) return CallKind::kConnect;
  if (std::holds_alternative<peer::Admit>(input)) return CallKind::kAdmit;
  if (std::holds_alternative<peer::Leave>(input)) return CallKind::kLeave;
  if (std::holds_alternative<peer::Publish>(input)) return CallKind::kPublish;
  if (std::holds_alternative<peer::Prefetch>(input)) return CallKind::kPrefetch;
  LOCKSTEP_ASSERT(std::holds_alternative<peer::Launch>(input));
  return CallKind::kCollective;
}

std::uint64_t input_bytes(const peer::Request& request) {
  std::uint64_t bytes = 0;
  for (const peer::Tensor& tensor : request.tensors) {
    bytes += tensor.count * size_of(request.type) + tensor.residual.length;
  }
  return bytes;
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

// ---- programs ----

void World::start_guest(std::uint32_t host) {
  Host& h = hosts_[host];
  if (h.gone || h.guest != 0) return;
  if (guests_ >= kMostGuests) {
    fail("limit", "programs start again and again: " + std::to_string(kMostGuests) + " times");
    return;
  }
  network_.host_returned(host, now_);
  h.guest = ++guests_;
  quiet_since_ = now_;
  count(host, h.guest);
  options_.guests->begins(host, h.guest);
}

void World::guest_dies(std::uint32_t host) {
  Host& h = hosts_[host];
  h.guest = 0;
  h.stalled = 0;
  h.held_back.clear();
  quiet_since_ = now_;
  options_.guests->dies(host);
}

void World::guest_ends(std::uint32_t host, std::uint64_t serial) {
  Host& h = hosts_[host];
  if (h.guest != serial) return;
  h.guest = 0;
  h.stalled = 0;
  h.held_back.clear();
  count(host, 0);
  for (Process& process : processes_) {
    if (!process.alive || process.coordinator || process.host != host) continue;
    if (process.over && process.open_calls.empty()) {
      close(process.index);
    } else {
      causes_.began({.fault = Fault::kCrash, .a = host});
      stop_process(process, Death::kReset);
    }
  }
  if (const Duration pause = std::exchange(h.pause, {}); pause.ns != 0) {
    returning_ += 1;
    queue_.push(now_ + pause, What::kWake, kNoProcess, host);
  }
}

void World::wake(std::uint32_t host, std::uint64_t what, Duration after) {
  queue_.push(now_ + after, What::kGuest, kNoProcess, host, what);
}

void World::on_guest_event(const Event& event) {
  Host& h = hosts_[event.a];
  if (h.guest == 0) return;
  if (h.stalled > 0) {
    h.held_back.push_back(event.b);
    return;
  }
  quiet_since_ = now_;
  if (event.b == kIsToLeave) {
    options_.guests->is_to_leave(static_cast<std::uint32_t>(event.a));
  } else {
    options_.guests->wakes(static_cast<std::uint32_t>(event.a), event.b);
  }
}

// ---- processes and their calls ----

std::uint32_t World::open(std::uint32_t host, peer::Options options, std::unique_ptr<Program> program) {
  LOCKSTEP_ASSERT(options_.guests != nullptr && hosts_[host].guest != 0);
  const auto or_beats = [&](Duration& time, std::int64_t beats) {
    if (time.ns == 0) time = plan_.heartbeat * beats;
  };
  or_beats(options.dial_timeout, 10);
  or_beats(options.link_heartbeat, 1);
  or_beats(options.link_silence, 8);
  or_beats(options.link_timeout, 16);
  or_beats(options.abort_grace, 20);
  Process& process = new_process(host, std::move(options));
  begin_process(process, std::move(program));
  return process.index;
}

void World::call(std::uint32_t index, peer::Input input, std::vector<BufferId> buffers) {
  Process& process = processes_[index];
  LOCKSTEP_ASSERT(process.alive);
  Call& call = app_call(index, kind_of(input));
  call.of_guest = true;
  call.told_to_wait = true;
  call.group = process.peer_options.group;
  std::visit(overloaded{
                 [&](peer::Launch& launch) {
                   launch.call = call.id;
                   call.cohort = process.uses.cohort();
                   call.use = process.uses.launch(launch.request.tag);
                   call.segment_bytes = process.peer_options.segment_bytes;
                   give(process, call, launch.request, std::move(buffers));
                   app_launched(call);
                 },
                 [&](peer::Publish& publish) {
                   publish.call = call.id;
                   give(process, call, publish.request, std::move(buffers));
                 },
                 [&](peer::Prefetch& prefetch) {
                   prefetch.call = call.id;
                   give(process, call, prefetch.request, std::move(buffers));
                 },
                 [&](peer::Admit& admit) {
                   admit.call = call.id;
                   call.request.timeout = admit.timeout;
                   call.at_least = admit.at_least;
                 },
                 [&](peer::Leave& leave) {
                   leave.call = call.id;
                   call.request.timeout = leave.timeout;
                   causes_.began({.fault = Fault::kLeave, .a = process.host});
                 },
                 [&](peer::Connect& connect) {
                   connect.call = call.id;
                   call.request.timeout = connect.timeout;
                 },
                 [](auto&) { LOCKSTEP_UNREACHABLE(); },
             },
             input);
  app_command(index, std::move(input));
}

// What checkers judge by: what lies in the memory now.
void World::give(Process& process, Call& call, const peer::Request& request, std::vector<BufferId> buffers) {
  Memory& memory = *process.memory;
  call.request = request;
  call.buffers = std::move(buffers);
  for (const peer::Tensor& tensor : request.tensors) {
    call.inputs.push_back(memory.fingerprint(input_of(request, tensor)));
    call.residuals.push_back(tensor.residual.length > 0 ? memory.fingerprint(tensor.residual) : 0);
  }
  if (request.watch != nullptr) {
    const auto& tensors = request.watch->state->manifest.tensors;
    for (std::size_t t = 0; t < request.watch->memory.size(); ++t) {
      call.watched.push_back(tensors[t].may_differ ? 0 : memory.fingerprint(request.watch->memory[t]));
    }
  }
  if (call.kind == CallKind::kCollective && request.state == nullptr && input_bytes(request) <= kMostGivenBytes) {
    Given& given = call.given.emplace();
    const auto look = [&](const BufferRef& where) {
      return where.length == 0 ? std::vector<std::byte>() : copy_of(memory.look(where));
    };
    for (const peer::Tensor& tensor : request.tensors) {
      given.inputs.push_back(look(input_of(request, tensor)));
      given.residuals.push_back(look(tensor.residual));
    }
    forget_old_inputs(process);
  }
  for (const BufferId id : call.buffers) memory.lend(id);
}

void World::forget_old_inputs(Process& process) {
  if (process.calls.size() <= kCallsWithInputs) return;
  process.calls[process.calls.size() - 1 - kCallsWithInputs].given.reset();
}

// Element by element for the first that ends a round; the others must hold the same.
Complaint World::check_fold(const Process& process, const Call& call, const FindCall& find) {
  const Memory& memory = *process.memory;
  const auto& tensors = call.request.tensors;
  const bool is_same_for_all =
      call.of_guest && call.given && call.outcome->status == Status::kOk &&
      call.request.collective == peer::Collective::kAllReduce &&
      std::ranges::all_of(tensors, [](const peer::Tensor& tensor) { return tensor.residual.length == 0; });
  if (!is_same_for_all) return check_exact_fold(call, memory, find);
  std::vector<std::uint64_t> results;
  results.reserve(tensors.size());
  for (const peer::Tensor& tensor : tensors) results.push_back(memory.fingerprint(tensor.recv));
  const auto known = folded_.find(call.outcome->round);
  if (known != folded_.end() && known->second == results) return {};
  Complaint complaint = check_exact_fold(call, memory, find);
  if (!complaint) folded_.emplace(call.outcome->round, std::move(results));
  return complaint;
}

// Its memory is its program's own again.
void World::end_call_of_guest(Process& process, Call& call) {
  if (!over_) check("S10", check_arguments_kept(call, process.members));
  judged_ = nullptr;
  quiet_since_ = now_;
  for (const BufferId buffer : std::exchange(call.buffers, {})) process.memory->release(buffer);
  process.program->on_complete(call);
}

void World::stop_call(std::uint32_t index, CallId call, const std::string& why) {
  Process& process = processes_[index];
  LOCKSTEP_ASSERT(process.alive);
  if (process.calls[call.value - 1].outcome) return;
  causes_.began({.fault = Fault::kStop, .a = process.host});
  step(process, peer::Input{peer::Stop{call, why}});
}

void World::abandon(std::uint32_t index, const std::string& why) {
  Process& process = processes_[index];
  LOCKSTEP_ASSERT(process.alive);
  causes_.began({.fault = Fault::kAbandon, .a = process.host});
  step(process, peer::Input{peer::Abandon{why}});
}

void World::close(std::uint32_t index) {
  Process& process = processes_[index];
  if (!process.alive) return;
  LOCKSTEP_ASSERT(process.open_calls.empty());
  if (process.over) {
    queue_.push(now_ + plan_.heartbeat * 40, What::kGiveUp, index, 2);
    return;
  }
  causes_.began({.fault = Fault::kCrash, .a = process.host});
  stop_process(process, Death::kReset);
}

peer::Peer::Footprint World::footprint_of(std::uint32_t process) const {
  return processes_[process].alive ? processes_[process].peer->footprint() : peer::Peer::Footprint{};
}

// ---- faults ----

// True: it is done; nothing is to be done for the simulator's own program.
bool World::begin_with_guest(std::uint64_t index) {
  const Entry& entry = plan_.entries[index];
  Active& active = active_[index];
  Host& h = hosts_[entry.a];
  Process* const newest = running(entry.a);
  Process* const process = newest != nullptr && !newest->over && !newest->coordinator ? newest : nullptr;
  switch (entry.fault) {
    case Fault::kCrash:
    case Fault::kVanish: {
      if (h.guest == 0) return true;
      causes_.began(entry);
      report_.kills += 1;
      const Death death = entry.fault == Fault::kCrash ? Death::kReset : Death::kSilence;
      for (Process& p : processes_) {
        if (p.alive && p.host == entry.a) stop_process(p, death);
      }
      h.gone = entry.number != 0;
      guest_dies(entry.a);
      if (entry.length.ns == 0 || h.gone) return true;
      returning_ += 1;
      queue_.push(now_ + entry.length, What::kWake, kNoProcess, entry.a);
      return true;
    }
    case Fault::kStall:
      if (entry.a == 0) return false;
      if (h.guest == 0) return true;
      causes_.began(entry);
      report_.stalls += 1;
      active.on = true;
      active.guest = h.guest;
      active.process = newest != nullptr ? newest->index : kNoProcess;
      h.stalled += 1;
      if (newest != nullptr) stall(*newest, true);
      queue_.push(now_ + entry.length, What::kEntry, kNoProcess, index, 1);
      return true;
    case Fault::kJoin:
      if (h.guest != 0) return true;
      report_.joins += 1;
      start_guest(entry.a);
      return true;
    case Fault::kLeave:
      if (h.guest == 0 || h.pause.ns != 0) return true;
      causes_.began(entry);
      report_.leaves += 1;
      h.pause = entry.length;
      wake(entry.a, kIsToLeave, {});
      return true;
    case Fault::kAbandon:
      if (process != nullptr && process->stalled == 0) {
        report_.kills += 1;
        abandon(process->index, "the nemesis asked for it");
      }
      return true;
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kSkip:
    case Fault::kDrift:
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kSlow:
    case Fault::kKernels:
    case Fault::kSpoil:
    case Fault::kMute:
    case Fault::kStrangers:
    case Fault::kFlip:
    case Fault::kMiscompute: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

void World::guest_wakes(const Entry& entry, const Active& active) {
  Host& h = hosts_[entry.a];
  if (entry.a == 0 || h.guest != active.guest || h.stalled == 0 || --h.stalled > 0) return;
  for (const std::uint64_t what : std::exchange(h.held_back, {})) wake(entry.a, what, nanoseconds(1));
}

// ---- whether anything can still happen ----

bool World::fault_ahead() const {
  if (healed_) return false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].on || (!active_[i].begun && counts_from_start(plan_.entries[i]))) return true;
  }
  return false;
}

Instant World::quiet_until() const {
  Plan plan = plan_;
  std::uint64_t most = 0;
  Instant until;
  for (const Process& process : processes_) {
    for (const std::uint32_t open : process.open_calls) {
      const Call& call = process.calls[open];
      const peer::Request& request = call.request;
      most = std::max(most,
                      request.state != nullptr ? state::staging_bytes(request.state->manifest) : input_bytes(request));
      if (request.timeout.ns > 0) {
        until = std::max(until, call.made + request.timeout + process.peer_options.abort_grace * 2);
      }
    }
  }
  plan.work = {{peer::Collective::kAllGather, most, DataType::kU8}};
  plan.share_state = false;
  plan.watch = false;
  plan.think = {};
  return std::max(until, quiet_since_ + liveness_bound(plan));
}

}  // namespace lockstep::sim
