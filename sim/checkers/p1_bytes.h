// P1: no byte travels twice. In an undisturbed ring, every peer sends exactly the bytes of the collective, and receives
// as many as its neighbour sends. For an all-reduce these are all chunks but one in each of two phases, 2(n-1)/n of the
// tensor (a small tensor is one chunk). In an undisturbed direct all-reduce, a peer sends its part of all chunks but
// its own, and n-1 copies of its own chunk; in other direct collectives a part of that. Where ranks own what their
// lines carry, these are pieces in place of a chunk, and only whole segments have an owner. With disturbances, an
// attempt costs no more than its own bytes, and a lost stream no more than the bytes that were sent on it.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sim/checkers/complaint.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/checkers/oracle_grid.h"
#include "sim/checkers/oracle_shares.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// The bytes of so many elements of a chunk.
inline std::uint64_t elements_bytes(const Call& call, std::uint64_t elements, WireFormat format) {
  if (!oracle::is_encoded(call.request)) return size_of(call.request.type) * elements;
  return oracle::coded_bytes(oracle::format_of(format, elements), elements);
}

inline bool travels_whole(const Call& call, std::uint64_t count) {
  return oracle::is_one_chunk(call.request.collective, count * size_of(call.request.type), call.launch.segment_bytes);
}

// The bytes of one tensor in the chunk of this rank, in an all-reduce or reduce-scatter.
inline std::uint64_t chunk_bytes(const Call& call, std::uint32_t tensor, std::uint32_t rank, std::uint32_t world,
                                 WireFormat format) {
  const std::uint64_t count = call.request.tensors[tensor].count;
  if (travels_whole(call, count)) {
    return elements_bytes(call, rank == oracle::owner_of_one_chunk(tensor, world) ? count : 0, format);
  }
  return elements_bytes(call, oracle::chunk_of(rank, world, count).size(), format);
}

