// P1: no byte travels twice. In an undisturbed ring, every peer sends exactly the bytes of the collective, and receives
// as many as its neighbour sends. For an all-reduce these are all chunks but one in each of two phases, 2(n-1)/n of the
// tensor (a small tensor is one chunk). In an undisturbed direct all-reduce, a peer sends its part of all chunks but
// its own, and n-1 copies of its own chunk. With disturbances, an attempt costs no more than its own bytes, and a lost
// stream no more than the bytes that were sent on it.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sim/checkers/complaint.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// The bytes of one tensor in the chunk of this rank, in an all-reduce or reduce-scatter.
inline std::uint64_t chunk_bytes(const Call& call, std::uint32_t tensor, std::uint32_t rank, std::uint32_t world,
                                 WireFormat format) {
  const ring::Request& request = call.request;
  const std::uint64_t size = size_of(request.type);
  const std::uint64_t count = request.tensors[tensor].count;
  std::uint64_t elements = oracle::chunk_of(rank, world, count).size();
  if (oracle::is_one_chunk(request.collective, count * size, call.launch.segment_bytes)) {
    elements = rank == oracle::owner_of_one_chunk(tensor, world) ? count : 0;
  }
  if (!oracle::is_encoded(request)) return size * elements;
  return oracle::coded_bytes(oracle::format_of(format, elements), elements);
}

inline std::uint64_t bytes_of_all_but(const Call& call, std::uint32_t tensor, std::uint32_t owner, std::uint32_t world,
                                      WireFormat format) {
  std::uint64_t bytes = 0;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    if (rank != owner) bytes += chunk_bytes(call, tensor, rank, world, format);
  }
  return bytes;
}

// The payload that this rank of `world` sends in one attempt around the ring.
inline std::uint64_t ring_bytes(const Call& call, std::uint32_t rank, std::uint32_t world, std::uint32_t root) {
  using wire::Collective;
  const ring::Request& request = call.request;
  const std::vector<std::uint64_t>& blocks = call.outcome->blocks;
  if (world == 1) return 0;
  const std::uint32_t next = (rank + 1) % world;
  const std::uint64_t size = size_of(request.type);
  if (request.collective == Collective::kAllGather) {
    return size * (std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0}) - blocks[next]);
  }
  std::uint64_t bytes = 0;
  for (std::uint32_t t = 0; t < request.tensors.size(); ++t) {
    switch (request.collective) {
      case Collective::kAllReduce:
        bytes += bytes_of_all_but(call, t, rank, world, request.formats.up);
        bytes += bytes_of_all_but(call, t, next, world, request.formats.down);
        break;
      case Collective::kReduceScatter: bytes += bytes_of_all_but(call, t, rank, world, WireFormat::kNative); break;
      case Collective::kReduce: bytes += rank == root ? 0 : size * request.tensors[t].count; break;
      case Collective::kBroadcast: bytes += next == root ? 0 : size * request.tensors[t].count; break;
      case Collective::kAllGather:
      case Collective::kGather:
      case Collective::kScatter:
      case Collective::kAllToAll:
      case Collective::kBarrier:
      case Collective::kSync: break;
    }
  }
  return bytes;
}

// In an exchange a rank sends every block that is for another one, once.
inline std::uint64_t exchanged_bytes(const Call& call, std::uint32_t rank, bool sent) {
  std::uint64_t elements = 0;
  if (sent) {
    for (const ring::Block& block : call.request.blocks) elements += block.to == call.peer ? 0 : block.count;
  } else {
    const std::vector<std::uint64_t>& blocks = call.outcome->blocks;
    elements = std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0}) - blocks[rank];
  }
  return elements * size_of(call.request.type);
}

// The same for the direct algorithm: all chunks but its own in one format, and its own chunk to every other rank in
// another. Sent: contributions and results; received: results and contributions.
inline std::uint64_t direct_bytes(const Call& call, std::uint32_t rank, std::uint32_t world, WireFormat of_others,
                                  WireFormat of_own) {
  std::uint64_t bytes = 0;
  for (std::uint32_t t = 0; world > 1 && t < call.request.tensors.size(); ++t) {
    bytes += bytes_of_all_but(call, t, rank, world, of_others);
    bytes += (world - 1) * chunk_bytes(call, t, rank, world, of_own);
  }
  return bytes;
}

// `disturbances`: faults that have begun, and may have cost streams.
inline Complaint check_bytes_sent(const Call& call, std::uint64_t disturbances) {
  const peer::Outcome& outcome = *call.outcome;
  if (outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  if (call.request.collective == wire::Collective::kSync) return {};
  const std::vector<PeerId>& ring = *outcome.contributors;
  const auto world = static_cast<std::uint32_t>(ring.size());
  const auto rank_of = [&](PeerId peer) {
    return static_cast<std::uint32_t>(std::find(ring.begin(), ring.end(), peer) - ring.begin());
  };
  const std::uint32_t rank = rank_of(call.peer);
  if (rank == world) return {};  // S2 says so
  const std::uint32_t root = rank_of(call.request.root);
  const bool direct = oracle::is_direct(outcome);
  const Formats formats = call.request.formats;
  const bool exchange = oracle::is_exchange(call.request.collective);
  const std::uint64_t sent = exchange ? exchanged_bytes(call, rank, true)
                             : direct ? direct_bytes(call, rank, world, formats.up, formats.down)
                                      : ring_bytes(call, rank, world, root);
  const std::uint64_t received = exchange ? exchanged_bytes(call, rank, false)
                                 : direct ? direct_bytes(call, rank, world, formats.down, formats.up)
                                          : ring_bytes(call, (rank + world - 1) % world, world, root);
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
  // After a larger ring: at most the whole tensor, in both phases.
  std::uint64_t whole = std::accumulate(outcome.blocks.begin(), outcome.blocks.end(), std::uint64_t{0});
  for (const ring::Tensor& tensor : call.request.tensors) whole += tensor.count;
  // With the direct algorithm the owner of a small tensor sends the whole result to each of them; an attempt before
  // this one may have gone direct.
  const bool around = oracle::asked(call.request) == wire::Algorithm::kRing;
  const std::uint64_t times = around ? 2 : world + disturbances;
  const std::uint64_t most = times * whole * size_of(call.request.type) * (1 + outcome.retries + disturbances);
  if (outcome.bytes_sent > most) return said("sent", outcome.bytes_sent, most) + " at most";
  return {};
}

}  // namespace lockstep::sim
