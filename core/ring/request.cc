#include "core/ring/request.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "core/state/manifest.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

std::optional<std::string> validate_reduction(const Request& request) {
  if (!reduces(request.collective) || is_defined(request.type, request.op)) return std::nullopt;
  const std::string type(lockstep::name_of(request.type));
  if (request.type == DataType::kBool) return type + " has no avg: use sum or bor (any), prod or band (all), or bxor";
  return type + " has no " + std::string(lockstep::name_of(request.op)) + ": bitwise operations need integers or bool";
}

std::optional<std::string> validate_encoding(const Request& request) {
  const bool feeds_back =
      std::ranges::any_of(request.tensors, [](const Tensor& tensor) { return tensor.residual.length > 0; });
  if (feeds_back && !goes_direct(request)) {
    return std::string("residuals need the direct algorithm: around the ring no contribution is encoded on its own");
  }
  const bool plain = request.formats.native() && !request.weight;
  if (request.algorithm == wire::Algorithm::kGrid && !plain) {
    return std::string("in a grid contributions go as they are, without wire formats and weights: use the direct ") +
           "algorithm, or the ring";
  }
  const bool can_ask = request.collective == Collective::kAllReduce ||
                       (wire::has_choice(request.collective) && request.algorithm != wire::Algorithm::kDirect);
  if (request.algorithm && !can_ask)
    return std::string(wire::name_of(request.collective)) + " cannot ask for the algorithm " +
           std::string(wire::name_of(*request.algorithm)) + ": only an all-reduce can ask for all of them";
  if (!is_encoded(request) && !feeds_back) return std::nullopt;
  if (!can_encode(request)) {
    const std::string what = !request.formats.native() ? "wire formats" : request.weight ? "weights" : "residuals";
    return "only an all-reduce of f32 (sum or avg) has " + what + ", not " +
           std::string(wire::name_of(request.collective)) + " of " + std::string(lockstep::name_of(request.type)) +
           " (" + std::string(lockstep::name_of(request.op)) + ")";
  }
  if (bits_of(request.formats.up) < 8 && request.algorithm == wire::Algorithm::kRing) {
    return "around the ring contributions are rounded at every member, which is too often for " +
           std::string(lockstep::name_of(request.formats.up)) +
           ": use the direct algorithm, or a format of 8 bits or more on the way up (int8)";
  }
  return std::nullopt;
}

std::optional<std::string> validate_blocks(const Request& request) {
  const std::string name(wire::name_of(request.collective));
  if (!wire::exchanges(request.collective))
    return request.blocks.empty() ? std::nullopt : std::optional(name + " takes no blocks");
  if (request.blocks.size() > kMaxMembers) {
    return name + " with " + std::to_string(request.blocks.size()) + " blocks; a run has at most " +
           std::to_string(kMaxMembers) + " members";
  }
  std::uint64_t left = request.tensors.front().count;
  std::vector<PeerId> receivers;
  for (const Block& block : request.blocks) {
    if (block.to.is_nobody()) return name + ": a block for no peer: give the id of a member";
    if (request.collective == Collective::kGather && block.to != request.root)
      return std::string("gather: a block for another peer than the root");
    if (block.count > left)
      return name + ": the blocks have more elements than the " + std::to_string(request.tensors.front().count) +
             " of send";
    left -= block.count;
    receivers.push_back(block.to);
  }
  if (left != 0) {
    return name + ": the blocks have " + std::to_string(request.tensors.front().count - left) + " elements, send has " +
           std::to_string(request.tensors.front().count);
  }
  std::ranges::sort(receivers);
  if (std::ranges::adjacent_find(receivers) != receivers.end())
    return name + ": two blocks for one peer: give each member one block";
  return std::nullopt;
}

std::uint64_t block_bytes_to(const Request& request, PeerId to) {
  const std::uint64_t element = size_of(request.type);
  if (request.collective == Collective::kAllGather) return request.tensors.front().count * element;
  const auto block = std::ranges::find(request.blocks, to, &Block::to);
  return block == request.blocks.end() ? 0 : block->count * element;
}

std::uint64_t layout_of(std::span<const std::uint64_t> counts) {
  return counts.empty() ? 0 : XXH3_64bits(counts.data(), counts.size_bytes());
}

wire::Descriptor descriptor_of(const Request& request, std::uint32_t segment_bytes) {
  wire::Descriptor what;
  what.collective = request.collective;
  what.type = request.collective == Collective::kBarrier ? DataType::kU8 : request.type;
  what.op = reduces(request.collective) ? request.op : ReduceOp::kSum;
  what.retry = request.retry && (request.collective == Collective::kAllReduce ||
                                 request.collective == Collective::kBarrier || request.collective == Collective::kSync);
  what.minimum_world = request.minimum_world;
  what.tensors = request.stated ? request.stated->tensors : static_cast<std::uint32_t>(request.tensors.size());
  if (wire::has_root(request.collective)) what.root = request.root;
  what.formats = request.formats;
  what.algorithm = algorithm_of(request);
  what.weighted = request.weight.has_value();
  if (request.collective != Collective::kBarrier) what.segment_bytes = segment_bytes;
  if (wire::has_blocks(request.collective)) return what;
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
  what.layout = request.stated ? request.stated->layout : layout_of(counts);
  return what;
}

}  // namespace lockstep::ring
