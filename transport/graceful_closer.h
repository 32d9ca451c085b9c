// Closes streams in an orderly way: all written bytes reach the other side, although this side has finished with the
// stream. close() alone is not sufficient: with unread bytes in the socket, it resets the stream, and a reset discards
// bytes that the other side has not read. So the class shuts down the sending direction, discards what still arrives,
// and closes once the other side has closed, or after a time limit.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "transport/socket.h"

namespace lockstep::transport {

// Not thread-safe: used by the thread that runs the sockets' io_context only.
class GracefulCloser {
 public:
  GracefulCloser() = default;
  GracefulCloser(const GracefulCloser&) = delete;
  GracefulCloser& operator=(const GracefulCloser&) = delete;
  ~GracefulCloser();

  // `rest`: bytes of the stream that are still to be sent.
  void begin(Socket socket, std::vector<std::byte> rest);

  // Closes all streams at once. The kernel still delivers written bytes, unless the other side sends something
  // meanwhile.
  void cut_short();

  [[nodiscard]] std::size_t size() const { return closing_.size(); }
  // Calls `action` once, when the last stream has ended.
  void when_all_ended(std::function<void()> action);

 private:
  struct Closing;
  void send_rest(const std::shared_ptr<Closing>& stream);
  void end_sending(const std::shared_ptr<Closing>& stream);
  void listen(const std::shared_ptr<Closing>& stream);
  void end(const std::shared_ptr<Closing>& stream);

  std::list<std::shared_ptr<Closing>> closing_;  // in the order in which they began to close
  std::function<void()> all_ended_;
  // never read; not on a thread's stack or in thread-local storage, which may be small
  std::array<std::byte, 16'384> discarded_bytes_{};
};

}  // namespace lockstep::transport
