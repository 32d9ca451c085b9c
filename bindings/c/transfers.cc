// Point-to-point transfers: validates the arguments and converts them to a call of the communicator.
#include <cstdint>
#include <optional>

#include "bindings/c/arguments.h"
#include "bindings/c/calls.h"
#include "bindings/c/result.h"
#include "bindings/c/sized.h"
#include "bindings/c/time_out.h"
#include "lockstep.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it
using c::Communicator;
using c::MaybeError;
using c::Work;
using transport::TransferArgs;

namespace {

template <typename Args>
MaybeError read_common(const Args& args, TransferArgs& transfer) {
  if (auto error = c::read_type(args.type, transfer.type)) return error;
  if (auto error = c::validate_memory({"data"}, args.data, args.count, transfer.type)) return error;
  const auto timeout = c::field_time_out(args.timeout_ms, "args.timeout_ms");
  if (!timeout) return timeout.error();
  transfer.timeout = *timeout;
  transfer.tag = Tag{args.tag};
  transfer.data = args.data;
  transfer.count = args.count;
  return std::nullopt;
}

Result<TransferArgs> read(const lockstep_send_args* given) {
  const auto args = c::take(given, "args");
  if (!args) return args.error();
  TransferArgs transfer;
  if (auto error = read_common(*args, transfer)) return *error;
  transfer.peer = c::from_c(args->to);
  if (transfer.peer.is_nobody())
    return c::invalid("args.to is all zero, and no peer has that id; give the id of a member");
  return transfer;
}

Result<TransferArgs> read(const lockstep_recv_args* given) {
  const auto args = c::take(given, "args");
  if (!args) return args.error();
  TransferArgs transfer;
  if (auto error = read_common(*args, transfer)) return *error;
  transfer.peer = c::from_c(args->from);
  return transfer;
}

auto sender(const lockstep_send_args* args, Communicator::Then then) {
  return [args, then](Communicator& communicator) -> Result<Work> {
    const auto transfer = read(args);
    if (!transfer) return transfer.error();
    return communicator.send(*transfer, then);
  };
}

auto receiver(const lockstep_recv_args* args, Communicator::Then then) {
  return [args, then](Communicator& communicator) -> Result<Work> {
    const auto transfer = read(args);
    if (!transfer) return transfer.error();
    return communicator.receive(*transfer, then);
  };
}

}  // namespace

lockstep_status lockstep_send(lockstep_comm* comm, const lockstep_send_args* args, lockstep_result* result) {
  return c::call(comm, result, sender(args, Communicator::Then::kWait));
}

lockstep_status lockstep_send_async(lockstep_comm* comm, const lockstep_send_args* args, lockstep_work** work) {
  return c::call_async(comm, work, sender(args, Communicator::Then::kGoOn));
}

lockstep_status lockstep_recv(lockstep_comm* comm, const lockstep_recv_args* args, lockstep_result* result) {
  return c::call(comm, result, receiver(args, Communicator::Then::kWait));
}

lockstep_status lockstep_recv_async(lockstep_comm* comm, const lockstep_recv_args* args, lockstep_work** work) {
  return c::call_async(comm, work, receiver(args, Communicator::Then::kGoOn));
}
