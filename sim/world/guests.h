// The owner of programs from outside that run in a world, as the world calls it. At most one program runs on a host.
// The program makes its processes by World::open(), and their calls by World::call().
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::sim {

class Guests {
 public:
  virtual ~Guests() = default;
  // A program begins on this host: a founder, a newcomer, or one that returns. `serial`: counts all starts, from 1 on.
  virtual void begins(std::uint32_t host, std::uint64_t serial) = 0;
  // The program on this host is dead, and all of its processes.
  virtual void dies(std::uint32_t host) = 0;
  // Asks the program to leave politely, and to end.
  virtual void is_to_leave(std::uint32_t host) = 0;
  // A wake-up that wake() asked for is due.
  virtual void wakes(std::uint32_t host, std::uint64_t what) = 0;
  // A fault of the plan.
  virtual void fault_begins(std::size_t entry) = 0;
  virtual void fault_ends(std::size_t entry) = 0;
};

}  // namespace lockstep::sim
