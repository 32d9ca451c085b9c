#include "core/peer/request.h"

#include <algorithm>
#include <string_view>

namespace lockstep::peer {

std::optional<std::string> flaw_of_encoding(const Request& request) {
  const bool feeds_back =
      std::ranges::any_of(request.tensors, [](const Tensor& tensor) { return tensor.residual.length > 0; });
  if (feeds_back && !goes_direct(request)) {
    return std::string(
        "only what goes direct has residuals: around the ring contributions are not encoded by themselves");
  }
  if (!is_encoded(request)) return std::nullopt;
  const bool sums = request.op == ReduceOp::kSum || request.op == ReduceOp::kAvg;
  if (request.collective != Collective::kAllReduce || request.type != DataType::kF32 || !sums) {
    const bool formats = !request.formats.native();
    const std::string what = formats ? "has wire formats" : request.weight ? "has weights" : "goes direct";
    return "only an all-reduce of f32 (sum or avg) " + what + ", not " +
           std::string(wire::name_of(request.collective)) + " of " + std::string(lockstep::name_of(request.type)) +
           " (" + std::string(lockstep::name_of(request.op)) + ")";
  }
  if (request.weight && request.op != ReduceOp::kAvg) return "only an average (avg) has weights, not a sum";
  if (bits_of(request.formats.up) < 8 && !goes_direct(request)) {
    return "around the ring contributions are rounded at every member, which is too often for " +
           std::string(lockstep::name_of(request.formats.up)) + ": go direct, or send them up in 8 bits or more (int8)";
  }
  return std::nullopt;
}

}  // namespace lockstep::peer
