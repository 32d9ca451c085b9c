// What fork() does to the library. Its threads are not there in a child, so nothing that a child has inherited works. The child
// closes its copies of the library's descriptors, without a word to the other sides: a connection ends when the parent ends it or
// dies. The parent's epoll is never touched by a child: what is registered there is shared by both.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <system_error>
#include <utility>

namespace asio {
class io_context;
}

namespace lockstep::transport {

// Changes in a child of fork(): what was made under another number was inherited. Only once watch_forks() was called.
std::uint64_t process_number();

// From now on. Again: does nothing.
void watch_forks();

// For what all threads of the process share. Held by fork() itself, so that a child finds it free; so it is held for a moment only.
class ForkLock {
 public:
  ForkLock();
  ~ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
};

// Under a ForkLock: children are to close this descriptor; or not any more.
void own(int descriptor);
void disown(int descriptor);

// The descriptors of `io` itself. No fork() comes between their end and disown(); one that comes between disown() and their end
// leaves the child some that mean nothing to anybody.
void own(asio::io_context& io);
void disown(asio::io_context& io);

// A socket or an acceptor that a child of fork() closes.
template <typename Base>
class Owned : public Base {
 public:
  template <typename Executor>
  explicit Owned(Executor& executor) : Base(executor) {}
  Owned(Owned&& other) noexcept = default;
  Owned& operator=(Owned&& other) noexcept {
    std::error_code ignored;
    close(ignored);
    Base::operator=(std::move(other));
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    std::error_code ignored;
    close(ignored);
  }

  void open(const typename Base::protocol_type& protocol, std::error_code& error) {
    const ForkLock lock;
    Base::open(protocol, error);
    if (!error) own(Base::native_handle());
  }
  void close(std::error_code& error) {
    if (!Base::is_open()) return;
    const ForkLock lock;
    disown(Base::native_handle());
    Base::close(error);
  }
  // What `acceptor` has got is this socket's; it must not be open.
  template <typename Acceptor>
  void accept_from(Acceptor& acceptor, typename Base::endpoint_type& from, std::error_code& error) {
    const ForkLock lock;
    acceptor.accept(*static_cast<Base*>(this), from, error);
    if (!error) own(Base::native_handle());
  }
};

}  // namespace lockstep::transport
