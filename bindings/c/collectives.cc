// Collectives: validates the arguments and converts them to a launch. The transport checks overlaps and scratch.
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "bindings/c/arguments.h"
#include "bindings/c/calls.h"
#include "bindings/c/guard.h"
#include "bindings/c/interrupt.h"
#include "bindings/c/sized.h"
#include "bindings/c/time_out.h"
#include "core/base/data_type.h"
#include "core/kernels/float_environment.h"
#include "core/wire/limits.h"
#include "lockstep.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it
using c::Communicator;
using c::Work;
using transport::LaunchArgs;
using wire::Collective;

using c::Field;
using c::MaybeError;
using c::validate_memory;

namespace {

MaybeError read_type(const lockstep_data_type& type, LaunchArgs& launch, const Field& field = {"type"}) {
  return c::read_type(type, launch.type, field);
}

MaybeError read_op(const lockstep_op& field, LaunchArgs& launch) {
  const unsigned number = c::number_of(field);
  if (number >= kReduceOpCount) {
    return c::invalid("args.op is {}; allowed: 0 (LOCKSTEP_SUM) to {} (LOCKSTEP_BXOR)", number, kReduceOpCount - 1);
  }
  launch.op = static_cast<ReduceOp>(number);
  return std::nullopt;
}

MaybeError read_format(const lockstep_wire_format& field, std::string_view name, WireFormat& format) {
  const unsigned number = c::number_of(field);
  if (number >= kWireFormatCount) {
    return c::invalid("args.{} is {}; allowed: 0 (LOCKSTEP_WIRE_NATIVE) to {} (LOCKSTEP_WIRE_E3M0)", name, number,
                      kWireFormatCount - 1);
  }
  format = static_cast<WireFormat>(number);
  return std::nullopt;
}

MaybeError read_encoding(const lockstep_all_reduce_args& args, LaunchArgs& launch) {
  if (auto error = read_format(args.up, "up", launch.formats.up)) return error;
  if (auto error = read_format(args.down, "down", launch.formats.down)) return error;
  const unsigned algorithm = c::number_of(args.algorithm);
  if (algorithm > wire::kAlgorithmCount) {
    return c::invalid("args.algorithm is {}; allowed: 0 (LOCKSTEP_ALGORITHM_AUTO) to {} (LOCKSTEP_ALGORITHM_GRID)",
                      algorithm, wire::kAlgorithmCount);
  }
  if (algorithm > 0) launch.algorithm = static_cast<wire::Algorithm>(algorithm - 1);
  if (args.weighted == 0) {
    if (args.weight == 0) return std::nullopt;
    return c::invalid("args.weight is {} but args.weighted is 0; set args.weighted to 1, or args.weight to 0",
                      args.weight);
  }
  // An invalid weight is not refused here: the other peers wait for this call and must learn of the error.
  const StandardFloats standard_floats;
  const bool too_large = args.weight > static_cast<double>(std::numeric_limits<float>::max());
  launch.weight = too_large ? std::numeric_limits<float>::infinity() : static_cast<float>(args.weight);
  if (args.weight == 0) launch.weight = 0;  // also replaces -0.0
  return std::nullopt;
}

// The fields that all collectives share.
template <typename Args>
MaybeError read_common(const Args& args, LaunchArgs& launch) {
  launch.tag = Tag{args.tag};
  const auto timeout = c::field_time_out(args.timeout_ms, "args.timeout_ms");
  if (!timeout) return timeout.error();
  launch.timeout = *timeout;
  if (args.minimum_world > kMaxMembers) {
    return c::invalid("args.minimum_world is {}; allowed: 1 to {}, or 0 for the communicator's", args.minimum_world,
                      kMaxMembers);
  }
  launch.minimum_world = args.minimum_world;
  return std::nullopt;
}

// One tensor or many. `single`: whether any field of a single tensor is set. `named`: the names of those fields.
template <typename Args>
MaybeError validate_choice(const Args& args, bool single, std::string_view named) {
  if (args.tensors == nullptr && args.tensors_count != 0) {
    return c::invalid("args.tensors is NULL but args.tensors_count is {}; allowed: 0", args.tensors_count);
  }
  if (args.tensors != nullptr && single) {
    return c::invalid("args.tensors and {} are both set; give one tensor or many", named);
  }
  if (args.tensors_count > kMaxTensorsPerCall) {
    return c::invalid("args.tensors_count is {}; allowed: at most {}", args.tensors_count, kMaxTensorsPerCall);
  }
  return std::nullopt;
}

Result<LaunchArgs> read(const lockstep_all_reduce_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_all_reduce_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kAllReduce;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_op(args.op, launch)) return *error;
  if (auto error = read_encoding(args, launch)) return *error;
  launch.retry = args.no_retry == 0;

