#include "transport/memory.h"

#include <sys/mman.h>

#include <limits>
#include <new>

#include "core/wire/limits.h"
#include "transport/pages.h"

namespace lockstep::transport {
namespace {

constexpr std::size_t kPage = 4096;

// Blocks of at least this size may use huge pages.
constexpr std::size_t kHugeFrom = 4U << 20U;

// 0 if the size does not fit an address space.
std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = bytes >= kHugeFrom ? kHugePage : kPage;
  if (bytes > std::numeric_limits<std::size_t>::max() - unit) return 0;
  return (bytes + unit - 1) / unit * unit;
}

std::span<std::byte> map(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return {};
  return {static_cast<std::byte*>(at), bytes};
}

void unmap(std::span<std::byte> block) { ::munmap(block.data(), block.size()); }

}  // namespace

Memory::Memory()
    : sink_(std::make_unique<std::byte[]>(kStandingBufferBytes)),
      zeros_(std::make_unique<std::byte[]>(kStandingBufferBytes)),
      early_(std::make_unique_for_overwrite<std::byte[]>(kEarlySlots * kEarlySlotBytes)),
      early_sends_(std::make_unique_for_overwrite<std::byte[]>(kEarlySendSlots * kEarlySlotBytes)),
      blocks_(kBlocks) {
  blocks_[0] = std::make_unique<Block>();
  (*blocks_[0])[kSinkBuffer.value] = {sink_.get(), kStandingBufferBytes};
  (*blocks_[0])[kZeroBuffer.value] = {zeros_.get(), kStandingBufferBytes};
  (*blocks_[0])[kEarlyBuffer.value] = {early_.get(), kEarlySlots * kEarlySlotBytes};
  (*blocks_[0])[kEarlySendBuffer.value] = {early_sends_.get(), kEarlySendSlots * kEarlySlotBytes};
}

Memory::~Memory() = default;

BufferId Memory::add(std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  BufferId id{next_};
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else {
    const std::size_t block = id.value / kBlock;
    if (block >= kBlocks) throw std::bad_alloc();
    if (blocks_[block] == nullptr) blocks_[block] = std::make_unique<Block>();
    if (free_.capacity() < next_) free_.reserve(2 * std::size_t{next_});  // so that remove() cannot fail
    ++next_;
  }
  (*blocks_[id.value / kBlock])[id.value % kBlock] = bytes;
  return id;
}

void Memory::remove(BufferId id) {
  const std::lock_guard lock(mutex_);
  (*blocks_[id.value / kBlock])[id.value % kBlock] = {};
  free_.push_back(id);
}

std::size_t Memory::size() const {
  const std::lock_guard lock(mutex_);
  return next_ - kFirstFreeBuffer.value - free_.size();
}

Scratch::~Scratch() {
  if (pool_ != nullptr) pool_->give_back(bytes_);
}

ScratchPool::ScratchPool() { cached_.reserve(kMaxRoundsInFlight + 1); }

ScratchPool::~ScratchPool() {
  LOCKSTEP_ASSERT(lent_bytes_ == 0);
  for (const auto block : cached_) unmap(block);
}

Scratch ScratchPool::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size == 0) return {};
  bool is_fresh = false;
  const std::span<std::byte> block = take_block(size, is_fresh);
  // On this thread, which waits for the call, and not on the one that serves all connections; without the lock, which
  // that one needs.
  if (is_fresh && block.size() >= kHugeFrom) populate(block);
  if (block.empty()) return {};
  return {*this, block};
}

std::span<std::byte> ScratchPool::take_block(std::size_t size, bool& is_fresh) {
  const std::lock_guard lock(mutex_);
  std::size_t best = cached_.size();
  for (std::size_t i = 0; i < cached_.size(); ++i) {  // the smallest block that is large enough and not far too large
    if (cached_[i].size() < size || cached_[i].size() / 2 > size) continue;
    if (best == cached_.size() || cached_[i].size() < cached_[best].size()) best = i;
  }
  std::span<std::byte> block;
  if (best < cached_.size()) {
    block = cached_[best];
    cached_.erase(cached_.begin() + static_cast<std::ptrdiff_t>(best));
    cached_bytes_ -= block.size();
  } else {
    block = map(size);
    while (block.empty() && !cached_.empty()) {
      drop_oldest();
      block = map(size);
    }
    if (block.empty()) return {};
    is_fresh = true;
  }
  lent_bytes_ += block.size();
  if (lent_bytes_ > most_lent_bytes_) most_lent_bytes_ = lent_bytes_;
  while (cached_bytes_ + lent_bytes_ > most_lent_bytes_) drop_oldest();
  return block;
}

void ScratchPool::give_back(std::span<std::byte> block) {
  const std::lock_guard lock(mutex_);
  lent_bytes_ -= block.size();
  cached_.push_back(block);  // within its capacity
  cached_bytes_ += block.size();
  if (cached_.size() > kMaxRoundsInFlight) drop_oldest();
}

void ScratchPool::drop_oldest() {
  cached_bytes_ -= cached_.front().size();
  unmap(cached_.front());
  cached_.erase(cached_.begin());
}

ScratchPool::Footprint ScratchPool::footprint() const {
  const std::lock_guard lock(mutex_);
  return {lent_bytes_, cached_bytes_};
}

}  // namespace lockstep::transport
