// The facts of the run that any thread may read: the newest view, and the peers that wait. The engine writes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "core/wire/message.h"

namespace lockstep::transport {

class RunView {
 public:
  void set_waiting(std::uint32_t pending, std::uint32_t fetching, std::uint32_t holding) {
    pending_.store(pending, std::memory_order_relaxed);
    fetching_.store(fetching, std::memory_order_relaxed);
    holding_.store(holding, std::memory_order_relaxed);
  }
  void set_view(std::shared_ptr<const wire::View> view) {
    const std::lock_guard lock(mutex_);
    view_ = std::move(view);
  }

  [[nodiscard]] std::uint32_t pending() const { return pending_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t fetching() const { return fetching_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t holding() const { return holding_.load(std::memory_order_relaxed); }
  // Null before the first view.
  [[nodiscard]] std::shared_ptr<const wire::View> view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }

 private:
  std::atomic<std::uint32_t> pending_{0};
  std::atomic<std::uint32_t> fetching_{0};
  std::atomic<std::uint32_t> holding_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const wire::View> view_;
};

}  // namespace lockstep::transport
