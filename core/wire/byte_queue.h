// Bytes waiting to be written, first in, first out. Bytes never move while they wait, so that a write may borrow them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/io/stream.h"

namespace lockstep::wire {

class ByteQueue {
 public:
  void append(std::span<const std::byte> bytes);
  // Lists the first bytes, `most` of them or as many as the list takes; returns how many.
  std::size_t list(io::SliceList& slices, std::size_t most) const;
  // The first `bytes` bytes have been written.
  void drop(std::size_t bytes);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // Bytes of memory, full and empty.
  [[nodiscard]] std::size_t memory() const { return (chunks_.size() + (spare_ ? 1 : 0)) * sizeof(Chunk); }

  // What a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void state(Archive& a);

 private:
  using Chunk = std::array<std::byte, 4096>;

  std::vector<std::unique_ptr<Chunk>> chunks_;  // all full but the last
  std::unique_ptr<Chunk> spare_;                // the last one that became empty
  std::size_t begin_ = 0;                       // of the first byte, in the first chunk
  std::size_t size_ = 0;
};

}  // namespace lockstep::wire
