// A first-in, first-out queue of bytes that wait to be written. Invariant: queued bytes never move in memory, so a
// write may borrow them.
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
  // Appends up to `most` bytes from the front to `slices`, as far as it has room. Returns the number of bytes.
  std::size_t list(io::SliceList& slices, std::size_t most) const;
  // Removes the first `bytes` bytes, which were written.
  void drop(std::size_t bytes);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // Bytes of memory, used and unused.
  [[nodiscard]] std::size_t memory() const { return (chunks_.size() + (spare_ ? 1 : 0)) * sizeof(Chunk); }

  // The state that a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void archive(Archive& a);

 private:
  using Chunk = std::array<std::byte, 4096>;

  std::vector<std::unique_ptr<Chunk>> chunks_;  // all full, except the last
  std::unique_ptr<Chunk> spare_;                // the chunk that became empty last
  std::size_t begin_ = 0;                       // offset of the first byte in the first chunk
  std::size_t size_ = 0;
};

}  // namespace lockstep::wire
