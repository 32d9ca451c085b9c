// The effect of fork() on the library. The library's threads do not exist in the child, so inherited objects do not
// work there. The child closes its copies of the library's descriptors without sending anything: a connection ends only
// when the parent closes it or dies. Invariant: a child never changes the parent's epoll instance, because both
// processes share its registrations.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <system_error>
#include <utility>

namespace asio {
class io_context;
}

namespace lockstep::transport {

// Changes in a child of fork(): an object created under another number was inherited. Valid once watch_forks() was
// called.
std::uint64_t process_number();

// Starts watching. A second call does nothing.
void watch_forks();

// Guards data shared by all threads of the process. fork() itself takes this lock, so that the child finds it free;
// therefore hold it only briefly.
class ForkLock {
 public:
  ForkLock();
  ~ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
};

// Under a ForkLock: own() makes children close this descriptor; disown() ends that.
void own(int descriptor);
void disown(int descriptor);

// Owns the descriptors of `io` itself. No fork() happens between closing them and disown(). A fork() between disown()
// and closing leaves descriptors in the child that nothing uses.
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
  // Accepts a connection of `acceptor` into this socket, which must not be open.
  template <typename Acceptor>
  void accept_from(Acceptor& acceptor, typename Base::endpoint_type& from, std::error_code& error) {
    const ForkLock lock;
    acceptor.accept(*static_cast<Base*>(this), from, error);
    if (!error) own(Base::native_handle());
  }
};

}  // namespace lockstep::transport