  const bool single = args.send != nullptr || args.recv != nullptr || args.count != 0 || args.residual != nullptr;
  if (args.residuals != nullptr && args.tensors == nullptr) {
    return c::invalid("args.residuals is given but args.tensors is NULL; give args.residual for one tensor");
  }
  if (auto error = validate_choice(args, single, "args.send, args.recv, args.count or args.residual")) return *error;
  const auto add = [&](const lockstep_tensor& tensor, void* residual, const std::size_t* index) -> MaybeError {
    if (auto error = validate_memory({"send", index}, tensor.send, tensor.count, launch.type)) return error;
    if (auto error = validate_memory({"recv", index}, tensor.recv, tensor.count, launch.type)) return error;
    const Field named = index == nullptr ? Field{"residual"} : Field{"residuals", index, true};
    if (auto error = validate_memory(named, residual, residual != nullptr ? tensor.count : 0, launch.type))
      return error;
    launch.tensors.push_back({tensor.send, tensor.recv, tensor.count, tensor.count * size_of(launch.type), residual});
    return std::nullopt;
  };
  if (args.tensors == nullptr) {
    if (auto error = add({args.send, args.recv, args.count}, args.residual, nullptr)) return *error;
    return launch;
  }
  launch.tensors.reserve(args.tensors_count);
  for (std::size_t i = 0; i < args.tensors_count; ++i) {
    void* const residual = args.residuals != nullptr ? args.residuals[i] : nullptr;
    if (auto error = add(args.tensors[i], residual, &i)) return *error;
  }
  return launch;
}

Result<LaunchArgs> read(const lockstep_reduce_scatter_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_reduce_scatter_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kReduceScatter;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_op(args.op, launch)) return *error;
  if (auto error = validate_memory({"send"}, args.send, args.count, launch.type)) return *error;
  if (auto error = validate_memory({"recv"}, args.recv, args.recv_capacity, launch.type)) return *error;
  launch.tensors.push_back({args.send, args.recv, args.count, args.recv_capacity * size_of(launch.type)});
  return launch;
}

Result<LaunchArgs> read(const lockstep_all_gather_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_all_gather_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kAllGather;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = validate_memory({"send"}, args.send, args.send_count, launch.type)) return *error;
  if (auto error = validate_memory({"recv"}, args.recv, args.recv_capacity, launch.type)) return *error;
  if (args.recv_capacity < args.send_count) {
    return c::invalid("args.recv_capacity is {}; allowed: at least args.send_count ({})", args.recv_capacity,
                      args.send_count);
  }
  launch.tensors.push_back({args.send, args.recv, args.send_count, args.recv_capacity * size_of(launch.type)});
  return launch;
}

// The root of a collective that has one.
MaybeError read_root(const lockstep_peer_id& given, LaunchArgs& launch) {
  launch.root = c::from_c(given);
  if (!launch.root.is_nobody()) return std::nullopt;
  return c::invalid("args.root is all zero, and no peer has that id; give the id of a member");
}

Result<LaunchArgs> read(const lockstep_reduce_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_reduce_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kReduce;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_op(args.op, launch)) return *error;
  if (auto error = read_root(args.root, launch)) return *error;
  const bool single = args.send != nullptr || args.recv != nullptr || args.count != 0;
  if (auto error = validate_choice(args, single, "args.send, args.recv or args.count")) return *error;
  const auto add = [&](const lockstep_tensor& tensor, const std::size_t* index) -> MaybeError {
    const std::uint64_t room = tensor.recv != nullptr ? tensor.count : 0;
    if (auto error = validate_memory({"send", index}, tensor.send, tensor.count, launch.type)) return error;
    if (auto error = validate_memory({"recv", index}, tensor.recv, room, launch.type)) return error;
    launch.tensors.push_back({tensor.send, tensor.recv, tensor.count, room * size_of(launch.type)});
    return std::nullopt;
  };
  if (args.tensors == nullptr) {
    if (auto error = add({args.send, args.recv, args.count}, nullptr)) return *error;
    return launch;
  }
  launch.tensors.reserve(args.tensors_count);
  for (std::size_t i = 0; i < args.tensors_count; ++i) {
    if (auto error = add(args.tensors[i], &i)) return *error;
  }
  return launch;
}

