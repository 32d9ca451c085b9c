// A queue in a ring buffer that grows by doubling and never shrinks, so that a steady state does not allocate
// (std::deque does).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/assert.h"

namespace lockstep::transport {

template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void push(T value) {
    if (size_ == ring_.size()) grow();
    ring_[(first_ + size_) & (ring_.size() - 1)] = std::move(value);
    ++size_;
  }

  [[nodiscard]] const T& front() const {
    LOCKSTEP_ASSERT(size_ > 0);
    return ring_[first_];
  }

  T pop() {
    LOCKSTEP_ASSERT(size_ > 0);
    T value = std::move(ring_[first_]);  // the moved-from element holds no resources
    first_ = (first_ + 1) & (ring_.size() - 1);
    --size_;
    return value;
  }

 private:
  void grow() {
    std::vector<T> larger(ring_.empty() ? 16 : ring_.size() * 2);  // a power of two: a mask wraps the index
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(ring_[(first_ + i) & (ring_.size() - 1)]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> ring_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace lockstep::transport
