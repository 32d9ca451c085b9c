#include "sim/world/kernels.h"

#include <algorithm>
#include <optional>

#include "core/ring/schedule.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

void Kernels::start(SimProcess& process, const KernelJob& job) {
  std::uint64_t slot = 0;
  while (slot < process.jobs.size() && process.jobs[slot].busy) ++slot;
  if (slot == process.jobs.size()) process.jobs.emplace_back();
  process.jobs[slot] = {job, {}, now_, true, false};
  const std::int64_t for_bytes =
      static_cast<std::int64_t>(memory_of(job.work).from.length / 1024) * plan_.delays.kernel_ns_per_kib;
  const auto factor = static_cast<std::int64_t>(cast_.hosts[process.host].kernel_factor);
  Luck luck(dice_.bits(Purpose::kKernelDelay, process.index, process.draws++));
  const bool busy = luck.permille(plan_.network.busy_permille);
  if (!busy && factor == 1 && for_bytes <= plan_.delays.kernel.ns) {  // little work, as a rule, is done at once
    queue_.push_at_once(now_, What::kJobDone, process.index, slot);
    return;
  }
  const std::int64_t takes =
      (draw_delay(dice_, process, plan_.delays.kernel, Purpose::kKernelDelay) + for_bytes) * factor;
  if (luck.permille(plan_.network.pieces_permille)) {
    const auto runs =
        dice_.range(0, static_cast<std::uint64_t>(takes), Purpose::kPieces, process.index, process.draws++);
    queue_.push(now_ + nanoseconds(static_cast<std::int64_t>(runs)), What::kJobRuns, process.index, slot);
  }
  queue_.push(now_ + nanoseconds(takes + 1), What::kJobDone, process.index, slot);
}

void Kernels::run_now(SimProcess& process, std::uint64_t slot) {
  KernelRun& job = process.jobs[slot];
  if (!job.busy || job.ran) return;
  job.result = process.memory->run(job.job);
  job.ran = true;
  if (cast_.hosts[process.host].to_miscompute > 0) miscompute(process, job);
}

// A bit flips in a kernel's output or in an input, as if the program wrote to a buffer of the call: in a segment that
// the peer sends, after its checksum was computed; or in a result that the checksum has confirmed. No other flip can be
// detected by anyone: see checkers/s2_flips.h. An input is spared in token mode: a later attempt may cut it in other
// segments, and nobody knows the bytes of a part of a token that was changed.
void Kernels::miscompute(SimProcess& process, KernelRun& job) {
  const JobWork& done = job.job.work;
  const bool is_input = std::holds_alternative<HashJob>(done) && process.memory->mode() == Mode::kBytes;
  const bool departs = is_input || std::holds_alternative<FoldJob>(done) || std::holds_alternative<RecodeJob>(done) ||
                       std::holds_alternative<EncodeJob>(done) || std::holds_alternative<GatherJob>(done) ||
                       std::holds_alternative<FoldAllJob>(done);
  const auto* const verified = std::get_if<VerifyJob>(&done);
  const bool arrived = (verified != nullptr && !verified->again) || std::holds_alternative<CheckJob>(done);
  const JobMemory memory = memory_of(done);
  const BufferRef where = departs && !is_input ? memory.into : memory.from;
  if ((!departs && !arrived) || where.length == 0 || where.id == kEarlyBuffer) return;
  if (!job.result.intact || job.result.malformed || job.result.not_finite) return;
  for (const std::uint32_t open : process.caller.open_calls) {
    Call& call = process.caller.calls[open];
    const ring::Request& request = call.request;
    if (std::find(call.buffers.begin(), call.buffers.end(), where.id) == call.buffers.end()) continue;
    const std::optional<RoundKey> round = Cast::round_of(process, call);
    if (call.kind != CallKind::kCollective || request.state != nullptr || !round || *round == RoundKey{}) return;
    const auto is_result = [&](const ring::Tensor& tensor) { return where.id == tensor.recv.id; };
    const bool differ = ring::results_differ(request.collective);
    if (differ && std::ranges::any_of(request.tensors, is_result)) return;
    std::uint64_t of_tensors = 0;
    for (const ring::Tensor& tensor : request.tensors) of_tensors += scratch_bytes(request, tensor);
    const bool in_scratch = where.id == request.scratch.id;
    if (arrived && in_scratch && (differ || where.offset >= of_tensors)) return;  // there lie contributions
    const std::uint64_t luck = dice_.bits(Purpose::kMiscompute, process.index, 1000 + process.draws++);
    const std::uint64_t checksum = process.memory->flip_bit(where, luck);
    if (arrived) job.result.checksum = checksum;
    call.data.rewritten = call.data.rewritten || is_input;
    cast_.hosts[process.host].to_miscompute -= 1;
    chronicle_.say(process, std::string("a bit flips in ") + (is_input ? "the input of " : "what a kernel made of ") +
                                text_of(*round));
    // The round has moved to a new cohort since (rule 21): nothing may use what the given-up attempt has made.
    if (round->cohort == process.known.cohort && job.started < process.known.cohort_since) return;
    const ViewNumber founded{round->cohort.value};
    const ViewNumber launched = call.view ? std::max(founded, call.view->number) : founded;
    checkers_.flips.in_a_kernel(*round, process.id, process.host,
                                checkers_.flips.attempt_of(process.id, *round, launched, job.started), departs);
    // Each receiver refuses it three times: in a ring the next peer, otherwise all others.
    const std::uint64_t receivers = oracle::asked(request) == wire::Algorithm::kRing ? 1 : plan_.peers - 1;
    checkers_.flips.may_be_seen(3 * receivers);
    checkers_.causes.began({.fault = Fault::kMiscompute, .a = process.host, .b = process.host});
    return;
  }
}

}  // namespace lockstep::sim
