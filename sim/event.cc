#include "sim/event.h"

#include <algorithm>

#include "core/base/assert.h"

namespace lockstep::sim {
namespace {

bool later(const Event& left, const Event& right) {
  if (left.at != right.at) return left.at > right.at;
  return left.tie > right.tie;
}

}  // namespace

std::string_view name_of(What what) {
  switch (what) {
    case What::kArrive: return "arrive";
    case What::kSyn: return "syn";
    case What::kDialExpires: return "dial-expires";
    case What::kLand: return "land";
    case What::kTold: return "told";
    case What::kTake: return "take";
    case What::kTaken: return "taken";
    case What::kRevoked: return "revoked";
    case What::kClosed: return "closed";
    case What::kOpened: return "opened";
    case What::kAccepted: return "accepted";
    case What::kTimer: return "timer";
    case What::kJobRuns: return "job-runs";
    case What::kJobDone: return "job-done";
    case What::kResolved: return "resolved";
    case What::kListening: return "listening";
    case What::kApp: return "app";
    case What::kWake: return "wake";
    case What::kEntry: return "entry";
    case What::kHeal: return "heal";
    case What::kGiveUp: return "give-up";
  }
  LOCKSTEP_UNREACHABLE();
}

void EventQueue::push(Instant at, What what, std::uint32_t process, std::uint64_t a, std::uint64_t b) {
  heap_.push_back({at.ns, dice_.bits(Purpose::kTie, pushed_++), a, b, process, what});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

Event EventQueue::pop() {
  LOCKSTEP_ASSERT(!heap_.empty());
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  return event;
}

}  // namespace lockstep::sim
