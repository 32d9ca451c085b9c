#include "core/peer/request.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "core/ring/schedule.h"
#include "core/state/manifest.h"

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

wire::Descriptor descriptor_of(const Request& request, std::uint32_t segment_bytes) {
  wire::Descriptor what;
  what.collective = request.collective;
  what.type = request.collective == Collective::kBarrier ? DataType::kU8 : request.type;
  what.op = ring::reduces(request.collective) ? request.op : ReduceOp::kSum;
  what.retry = request.retry && (request.collective == Collective::kAllReduce ||
                                 request.collective == Collective::kBarrier || request.collective == Collective::kSync);
  what.minimum_world = request.minimum_world;
  what.tensors = static_cast<std::uint32_t>(request.tensors.size());
  if (request.collective == Collective::kBroadcast) what.root = request.root;
  what.formats = request.formats;
  what.algorithm = algorithm_of(request);
  what.weighted = request.weight.has_value();
  if (request.collective != Collective::kBarrier) what.segment_bytes = segment_bytes;
  if (request.collective == Collective::kAllGather) return what;
  if (request.collective == Collective::kSync) {
    for (const state::TensorSpec& tensor : request.state->manifest.tensors) what.count += tensor.bytes();
    what.layout = state::digest_of(request.state->manifest).low;
    return what;
  }
  std::vector<std::uint64_t> counts;
  for (const Tensor& tensor : request.tensors) {
    counts.push_back(tensor.count);
    what.count += tensor.count;
  }
  if (!counts.empty()) what.layout = XXH3_64bits(counts.data(), counts.size() * sizeof(std::uint64_t));
  return what;
}

}  // namespace lockstep::peer
