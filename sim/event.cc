#include "sim/event.h"

#include <algorithm>

#include "core/base/assert.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kChildren = 4;

bool before(const Event& left, const Event& right) {
  return left.at != right.at ? left.at < right.at : left.tie < right.tie;
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
  const Event event{at.ns, dice_.bits(Purpose::kTie, pushed_++), a, b, process, what};
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kChildren;
    if (!before(event, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

Event EventQueue::pop() {
  LOCKSTEP_ASSERT(!heap_.empty());
  const Event top = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) return top;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < size; child = kChildren * hole + 1) {
    const std::size_t end = std::min(child + kChildren, size);
    std::size_t first = child;
    for (std::size_t other = child + 1; other < end; ++other) {
      if (before(heap_[other], heap_[first])) first = other;
    }
    if (!before(heap_[first], last)) break;
    heap_[hole] = heap_[first];
    hole = first;
  }
  heap_[hole] = last;
  return top;
}

}  // namespace lockstep::sim
