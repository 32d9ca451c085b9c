// Work: handles of calls in flight.
#include <memory>
#include <vector>

#include "bindings/c/calls.h"
#include "bindings/c/guard.h"
#include "bindings/c/interrupt.h"
#include "bindings/c/time_out.h"
#include "core/base/assert.h"
#include "lockstep.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it
using transport::Waited;

lockstep_status lockstep_wait(lockstep_work* work, int64_t timeout_ms, lockstep_result* result) {
  return c::with_work(work, [&] {
    if (const auto error = c::validate_result(result)) return c::fail(*error);
    const auto timeout = c::wait_time_out(timeout_ms, "timeout_ms");
    if (!timeout) return c::fail(timeout.error());
    switch (work->work.wait(*timeout, c::interrupted())) {
      case Waited::kOver: return c::report(work->work, work->self, result);
      case Waited::kTimedOut: return c::fail(LOCKSTEP_ERR_PENDING, "the call is not over yet");
      case Waited::kInterrupted: return work->forked() ? c::fail_forked() : c::fail_interrupted();
    }
    LOCKSTEP_UNREACHABLE();
  });
}

lockstep_status lockstep_progress(lockstep_work* work, uint64_t* bytes, uint64_t* of) {
  return c::with_work(work, [&] {
    if (bytes == nullptr || of == nullptr)
      return c::fail(c::invalid("bytes or of is NULL; give addresses of a uint64_t"));
    const auto progress = work->work.progress();
    *bytes = progress.bytes;
    *of = progress.of;
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_test(lockstep_work* work, lockstep_result* result) { return lockstep_wait(work, 0, result); }

lockstep_status lockstep_wait_any(lockstep_work* const* works, size_t count, int64_t timeout_ms, size_t* index) {
  return c::guard([&] {
    if (works == nullptr) return c::fail(c::invalid("works is NULL"));
    if (index == nullptr) return c::fail(c::invalid("index is NULL; give the address of a size_t"));
    const auto timeout = c::wait_time_out(timeout_ms, "timeout_ms");
    if (!timeout) return c::fail(timeout.error());

    std::vector<c::Work> given;
    std::vector<size_t> places;  // indices of `given` in `works`
    for (size_t i = 0; i < count; ++i) {
      if (works[i] == nullptr) continue;
      if (works[i]->forked()) return c::fail_forked();
      given.push_back(works[i]->work);
      places.push_back(i);
    }
    if (given.empty())
      return c::fail(c::invalid("works has {} entries and all are NULL; give at least one call", count));
    size_t first = 0;
    switch (transport::wait_any(given, *timeout, c::interrupted(), first)) {
      case Waited::kOver: break;
      case Waited::kTimedOut:
        return c::fail(LOCKSTEP_ERR_PENDING, fmt::format("none of {} calls has ended yet", given.size()));
      case Waited::kInterrupted: return works[places.front()]->forked() ? c::fail_forked() : c::fail_interrupted();
    }
    *index = places[first];
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_notify(lockstep_work* work, lockstep_end_fn ended, void* user) {
  const lockstep_status status = lockstep_on_end(work, ended, user);
  if (status == LOCKSTEP_OK) work->work.go_on();
  return status;
}

lockstep_status lockstep_on_end(lockstep_work* work, lockstep_end_fn ended, void* user) {
  return c::with_work(work, [&] {
    if (ended == nullptr) return c::fail(c::invalid("ended is NULL; give a function"));
    work->work.notify({ended, user});
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_abort(lockstep_work* work, const char* why) {
  return c::with_work(work, [&] {
    if (!work->work.test()) work->calls->stop(work->work, c::reason(why));
    return LOCKSTEP_OK;
  });
}

void lockstep_work_free(lockstep_work* work) {
  if (work == nullptr || work->forked()) return;
  const std::unique_ptr<lockstep_work> owned(work);
  c::guard([&] {
    if (!work->work.test()) work->calls->stop(work->work, "its handle was freed");
    work->work.wait_until_told();
    work->calls->remove(work->work);
    return LOCKSTEP_OK;
  });
}
