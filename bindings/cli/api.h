// The C API for programs in C++ that end when a call fails: handles that free themselves, failures as exceptions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bindings/cli/command.h"
#include "core/wire/message.h"
#include "lockstep.h"

namespace lockstep::cli {

struct Free {
  void operator()(lockstep_comm* comm) const { lockstep_comm_destroy(comm); }
  void operator()(lockstep_coordinator* coordinator) const { lockstep_coordinator_stop(coordinator); }
};
using Comm = std::unique_ptr<lockstep_comm, Free>;
using EmbeddedCoordinator = std::unique_ptr<lockstep_coordinator, Free>;

// Throws Failure with the library's own words unless `status` is LOCKSTEP_OK. `what`: what was tried, such as
// "connect".
void check(lockstep_status status, std::string_view what);

Comm create_comm(const lockstep_comm_options& options);
// Its address can be connected to from this machine.
EmbeddedCoordinator start_coordinator(const lockstep_coordinator_options& options, std::string& address);

// Asks the coordinator at "host:port" how its run is. Throws Failure if nobody answers.
wire::StatusReply ask_coordinator(const std::string& address, double timeout_s);

lockstep_world world_of(const Comm& comm);

}  // namespace lockstep::cli
