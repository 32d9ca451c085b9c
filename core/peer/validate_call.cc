#include "core/peer/validate_call.h"

#include <string>
#include <utility>

#include "core/state/manifest.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

std::optional<Error> validate_call(const ring::Request& request) {
  const auto invalid = [](std::string text) { return Error{Status::kInvalidArgument, std::move(text)}; };
  const std::size_t tensors = request.stated ? request.stated->tensors : request.tensors.size();
  if (request.timeout < Duration{0}) return invalid("the timeout is negative; 0 means none");
  if (tensors > kMaxTensorsPerCall) {
    return invalid(std::to_string(tensors) + " tensors in one call; at most " + std::to_string(kMaxTensorsPerCall) +
                   " are allowed");
  }
  if (request.collective == Collective::kBarrier && tensors != 0) return invalid("a barrier takes no tensors");
  if (wire::has_blocks(request.collective) && tensors != 1) {
    return invalid(std::string(wire::name_of(request.collective)) + " takes exactly one tensor, not " +
                   std::to_string(tensors));
  }
  if (wire::has_root(request.collective) && request.root.is_nobody()) {
    return invalid("a " + std::string(wire::name_of(request.collective)) + " needs a root: the peer id of a member");
  }
  if (auto flaw = ring::validate_blocks(request)) return invalid(std::move(*flaw));
  if ((request.collective == Collective::kSync) != (request.state != nullptr)) {
    return invalid("a sync needs a state; other collectives take none");
  }
  if (request.state != nullptr) {
    if (const auto error = validate_manifest(request.state->manifest))
      return invalid("the state cannot be shared: " + *error);
  }
  if (auto error = validate_reduction(request)) return invalid(std::move(*error));
  if (auto error = validate_encoding(request)) return invalid(std::move(*error));
  return std::nullopt;
}

}  // namespace lockstep::peer
