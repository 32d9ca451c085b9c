// Bytes in one piece of memory: appended at the end, taken from the front.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "core/base/assert.h"

namespace lockstep::transport::tls {

class ByteQueue {
 public:
  [[nodiscard]] std::size_t size() const { return end_ - begin_; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get() + begin_, size()}; }

  void drop(std::size_t bytes) {
    LOCKSTEP_ASSERT(bytes <= size());
    begin_ += bytes;
    if (empty()) begin_ = end_ = 0;
  }

  // Memory after the end, of `least` bytes or more; it moves what the queue holds. Its bytes belong to the queue once
  // added() has said so.
  [[nodiscard]] std::span<std::byte> room(std::size_t least) {
    if (begin_ > 0) {
      std::memmove(memory_.get(), memory_.get() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    if (capacity_ - end_ < least) grow(std::max(end_ + least, 2 * capacity_));
    return {memory_.get() + end_, capacity_ - end_};
  }
  void added(std::size_t bytes) {
    LOCKSTEP_ASSERT(bytes <= capacity_ - end_);
    end_ += bytes;
  }

  void append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()).data(), bytes.data(), bytes.size());
    added(bytes.size());
  }

 private:
  void grow(std::size_t capacity) {
    auto memory = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (!empty()) std::memcpy(memory.get(), memory_.get() + begin_, size());
    memory_ = std::move(memory);
    capacity_ = capacity;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace lockstep::transport::tls
