// Reusable memory for one asio operation, such as waiting for a readable stream or a timer. asio's own recycling keeps
// two blocks per thread, too few for many streams.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace lockstep::transport {

class HandlerMemory {
 public:
  HandlerMemory() = default;
  HandlerMemory(const HandlerMemory&) = delete;
  HandlerMemory& operator=(const HandlerMemory&) = delete;
  ~HandlerMemory() = default;

  void* take(std::size_t bytes) {
    if (taken_ || bytes > room_.size()) return ::operator new(bytes);
    taken_ = true;
    return room_.data();
  }
  void give_back(void* at) {
    if (at == room_.data()) {
      taken_ = false;
    } else {
      ::operator delete(at);
    }
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, 256> room_{};
  bool taken_ = false;
};

template <typename T>
struct HandlerAllocator {
  using value_type = T;
  HandlerMemory* memory;

  explicit HandlerAllocator(HandlerMemory& from) : memory(&from) {}
  template <typename U>
  HandlerAllocator(const HandlerAllocator<U>& other) : memory(other.memory) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t n) { return static_cast<T*>(memory->take(n * sizeof(T))); }
  void deallocate(T* at, std::size_t) { memory->give_back(at); }
  template <typename U>
  bool operator==(const HandlerAllocator<U>& other) const {
    return memory == other.memory;
  }
};

// A handler whose operation is stored in `memory`. `memory` must outlive the operation (the handler may own it).
template <typename F>
struct PlacedHandler {
  using allocator_type = HandlerAllocator<std::byte>;
  F function;
  HandlerMemory* memory;

  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(*memory); }
  template <typename... Args>
  void operator()(Args&&... args) {
    function(std::forward<Args>(args)...);
  }
};

template <typename F>
PlacedHandler<F> placed(HandlerMemory& memory, F function) {
  return {std::move(function), &memory};
}

}  // namespace lockstep::transport
