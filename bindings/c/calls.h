// The opaque handles, and the two forms of a call: blocking, or as a lockstep_work.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "bindings/c/error.h"
#include "bindings/c/guard.h"
#include "bindings/c/handle.h"
#include "bindings/c/result.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/text.h"
#include "core/wire/limits.h"
#include "lockstep.h"
#include "transport/communicator.h"
#include "transport/work.h"

namespace lockstep::c {

using transport::Communicator;
using transport::Work;

// The calls of one communicator that have a handle, and the means to stop them. The last handle frees the object.
class Calls {
 public:
  explicit Calls(Communicator* communicator) : communicator_(communicator) {}

  // If memory runs out, ends the call before it throws.
  void add(const Work& work);
  void remove(const Work& work);

  // Only the first stop of a call has an effect. No effect once the communicator is closed, because all calls are over
  // then.
  void stop(const Work& work, const std::string& why);
  void stop_all(const std::string& why);

  // From here on, the communicator is out of reach.
  void detach();

 private:
  struct Held {
    Work work;
    bool stopping = false;  // a second stop would have no effect, but would cost the engine time
  };
  void stop_once(Held& held, const std::string& why);

  std::mutex mutex_;
  Communicator* communicator_;
  std::unordered_map<std::uint64_t, Held> held_;  // by the id of the call
};

}  // namespace lockstep::c

struct lockstep_comm final : lockstep::c::Handle {
  static constexpr const char* kName = "comm";
  static constexpr const char* kIsClosed = "the communicator was closed";

  explicit lockstep_comm(std::unique_ptr<lockstep::transport::Communicator> fresh)
      : communicator(std::move(fresh)), calls(std::make_shared<lockstep::c::Calls>(communicator.get())) {}

  std::unique_ptr<lockstep::transport::Communicator> communicator;
  std::shared_ptr<lockstep::c::Calls> calls;

 private:
  void end() override { communicator->close(); }
  void empty() override {
    calls->detach();
    calls.reset();
    communicator.reset();
  }
};

struct lockstep_work {
  lockstep::transport::Work work;
  std::shared_ptr<lockstep::c::Calls> calls;
  lockstep::PeerId self;
  std::uint64_t process = lockstep::transport::process_number();

  [[nodiscard]] bool forked() const { return process != lockstep::transport::process_number(); }
};

namespace lockstep::c {

// The caller's reason for an abort, cut to the length that other peers receive; may be null.
inline std::string reason(const char* why) {
  if (why == nullptr) return "no reason given";
  return plain(cut({why, strnlen(why, kMaxTextBytes + 1)}, kMaxTextBytes));
}

// Creates a handle that owns the communicator.
lockstep_comm* handle_of(std::unique_ptr<Communicator> communicator);

// A function of the C API on a work handle.
template <typename Body>
lockstep_status with_work(lockstep_work* work, Body&& body) {
  return guard([&]() -> lockstep_status {
    if (work == nullptr) return fail(invalid("work is NULL"));
    if (work->forked()) return fail_forked();
    return std::forward<Body>(body)();
  });
}

// Waits for the end of `work` and reports it.
lockstep_status wait_for(lockstep_comm& comm, const Work& work, lockstep_result* result);

// The blocking form of a call. `start` takes a Communicator& and returns a Result<Work>. Arguments are validated before
// `start`.
template <typename Start>
lockstep_status call(lockstep_comm* comm, lockstep_result* result, Start&& start) {
  return inside(comm, [&](lockstep_comm& in) {
    if (const auto error = validate_result(result)) return fail(*error);
    const Result<Work> work = std::forward<Start>(start)(*in.communicator);
    return work ? wait_for(in, *work, result) : report_not_started(work.error(), result);
  });
}

// The asynchronous form.
template <typename Start>
lockstep_status call_async(lockstep_comm* comm, lockstep_work** handle, Start&& start) {
  if (handle == nullptr)
    return fail(LOCKSTEP_ERR_INVALID_ARGUMENT, "work is NULL; give the address of a lockstep_work*");
  *handle = nullptr;
  return inside(comm, [&](lockstep_comm& in) {
    auto fresh = std::make_unique<lockstep_work>(lockstep_work{{}, in.calls, in.communicator->self()});
    const Result<Work> work = std::forward<Start>(start)(*in.communicator);
    if (!work) return fail(work.error());
    fresh->work = *work;
    in.calls->add(*work);
    *handle = fresh.release();
    return LOCKSTEP_OK;
  });
}

}  // namespace lockstep::c
