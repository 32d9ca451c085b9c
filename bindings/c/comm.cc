// Communicators: create, join a run, leave, destroy.
#include <string>

#include "bindings/c/calls.h"
#include "bindings/c/guard.h"
#include "bindings/c/options.h"
#include "bindings/c/time_out.h"
#include "core/base/assert.h"
#include "core/peer/snapshot.h"
#include "core/wire/limits.h"
#include "lockstep.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it
using c::Communicator;
using c::Work;

lockstep_status lockstep_comm_create(const lockstep_comm_options* options, lockstep_comm** comm) {
  return c::guard([&] {
    if (comm == nullptr) return c::fail(c::invalid("comm is NULL; give the address of a lockstep_comm*"));
    *comm = nullptr;
    auto checked = c::communicator_options(options);
    if (!checked) return c::fail(checked.error());
    if (checked->peer.name.empty()) checked->peer.name = c::default_name();
    auto communicator = Communicator::create(std::move(*checked));
    if (!communicator) return c::fail(communicator.error());
    *comm = c::handle_of(std::move(*communicator));
    return LOCKSTEP_OK;
  });
}

void lockstep_comm_close(lockstep_comm* comm) {
  if (comm != nullptr) c::Handle::close(comm);
}

void lockstep_comm_destroy(lockstep_comm* comm) {
  if (comm != nullptr) c::Handle::destroy(comm);
}

lockstep_status lockstep_flight_record(lockstep_comm* comm, const char* path) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (path == nullptr || *path == '\0')
      return c::fail(c::invalid("path is {}; name a file", path ? "empty" : "NULL"));
    const auto written = in.communicator->write_flight(path);
    return written ? LOCKSTEP_OK : c::fail(written.error());
  });
}

namespace {

Result<Work> connect(Communicator& communicator, const char* coordinator, std::int64_t timeout_ms) {
  if (coordinator == nullptr) return c::invalid("coordinator is NULL; give a run token or host:port");
  const auto timeout = c::call_time_out(timeout_ms, "timeout_ms");
  if (!timeout) return timeout.error();
  return communicator.connect(coordinator, *timeout);
}

Result<Work> admit(Communicator& communicator, std::uint32_t at_least, std::int64_t timeout_ms) {
  if (at_least == 0 || at_least > kMaxMembers) {
    return c::invalid("members is {}; allowed: 1 to {}", at_least, kMaxMembers);
  }
  const auto timeout = c::call_time_out(timeout_ms, "timeout_ms");
  if (!timeout) return timeout.error();
  return communicator.admit(at_least, *timeout);
}

Result<Work> leave(Communicator& communicator, std::int64_t timeout_ms) {
  const auto timeout = c::call_time_out(timeout_ms, "timeout_ms");
  if (!timeout) return timeout.error();
  return communicator.leave(*timeout);
}

}  // namespace

lockstep_status lockstep_connect(lockstep_comm* comm, const char* coordinator, int64_t timeout_ms) {
  return c::call(comm, nullptr, [&](Communicator& to) { return connect(to, coordinator, timeout_ms); });
}

lockstep_status lockstep_connect_async(lockstep_comm* comm, const char* coordinator, int64_t timeout_ms,
                                       lockstep_work** work) {
  return c::call_async(comm, work, [&](Communicator& to) { return connect(to, coordinator, timeout_ms); });
}

lockstep_status lockstep_admit(lockstep_comm* comm, int64_t timeout_ms, lockstep_result* result) {
  return lockstep_wait_for_world(comm, 1, timeout_ms, result);
}

lockstep_status lockstep_admit_async(lockstep_comm* comm, int64_t timeout_ms, lockstep_work** work) {
  return lockstep_wait_for_world_async(comm, 1, timeout_ms, work);
}

lockstep_status lockstep_wait_for_world(lockstep_comm* comm, uint32_t members, int64_t timeout_ms,
                                        lockstep_result* result) {
  return c::call(comm, result, [&](Communicator& to) { return admit(to, members, timeout_ms); });
}

lockstep_status lockstep_wait_for_world_async(lockstep_comm* comm, uint32_t members, int64_t timeout_ms,
                                              lockstep_work** work) {
  return c::guard(
      [&] { return c::call_async(comm, work, [&](Communicator& to) { return admit(to, members, timeout_ms); }); });
}

lockstep_status lockstep_leave(lockstep_comm* comm, int64_t timeout_ms) {
  return c::call(comm, nullptr, [&](Communicator& to) { return leave(to, timeout_ms); });
}

lockstep_status lockstep_leave_async(lockstep_comm* comm, int64_t timeout_ms, lockstep_work** work) {
  return c::call_async(comm, work, [&](Communicator& to) { return leave(to, timeout_ms); });
}

namespace {

lockstep_stage stage_of(peer::Lifecycle lifecycle) {
  using peer::Lifecycle;
  switch (lifecycle) {
    case Lifecycle::kNew: return LOCKSTEP_STAGE_NEW;
    case Lifecycle::kLooking:
    case Lifecycle::kDialling:
    case Lifecycle::kGreeting: return LOCKSTEP_STAGE_REACHING;
    case Lifecycle::kWaiting:
    case Lifecycle::kInvited: return LOCKSTEP_STAGE_WAITING;
    case Lifecycle::kIdle:
    case Lifecycle::kInRounds:
    case Lifecycle::kAdmitting:
    case Lifecycle::kFrozen: return LOCKSTEP_STAGE_MEMBER;
    case Lifecycle::kLeaving:
    case Lifecycle::kGoing: return LOCKSTEP_STAGE_LEAVING;
    case Lifecycle::kOver: return LOCKSTEP_STAGE_OVER;
  }
  LOCKSTEP_UNREACHABLE();
}

lockstep_status counted(lockstep_comm* comm, uint32_t* count, std::uint32_t (Communicator::*how_many)() const) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (count == nullptr) return c::fail(c::invalid("count is NULL; give the address of a uint32_t"));
    *count = (*in.communicator.*how_many)();
    return LOCKSTEP_OK;
  });
}

}  // namespace

lockstep_status lockstep_pending(lockstep_comm* comm, uint32_t* count) {
  return counted(comm, count, &Communicator::pending);
}

lockstep_status lockstep_fetching(lockstep_comm* comm, uint32_t* count) {
  return counted(comm, count, &Communicator::fetching);
}

lockstep_status lockstep_holding(lockstep_comm* comm, uint32_t* count) {
  return counted(comm, count, &Communicator::holding);
}

lockstep_status lockstep_stage_get(lockstep_comm* comm, lockstep_stage* stage) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (stage == nullptr) return c::fail(c::invalid("stage is NULL; give the address of a lockstep_stage"));
    *stage = stage_of(in.communicator->lifecycle());
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_abort_all(lockstep_comm* comm, const char* why) {
  return c::inside(comm, [&](lockstep_comm& in) {
    in.calls->stop_all(c::reason(why));
    return LOCKSTEP_OK;
  });
}
