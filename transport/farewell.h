// Ends streams in order: what was written gets there, although nobody on our side cares for them any more. close() alone
// would not do: with unread bytes in the socket it resets the stream, and a reset destroys what the other side has not read.
// So: say that we send no more, throw away what still comes, and close once the other side has closed too, or soon anyway.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "transport/door.h"

namespace lockstep::transport {

// Not thread-safe: belongs to the thread that runs the sockets' io_context.
class Farewells {
 public:
  Farewells() = default;
  Farewells(const Farewells&) = delete;
  Farewells& operator=(const Farewells&) = delete;
  ~Farewells();

  void begin(Socket socket);

  // Closes all at once. The kernel goes on delivering what was written, unless the other side sends something meanwhile.
  void cut_short();

  [[nodiscard]] std::size_t size() const { return going_.size(); }
  // Called when the last one has ended, until then and once.
  void when_all_ended(std::function<void()> action);

 private:
  struct Going;
  void listen(const std::shared_ptr<Going>& one);
  void end(const std::shared_ptr<Going>& one);

  std::list<std::shared_ptr<Going>> going_;  // the oldest first
  std::function<void()> all_ended_;
  std::array<std::byte, 16'384>
      nowhere_{};  // never read. Not on a thread's stack or in its storage: those may be small
};

}  // namespace lockstep::transport
