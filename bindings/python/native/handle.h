// The C handle of a communicator, from its creation to its end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/python/native/lines.h"
#include "lockstep.h"

namespace lockstep::python {

// A C handle and the objects that must outlive it.
class Handle {
 public:
  // How the last owner destroys the handle. kOnAThread: on a new thread, because garbage collection must not wait.
  enum class End : std::uint8_t { kOnAThread, kHere };

  static std::shared_ptr<Handle> make(lockstep_comm* comm, End end, std::unique_ptr<Lines> log,
                                      std::unique_ptr<Lines> journal);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  [[nodiscard]] lockstep_comm* comm() const { return parts_->comm; }
  // The loan of the communicator under this tag; replaces the previous loan; null: none.
  void lend(std::uint64_t tag, std::shared_ptr<void> loan);
  // Ends all calls and loans. Releases the GIL meanwhile.
  void close();

 private:
  struct Parts {
    lockstep_comm* comm;
    std::unique_ptr<Lines> log;
    std::unique_ptr<Lines> journal;
    std::vector<std::pair<std::uint64_t, std::shared_ptr<void>>> loans;
  };

  Handle(std::shared_ptr<Parts> parts, End end);
  static void destroy(Parts& parts);

  std::shared_ptr<Parts> parts_;
  End end_;
  pid_t made_in_;
};

using HandlePtr = std::shared_ptr<Handle>;

// Called when the interpreter begins to exit: closes all communicators, so that no thread remains in a call or in the
// library.
void begin_exit();

// Whether begin_exit() was called. Nothing new may begin then.
bool is_exiting();

}  // namespace lockstep::python
