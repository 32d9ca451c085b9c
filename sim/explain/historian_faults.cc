// Faults as moments of the history, and the faults that are to blame for the failure.
#include <algorithm>
#include <utility>

#include "sim/explain/historian.h"
#include "sim/explain/phrases.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostBlamed = 4;  // faults, for one silence

// Promises that break because something did not happen, or because the process died in a step: no message leads from a
// fault to the failure, so faults are blamed.
bool what_does_not_happen(const std::string& promise) {
  return promise.starts_with("L") || promise == "crash" || promise == "limit";
}

}  // namespace

// Silence has no sender: whatever was done to one of the two is why nothing was heard.
void Historian::blame_faults(std::uint32_t host, std::uint32_t other) {
  std::size_t blamed = 0;
  for (auto fault = history_.faults.rbegin(); fault != history_.faults.rend() && blamed < kMostBlamed; ++fault) {
    const bool touches = std::any_of(fault->hosts.begin(), fault->hosts.end(),
                                     [&](std::uint32_t h) { return h != 0 && (h == host || h == other); });
    if (!fault->lossy || !touches) continue;
    because(fault->moment, Because::kFault);
    blamed += 1;
  }
}

void Historian::fault_begins(std::uint64_t entry, const Entry& fault) {
  FaultSpan span;
  span.name = sim::name_of(fault.fault);
  span.text = text_of_fault(fault);
  span.entry = entry;
  span.hosts.push_back(fault.a);
  if (is_of_pair(fault.fault)) span.hosts.push_back(fault.b);
  span.lossy = may_lose_members(fault.fault);
  span.began_ns = now_.ns;
  span.ended_ns = fault.length.ns == 0 || !span.lossy || fault.fault == Fault::kReset ? now_.ns : -1;
  if (fault.fault == Fault::kSilence) span.ended_ns = -1;
  if (fault.fault == Fault::kCrash || fault.fault == Fault::kVanish || fault.fault == Fault::kLeave ||
      fault.fault == Fault::kAbandon) {
    span.ended_ns = now_.ns;  // its lane shows the rest
  }
  if (fault.fault == Fault::kSlow || fault.fault == Fault::kKernels) span.ended_ns = -1;
  Moment moment;
  moment.spark = Spark::kFault;
  moment.ins.push_back("fault: " + span.text);
  nemesis_ = span.moment = add(std::move(moment));
  const bool misuse = fault.fault == Fault::kTimeout || fault.fault == Fault::kMismatch ||
                      fault.fault == Fault::kRefuse || fault.fault == Fault::kSkip;
  if (misuse) misused_[fault.a] = span.moment;
  fault_of_entry_[entry] = history_.faults.size();
  history_.faults.push_back(std::move(span));
}

void Historian::fault_ends(std::uint64_t entry, const Entry&) {
  const auto known = fault_of_entry_.find(entry);
  if (known == fault_of_entry_.end()) return;
  FaultSpan& span = history_.faults[known->second];
  span.ended_ns = now_.ns;
  Moment moment;
  moment.spark = Spark::kFault;
  moment.ins.push_back("fault ends: " + span.text);
  moment.causes.push_back({span.moment, Because::kFault});
  nemesis_ = add(std::move(moment));
}

void Historian::heals() {
  history_.healed_ns = now_.ns;
  Moment moment;
  moment.spark = Spark::kFault;
  moment.ins.emplace_back("faults stop, the network heals");
  nemesis_ = add(std::move(moment));
}

// ---- the end ----

void Historian::failed(const Failure& failure, const Call* about) {
  history_.failure = failure;
  history_.failure->text = names_.plain(failure.text);
  Moment moment;
  moment.spark = Spark::kFailure;
  moment.ins.push_back(failure.promise + " broken: " + history_.failure->text);
  const auto add_cause = [&](MomentId id, Because why = Because::kState) {
    const bool known =
        std::any_of(moment.causes.begin(), moment.causes.end(), [&](const Cause& cause) { return cause.moment == id; });
    if (id != kNoMoment && !known) moment.causes.push_back({id, why});
  };
  if (step_) {
    add_cause(tell());
    moment.lane = step_->process;
  } else if (origin_.moment != kNoMoment) {
    add_cause(origin_.moment);
    moment.lane = history_.moments[origin_.moment].lane;
  }
  if (about != nullptr) {
    moment.lane = about->process;
    std::string subject = kMembershipSubject;
    const auto known = processes_[about->process].bars.find(about->id.value);
    if (known != processes_[about->process].bars.end()) {
      const Bar& bar = history_.calls[known->second];
      add_cause(bar.made);
      if (!bar.round.empty()) subject = bar.round;
    }
    for (const Process& process : processes_) {  // what each ledger has last about it
      const auto last = process.last.find(index_of(subject));
      if (last != process.last.end()) add_cause(last->second);
    }
  }
  if (what_does_not_happen(failure.promise)) {
    std::size_t blamed = 0;
    for (auto fault = history_.faults.rbegin(); fault != history_.faults.rend() && blamed < kMostBlamed; ++fault) {
      if (!fault->lossy) continue;
      add_cause(fault->moment, Because::kFault);
      blamed += 1;
    }
  }
  if (moment.lane != kNoLane) moment.before = moment.after = processes_[moment.lane].state;
  history_.failed = add(std::move(moment));
}

History Historian::finish(std::optional<Failure> crash) {
  if (crash) {
    step_.reset();
    failed(*crash, nullptr);
  }
  history_.ended_ns = now_.ns;
  if (history_.failed != kNoMoment) {  // a promise breaks in the midst of a step
    Moment& failure = history_.moments[history_.failed];
    if (failure.lane != kNoLane) failure.after = processes_[failure.lane].state;
  }
  std::vector<bool> loud(history_.moments.size());
  for (const Sent& message : history_.messages) {
    if (message.type == "Heartbeat") continue;
    if (message.from != kNoMoment) loud[message.from] = true;
    if (message.to != kNoMoment) loud[message.to] = true;
  }
  for (MomentId id = 0; id < history_.moments.size(); ++id) {
    Moment& moment = history_.moments[id];
    const bool may_be = moment.spark == Spark::kTimer || moment.spark == Spark::kMessage;
    moment.quiet = may_be && !loud[id] && moment.outs.empty();
  }
  return std::move(history_);
}

}  // namespace lockstep::sim
