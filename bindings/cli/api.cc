#include "bindings/cli/api.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>

#include "core/base/status.h"
#include "core/base/time.h"
#include "transport/status_client.h"

namespace lockstep::cli {

namespace {

// Of a question to a coordinator.
Failure failure_of(const Error& error) {
  const ExitCode code = error.status == Status::kInvalidArgument ? kExitUsage
                        : error.status == Status::kRefused       ? kExitFailed
                                                                 : kExitNobodyAnswers;
  return Failure(code, error.text);
}

}  // namespace

void check(lockstep_status status, std::string_view what) {
  if (status == LOCKSTEP_OK) return;
  const ExitCode code = status == LOCKSTEP_ERR_UNREACHABLE ? kExitNobodyAnswers : kExitFailed;
  throw Failure(code, fmt::format("{}: {} ({})", what, lockstep_last_error(), lockstep_status_string(status)));
}

Comm create_comm(const lockstep_comm_options& options) {
  lockstep_comm* comm = nullptr;
  check(lockstep_comm_create(&options, &comm), "communicator");
  return Comm(comm);
}

EmbeddedCoordinator start_coordinator(const lockstep_coordinator_options& options, std::string& token) {
  lockstep_coordinator* raw = nullptr;
  check(lockstep_coordinator_start(&options, &raw), "coordinator");
  EmbeddedCoordinator coordinator(raw);
  std::array<char, LOCKSTEP_TOKEN_BYTES> text{};
  check(lockstep_coordinator_token(raw, text.data(), text.size()), "coordinator");
  token = text.data();
  return coordinator;
}

wire::StatusReply ask_coordinator(const std::string& coordinator, double timeout_s,
                                  const transport::Protection& protection) {
  auto reply =
      transport::query_status(coordinator, nanoseconds(static_cast<std::int64_t>(timeout_s * 1e9)), protection);
  if (reply) return std::move(*reply);
  throw failure_of(reply.error());
}

wire::EvictReply evict(const std::string& coordinator, PeerId peer, double timeout_s,
                       const transport::Protection& protection) {
  auto reply =
      transport::evict_peer(coordinator, peer, nanoseconds(static_cast<std::int64_t>(timeout_s * 1e9)), protection);
  if (reply) return std::move(*reply);
  throw failure_of(reply.error());
}

lockstep_world world_of(const Comm& comm) {
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  check(lockstep_world_get(comm.get(), &world), "world");
  return world;
}

}  // namespace lockstep::cli
