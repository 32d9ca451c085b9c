// The object behind a pointer of the C API. One thread may destroy it while other threads are in functions of it. The contents go
// after the last of these threads has left; a function that begins later finds the handle closed.
//
// The last kBuried handles that were destroyed stay where they were, empty: a thread that has read the pointer just before somebody
// else destroyed it finds a closed handle, and not somebody else's memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "bindings/c/error.h"
#include "bindings/c/guard.h"
#include "lockstep.h"
#include "transport/forks.h"

namespace lockstep::c {

class Handle {
 public:
  static constexpr std::size_t kBuried = 1024;

  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  virtual ~Handle() = default;

  // Whether this process has inherited it from the one that made it, and must not touch what is in it.
  [[nodiscard]] bool forked() const { return process_ != transport::process_number(); }

  // The time that a thread is in a function of the handle. False: it is closed, and empty.
  class Use {
   public:
    explicit Use(Handle& handle);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return inside_; }

   private:
    friend class Handle;
    Handle& handle_;
    const bool inside_;
    const Use* const outer_;  // of this thread
  };

  // Ends what others wait for in it, and empties it once they are out. Again: waits until that is done. Where the calling thread is
  // in a function of it itself (in a function of the program that is called from there), it is emptied when that one returns. Nothing
  // if it was inherited.
  static void close(Handle* handle);
  // Closes it, if that was not done, and gives its memory back. Once. Nothing if it was inherited.
  static void destroy(Handle* handle);

 private:
  virtual void end() = 0;    // nobody enters any more
  virtual void empty() = 0;  // nobody is inside

  [[nodiscard]] std::uint32_t uses_of_this_thread() const;
  bool enter();
  void leave();
  void wait_until_only(std::uint32_t own);
  void wait_until_empty();
  void make_empty();
  void bury();

  // How many are inside, and how far it is.
  static constexpr std::uint32_t kClosed = 1U << 31U;
  static constexpr std::uint32_t kLastOneEmpties = 1U << 30U;
  static constexpr std::uint32_t kEmpty = 1U << 29U;
  static constexpr std::uint32_t kGone = 1U << 28U;  // destroyed
  static constexpr std::uint32_t kInside = kGone - 1;
  std::atomic<std::uint32_t> state_{0};
  const std::uint64_t process_ = transport::process_number();
};

lockstep_status fail_forked() noexcept;

// A function of the C API on a handle: `body` takes it as a reference, and it stays what it is until that returns.
template <typename Of, typename Body>
lockstep_status inside(Of* handle, Body&& body) {
  return guard([&]() -> lockstep_status {
    if (handle == nullptr) return fail(invalid("{} is NULL", Of::kName));
    if (handle->forked()) return fail_forked();
    const Handle::Use use(*handle);
    if (!use) return fail(LOCKSTEP_ERR_NOT_CONNECTED, Of::kIsClosed);
    return std::forward<Body>(body)(*handle);
  });
}

}  // namespace lockstep::c
