// Packets as a TUN device gives and takes them, in memory that is used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::wan {

class PacketPool;

struct GiveBack {
  PacketPool* pool;
  void operator()(std::byte* bytes) const;
};

struct Packet {
  std::unique_ptr<std::byte, GiveBack> bytes{nullptr, GiveBack{nullptr}};
  std::uint32_t size = 0;  // with what the device puts in front
};

class PacketPool {
 public:
  explicit PacketPool(std::size_t capacity) : capacity_(capacity) {}
  ~PacketPool() {
    for (std::byte* bytes : free_) delete[] bytes;
  }
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;

  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  // Of `capacity` bytes, none of them set. Must end before the pool.
  Packet take() {
    std::byte* bytes = nullptr;
    if (free_.empty()) {
      bytes = new std::byte[capacity_];
    } else {
      bytes = free_.back();
      free_.pop_back();
    }
    return {{bytes, GiveBack{this}}, 0};
  }

 private:
  friend struct GiveBack;
  const std::size_t capacity_;
  std::vector<std::byte*> free_;
};

inline void GiveBack::operator()(std::byte* bytes) const { pool->free_.push_back(bytes); }

}  // namespace lockstep::wan
