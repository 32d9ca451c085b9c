#include "sim/search/sweep.h"

#include <utility>

#include "core/base/assert.h"

namespace lockstep::sim {

std::vector<Entry> single_faults(const Plan& plan) {
  const Duration pause = plan.heartbeat * 2;     // short enough that no peer is lost
  const Duration absence = plan.heartbeat * 10;  // longer than the silence time-out
  std::vector<Entry> faults;
  const auto add = [&](Fault fault, std::uint32_t a, std::uint32_t b, Duration length) {
    Entry entry;
    entry.fault = fault;
    entry.a = a;
    entry.b = b;
    entry.length = length;
    faults.push_back(entry);
  };
  for (std::uint32_t host = 1; host <= plan.peers; ++host) {
    add(Fault::kCrash, host, 0, {});
    add(Fault::kCrash, host, 0, plan.heartbeat / 4);  // back before others have noticed by silence
    add(Fault::kVanish, host, 0, {});
    add(Fault::kStall, host, 0, pause);
    add(Fault::kStall, host, 0, absence);
    add(Fault::kReset, host, host, {});
    add(Fault::kLeave, host, 0, {});
    add(Fault::kStop, host, 0, {});
    add(Fault::kAbandon, host, 0, {});
    add(Fault::kMute, host, 0, absence);
    add(Fault::kShut, host, 0, absence);
    add(Fault::kMiscompute, host, 0, {});
    if (plan.state.shared) add(Fault::kSpoil, host, 0, absence);
    if (plan.state.watch) add(Fault::kDrift, host, 0, {});
  }
  add(Fault::kStall, 0, 0, pause);  // the coordinator
  for (std::uint32_t a = 0; a <= plan.peers; ++a) {
    for (std::uint32_t b = 0; b <= plan.peers; ++b) {
      if (a == b) continue;
      add(Fault::kCut, a, b, absence);
      if (a > 0 && b > 0) add(Fault::kFlip, a, b, {});
      if (a < b) add(Fault::kSilence, a, b, {});
      if (a < b) add(Fault::kReset, a, b, {});
      if (a + 1 == b || b == 0) add(Fault::kStrangers, a, b, absence);
    }
  }
  for (Entry& entry : faults) {
    if (entry.fault == Fault::kReset) entry.number = 1;
    if (entry.fault == Fault::kStrangers) entry.number = 8;
    LOCKSTEP_ASSERT(validate_entry(plan, entry).empty());
  }
  return faults;
}

Sweep::Sweep(const Plan& plan, std::uint64_t events, std::uint64_t stride)
    : Sweep(plan, events, stride, single_faults(plan)) {}

Sweep::Sweep(Plan plan, std::uint64_t events, std::uint64_t stride, std::vector<Entry> faults)
    : plan_(std::move(plan)), stride_(stride), moments_((events + stride - 1) / stride), faults_(std::move(faults)) {
  plan_.expect = {};  // of the plan as it is, not of one with another fault
  LOCKSTEP_ASSERT(stride > 0);
}

Entry Sweep::entry(std::uint64_t index) const {
  LOCKSTEP_ASSERT(index < size());
  Entry entry = faults_[index % faults_.size()];
  entry.event = 1 + index / faults_.size() * stride_;
  return entry;
}

Plan Sweep::plan(std::uint64_t index) const {
  Plan plan = plan_;
  plan.entries.push_back(entry(index));
  return plan;
}

std::string Sweep::name(std::uint64_t index) const {
  const Entry e = entry(index);
  std::string text(name_of(e.fault));
  text += " of " + std::to_string(e.a);
  if (is_of_pair(e.fault)) text += (e.fault == Fault::kCut ? " -> " : " and ") + std::to_string(e.b);
  return text + " at event " + std::to_string(e.event);
}

}  // namespace lockstep::sim