Result<LaunchArgs> read(const lockstep_gather_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_gather_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kGather;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_root(args.root, launch)) return *error;
  const std::uint64_t room = args.recv != nullptr ? args.recv_capacity : 0;
  if (auto error = validate_memory({"send"}, args.send, args.send_count, launch.type)) return *error;
  if (auto error = validate_memory({"recv"}, args.recv, room, launch.type)) return *error;
  launch.blocks.push_back({launch.root, args.send_count});
  launch.tensors.push_back({args.send, args.recv, args.send_count, room * size_of(launch.type)});
  return launch;
}

// The blocks that this peer sends, and the memory of its one tensor.
template <typename Args>
MaybeError read_blocks(const Args& args, bool sends, LaunchArgs& launch) {
  if (sends && args.blocks == nullptr && args.blocks_count != 0)
    return c::invalid("args.blocks is NULL but args.blocks_count is {}; allowed: 0", args.blocks_count);
  if (sends && args.blocks_count > kMaxMembers)
    return c::invalid("args.blocks_count is {}; allowed: at most {}", args.blocks_count, kMaxMembers);
  std::uint64_t count = 0;
  for (std::size_t i = 0; sends && i < args.blocks_count; ++i) {
    const lockstep_block& block = args.blocks[i];
    launch.blocks.push_back({c::from_c(block.to), block.count});
    if (launch.blocks.back().to.is_nobody())
      return c::invalid("args.blocks[{}].to is all zero, and no peer has that id; give the id of a member", i);
    if (block.count > static_cast<std::uint64_t>(PTRDIFF_MAX) - count)
      return c::invalid("args.blocks[{}].count is {}: the blocks do not fit into the address space", i, block.count);
    count += block.count;
  }
  if (auto error = validate_memory({"send"}, args.send, count, launch.type)) return error;
  if (auto error = validate_memory({"recv"}, args.recv, args.recv_capacity, launch.type)) return error;
  launch.tensors.push_back({args.send, args.recv, count, args.recv_capacity * size_of(launch.type)});
  return std::nullopt;
}

Result<LaunchArgs> read(const lockstep_scatter_args* given, PeerId self) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_scatter_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kScatter;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_root(args.root, launch)) return *error;
  if (auto error = read_blocks(args, launch.root == self, launch)) return *error;
  return launch;
}

Result<LaunchArgs> read(const lockstep_all_to_all_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_all_to_all_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kAllToAll;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_blocks(args, true, launch)) return *error;
  return launch;
}

Result<LaunchArgs> read(const lockstep_broadcast_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_broadcast_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kBroadcast;
  launch.retry = false;
  if (auto error = read_common(args, launch)) return *error;
  if (auto error = read_type(args.type, launch)) return *error;
  if (auto error = read_root(args.root, launch)) return *error;
  if (auto error = validate_choice(args, args.data != nullptr || args.count != 0, "args.data or args.count"))
    return *error;
  const auto add = [&](const Field& field, void* data, std::uint64_t count) -> MaybeError {
    if (auto error = validate_memory(field, data, count, launch.type)) return error;
    launch.tensors.push_back({nullptr, data, count, count * size_of(launch.type)});
    return std::nullopt;
  };
  if (args.tensors == nullptr) {
    if (auto error = add({"data"}, args.data, args.count)) return *error;
    return launch;
  }
  launch.tensors.reserve(args.tensors_count);
  for (std::size_t i = 0; i < args.tensors_count; ++i) {
    const lockstep_tensor& tensor = args.tensors[i];
    if (auto error = add({"recv", &i}, tensor.recv, tensor.count)) return *error;
  }
  return launch;
}

Result<LaunchArgs> read(const lockstep_barrier_args* given) {
  LaunchArgs launch;
  launch.collective = Collective::kBarrier;
  if (given == nullptr) return launch;
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  if (auto error = read_common(*taken, launch)) return *error;
  launch.retry = taken->no_retry == 0;
  return launch;
}

