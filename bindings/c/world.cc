// The newest view, for C programs.
#include <algorithm>
#include <cstdint>
#include <map>

#include "bindings/c/calls.h"
#include "bindings/c/guard.h"
#include "bindings/c/sized.h"
#include "lockstep.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it

namespace {

using ViewPtr = std::shared_ptr<const wire::View>;

Result<ViewPtr> view_of(const lockstep_comm& comm) {
  ViewPtr view = comm.communicator->view();
  if (view == nullptr) return Error{Status::kNotConnected, "not part of a run yet: call lockstep_connect() first"};
  return view;
}

// Members per group, in ascending order of groups.
std::map<GroupId, std::uint32_t> group_sizes(const wire::View& view) {
  std::map<GroupId, std::uint32_t> sizes;
  for (const wire::Member& member : view.members) ++sizes[member.group];
  return sizes;
}

lockstep_world describe(const wire::View& view, PeerId self) {
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  world.view = view.number.value;
  world.cohort = view.cohort.value;
  world.term = view.term.value;
  world.self = c::to_c(self);
  world.members = static_cast<std::uint32_t>(view.members.size());
  const auto sizes = group_sizes(view);
  world.groups = static_cast<std::uint32_t>(sizes.size());

  const auto me = std::find_if(view.members.begin(), view.members.end(), [&](const auto& m) { return m.id == self; });
  if (me == view.members.end()) return world;
  world.group = me->group.value;
  world.world_size = sizes.at(me->group);
  world.rank = static_cast<std::uint32_t>(
      std::count_if(view.members.begin(), me, [&](const auto& m) { return m.group == me->group; }));
  return world;
}

// Validates an array of the caller with its capacity and count.
std::optional<Error> validate_array(const void* array, std::string_view name, size_t capacity, const size_t* count) {
  if (count == nullptr) return c::invalid("count is NULL; give the address of a size_t");
  if (array == nullptr && capacity != 0) return c::invalid("{} is NULL but capacity is {}; allowed: 0", name, capacity);
  return std::nullopt;
}

}  // namespace

lockstep_status lockstep_world_get(lockstep_comm* comm, lockstep_world* world) {
  return c::inside(comm, [&](lockstep_comm& in) {
    const auto view = view_of(in);
    if (!view) return c::fail(view.error());
    if (const auto size = c::struct_size(world, "world"); !size) return c::fail(size.error());
    lockstep_world known = describe(**view, in.communicator->self());
    known.pending = in.communicator->pending();
    c::give(known, world);
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_group_sizes(lockstep_comm* comm, lockstep_group_size* sizes, size_t capacity, size_t* count,
                                     uint64_t* view) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (const auto error = validate_array(sizes, "sizes", capacity, count)) return c::fail(*error);
    const auto newest = view_of(in);
    if (!newest) return c::fail(newest.error());
    size_t found = 0;
    for (const auto& [group, members] : group_sizes(**newest)) {
      if (found < capacity) sizes[found] = {group.value, members};
      ++found;
    }
    *count = found;
    if (view != nullptr) *view = (*newest)->number.value;
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_member_ids(lockstep_comm* comm, uint32_t group, lockstep_peer_id* ids, size_t capacity,
                                    size_t* count, uint64_t* view) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (const auto error = validate_array(ids, "ids", capacity, count)) return c::fail(*error);
    const auto newest = view_of(in);
    if (!newest) return c::fail(newest.error());
    size_t found = 0;
    for (const wire::Member& member : (*newest)->members) {
      if (member.group != GroupId{group}) continue;
      if (found < capacity) ids[found] = c::to_c(member.id);
      ++found;
    }
    *count = found;
    if (view != nullptr) *view = (*newest)->number.value;
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_peer_id_self(lockstep_comm* comm, lockstep_peer_id* id) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (id == nullptr) return c::fail(c::invalid("id is NULL; give the address of a lockstep_peer_id"));
    *id = c::to_c(in.communicator->self());
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_peer_id_text(const lockstep_peer_id* id, char* text) {
  return c::guard([&] {
    if (id == nullptr) return c::fail(c::invalid("id is NULL"));
    if (text == nullptr) {
      return c::fail(c::invalid("text is NULL; give room for LOCKSTEP_PEER_ID_TEXT_SIZE ({}) characters",
                                LOCKSTEP_PEER_ID_TEXT_SIZE));
    }
    for (const std::uint8_t byte : id->bytes) text = fmt::format_to(text, "{:02x}", byte);
    *text = '\0';
    return LOCKSTEP_OK;
  });
}
