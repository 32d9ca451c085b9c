#include "core/peer/request.h"

#include <string_view>

namespace lockstep::peer {

std::optional<std::string> flaw_of_encoding(Collective collective, DataType type, ReduceOp op, Formats formats,
                                            std::optional<float> weight) {
  if (formats.native() && !weight) return std::nullopt;
  const std::string what = formats.native() ? "weights" : "wire formats";
  const bool sums = op == ReduceOp::kSum || op == ReduceOp::kAvg;
  if (collective != Collective::kAllReduce || type != DataType::kF32 || !sums) {
    return "only an all-reduce of f32 (sum or avg) has " + what + ", not " + std::string(wire::name_of(collective)) +
           " of " + std::string(lockstep::name_of(type)) + " (" + std::string(lockstep::name_of(op)) + ")";
  }
  if (weight && op != ReduceOp::kAvg) return "only an average (avg) has weights, not a sum";
  if (bits_of(formats.up) < 8) {
    return "contributions are rounded at every member, which is too often for " +
           std::string(lockstep::name_of(formats.up)) + ": send them up in 8 bits or more (int8)";
  }
  return std::nullopt;
}

}  // namespace lockstep::peer
