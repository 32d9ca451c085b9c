// Many threads wait for calls.
#include "transport/call.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "transport/work.h"

namespace lockstep::transport {
namespace {

peer::Outcome ended(Status status) {
  peer::Outcome outcome;
  outcome.status = status;
  return outcome;
}

TEST(Work, TimesOutWhileTheCallGoesOn) {
  const auto call = std::make_shared<Call>(CallId{7});
  const Work work(call);
  EXPECT_EQ(work.id(), CallId{7});
  EXPECT_FALSE(work.test());
  EXPECT_FALSE(work.wait(Duration{0}));
  EXPECT_FALSE(work.wait(milliseconds(1)));
  call->complete(ended(Status::kPeerLost));
  EXPECT_TRUE(work.test());
  EXPECT_TRUE(work.wait());
  EXPECT_TRUE(work.wait(Duration{INT64_MAX}));
  EXPECT_EQ(work.outcome().status, Status::kPeerLost);
}

TEST(Work, TheEndWakesEveryWaitingThread) {
  const auto call = std::make_shared<Call>(CallId{1});
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, work = Work(call)] {
      work.wait();
      if (work.outcome().status == Status::kAborted) ++woken;
    });
  }
  call->complete(ended(Status::kAborted));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, 8);
}

TEST(Work, WaitAnyReturnsTheFirstCallThatIsOver) {
  std::vector<std::shared_ptr<Call>> calls;
  std::vector<Work> works;
  for (std::uint64_t i = 0; i < 4; ++i) {
    calls.push_back(std::make_shared<Call>(CallId{i + 1}));
    works.emplace_back(calls.back());
  }
  EXPECT_EQ(wait_any({}), std::nullopt);
  EXPECT_EQ(wait_any(works, milliseconds(1)), std::nullopt);
  std::thread other([&] { calls[2]->complete(ended(Status::kOk)); });
  EXPECT_EQ(wait_any(works), 2U);
  other.join();
  calls[0]->complete(ended(Status::kOk));
  EXPECT_EQ(wait_any(works, Duration{0}), 0U);
}

TEST(Work, EveryNotificationIsDeliveredOnce) {
  const auto call = std::make_shared<Call>(CallId{1});
  const Work work(call);
  int told = 0;
  const Ended count{[](void* user) { ++*static_cast<int*>(user); }, &told};
  work.notify(count);
  work.notify(count);
  EXPECT_EQ(told, 0);
  call->complete(ended(Status::kOk));
  work.wait_until_told();
  EXPECT_EQ(told, 2);
  work.notify(count);
  EXPECT_EQ(told, 3) << "it is over";
}

TEST(Work, WaitUntilToldWaitsForAllNotifications) {
  const auto call = std::make_shared<Call>(CallId{1});
  const Work work(call);
  std::atomic<bool> asleep{true};
  std::atomic<bool> told{false};
  struct Both {
    std::atomic<bool>& asleep;
    std::atomic<bool>& told;
  } both{asleep, told};
  work.notify({[](void* user) {
                 const auto& flags = *static_cast<Both*>(user);
                 while (flags.asleep) std::this_thread::yield();
                 flags.told = true;
               },
               &both});
  std::thread ending([&] { call->complete(ended(Status::kOk)); });
  EXPECT_TRUE(work.wait()) << "others do not wait for who is told";
  EXPECT_FALSE(told);
  asleep = false;
  work.wait_until_told();
  EXPECT_TRUE(told);
  ending.join();
}

// The remaining calls of the interrupt function on this thread until it returns true.
thread_local int questions_until_interrupted = 0;
bool count_down() { return --questions_until_interrupted == 0; }

TEST(Work, AWaitIsInterrupted) {
  const auto call = std::make_shared<Call>(CallId{1});
  const Work work(call);
  const auto began = now();
  questions_until_interrupted = 2;
  EXPECT_EQ(work.wait(std::nullopt, count_down), Waited::kInterrupted);
  EXPECT_GE(now() - began, milliseconds(100));
  questions_until_interrupted = 1;
  EXPECT_EQ(work.wait(milliseconds(1), count_down), Waited::kTimedOut) << "nobody is asked so soon";
  EXPECT_EQ(work.wait(seconds(60), count_down), Waited::kInterrupted);
  questions_until_interrupted = 1;
  std::size_t first = 77;
  EXPECT_EQ(wait_any(std::span(&work, 1), std::nullopt, count_down, first), Waited::kInterrupted);
  call->complete(ended(Status::kOk));
  EXPECT_EQ(work.wait(std::nullopt, count_down), Waited::kOver);
}

// Calls end while other threads begin to wait for them: no wake-up is lost, and no data is torn (for the thread
// sanitizer).
TEST(Work, NoWakeUpIsLost) {
  constexpr std::size_t kCalls = 2000;
  std::vector<std::shared_ptr<Call>> calls;
  std::vector<Work> works;
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_shared<Call>(CallId{i + 1}));
    works.emplace_back(calls.back());
  }
  std::vector<std::thread> waiting;
  waiting.reserve(3);
  for (int t = 0; t < 3; ++t) {
    waiting.emplace_back([&] {
      for (std::size_t i = 0; i + 4 <= kCalls; i += 4) {
        while (wait_any(std::span(works).subspan(i, 4)) == std::nullopt) {
        }
        for (std::size_t k = i; k < i + 4; ++k) works[k].wait();
      }
    });
  }
  for (const auto& call : calls) call->complete(ended(Status::kOk));
  for (std::thread& thread : waiting) thread.join();
}

// Virtual time, which advances in waits only.
class VirtualTime final : public Waiter {
 public:
  [[nodiscard]] Instant now() const override { return at; }
  [[nodiscard]] bool is_here() const override { return here; }
  bool wait(const std::function<bool()>& done, std::optional<Duration> timeout) override {
    at = at + timeout.value_or(seconds(1000));
    if (!timeout) ends->complete(ended(Status::kOk));
    return done();
  }
  Instant at{5};
  bool here = true;
  Call* ends = nullptr;
};

TEST(Work, WaitsInItsWaiter) {
  VirtualTime time;
  const auto call = std::make_shared<Call>(CallId{1}, &time);
  time.ends = call.get();
  const Work work(call);
  EXPECT_FALSE(work.wait(seconds(100)));
  const std::array<Work, 1> works{work};
  EXPECT_EQ(wait_any(works, seconds(100)), std::nullopt);
  EXPECT_EQ(time.now(), Instant{5} + seconds(200));
  EXPECT_EQ(wait_any(works), std::size_t{0});
  EXPECT_TRUE(work.wait(seconds(1)));
  EXPECT_EQ(work.elapsed(), seconds(1200));
}

TEST(Work, WaitsOnTheConditionVariableOnOtherThreads) {
  VirtualTime time;
  time.here = false;
  const auto call = std::make_shared<Call>(CallId{1}, &time);
  const Work work(call);
  EXPECT_FALSE(work.wait(milliseconds(1)));
  EXPECT_EQ(time.now(), Instant{5});
  std::thread ends([&] { call->complete(ended(Status::kOk)); });
  EXPECT_TRUE(work.wait());
  ends.join();
}

}  // namespace
}  // namespace lockstep::transport
