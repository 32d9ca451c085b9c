#include "transport/call.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "transport/clock.h"
#include "transport/reactor.h"
#include "transport/work.h"

namespace lockstep::transport {
namespace {

// Returns nothing (wait forever) for timeouts of many years, which would overflow a time point.
std::optional<Clock::time_point> until(std::optional<Duration> timeout) {
  constexpr Duration kYears = seconds(100'000'000);
  if (!timeout || *timeout > kYears) return std::nullopt;
  return Clock::now() + to_chrono(*timeout);
}

// A thread that waits runs the engine for less than this. A wait that ends sooner does not run it.
constexpr Duration kRunsTheEngine = milliseconds(10);

// Waits until `condition` holds. Releases `lock` while it calls `interrupted`.
template <typename Condition>
Waited sleep(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             std::optional<Clock::time_point> deadline, Interrupted interrupted, Condition condition) {
  if (interrupted == nullptr && !deadline) {
    changed.wait(lock, condition);
    return Waited::kOver;
  }
  for (;;) {
    auto wake = deadline;
    if (interrupted != nullptr) wake = std::min(Clock::now() + kAskEvery, deadline.value_or(Clock::time_point::max()));
    if (changed.wait_until(lock, *wake, condition)) return Waited::kOver;
    if (interrupted == nullptr || wake == deadline) return Waited::kTimedOut;
    lock.unlock();
    if (interrupted()) return Waited::kInterrupted;
    lock.lock();
  }
}

}  // namespace

void Bell::ring() {
  const std::lock_guard lock(mutex);
  has_rung = true;
  rang.notify_all();
}

Waited Call::wait(std::optional<Duration> timeout, Interrupted interrupted) {
  if (over()) return Waited::kOver;
  if (Waiter* const waiter = this->waiter()) {
    return waiter->wait([&] { return over(); }, timeout) ? Waited::kOver : Waited::kTimedOut;
  }
  const auto deadline = until(timeout);
  if (!run_engine([this] { return over(); }, timeout)) return Waited::kTimedOut;
  std::unique_lock lock(mutex_);
  return sleep(ended_, lock, deadline, interrupted, [&] { return over(); });
}

bool Call::run_engine(const std::function<bool()>& done, std::optional<Duration> timeout) const {
  if (timeout && *timeout <= Duration{0}) return false;
  if (timeout && *timeout <= kRunsTheEngine) return true;
  if (const auto reactor = runner_.reactor.lock()) reactor->run_until(runner_.spin, done);
  return true;
}

void Call::go_on() const {
  if (const auto reactor = runner_.reactor.lock()) reactor->call_thread();
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
  std::vector<Ended> to_tell;
  {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_ASSERT(!over());
    outcome_ = std::move(outcome);
    ended_at_ = waiter_ != nullptr ? waiter_->now() : now();
    over_.store(true, std::memory_order_release);
    bells.swap(bells_);
    to_tell.swap(to_tell_);
    telling_ = !to_tell.empty();
  }
  ended_.notify_all();  // without the lock, which a woken thread needs at once
  for (const auto& bell : bells) bell->ring();
  if (to_tell.empty()) return;
  for (const Ended& ended : to_tell) ended.function(ended.user);
  const std::lock_guard lock(mutex_);
  telling_ = false;
  ended_.notify_all();
}

void Call::notify(Ended ended) {
  {
    const std::lock_guard lock(mutex_);
    if (!over()) return to_tell_.push_back(ended);
  }
  ended.function(ended.user);
}

void Call::wait_until_told() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return over() && !telling_; });
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

bool Work::wait(std::optional<Duration> timeout) const { return wait(timeout, nullptr) == Waited::kOver; }

Waited Work::wait(std::optional<Duration> timeout, Interrupted interrupted) const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  return call_->wait(timeout, interrupted);
}

void Work::notify(Ended ended) const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  call_->notify(ended);
}

void Work::go_on() const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  call_->go_on();
}

void Work::wait_until_told() const {
  LOCKSTEP_ASSERT(call_ != nullptr);
  call_->wait_until_told();
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

const std::string& Work::congestion_control() const {
  LOCKSTEP_ASSERT(call_ != nullptr && call_->over());
  return call_->sending.congestion_control;
}

std::uint32_t Work::streams() const {
  LOCKSTEP_ASSERT(call_ != nullptr && call_->over());
  return call_->sending.streams;
}

Waited wait_any(std::span<const Work> works, std::optional<Duration> timeout, Interrupted interrupted,
                std::size_t& first) {
  const auto one_is_over = [&] {
    const auto found = std::ranges::find_if(works, [](const Work& work) { return work.test(); });
    first = static_cast<std::size_t>(found - works.begin());
    return found != works.end();
  };
  if (works.empty()) return Waited::kTimedOut;
  if (one_is_over()) return Waited::kOver;
  if (Waiter* const waiter = works.front().call_->waiter()) {
    return waiter->wait(one_is_over, timeout) ? Waited::kOver : Waited::kTimedOut;
  }

  const auto deadline = until(timeout);
  if (!works.front().call_->run_engine(one_is_over, timeout)) return Waited::kTimedOut;
  const auto bell = std::make_shared<Bell>();
  bool all_hang = true;
  for (const Work& work : works) all_hang = work.call_->hang(bell) && all_hang;
  Waited waited = Waited::kOver;
  if (all_hang) {
    std::unique_lock lock(bell->mutex);
    waited = sleep(bell->rang, lock, deadline, interrupted, [&] { return bell->has_rung; });
  }
  for (const Work& work : works) work.call_->unhang(bell);
  return one_is_over() && waited != Waited::kInterrupted ? Waited::kOver : waited;
}

}  // namespace lockstep::transport
