// The object behind a pointer of the C API. One thread may destroy the handle while other threads are in functions of
// the handle. The contents are destroyed after the last of these threads has left. A function that begins later finds
// the handle closed.
//
// The last kBuried destroyed handles keep their memory, without contents. So a thread that read the pointer just before
// another thread destroyed the handle finds a closed handle, and not reused memory.
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

  // Whether this process inherited the handle in a fork(). Then the contents must not be used.
  [[nodiscard]] bool forked() const { return process_ != transport::process_number(); }

  // The time in which a thread is in a function of the handle. False if the handle is closed and empty.
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
    const Use* const outer_;  // the next outer use of this thread
  };

  // Ends all waits in the handle, and destroys the contents once all threads have left. A second call waits until that
  // is done. If the calling thread itself is in a function of the handle (the program called close from a callback),
  // the contents are destroyed when that function returns. Does nothing for an inherited handle.
  static void close(Handle* handle);
  // Closes the handle unless it is closed, then frees it. Call it once. Does nothing for an inherited handle.
  static void destroy(Handle* handle);

 private:
  virtual void end() = 0;    // no thread enters any more
  virtual void empty() = 0;  // no thread is inside

  [[nodiscard]] std::uint32_t uses_of_this_thread() const;
  bool enter();
  void leave();
  void wait_until_only(std::uint32_t own);
  void wait_until_empty();
  void make_empty();
  void bury();

  // The number of threads inside, and the state flags.
  static constexpr std::uint32_t kClosed = 1U << 31U;
  static constexpr std::uint32_t kLastOneEmpties = 1U << 30U;
  static constexpr std::uint32_t kEmpty = 1U << 29U;
  static constexpr std::uint32_t kGone = 1U << 28U;  // destroyed
  static constexpr std::uint32_t kInside = kGone - 1;
  std::atomic<std::uint32_t> state_{0};
  const std::uint64_t process_ = transport::process_number();
};

lockstep_status fail_forked() noexcept;

// A function of the C API on a handle: `body` takes the object by reference, and the object lives until `body` returns.
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
