// World, second part: what core asks a driver for.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "core/trace/event.h"
#include "sim/checkers/l1_l4_ends.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/checkers/p2_time.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/checkers/s3_restored.h"
#include "sim/checkers/s4_hands_off.h"
#include "sim/checkers/s8_once.h"
#include "sim/text.h"
#include "sim/world.h"

namespace lockstep::sim {

template <typename Io>
void World::carry_out_io(Process& process, const Io& io) {
  if (options_.trace_streams && options_.trace) tell_io(process, io);
  const std::uint32_t index = process.index;
  if constexpr (std::is_same_v<Io, io::Dial>) {
    network_.dial(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Read>) {
    network_.read(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Write>) {
    network_.write(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Revoke>) {
    network_.revoke(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Close>) {
    network_.close(index, io, now_);
  } else {
    network_.place(index, io);
  }
}

void World::stranger_asks(std::uint32_t process, const io::Effect& effect) {
  std::visit([&](const auto& io) { carry_out_io(processes_[process], io); }, effect);
}

void World::carry_out(Process& process, peer::Effect& effect) {
  std::visit(overloaded{
                 [&](const peer::Resolve&) {
                   queue_.push(now_ + nanoseconds(delay(process, milliseconds(2), Purpose::kResolveDelay)),
                               What::kResolved, process.index);
                 },
                 [&](const peer::Listen&) {
                   queue_.push(now_ + nanoseconds(delay(process, milliseconds(1), Purpose::kResolveDelay)),
                               What::kListening, process.index);
                 },
                 [&](peer::Complete& complete) { completed(process, complete); },
                 [&](const peer::Installed& installed) {
                   mix(11, process.index, installed.view->number.value, installed.view->members.size());
                   if (options_.trace) say(process, "installs " + text_of(*installed.view));
                   if (options_.observe) {
                     std::vector<PeerId> members;
                     for (const wire::Member& member : installed.view->members) members.push_back(member.id);
                     observe(process, "view " + std::to_string(installed.view->number.value) + " cohort " +
                                          std::to_string(installed.view->cohort.value) + " " + people(members));
                   }
                   check("S6", membership_.installed(process.id, installed.view));
                   admissions_.installed(process.host, installed.view->number, now_);
                   while (views_ < installed.view->number.value) begin_entries(&Entry::view, ++views_);
                   newest_cohort_ = std::max(newest_cohort_, installed.view->cohort);
                   causes_.installed(process.index, installed.view);
                   process.connected = true;
                   process.members = installed.view->members.size();
                   look_if_it_waits(process, process.members);
                   process.program->on_view(installed.view);
                   if (options_.guests != nullptr) process.uses.on_view(*installed.view);
                 },
                 [&](const peer::PendingChanged& pending) {
                   mix(12, process.index, pending.count, 0);
                   if (process.pending != pending.count) observe(process, "pending " + std::to_string(pending.count));
                   process.pending = pending.count;
                   process.program->on_pending(pending.count, pending.fetching);
                 },
                 [&](const peer::Progress& progress) {
                   begin_entries(&Entry::piece, ++pieces_);
                   const std::uint64_t index = progress.call.value - 1;
                   const bool goes_on = index < process.calls.size() && !process.calls[index].outcome;
                   if (goes_on && progress.bytes <= progress.of) return process.program->on_progress(progress);
                   check("S8", "progress of call " + std::to_string(progress.call.value) + ", " +
                                   std::to_string(progress.bytes) + " of " + std::to_string(progress.of) +
                                   " bytes: it is over, or this is beyond its end");
                 },
                 [&](const peer::RunOver& over) { run_over(process, over); },
                 [&](const KernelJob& job) { start_job(process, job); },
                 [&](const trace::Event& event) {
                   mix(13, process.index, static_cast<std::uint64_t>(event.kind), event.number);
                   if (options_.trace) say(process, "| " + trace::to_line(event));
                   process.program->on_trace(event);
                   flips_.noted(event);
                   const Complaint wrong = causes_.noted(process.index, event);
                   const bool flipped = wrong && Causes::is_breach(event) && flips_.explains(process.id, event, now_);
                   if (!flipped) check("L2", wrong);
                 },
                 [&](const io::Dial& io) { carry_out_io(process, io); },
                 [&](const io::Read& io) { carry_out_io(process, io); },
                 [&](const io::Write& io) { carry_out_io(process, io); },
                 [&](const io::Revoke& io) { carry_out_io(process, io); },
                 [&](const io::Close& io) { carry_out_io(process, io); },
                 [&](const io::Place& io) { carry_out_io(process, io); },
             },
             effect);
}

void World::carry_out(Process& process, coordinator::Effect& effect) {
  std::visit(overloaded{
                 [&](const trace::Event& event) {
                   mix(14, static_cast<std::uint64_t>(event.kind), event.view.value, event.number);
                   if (options_.trace) say(process, "| " + trace::to_line(event));
                   check("L2", causes_.noted(0, event));
                   if (event.kind == trace::Kind::kPeerLost) one_state_.lost(event.peer);
                 },
                 [&](const io::Read& io) { carry_out_io(process, io); },
                 [&](const io::Write& io) { carry_out_io(process, io); },
                 [&](const io::Revoke& io) { carry_out_io(process, io); },
                 [&](const io::Close& io) { carry_out_io(process, io); },
             },
             effect);
}

void World::tell_io(const Process& process, const io::Effect& effect) {
  const auto id = [](const auto& io) { return "  stream " + std::to_string(io.stream.value); };
  std::visit(
      overloaded{
          [&](const io::Dial& io) { say(process, id(io) + " dial " + io.to.text()); },
          [&](const io::Read& io) {
            say(process, id(io) + " lend for reading: buffer " + std::to_string(io.place.id.value) + " +" +
                             std::to_string(io.place.length) + ", tail " + std::to_string(io.tail.size()));
          },
          [&](const io::Write& io) { say(process, id(io) + " lend for writing " + std::to_string(io.slices.bytes())); },
          [&](const io::Revoke& io) {
            say(process, id(io) + (io.direction == io::Direction::kRead ? " revoke read" : " revoke write"));
          },
          [&](const io::Close& io) { say(process, id(io) + (io.flush_first ? " end" : " close")); },
          [&](const io::Place&) {},
      },
      effect);
}

// ---- kernels ----

void World::start_job(Process& process, const KernelJob& job) {
  std::uint64_t slot = 0;
  while (slot < process.jobs.size() && process.jobs[slot].busy) ++slot;
  if (slot == process.jobs.size()) process.jobs.emplace_back();
  process.jobs[slot] = {job, {}, true, false};
  const std::int64_t for_bytes = static_cast<std::int64_t>(job.from.length / 1024) * plan_.kernel_ns_per_kib;
  const auto factor = static_cast<std::int64_t>(hosts_[process.host].kernel_factor);
  Luck luck(dice_.bits(Purpose::kKernelDelay, process.index, process.draws++));
  const bool busy = luck.permille(plan_.network.busy_permille);
  if (!busy && factor == 1 && for_bytes <= plan_.kernel_delay.ns) {  // little work, as a rule, is done at once
    queue_.push_at_once(now_, What::kJobDone, process.index, slot);
    return;
  }
  const std::int64_t takes = (delay(process, plan_.kernel_delay, Purpose::kKernelDelay) + for_bytes) * factor;
  if (luck.permille(plan_.network.pieces_permille)) {
    const auto runs =
        dice_.range(0, static_cast<std::uint64_t>(takes), Purpose::kPieces, process.index, process.draws++);
    queue_.push(now_ + nanoseconds(static_cast<std::int64_t>(runs)), What::kJobRuns, process.index, slot);
  }
  queue_.push(now_ + nanoseconds(takes + 1), What::kJobDone, process.index, slot);
}

void World::run_job_now(Process& process, std::uint64_t slot) {
  Job& job = process.jobs[slot];
  if (!job.busy || job.ran) return;
  job.result = process.memory->run(job.job);
  job.ran = true;
  if (hosts_[process.host].to_miscompute > 0) miscompute(process, job);
}

// A bit of what a kernel has made flips: of what departs, after its checksum was taken; or of a result that has come, which its
// checksum is found to be that of. Nothing else can be seen by anybody: see checkers/s2_flips.h.
void World::miscompute(Process& process, Job& job) {
  const KernelJob& done = job.job;
  const bool departs = done.kind == JobKind::kFold || done.kind == JobKind::kRecode || done.kind == JobKind::kEncode ||
                       done.kind == JobKind::kGather;
  const bool arrived = done.kind == JobKind::kVerify || done.kind == JobKind::kCheck;
  const BufferRef where = departs ? done.into : done.from;
  if ((!departs && !arrived) || where.length == 0 || where.id == kEarlyBuffer) return;
  if (!job.result.intact || job.result.malformed || job.result.not_finite) return;
  for (const std::uint32_t open : process.open_calls) {
    const Call& call = process.calls[open];
    const peer::Request& request = call.request;
    if (std::find(call.buffers.begin(), call.buffers.end(), where.id) == call.buffers.end()) continue;
    const std::optional<RoundKey> round = round_of(process, call);
    if (call.kind != CallKind::kCollective || request.state != nullptr || !round || *round == RoundKey{}) return;
    if (request.collective == peer::Collective::kReduceScatter && where.id == request.tensors.front().recv.id) return;
    std::uint64_t of_tensors = 0;  // behind them lie contributions
    for (const peer::Tensor& tensor : request.tensors) of_tensors += scratch_bytes(request, tensor);
    if (arrived && where.id == request.scratch.id && where.offset >= of_tensors) return;
    const std::uint64_t luck = dice_.bits(Purpose::kMiscompute, process.index, 1000 + process.draws++);
    const std::uint64_t checksum = process.memory->flip_bit(where, luck);
    if (arrived) job.result.checksum = checksum;
    hosts_[process.host].to_miscompute -= 1;
    say(process, "a bit flips in what a kernel made of " + text_of(*round));
    flips_.in_a_kernel(*round, process.id);
    flips_.may_be_seen(std::uint64_t{8} * plan_.peers * plan_.stripes);
    causes_.began({.fault = Fault::kMiscompute, .a = process.host, .b = process.host});
    return;
  }
}

void World::flipped(std::uint32_t from, std::uint32_t to) {
  if (options_.trace) options_.trace(text_of(now_) + " a bit flips from " + host_words(from) + " to " + host_words(to));
  flips_.on_the_way();
  causes_.began({.fault = Fault::kFlip, .a = from, .b = to});
}

// ---- calls ----

void World::completed(Process& process, peer::Complete& complete) {
  const std::uint64_t index = complete.call.value - 1;
  Call* call = index < process.calls.size() ? &process.calls[index] : nullptr;
  judged_ = call;
  check("S8", check_once(call, process.id, complete.call, complete.outcome));
  if (over_) return;
  call->outcome = std::move(complete.outcome);
  call->ended = now_;
  if (call->kind == CallKind::kAdmit) process.wanted = 0;
  std::erase(process.open_calls, static_cast<std::uint32_t>(index));
  const peer::Outcome& outcome = *call->outcome;
  mix(10 | complete.call.value << 8U, static_cast<std::uint64_t>(outcome.status), outcome.hash, outcome.view.value);
  if (options_.trace) {
    say(process, "call " + std::to_string(complete.call.value) + " ends: " + text_of(outcome) +
                     (call->kind == CallKind::kCollective ? ", " + text_of(outcome.round) : "") +
                     (outcome.contributors ? " of " + text_of(*outcome.contributors) : ""));
  }
  if (options_.observe) {
    observe(process, text_of(*call) + ": " + text_of(outcome) +
                         (outcome.contributors ? " of " + people(*outcome.contributors) : "") +
                         (outcome.retries > 0 ? ", retried " + std::to_string(outcome.retries) + "x" : "") +
                         (call->request.state ? ", now revision " + std::to_string(outcome.revision) + ", " +
                                                    std::to_string(outcome.bytes_received) + " bytes"
                                              : ""));
  }
  if (outcome.status == Status::kOutcomeUnknown) report_.unknown += 1;
  if (!call->buffers.empty()) {
    StreamId stream;
    JobToken job;
    for (const BufferId buffer : call->buffers) {
      if (stream == StreamId{}) stream = network_.lent_to(process.index, buffer);
      for (const Job& j : process.jobs) {
        if (j.busy && (j.job.into.id == buffer || j.job.from.id == buffer || j.job.own.id == buffer ||
                       j.job.residual.id == buffer)) {
          job = j.job.token;
        }
      }
    }
    check("S4", check_loans_are_back(*call, stream, job));
  }
  if (call->kind == CallKind::kAdmit && !healed_) check("L2", check_admission(*call));
  if (call->kind == CallKind::kPrefetch) {
    check("S5", one_state_.ended(*call, *process.memory, [](PeerId, const RoundKey&) { return nullptr; }));
  }
  if (call->kind == CallKind::kCollective) {
    check("S1", one_outcome_.ended(*call, membership_.founding(outcome.round.cohort)));
    check("S6", membership_.ended(*call));
    if (outcome.retries > 0) report_.retries += 1;
    if (outcome.round != RoundKey{} && !is_out(outcome.status)) {
      const bool committed = outcome.status == Status::kOk;
      const bool news = rounds_.emplace(outcome.round, committed).second;
      if (news && committed) begin_entries(&Entry::commit, ++commits_);
    }
    const FindCall find = [&](PeerId peer, const RoundKey& round) { return contribution(peer, round); };
    check("S10", check_mismatch(*call, find));
    const auto lives = [&](PeerId peer) { return !causes_.excuses().life(by_id_.at(peer)).gone(); };
    const auto done = [&](PeerId peer) {
      const Call* const theirs = contribution(peer, outcome.round);
      return theirs != nullptr && theirs->outcome && theirs->outcome->status == Status::kOk;
    };
    if (!over_) check("S2", flips_.ended(*call, causes_.only_bits_flip(), lives, done));
    if (!over_ && !flips_.nobody_compares(*call, lives, done)) check("S2", check_fold(process, *call, find));
    if (!over_) check("S5", one_state_.ended(*call, *process.memory, find));
    const auto name_of_peer = [&](const Call& of) { return processes_[of.process].peer_options.name; };
    if (!over_) check("S5", one_state_.watched(*call, find, name_of_peer));
    const std::uint64_t cohorts =
        std::max(outcome.round.cohort, call->cohort).value - call->cohort.value;  // that it went through
    const wire::View* const founding = membership_.founding(outcome.round.cohort);
    check("P1", check_bytes_sent(*call, causes_.disturbances(*call, founding, find) + cohorts));
    if (!over_ && options_.guests == nullptr) check("P2", check_time_of(process, *call));
    if (!over_ && !healed_) check("P3", check_recovery(*call));
    if (!over_) check("S3", check_restored(*call, *process.memory));
    if (process.app != nullptr && !options_.scripted) {
      check("L2", causes_.aborted(*call, founding, find, process.app->leaving(), is_odd(outcome)));
    }
  }
  if (call->of_guest) return end_call_of_guest(process, *call);
  for (const BufferId buffer : call->buffers) {
    call->at_end.push_back(process.memory->fingerprint(buffer));
    process.memory->take_back(buffer);
  }
  const bool goes_on = call->kind == CallKind::kPrefetch;  // with what is there, into the next sync
  if (!call->buffers.empty() && !goes_on) queue_.push(now_ + plan_.heartbeat * 4, What::kApp, process.index, index, 1);
  check("S10", check_arguments_kept(*call, process.members));
  judged_ = nullptr;
  const bool in_vain = call->kind == CallKind::kConnect && outcome.status != Status::kOk;
  if (in_vain && !process.over && !process.program->leaving()) {
    process.over = true;
    process.over_at = now_;
    queue_.push(now_ + plan_.heartbeat, What::kGiveUp, process.index, 1);
  }
  process.program->on_complete(*call);
}

// What somebody gave to the round, or a kernel made of it, is a cause of this end.
bool World::is_odd(const peer::Outcome& outcome) const {
  if (outcome.status == Status::kInternal) return flips_.explains_internal(outcome.round);
  if (outcome.status != Status::kInvalidArgument) return false;
  const auto same_of_any_group = [&](std::optional<RoundKey> round) {  // gangs bind groups
    if (round) round->group = outcome.round.group;
    return round == outcome.round;
  };
  for (const Process& process : processes_) {
    for (const Call& call : process.calls) {
      if ((call.odd || call.odd_weight) && same_of_any_group(round_of(process, call))) return true;
    }
  }
  return false;
}

// Where lines are known and nothing has gone wrong.
Complaint World::check_time_of(const Process& process, const Call& call) {
  flow::Topology* const topology = network_.topology();
  const peer::Outcome& outcome = *call.outcome;
  if (topology == nullptr || outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  if (outcome.retries > 0) return {};
  RingOfHosts ring{call.made, call.made, {}};
  for (const PeerId peer : *outcome.contributors) {
    const Call* const theirs = contribution(peer, outcome.round);
    if (theirs == nullptr) return {};  // S2 says so
    ring.first_made = std::min(ring.first_made, theirs->made);
    ring.last_made = std::max(ring.last_made, theirs->made);
    ring.hosts.push_back(processes_[theirs->process].host);
  }
  if (!causes_.excuses().calm_since(ring.first_made)) return {};
  TimeLimits limits(plan_, *topology, ring.hosts);
  for (auto other = process.calls.rbegin(); other != process.calls.rend(); ++other) {
    const bool beside = other->kind == CallKind::kCollective && (!other->outcome || other->ended >= ring.first_made);
    if (beside) limits.add(*other, &*other == &call);
  }
  return check_time(call, ring, limits);
}

void World::release(Process& process, std::uint64_t index) {
  Call& call = process.calls[index];
  judged_ = &call;
  check("S4", check_untouched(call, *process.memory));
  judged_ = nullptr;
  for (const BufferId buffer : std::exchange(call.buffers, {})) process.memory->release(buffer);
}

Complaint World::check_recovery(const Call& call) {
  const peer::Outcome& outcome = *call.outcome;
  if (!recovery_.judges() || options_.guests != nullptr || options_.scripted) return {};
  if (outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  Instant last_made = call.made;
  for (const Process& process : processes_) {  // of gangs, in all groups
    RoundKey theirs_key = outcome.round;
    theirs_key.group = process.peer_options.group;
    const Call* const theirs = process.coordinator ? nullptr : contribution(process.id, theirs_key);
    if (theirs != nullptr) last_made = std::max(last_made, theirs->made);
  }
  return recovery_.ended(call, last_made);
}

// Where nobody but newcomers that do not answer can have held it up. Members call it at most once before it ends.
Complaint World::check_admission(const Call& call) {
  if (!admissions_.judges() || options_.guests != nullptr || call.outcome->status != Status::kOk) return {};
  Instant all_called = call.made;
  for (const Process& process : processes_) {
    if (process.coordinator || process.over || !process.alive) continue;
    const auto admit = std::find_if(process.calls.rbegin(), process.calls.rend(), [&](const Call& other) {
      return other.kind == CallKind::kAdmit && (!other.outcome || other.outcome->view == call.outcome->view);
    });
    if (admit == process.calls.rend()) continue;
    if (admit->at_least > 1) return {};
    all_called = std::max(all_called, admit->made);
  }
  return admissions_.ended(call, all_called);
}

void World::run_over(Process& process, const peer::RunOver& over) {
  mix(15, process.index, static_cast<std::uint64_t>(over.status), 0);
  say(process,
      over.left ? "has left" : "loses the run: " + std::string(status_name(over.status)) + " (" + over.text + ")");
  observe(process, "run over: " + std::string(status_name(over.status)) + " (" + over.text + ")");
  if (process.over) {
    fail("S8", text_of(process.id) + " is told twice that the run is over");
    return;
  }
  process.over = true;
  process.over_at = now_;
  if (!process.program->leaving()) {
    report_.lost_runs += 1;
    // A guest may have set a time for its connect, or have ended that.
    const bool gave_up =
        options_.guests != nullptr && (over.status == Status::kTimedOut || over.status == Status::kAborted);
    if (!options_.scripted && !gave_up) check("L2", causes_.lost(process.index, over.status, over.text));
  }
  causes_.over(process.index);
  process.program->on_over(over);
  queue_.push(now_ + plan_.heartbeat, What::kGiveUp, process.index, 1);
}

}  // namespace lockstep::sim
