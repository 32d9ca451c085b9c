// Streams in a steady state do not allocate.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

#include "tests/transport/loopback.h"

namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

// NOLINTBEGIN(cppcoreguidelines-no-malloc): the global operators count allocations. Not inlined: GCC 12 would report a
// mismatch of new and free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const at = std::malloc(bytes == 0 ? 1 : bytes)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }
// NOLINTEND(cppcoreguidelines-no-malloc)

namespace lockstep::transport {
namespace {

// A ping-pong, so that every read waits for the reactor. The test takes the inputs itself, because `seen` must not
// grow.
TEST_F(Loopback, ASteadyStateAllocatesNothing) {
  connect();
  std::array<std::byte, 4096> at_a_tail{};
  std::array<std::byte, 4096> at_b_tail{};
  std::size_t rounds = 0;
  const auto turn = [](Side& side, StreamId stream, std::span<std::byte> tail, std::size_t* counter) {
    io::Input input;
    do {
      while (side.streams.next(input)) {
        if (!std::holds_alternative<io::ReadDone>(input)) continue;
        if (counter != nullptr) ++*counter;
        side.streams.carry_out(io::Read{stream, {}, tail});
        side.streams.carry_out(write_of(stream, "ball"));
      }
    } while (side.streams.advance());
  };
  const auto play_until = [&](std::size_t round) {
    while (rounds < round) {
      turn(a, at_a, at_a_tail, &rounds);
      turn(b, at_b, at_b_tail, nullptr);
      if (rounds < round) io.run_one();
    }
  };
  a.streams.carry_out(io::Read{at_a, {}, at_a_tail});
  b.streams.carry_out(io::Read{at_b, {}, at_b_tail});
  a.streams.carry_out(write_of(at_a, "ball"));
  io.restart();
  play_until(100);
  const std::size_t before = allocations;
  play_until(5000);
  EXPECT_EQ(allocations - before, 0U);
}

}  // namespace
}  // namespace lockstep::transport
