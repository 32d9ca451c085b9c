#include "sim/engine/event.h"

#include <algorithm>

#include "core/base/assert.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kChildren = 4;
constexpr std::int64_t kFar = 1'000'000;  // longer than most deliveries take

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
    case What::kFlow: return "flow";
    case What::kGuest: return "guest";
  }
  LOCKSTEP_UNREACHABLE();
}

void EventHeap::push(const Event& event) {
  std::size_t hole = events_.size();
  events_.push_back(event);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kChildren;
    if (!before(event, events_[parent])) break;
    events_[hole] = events_[parent];
    hole = parent;
  }
  events_[hole] = event;
}

Event EventHeap::pop() {
  const Event top = events_.front();
  const Event last = events_.back();
  events_.pop_back();
  const std::size_t size = events_.size();
  if (size == 0) return top;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < size; child = kChildren * hole + 1) {
    const std::size_t end = std::min(child + kChildren, size);
    std::size_t first = child;
    for (std::size_t other = child + 1; other < end; ++other) {
      if (before(events_[other], events_[first])) first = other;
    }
    if (!before(events_[first], last)) break;
    events_[hole] = events_[first];
    hole = first;
  }
  events_[hole] = last;
  return top;
}

void EventQueue::push(Instant at, What what, std::uint32_t process, std::uint64_t a, std::uint64_t b) {
  EventHeap& heap = at.ns - now_ > kFar ? far_ : near_;
  const Event event{at.ns, mix64(ties_ ^ pushed_++), a, b, process, what};
  if (witness_ != nullptr) witness_->queued(event);
  heap.push(event);
}

void EventQueue::push_at_once(Instant now, What what, std::uint32_t process, std::uint64_t a, std::uint64_t b) {
  at_once_.push_back({now.ns, ++at_once_pushed_, a, b, process, what});
  if (witness_ != nullptr) witness_->queued(at_once_.back());
}

void EventQueue::push_next(Instant now, What what, std::uint32_t process, std::uint64_t a, std::uint64_t b) {
  const Event event{now.ns, ++at_once_pushed_, a, b, process, what};
  if (witness_ != nullptr) witness_->queued(event);
  at_once_.insert(at_once_.begin() + static_cast<std::ptrdiff_t>(first_), event);
}

bool EventQueue::far_is_next() const { return !far_.empty() && (near_.empty() || before(far_.top(), near_.top())); }

Event EventQueue::pop() {
  LOCKSTEP_ASSERT(!empty());
  if (!at_once_.empty()) {
    const Event next = at_once_[first_++];
    if (first_ == at_once_.size()) {
      at_once_.clear();
      first_ = 0;
    }
    return next;
  }
  const Event next = (far_is_next() ? far_ : near_).pop();
  now_ = next.at;
  return next;
}

}  // namespace lockstep::sim
