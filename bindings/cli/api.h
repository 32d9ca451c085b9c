// The C API for C++ programs that end when a call fails: handles that free themselves, and errors as exceptions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bindings/cli/command.h"
#include "core/wire/message.h"
#include "lockstep.h"
#include "transport/destination.h"

namespace lockstep::cli {

struct Free {
  void operator()(lockstep_comm* comm) const { lockstep_comm_destroy(comm); }
  void operator()(lockstep_coordinator* coordinator) const { lockstep_coordinator_stop(coordinator); }
};
using Comm = std::unique_ptr<lockstep_comm, Free>;
using EmbeddedCoordinator = std::unique_ptr<lockstep_coordinator, Free>;

// Throws Failure with the library's error text unless `status` is LOCKSTEP_OK. `what` names the action, such as
// "connect".
void check(lockstep_status status, std::string_view what);

Comm create_comm(const lockstep_comm_options& options);
// Starts a coordinator; `token` becomes the text that peers of this machine can connect with.
EmbeddedCoordinator start_coordinator(const lockstep_coordinator_options& options, std::string& token);

// Queries the status of the coordinator that this text names, as lockstep_connect(). Throws Failure if it does not
// answer.
wire::StatusReply ask_coordinator(const std::string& coordinator, double timeout_s,
                                  const transport::Protection& protection);

// Has the coordinator evict a peer. Throws Failure likewise, with exit code 1 if the coordinator refuses.
wire::EvictReply evict(const std::string& coordinator, PeerId peer, double timeout_s,
                       const transport::Protection& protection);

lockstep_world world_of(const Comm& comm);

}  // namespace lockstep::cli