MaybeError validate_name(const char* name, std::string_view list, std::size_t index) {
  if (name == nullptr) return c::invalid("args.{}[{}].name is NULL; give each entry a name", list, index);
  return std::nullopt;
}

MaybeError read_state_tensors(const lockstep_sync_state_args& args, state::Statement& state, LaunchArgs& launch) {
  if (args.tensors == nullptr && args.tensors_count != 0) {
    return c::invalid("args.tensors is NULL but args.tensors_count is {}; allowed: 0", args.tensors_count);
  }
  if (args.tensors_count > kMaxStateTensors) {
    return c::invalid("args.tensors_count is {}; allowed: at most {}", args.tensors_count, kMaxStateTensors);
  }
  for (std::size_t i = 0; i < args.tensors_count; ++i) {
    const lockstep_state_tensor& tensor = args.tensors[i];
    if (auto error = validate_name(tensor.name, "tensors", i)) return error;
    LaunchArgs of_this;
    if (auto error = read_type(tensor.type, of_this, {"type", &i})) return error;
    if (auto error = validate_memory({"data", &i}, tensor.data, tensor.count, of_this.type)) return error;
    if (tensor.unchanged != 0) state.unchanged.insert(static_cast<std::uint32_t>(i));
    state.manifest.tensors.push_back({tensor.name, of_this.type, tensor.count, tensor.may_differ != 0});
    const std::uint64_t bytes = tensor.count * size_of(of_this.type);
    launch.tensors.push_back({nullptr, tensor.data, bytes, bytes});
  }
  return std::nullopt;
}

MaybeError read_state_values(const lockstep_sync_state_args& args, state::Statement& state, LaunchArgs& launch) {
  if (args.values == nullptr && args.values_count != 0) {
    return c::invalid("args.values is NULL but args.values_count is {}; allowed: 0", args.values_count);
  }
  if (args.values_count > kMaxStateValues) {
    return c::invalid("args.values_count is {}; allowed: at most {}", args.values_count, kMaxStateValues);
  }
  for (std::size_t i = 0; i < args.values_count; ++i) {
    const lockstep_state_value& value = args.values[i];
    if (auto error = validate_name(value.name, "values", i)) return error;
    const unsigned type = c::number_of(value.type);
    if (type > LOCKSTEP_REAL) {
      return c::invalid("args.values[{}].type is {}; allowed: 0 (LOCKSTEP_INT) to 2 (LOCKSTEP_REAL)", i, type);
    }
    if (value.value == nullptr) return c::invalid("args.values[{}].value is NULL; point it at 8 bytes", i);
    state.manifest.values.push_back({value.name, static_cast<state::ValueType>(type)});
    std::memcpy(&state.values.emplace_back(), value.value, sizeof(std::uint64_t));
    launch.values.push_back(value.value);
  }
  return std::nullopt;
}

Result<LaunchArgs> read(const lockstep_sync_state_args* given) {
  const auto taken = c::take(given, "args");
  if (!taken) return taken.error();
  const lockstep_sync_state_args& args = *taken;
  LaunchArgs launch;
  launch.collective = Collective::kSync;
  if (auto error = read_common(args, launch)) return *error;
  auto state = std::make_shared<state::Statement>();
  if (auto error = read_state_tensors(args, *state, launch)) return *error;
  if (auto error = read_state_values(args, *state, launch)) return *error;
  const unsigned strategy = c::number_of(args.strategy);
  if (strategy >= state::kStrategyCount) {
    return c::invalid("args.strategy is {}; allowed: 0 (LOCKSTEP_STATE_POPULAR) to 3 (LOCKSTEP_STATE_NEWEST)",
                      strategy);
  }
  state->strategy = static_cast<state::Strategy>(strategy);
  state->revision = args.revision;
  state->lineage = Lineage{args.lineage};
  state->staged = args.staged != 0;
  state->blank = args.blank != 0;
  state->restored = args.restored != 0;
  launch.state = std::move(state);
  return launch;
}

// A state that is published, prefetched or watched: it does not vote. Only a prefetch may be staged.
Result<LaunchArgs> read_share(const lockstep_sync_state_args* given, bool may_be_staged = false) {
  Result<LaunchArgs> launch = read(given);
  if (!launch) return launch;
  auto state = std::make_shared<state::Statement>(*launch->state);
  state->strategy = state::Strategy::kPopular;
  state->staged = state->staged && may_be_staged;
  launch->state = std::move(state);
  if (given->timeout_ms == 0) launch->timeout = Duration{0};  // it lasts until something else ends it
  return launch;
}

