#include "transport/reactor.h"

#include <exception>
#include <future>
#include <new>
#include <string>

#include "core/base/assert.h"
#include "transport/clock.h"
#include "transport/forks.h"

namespace lockstep::transport {
namespace {

// The longest time that a caller runs handlers before it sleeps: the duration of a collective of a few megabytes. The
// thread wakes up periodically while a caller owns the loop, which must not last for hours.
constexpr std::chrono::milliseconds kCallerTurnsFor(5);

// The longest time that a caller who does not wait runs handlers of others.
constexpr std::chrono::microseconds kCallerBeginsFor(100);

// The reactor that machines share, as long as one of them lives.
struct Shared {
  explicit Shared(std::uint64_t of) : process(of) {}
  const std::uint64_t process;
  std::mutex mutex;
  std::weak_ptr<Reactor> reactor;
};

// That of this process. It is never destroyed, because users may end after static objects. A child of fork() leaves its
// parent's alone: a thread that the child does not have may hold the lock.
Shared& shared_place() {
  static std::atomic<Shared*> latest{nullptr};
  const std::uint64_t process = process_number();
  Shared* found = latest.load(std::memory_order_acquire);
  while (found == nullptr || found->process != process) {
    auto fresh = std::make_unique<Shared>(process);
    if (latest.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  }
  return *found;
}

constexpr std::chrono::microseconds kSharedSpin(50);  // as CommunicatorOptions::spin

}  // namespace

// Gives up the loop at the end of the scope, even after an exception. Then the thread handles other callers' calls.
class Reactor::Releasing {
 public:
  explicit Releasing(Reactor& reactor) : reactor_(reactor) {}
  Releasing(const Releasing&) = delete;
  Releasing& operator=(const Releasing&) = delete;
  ~Releasing() { reactor_.ownership_.release(!reactor_.is_idle()); }

 private:
  Reactor& reactor_;
};

Reactor::Reactor(const char* name, std::chrono::nanoseconds spin) : spin_(spin) {
  thread_.start(name, [this](asio::io_context&) { run(); });
}

Reactor::~Reactor() {
  LOCKSTEP_ASSERT(users_.empty());
  post(Wake::kOwner, [this] {
    ownership_.close();
    io().stop();
  });
  thread_.join();
}

std::shared_ptr<Reactor> Reactor::shared() {
  watch_forks();
  Shared& place = shared_place();
  const std::lock_guard lock(place.mutex);
  auto reactor = place.reactor.lock();
  if (reactor == nullptr || reactor->over()) {
    reactor = std::make_shared<Reactor>("lockstep", kSharedSpin);
    place.reactor = reactor;
  }
  return reactor;
}

void Reactor::attach(User& user) {
  const std::lock_guard lock(mutex_);
  users_.push_back(&user);
}

void Reactor::detach(User& user) {
  ask([] {});
  const std::lock_guard lock(mutex_);
  std::erase(users_, &user);
}

void Reactor::ask(std::function<void()> question) {
  const auto asked = std::make_shared<std::packaged_task<void()>>(std::move(question));
  auto answered = asked->get_future();
  post(Wake::kOwner, [asked] { (*asked)(); });
  while (answered.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (!over()) continue;
    (*asked)();
    break;
  }
  answered.get();
}

void Reactor::run() {
  do {
    guarded([&] {
      Spin spin(spin_, crowd_);
      while ((is_idle() ? io().run_one() : spin.run_one(io())) > 0) {
        if (!call_ended_.load(std::memory_order_relaxed)) continue;
        call_ended_.store(false, std::memory_order_relaxed);
        if (is_idle() && ownership_.yield()) return;
      }
    });
  } while (ownership_.reclaim());
}

void Reactor::run_as_caller(std::chrono::nanoseconds spin_for, const std::function<bool()>& done) {
  const Releasing releasing(*this);
  guarded([&] {
    const auto enough = Clock::now() + kCallerTurnsFor;
    Spin spin(spin_for, crowd_);
    while (!done() && spin.run_one(io(), enough) > 0) {
    }
  });
}

void Reactor::run_ready() {
  if (!ownership_.acquire()) return;
  const std::size_t before = calls_.load(std::memory_order_relaxed);
  guarded([&] {
    const auto enough = Clock::now() + kCallerBeginsFor;
    while (io().poll_one() > 0 && Clock::now() < enough) {
    }
  });
  ownership_.release(calls_.load(std::memory_order_relaxed) > before + 1);  // another thread's call began here, too
}

// A turn fails only for lack of memory. Then the runs of all users are lost, and their callers must learn of it.
template <typename Turn>
void Reactor::guarded(Turn turn) {
  Error why{Status::kInternal, "the engine failed"};
  try {
    return turn();
  } catch (const std::bad_alloc&) {
    why = {Status::kOutOfMemory, "the communicator ran out of memory and has left the run"};
  } catch (const std::exception& error) {
    why.text += std::string(": ") + error.what();
  }
  fail(why);
}

void Reactor::fail(const Error& why) {
  std::vector<User*> users;
  {
    const std::lock_guard lock(mutex_);
    users = users_;
  }
  for (User* const user : users) user->on_failure(why);  // none is gone: detach() waits for the owner of the loop
  over_.store(true, std::memory_order_release);
  ownership_.close();
}

}  // namespace lockstep::transport