// The chunks of a tensor have two sizes at most, so the sum takes no walk over the ranks.
inline std::uint64_t bytes_of_all_but(const Call& call, std::uint32_t tensor, std::uint32_t owner, std::uint32_t world,
                                      WireFormat format) {
  const std::uint64_t count = call.request.tensors[tensor].count;
  const std::uint64_t larger = travels_whole(call, count) ? 1 : count % world;
  const std::uint64_t of_larger = travels_whole(call, count) ? count : count / world + 1;
  const std::uint64_t of_smaller = travels_whole(call, count) ? 0 : count / world;
  const std::uint64_t all =
      larger * elements_bytes(call, of_larger, format) + (world - larger) * elements_bytes(call, of_smaller, format);
  return all - (owner < world ? chunk_bytes(call, tensor, owner, world, format) : 0);
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

struct Payload {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

// The same for the direct algorithm. An all-reduce: all chunks but its own in one format, and its own chunk to every
// other rank in another. Sent: contributions and results; received: results and contributions.
inline Payload direct_bytes(const Call& call, std::uint32_t rank, std::uint32_t world, std::uint32_t root) {
  using wire::Collective;
  const ring::Request& request = call.request;
  const std::uint64_t others = world - 1;
  const std::uint64_t all = oracle::bytes_of(request);
  const bool owners = oracle::way_of_root(all, world) == oracle::RootWay::kThroughOwners;
  const Formats formats = request.formats;
  if (others == 0) return {};
  std::uint64_t own = 0;  // chunk
  for (std::uint32_t t = 0; t < request.tensors.size(); ++t)
    own += chunk_bytes(call, t, rank, world, WireFormat::kNative);
  Payload bytes;
  if (!call.outcome->way.rates.empty()) {
    const std::vector<double> parts = oracle::parts_of(call.outcome->way.rates);
    if (!parts.empty()) {
      own = static_cast<std::uint64_t>(parts[rank] * static_cast<double>(all));
      bytes.sent = bytes.received = all - own + others * own;
      return bytes;
    }
  }
  switch (request.collective) {
    case Collective::kAllReduce:
      for (std::uint32_t t = 0; t < request.tensors.size(); ++t) {
        bytes.sent += bytes_of_all_but(call, t, rank, world, formats.up);
        bytes.sent += others * chunk_bytes(call, t, rank, world, formats.down);
        bytes.received += bytes_of_all_but(call, t, rank, world, formats.down);
        bytes.received += others * chunk_bytes(call, t, rank, world, formats.up);
      }
      return bytes;
    case Collective::kReduceScatter: return {all - own, others * own};
    case Collective::kAllGather: {
      const std::vector<std::uint64_t>& blocks = call.outcome->blocks;
      const std::uint64_t total = std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
      return {size_of(request.type) * blocks[rank] * others, size_of(request.type) * (total - blocks[rank])};
    }
    case Collective::kBroadcast:
      if (rank == root) return {owners ? all - own + others * own : others * all, 0};
      return {owners ? (others - 1) * own : 0, all};
    case Collective::kReduce:
      if (rank == root) return {owners ? all - own : 0, owners ? others * own + all - own : others * all};
      return {all, owners ? others * own : 0};
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
    case Collective::kBarrier:
    case Collective::kSync: return {};
  }
  LOCKSTEP_UNREACHABLE();
}

// In a grid an all-gather sends each block to the ranks below its owner, and on from relays.
inline Payload grid_bytes_of_blocks(const Call& call, std::uint32_t rank) {
  const std::vector<std::uint64_t>& blocks = call.outcome->blocks;
  const std::vector<oracle::Ranks> grid = oracle::rows_of(blocks.size());
  Payload bytes;
  for (std::size_t owner = 0; owner < blocks.size(); ++owner) {
    bytes.sent += blocks[owner] * oracle::below_in_grid(grid, rank, owner).size();
    bytes.received += owner == rank ? 0 : blocks[owner];
  }
  const std::uint64_t size = size_of(call.request.type);
  return {bytes.sent * size, bytes.received * size};
}

// Calls what(owner, bytes) for each piece of a broadcast or a reduce in a grid: all of it, or the chunks.
template <typename What>
void each_of_root_in_grid(const Call& call, std::uint32_t world, std::uint32_t root, const What& what) {
  const ring::Request& request = call.request;
  const std::uint64_t all = oracle::bytes_of(request);
  if (oracle::way_of_root_in_grid(all, world) == oracle::RootWay::kStraight) return what(root, all);
  const oracle::Ranks owners = oracle::owners_in_grid(world);
  for (const ring::Tensor& tensor : request.tensors) {
    for (std::size_t k = 0; k < owners.size(); ++k)
      what(owners[k], oracle::chunk_of(k, owners.size(), tensor.count).size() * size_of(request.type));
  }
}

// A broadcast: each rank gets each byte once. The rank that has it from the root, for an owner in another row, passes
// it on to the owner and to its own row.
inline Payload grid_bytes_of_broadcast(const Call& call, std::uint32_t rank, std::uint32_t world, std::uint32_t root) {
  const std::vector<oracle::Ranks> grid = oracle::rows_of(world);
  Payload bytes;
  each_of_root_in_grid(call, world, root, [&](std::uint64_t owner, std::uint64_t piece) {
    const std::uint64_t passes = oracle::relay_in(grid, oracle::place_in(grid, root).row, owner);
    std::uint64_t copies = 0;
    for (const std::uint64_t to : oracle::below_in_grid(grid, rank, owner))
      copies += to == root || to == passes ? 0 : 1;
    if (rank == root && root != owner) ++copies;                    // to the owner, or to the one that passes it on
    if (rank == passes && rank != owner && rank != root) ++copies;  // to the owner
    bytes.sent += copies * piece;
    bytes.received += rank == root ? 0 : piece;
  });
  return bytes;
}

// A reduction whose result does not come back the same way: a rank sends one contribution for each piece that it does
// not own, its own or the sum of its row, and receives one from each rank below it.
inline Payload contributions_in_grid(const std::vector<oracle::Ranks>& grid, std::uint32_t rank, std::uint64_t owner,
                                     std::uint64_t piece) {
  return {rank == owner ? 0 : piece, oracle::below_in_grid(grid, rank, owner).size() * piece};
}

inline Payload grid_bytes_of_reduce_scatter(const Call& call, std::uint32_t rank, std::uint32_t world) {
  const std::vector<oracle::Ranks> grid = oracle::rows_of(world);
  const ring::Request& request = call.request;
  Payload bytes;
  for (std::uint32_t owner = 0; owner < world; ++owner) {
    const std::uint64_t chunk = oracle::chunk_of(owner, world, request.tensors.front().count).size();
    const Payload of = contributions_in_grid(grid, rank, owner, chunk * size_of(request.type));
    bytes.sent += of.sent;
    bytes.received += of.received;
  }
  return bytes;
}

// The result of a chunk goes from its owner to the root, by the relay in the root's row.
inline Payload grid_bytes_of_reduce(const Call& call, std::uint32_t rank, std::uint32_t world, std::uint32_t root) {
  const std::vector<oracle::Ranks> grid = oracle::rows_of(world);
  Payload bytes;
  each_of_root_in_grid(call, world, root, [&](std::uint64_t owner, std::uint64_t piece) {
    const Payload of = contributions_in_grid(grid, rank, owner, piece);
    bytes.sent += of.sent;
    bytes.received += of.received;
    if (owner == root) return;
    const std::uint64_t relay = oracle::relay_in(grid, oracle::place_in(grid, root).row, owner);
    const bool between = rank == relay && relay != owner && relay != root;
    if (rank == owner || between) bytes.sent += piece;
    if (rank == root || between) bytes.received += piece;
  });
  return bytes;
}

// The same in a grid. The contribution to a piece goes up to the relay, and from there, with those of the row, to the
// owner; the result comes back the same way. So a rank sends one contribution for each piece that it does not own, and
// the result to each rank that has sent it a contribution; it receives as much.
inline Payload grid_bytes(const Call& call, std::uint32_t rank, std::uint32_t world, std::uint32_t root) {
  const ring::Request& request = call.request;
  if (world == 1) return {};
  if (request.collective == wire::Collective::kAllGather) return grid_bytes_of_blocks(call, rank);
  if (request.collective == wire::Collective::kBroadcast) return grid_bytes_of_broadcast(call, rank, world, root);
  if (request.collective == wire::Collective::kReduceScatter) return grid_bytes_of_reduce_scatter(call, rank, world);
  if (request.collective == wire::Collective::kReduce) return grid_bytes_of_reduce(call, rank, world, root);
  const std::uint64_t size = size_of(request.type);
  const std::vector<oracle::Ranks> grid = oracle::rows_of(world);
  const oracle::Ranks owners = oracle::owners_in_grid(world);
  const oracle::Place here = oracle::place_in(grid, rank);
  std::uint64_t bytes = 0;
  const auto add = [&](std::uint64_t owner, std::uint64_t elements) {
    std::uint64_t links = owner == rank ? grid.size() - 1 : 1;
    if (oracle::place_in(grid, owner).column == here.column) links += grid[here.row].size() - 1;
    bytes += links * elements * size;
  };
  for (std::size_t t = 0; t < request.tensors.size(); ++t) {
    const std::uint64_t count = request.tensors[t].count;
    if (oracle::is_one_chunk(request.collective, count * size, call.launch.segment_bytes)) {
      add(owners[oracle::owner_of_one_chunk(t, owners.size())], count);
      continue;
    }
    for (std::size_t k = 0; k < owners.size(); ++k) add(owners[k], oracle::chunk_of(k, owners.size(), count).size());
  }
  return {bytes, bytes};
}

// The bytes of a rank that owns by rate differ from that by a segment for each of the others at most, and by the
// rounding of shares. Without a configured size a segment has 256 KiB at most, and no more than a chunk.
inline std::uint64_t slack_of(const Call& call, std::uint64_t world) {
  if (call.outcome->way.rates.empty()) return 0;
  std::uint64_t segment = call.launch.segment_bytes;
  if (segment == 0) {
    for (const ring::Tensor& tensor : call.request.tensors) {
      const std::uint64_t bytes = tensor.count * size_of(call.request.type);
      const bool whole = oracle::is_one_chunk(call.request.collective, bytes, 0);
      segment = std::max(segment, whole ? bytes : bytes / world + 8);
    }
    segment = std::min<std::uint64_t>(segment, 262'144);
  }
  return (segment + 8 + oracle::bytes_of(call.request) * world / 65'536) * (world - 2);
}

inline bool are_apart(std::uint64_t a, std::uint64_t b, std::uint64_t slack) {
  return std::max(a, b) - std::min(a, b) > slack;
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
  const bool exchange = oracle::is_exchange(call.request.collective);
  const auto [sent, received] =
      exchange ? Payload{exchanged_bytes(call, rank, true), exchanged_bytes(call, rank, false)}
      : direct ? direct_bytes(call, rank, world, root)
      : oracle::is_grid(outcome)
          ? grid_bytes(call, rank, world, root)
          : Payload{ring_bytes(call, rank, world, root), ring_bytes(call, (rank + world - 1) % world, world, root)};
  const auto said = [&](const char* what, std::uint64_t actual, std::uint64_t wanted) {
    return text_of(call.peer) + " " + what + " " + std::to_string(actual) + " bytes for " + text_of(outcome.round) +
           " as rank " + std::to_string(rank) + " of " + std::to_string(world) + ", which takes " +
           std::to_string(wanted);
  };
  if (disturbances == 0 && outcome.retries == 0) {
    const std::uint64_t slack = slack_of(call, world);
    if (are_apart(outcome.bytes_sent, sent, slack)) return said("sent", outcome.bytes_sent, sent);
    if (are_apart(outcome.bytes_received, received, slack)) return said("received", outcome.bytes_received, received);
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