Result<Work> publish(Communicator& communicator, const lockstep_sync_state_args* args) {
  const auto taken = c::take(args, "args");
  if (!taken) return taken.error();
  const auto launch = read_share(args);
  if (!launch) return launch.error();
  return communicator.publish(*launch, taken->stable != 0);
}

Result<Work> prefetch(Communicator& communicator, const lockstep_sync_state_args* args) {
  const auto launch = read_share(args, true);
  if (!launch) return launch.error();
  return communicator.prefetch(*launch);
}

std::optional<Error> watch(Communicator& communicator, const lockstep_sync_state_args* args) {
  if (args == nullptr) return communicator.watch(nullptr);
  const auto launch = read_share(args);
  if (!launch) return launch.error();
  return communicator.watch(&*launch);
}

constexpr Collective collective_of(const lockstep_all_reduce_args*) { return Collective::kAllReduce; }
constexpr Collective collective_of(const lockstep_reduce_scatter_args*) { return Collective::kReduceScatter; }
constexpr Collective collective_of(const lockstep_all_gather_args*) { return Collective::kAllGather; }
constexpr Collective collective_of(const lockstep_reduce_args*) { return Collective::kReduce; }
constexpr Collective collective_of(const lockstep_gather_args*) { return Collective::kGather; }
constexpr Collective collective_of(const lockstep_scatter_args*) { return Collective::kScatter; }
constexpr Collective collective_of(const lockstep_all_to_all_args*) { return Collective::kAllToAll; }
constexpr Collective collective_of(const lockstep_broadcast_args*) { return Collective::kBroadcast; }
constexpr Collective collective_of(const lockstep_barrier_args*) { return Collective::kBarrier; }
constexpr Collective collective_of(const lockstep_sync_state_args*) { return Collective::kSync; }

// The other members learn that this peer refuses its call. Without a readable struct the call has no tag, and nobody
// learns of it.
template <typename Args>
void refuse(Communicator& communicator, const Args* args, const Error& error) {
  Tag tag;
  if (!std::is_same_v<Args, lockstep_barrier_args> || args != nullptr) {
    const auto taken = c::take(args, "args");
    if (!taken) return;
    tag = Tag{taken->tag};
  }
  const Collective collective = collective_of(args);
  communicator.refuse(collective, tag, {error.status, std::string(wire::name_of(collective)), error.text});
}

// Arguments are read before the communicator is used.
template <typename Args>
auto launcher(const Args* args, Communicator::Then then) {
  return [args, then](Communicator& communicator) -> Result<Work> {
    const auto launch = [&] {
      if constexpr (std::is_same_v<Args, lockstep_scatter_args>) {
        return read(args, communicator.self());
      } else {
        return read(args);
      }
    }();
    if (!launch) {
      refuse(communicator, args, launch.error());
      return launch.error();
    }
    LaunchArgs given = *launch;
    given.waits_for_room = c::waits_for_room();
    return communicator.launch(given, then, c::interrupted());
  };
}

template <typename Args>
lockstep_status blocking(lockstep_comm* comm, const Args* args, lockstep_result* result) {
  return c::inside(comm, [&](lockstep_comm& in) {
    if (const auto error = c::validate_result(result)) {
      refuse(*in.communicator, args, *error);
      return c::fail(*error);
    }
    const Result<Work> work = launcher(args, Communicator::Then::kWait)(*in.communicator);
    return work ? c::wait_for(in, *work, result) : c::report_not_started(work.error(), result);
  });
}

template <typename Args>
lockstep_status asynchronous(lockstep_comm* comm, const Args* args, lockstep_work** work) {
  if (work != nullptr) return c::call_async(comm, work, launcher(args, Communicator::Then::kGoOn));
  return c::inside(comm, [&](lockstep_comm& in) {
    const Error error = c::invalid("work is NULL; give the address of a lockstep_work*");
    refuse(*in.communicator, args, error);
    return c::fail(error);
  });
}

}  // namespace

