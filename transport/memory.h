// Resolves buffer ids to addresses, and keeps scratch for reuse.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/base/assert.h"
#include "core/buffers/buffer_ref.h"

namespace lockstep::transport {

// The memory of each BufferId. add() and remove() may be called from any thread. at() takes no lock: the calling thread
// must have received the id through something that orders memory (the command queue).
class Memory {
 public:
  Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  // Throws std::bad_alloc. Ids of removed buffers are reused.
  BufferId add(std::span<std::byte> bytes);
  void remove(BufferId id);

  // Asserts that the reference is within its buffer.
  [[nodiscard]] std::span<std::byte> at(const BufferRef& ref) const {
    const std::span<std::byte> all = whole(ref.id);
    LOCKSTEP_ASSERT(ref.offset <= all.size() && ref.length <= all.size() - ref.offset);
    return all.subspan(ref.offset, ref.length);
  }

  // The whole buffer.
  [[nodiscard]] std::span<std::byte> whole(BufferId id) const {
    const std::size_t block = id.value / kBlock;
    LOCKSTEP_ASSERT(block < kBlocks && blocks_[block] != nullptr);
    return (*blocks_[block])[id.value % kBlock];
  }
  [[nodiscard]] std::size_t size() const;  // without the standing buffers

 private:
  // Entries never move, so at() needs no lock. The table is large enough for kMaxRoundsInFlight calls of
  // kMaxTensorsPerCall tensors.
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::size_t kBlocks = 16'384;
  using Block = std::array<std::span<std::byte>, kBlock>;

  std::unique_ptr<std::byte[]> sink_;
  std::unique_ptr<std::byte[]> zeros_;
  std::unique_ptr<std::byte[]> early_;
  std::unique_ptr<std::byte[]> early_sends_;
  std::vector<std::unique_ptr<Block>> blocks_;
  mutable std::mutex mutex_;
  std::vector<BufferId> free_;
  std::uint32_t next_ = kFirstFreeBuffer.value;
};

// A block of scratch; returns to its pool when it is destroyed.
class ScratchPool;
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Scratch();
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }  // at least the requested size

 private:
  friend class ScratchPool;
  Scratch(ScratchPool& pool, std::span<std::byte> bytes) : pool_(&pool), bytes_(bytes) {}
  ScratchPool* pool_ = nullptr;
  std::span<std::byte> bytes_;
};

// Thread-safe. Fresh pages cost more than a copy, so blocks are kept, at most as many as rounds can be in flight: calls
// that wait have blocks whose pages were never touched, and a burst of calls leaves little behind. Invariant: lent and
// kept bytes together never exceed the most bytes that were ever lent at the same time.
class ScratchPool {
 public:
  ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool();

  // Returns an empty block if there is no memory. The contents are unspecified. Fresh memory of megabytes is populated,
  // at about a second for each 4 GB.
  Scratch take(std::size_t bytes);

  struct Footprint {
    std::size_t lent = 0;
    std::size_t cached = 0;
  };
  [[nodiscard]] Footprint footprint() const;

 private:
  friend class Scratch;
  std::span<std::byte> take_block(std::size_t size, bool& is_fresh);
  void give_back(std::span<std::byte> block);
  void drop_oldest();

  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> cached_;  // the oldest first
  std::size_t cached_bytes_ = 0;
  std::size_t lent_bytes_ = 0;
  std::size_t most_lent_bytes_ = 0;
};

}  // namespace lockstep::transport
