// P1: no byte travels twice. Undisturbed, every peer sends exactly what the ring needs: in an all-reduce all chunks but one in
// each of two phases, 2(n-1)/n of the tensor (a small one is one chunk); and receives as much as its neighbour sends. Whatever happens, an attempt costs no
// more than its own bytes, and a lost stream no more than what was sent on it.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/ring/schedule.h"
#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/text.h"

namespace lockstep::sim {

// The payload that this rank of `world` sends in one attempt.
inline std::uint64_t ring_bytes(const Call& call, std::uint32_t rank, std::uint32_t world, std::uint32_t root) {
  using peer::Collective;
  const peer::Request& request = call.request;
  const std::vector<std::uint64_t>& blocks = call.outcome->blocks;
  if (world == 1) return 0;
  const std::uint32_t next = (rank + 1) % world;
  const std::uint64_t size = size_of(request.type);
  if (request.collective == Collective::kAllGather) {
    return size * (std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0}) - blocks[next]);
  }
  const auto encoded = [&](WireFormat format, std::uint64_t elements) {
    if (!peer::is_encoded(request)) return size * elements;
    return std::uint64_t{encoded_size(ring::format_of_chunk(format, elements), elements)};
  };
  std::uint64_t bytes = 0;
  for (std::uint32_t t = 0; t < request.tensors.size(); ++t) {
    const peer::Tensor& tensor = request.tensors[t];
    const bool whole =
        ring::goes_whole(request.collective, tensor.count, static_cast<std::uint32_t>(size), call.segment_bytes);
    const auto all_but = [&](std::uint32_t owner, WireFormat format) {
      if (whole) return owner == ring::owner_of_whole(t, world) ? 0 : encoded(format, tensor.count);
      std::uint64_t others = 0;
      for (std::uint32_t r = 0; r < world; ++r) {
        if (r != owner) others += encoded(format, ring::chunk_of(r, world, tensor.count).size());
      }
      return others;
    };
    switch (request.collective) {
      case Collective::kAllReduce:
        bytes += all_but(rank, request.formats.up) + all_but(next, request.formats.down);
        break;
      case Collective::kReduceScatter: bytes += all_but(rank, WireFormat::kNative); break;
      case Collective::kBroadcast: bytes += next == root ? 0 : size * tensor.count; break;
      case Collective::kAllGather:
      case Collective::kBarrier:
      case Collective::kSync: break;
    }
  }
  return bytes;
}

// `disturbances`: faults that have begun, and may have cost streams.
inline Complaint check_bytes_sent(const Call& call, std::uint64_t disturbances) {
  const peer::Outcome& outcome = *call.outcome;
  if (outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  if (call.request.collective == peer::Collective::kSync) return {};
  const std::vector<PeerId>& ring = *outcome.contributors;
  const auto world = static_cast<std::uint32_t>(ring.size());
  const auto rank_of = [&](PeerId peer) {
    return static_cast<std::uint32_t>(std::find(ring.begin(), ring.end(), peer) - ring.begin());
  };
  const std::uint32_t rank = rank_of(call.peer);
  if (rank == world) return {};  // S2 says so
  const std::uint32_t root = rank_of(call.request.root);
  const std::uint64_t sent = ring_bytes(call, rank, world, root);
  const std::uint64_t received = ring_bytes(call, (rank + world - 1) % world, world, root);
  const auto said = [&](const char* what, std::uint64_t actual, std::uint64_t wanted) {
    return text_of(call.peer) + " " + what + " " + std::to_string(actual) + " bytes for " + text_of(outcome.round) +
           " as rank " + std::to_string(rank) + " of " + std::to_string(world) + ", which takes " +
           std::to_string(wanted);
  };
  if (disturbances == 0 && outcome.retries == 0) {
    if (outcome.bytes_sent != sent) return said("sent", outcome.bytes_sent, sent);
    if (outcome.bytes_received != received) return said("received", outcome.bytes_received, received);
    return {};
  }
  // A larger ring before: at most everything, in both phases.
  std::uint64_t whole = std::accumulate(outcome.blocks.begin(), outcome.blocks.end(), std::uint64_t{0});
  for (const peer::Tensor& tensor : call.request.tensors) whole += tensor.count;
  const std::uint64_t most = 2 * whole * size_of(call.request.type) * (1 + outcome.retries + disturbances);
  if (outcome.bytes_sent > most) return said("sent", outcome.bytes_sent, most) + " at most";
  return {};
}

}  // namespace lockstep::sim