lockstep_status lockstep_all_reduce(lockstep_comm* comm, const lockstep_all_reduce_args* args,
                                    lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_all_reduce_async(lockstep_comm* comm, const lockstep_all_reduce_args* args,
                                          lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_reduce_scatter(lockstep_comm* comm, const lockstep_reduce_scatter_args* args,
                                        lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_reduce_scatter_async(lockstep_comm* comm, const lockstep_reduce_scatter_args* args,
                                              lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_all_gather(lockstep_comm* comm, const lockstep_all_gather_args* args,
                                    lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_all_gather_async(lockstep_comm* comm, const lockstep_all_gather_args* args,
                                          lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_reduce(lockstep_comm* comm, const lockstep_reduce_args* args, lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_reduce_async(lockstep_comm* comm, const lockstep_reduce_args* args, lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_gather(lockstep_comm* comm, const lockstep_gather_args* args, lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_gather_async(lockstep_comm* comm, const lockstep_gather_args* args, lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_scatter(lockstep_comm* comm, const lockstep_scatter_args* args, lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_scatter_async(lockstep_comm* comm, const lockstep_scatter_args* args, lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_all_to_all(lockstep_comm* comm, const lockstep_all_to_all_args* args,
                                    lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_all_to_all_async(lockstep_comm* comm, const lockstep_all_to_all_args* args,
                                          lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_broadcast(lockstep_comm* comm, const lockstep_broadcast_args* args, lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_broadcast_async(lockstep_comm* comm, const lockstep_broadcast_args* args,
                                         lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_barrier(lockstep_comm* comm, const lockstep_barrier_args* args, lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_barrier_async(lockstep_comm* comm, const lockstep_barrier_args* args, lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_agree_pending(lockstep_comm* comm, int64_t timeout_ms, uint32_t* count) {
  if (const lockstep_status status = lockstep_pending(comm, count); status != LOCKSTEP_OK) return status;
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  args.send = args.recv = count;
  args.count = 1;
  args.type = LOCKSTEP_U32;
  args.op = LOCKSTEP_MAX;
  args.tag = UINT64_MAX;
  args.timeout_ms = timeout_ms;
  return lockstep_all_reduce(comm, &args, nullptr);
}

lockstep_status lockstep_refuse(lockstep_comm* comm, const char* operation, uint64_t tag, const char* why) {
  return c::inside(comm, [&](lockstep_comm& in) {
    const std::string words = operation == nullptr ? "call" : c::reason(operation);
    in.communicator->refuse(Collective::kBarrier, Tag{tag}, {Status::kInvalidArgument, words, c::reason(why)});
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_sync_state(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                    lockstep_result* result) {
  return blocking(comm, args, result);
}

lockstep_status lockstep_sync_state_async(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                          lockstep_work** work) {
  return asynchronous(comm, args, work);
}

lockstep_status lockstep_publish_state(lockstep_comm* comm, const lockstep_sync_state_args* args) {
  return c::inside(comm, [&](lockstep_comm& in) {
    const Result<Work> work = publish(*in.communicator, args);
    if (!work) return c::fail(work.error());
    in.communicator->settle();  // a refused call is over then
    return work->test() ? c::report(*work, in.communicator->self(), nullptr) : LOCKSTEP_OK;
  });
}

lockstep_status lockstep_publish_state_async(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                             lockstep_work** work) {
  return c::call_async(comm, work, [&](Communicator& to) { return publish(to, args); });
}

lockstep_status lockstep_unpublish_state(lockstep_comm* comm, uint64_t tag) {
  return c::inside(comm, [&](lockstep_comm& in) {
    const auto waited = in.communicator->unpublish(Tag{tag}, c::interrupted());
    if (waited == transport::Waited::kOver) return LOCKSTEP_OK;
    return in.forked() ? c::fail_forked() : c::fail_interrupted();
  });
}

lockstep_status lockstep_watch_state(lockstep_comm* comm, const lockstep_sync_state_args* args) {
  return c::inside(comm, [&](lockstep_comm& in) {
    const auto error = watch(*in.communicator, args);
    return error ? c::fail(*error) : LOCKSTEP_OK;
  });
}

lockstep_status lockstep_prefetch_state(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                        lockstep_result* result) {
  return c::call(comm, result, [&](Communicator& to) { return prefetch(to, args); });
}

lockstep_status lockstep_prefetch_state_async(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                              lockstep_work** work) {
  return c::call_async(comm, work, [&](Communicator& to) { return prefetch(to, args); });
}
