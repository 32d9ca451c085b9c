// Handles that one thread destroys while other threads are inside.
#include "bindings/c/handle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace lockstep::c {
namespace {

// What happened to a handle; outlives it.
struct Fate {
  std::atomic<int> closed{0};
  std::atomic<int> emptied{0};
};

class Sample final : public Handle {
 public:
  explicit Sample(std::shared_ptr<Fate> fate) : fate_(std::move(fate)) {}

 private:
  void end() override { ++fate_->closed; }
  void empty() override { ++fate_->emptied; }
  const std::shared_ptr<Fate> fate_;
};

TEST(Handle, NoThreadEntersAfterItsEnd) {
  const auto fate = std::make_shared<Fate>();
  auto* handle = new Sample(fate);
  EXPECT_TRUE(Handle::Use(*handle));
  Handle::destroy(handle);
  EXPECT_EQ(fate->closed, 1);
  EXPECT_EQ(fate->emptied, 1);
  EXPECT_FALSE(Handle::Use(*handle));
  Handle::destroy(handle);
  EXPECT_EQ(fate->closed, 1);
  EXPECT_EQ(fate->emptied, 1) << "a second end means nothing";
}

TEST(Handle, AClosedHandleStaysUntilItIsDestroyed) {
  const auto fate = std::make_shared<Fate>();
  auto* handle = new Sample(fate);
  Handle::close(handle);
  EXPECT_FALSE(Handle::Use(*handle));
  Handle::close(handle);
  for (std::size_t i = 0; i < 2 * Handle::kBuried; ++i) Handle::destroy(new Sample(std::make_shared<Fate>()));
  EXPECT_FALSE(Handle::Use(*handle)) << "it is not among those that are forgotten";
  Handle::destroy(handle);
  EXPECT_EQ(fate->closed, 1);
  EXPECT_EQ(fate->emptied, 1);
}

TEST(Handle, IsEmptiedOnceOtherThreadsHaveLeft) {
  const auto fate = std::make_shared<Fate>();
  auto* handle = new Sample(fate);
  std::optional<Handle::Use> use(std::in_place, *handle);
  std::thread destroying([&] { Handle::destroy(handle); });
  std::thread again([&] { Handle::destroy(handle); });
  while (fate->closed == 0) std::this_thread::yield();
  EXPECT_FALSE(Handle::Use(*handle));
  EXPECT_EQ(fate->emptied, 0);
  use.reset();
  destroying.join();
  again.join();
  EXPECT_EQ(fate->closed, 1);
  EXPECT_EQ(fate->emptied, 1);
}

// The program may free what the handle uses as soon as either of the two returns.
TEST(Handle, ASecondThreadThatClosesItWaitsUntilItIsEmpty) {
  const auto fate = std::make_shared<Fate>();
  auto* handle = new Sample(fate);
  std::optional<Handle::Use> use(std::in_place, *handle);
  std::thread closing([&] { Handle::close(handle); });
  while (fate->closed == 0) std::this_thread::yield();
  std::atomic<int> emptied_before_it_returned{-1};
  std::thread again([&] {
    Handle::close(handle);
    emptied_before_it_returned = fate->emptied.load();
  });
  for (int i = 0; i < 1000 && emptied_before_it_returned < 0; ++i) std::this_thread::yield();
  use.reset();
  closing.join();
  again.join();
  EXPECT_EQ(emptied_before_it_returned, 1);
  Handle::destroy(handle);
}

TEST(Handle, AThreadInsideThatDestroysItEmptiesItWhenLeaving) {
  const auto fate = std::make_shared<Fate>();
  auto* handle = new Sample(fate);
  {
    const Handle::Use outer(*handle);
    {
      const Handle::Use inner(*handle);
      Handle::destroy(handle);
      EXPECT_EQ(fate->closed, 1);
    }
    EXPECT_FALSE(Handle::Use(*handle));
    EXPECT_EQ(fate->emptied, 0);
    Handle::destroy(handle);  // does not wait for itself
  }
  EXPECT_EQ(fate->emptied, 1);
}

// For the thread sanitizer: threads enter and leave while the handle ends from inside and from outside.
TEST(Handle, EndsOnceWhileOtherThreadsUseIt) {
  for (int round = 0; round < 200; ++round) {
    const auto fate = std::make_shared<Fate>();
    auto* handle = new Sample(fate);
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([handle] {
        for (bool open = true; open;) {
          const Handle::Use use(*handle);
          open = static_cast<bool>(use);
        }
      });
    }
    if (round % 2 == 0) {
      Handle::destroy(handle);
    } else {
      const Handle::Use use(*handle);
      Handle::destroy(handle);
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fate->closed, 1);
    EXPECT_EQ(fate->emptied, 1);
  }
}

TEST(Handle, OldHandlesAreFreed) {
  const auto fate = std::make_shared<Fate>();
  for (std::size_t i = 0; i < 3 * Handle::kBuried; ++i) Handle::destroy(new Sample(fate));
  EXPECT_LE(fate.use_count(), static_cast<long>(Handle::kBuried) + 1);
}

}  // namespace
}  // namespace lockstep::c
