#include "transport/call.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "transport/clock.h"
#include "transport/work.h"

namespace lockstep::transport {
namespace {

// Nothing: for ever. Years are as good as that, and do not overflow.
std::optional<Clock::time_point> until(std::optional<Duration> timeout) {
  constexpr Duration kYears = seconds(100'000'000);
  if (!timeout || *timeout > kYears) return std::nullopt;
  return Clock::now() + to_chrono(*timeout);
}

// Whether `condition` came true in time.
template <typename Condition>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                std::optional<Clock::time_point> deadline, Condition condition) {
  if (deadline) return changed.wait_until(lock, *deadline, condition);
  changed.wait(lock, condition);
  return true;
}

}  // namespace

void Bell::ring() {
  const std::lock_guard lock(mutex);
  has_rung = true;
  rang.notify_all();
}

bool Call::wait(std::optional<Duration> timeout) {
  if (over()) return true;
  if (Waiter* const waiter = this->waiter()) return waiter->wait([&] { return over(); }, timeout);
  const auto deadline = until(timeout);
  std::unique_lock lock(mutex_);
  return wait_until(ended_, lock, deadline, [&] { return over(); });
}

const peer::Outcome& Call::outcome() const {
  LOCKSTEP_ASSERT(over());
  return outcome_;
}

Duration Call::elapsed() const {
  LOCKSTEP_ASSERT(over());
  return ended_at_ - began_;
}

Progress Call::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void Call::set_progress(Progress progress) {
  const std::lock_guard lock(mutex_);
  progress_ = progress;
}

void Call::complete(peer::Outcome outcome) {
  std::vector<std::shared_ptr<Bell>> bells;
  {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_ASSERT(!over());
    outcome_ = std::move(outcome);
    ended_at_ = waiter_ != nullptr ? waiter_->now() : now();
    over_.store(true, std::memory_order_release);
    bells.swap(bells_);
  }
  ended_.notify_all();  // not under the lock: whoever wakes up wants it at once
  for (const auto& bell : bells) bell->ring();
}

bool Call::hang(const std::shared_ptr<Bell>& bell) {
  const std::lock_guard lock(mutex_);
  if (over()) return false;
  bells_.push_back(bell);
  return true;
}

void Call::unhang(const std::shared_ptr<Bell>& bell) {
  const std::lock_guard lock(mutex_);
  std::erase(bells_, bell);
}

CallId Work::id() const { return call_ ? call_->id() : CallId{}; }

bool Work::test() const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  return call_->over();
}

bool Work::wait(std::optional<Duration> timeout) const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  return call_->wait(timeout);
}

Progress Work::progress() const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  return call_->progress();
}

const Outcome& Work::outcome() const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  return call_->outcome();
}

Duration Work::elapsed() const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  return call_->elapsed();
}

std::optional<std::size_t> wait_any(std::span<const Work> works, std::optional<Duration> timeout) {
  const auto first_over = [&]() -> std::optional<std::size_t> {
    const auto found = std::ranges::find_if(works, [](const Work& work) { return work.test(); });
    if (found == works.end()) return std::nullopt;
    return static_cast<std::size_t>(found - works.begin());
  };
  if (works.empty()) return std::nullopt;
  if (const auto found = first_over()) return found;
  if (Waiter* const waiter = works.front().call_->waiter()) {
    waiter->wait([&] { return first_over().has_value(); }, timeout);
    return first_over();
  }

  const auto deadline = until(timeout);
  const auto bell = std::make_shared<Bell>();
  bool all_hang = true;
  for (const Work& work : works) all_hang = work.call_->hang(bell) && all_hang;
  if (all_hang) {
    std::unique_lock lock(bell->mutex);
    wait_until(bell->rang, lock, deadline, [&] { return bell->has_rung; });
  }
  for (const Work& work : works) work.call_->unhang(bell);
  return first_over();
}

}  // namespace lockstep::transport
