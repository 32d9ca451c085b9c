#include "sim/world/guest_programs.h"

#include <string>
#include <utility>

#include "sim/world/guests.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kMostGuests = 10'000;  // that begin, in one run

// S2 folds all inputs again, element by element, and keeps them. A call of more bytes is judged by the other checkers
// only.
constexpr std::uint64_t kMostGivenBytes = 64U << 10U;
constexpr std::size_t kCallsWithInputs = 64;  // of a process, the newest

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

std::uint64_t input_bytes(const ring::Request& request) {
  std::uint64_t bytes = 0;
  for (const ring::Tensor& tensor : request.tensors) {
    bytes += tensor.count * size_of(request.type) + tensor.residual.length;
  }
  return bytes;
}

void GuestPrograms::start(std::uint32_t host) {
  SimHost& h = cast_.hosts[host];
  if (h.gone || h.guest != 0) return;
  if (begun_ >= kMostGuests) {
    chronicle_.fail("limit", "programs start again and again: " + std::to_string(kMostGuests) + " times");
    return;
  }
  network_.host_returned(host, now_);
  h.guest = ++begun_;
  disturb();
  chronicle_.mix(23, host, h.guest, 0);
  options_.guests->begins(host, h.guest);
}

void GuestPrograms::die(std::uint32_t host) {
  SimHost& h = cast_.hosts[host];
  h.guest = 0;
  h.stalled = 0;
  h.held_back.clear();
  disturb();
  options_.guests->dies(host);
}

void GuestPrograms::wake(std::uint32_t host, std::uint64_t what, Duration after) {
  queue_.push(now_ + after, What::kGuest, kNoProcess, host, what);
}

void GuestPrograms::on_event(const Event& event) {
  SimHost& h = cast_.hosts[event.a];
  if (h.guest == 0) return;
  if (h.stalled > 0) {
    h.held_back.push_back(event.b);
    return;
  }
  disturb();
  if (event.b == kIsToLeave) {
    options_.guests->is_to_leave(static_cast<std::uint32_t>(event.a));
  } else {
    options_.guests->wakes(static_cast<std::uint32_t>(event.a), event.b);
  }
}

// Records the contents of the memory as they are now: checkers judge by them.
void GuestPrograms::give(SimProcess& process, Call& call, const ring::Request& request, std::vector<BufferId> buffers) {
  Memory& memory = *process.memory;
  call.request = request;
  call.buffers = std::move(buffers);
  for (const ring::Tensor& tensor : request.tensors) {
    call.prints.inputs.push_back(memory.fingerprint(input_of(request, tensor)));
    call.prints.residuals.push_back(tensor.residual.length > 0 ? memory.fingerprint(tensor.residual) : 0);
  }
  if (request.watch != nullptr) {
    const auto& tensors = request.watch->state->manifest.tensors;
    for (std::size_t t = 0; t < request.watch->memory.size(); ++t) {
      call.prints.watched.push_back(tensors[t].may_differ ? 0 : memory.fingerprint(request.watch->memory[t]));
    }
  }
  if (call.kind == CallKind::kCollective && request.state == nullptr && input_bytes(request) <= kMostGivenBytes) {
    Given& given = call.data.given.emplace();
    const auto look = [&](const BufferRef& where) {
      return where.length == 0 ? std::vector<std::byte>() : copy_of(memory.look(where));
    };
    for (const ring::Tensor& tensor : request.tensors) {
      given.inputs.push_back(look(input_of(request, tensor)));
      given.residuals.push_back(look(tensor.residual));
    }
    forget_old_inputs(process);
  }
  for (const BufferId id : call.buffers) memory.lend(id);
}

void GuestPrograms::forget_old_inputs(SimProcess& process) {
  if (process.caller.calls.size() <= kCallsWithInputs) return;
  process.caller.calls[process.caller.calls.size() - 1 - kCallsWithInputs].data.given.reset();
}

void GuestPrograms::go_on(std::uint32_t host, std::uint64_t serial) {
  SimHost& h = cast_.hosts[host];
  if (host == 0 || h.guest != serial || h.stalled == 0 || --h.stalled > 0) return;
  for (const std::uint64_t what : std::exchange(h.held_back, {})) wake(host, what, nanoseconds(1));
}

}  // namespace lockstep::sim
