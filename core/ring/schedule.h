// The schedule of a ring: which rank sends which piece to which rank. Arithmetic only. A tensor is cut into one chunk
// per rank, and a chunk into segments. The owner of a chunk is the rank with the chunk's number. In reduce-scatter, a
// chunk starts at the rank after its owner, travels once around the ring, is folded at every rank, and ends complete at
// its owner. In all-gather, it travels from its owner to all other ranks. So every peer computes chunk c as ((x_{c+1}
// op x_{c+2}) op ...) op x_c, with ranks modulo the world size.
//
// A reduce has one chunk for each tensor, the whole of it, whose owner is the root: every segment travels once around
// the ring and ends at the root.
//
// Direct or in a grid, a broadcast or a reduce of few bytes is one chunk of the root, too. One of more bytes is cut
// into one chunk per owner: to the owners and on to all ranks, or to the owners and on to the root.
//
// An all-reduce of a small tensor is not cut: the whole tensor is one chunk. The number of sequential hops stays the
// same, but each hop takes one message instead of one message per rank. The owners take turns, tensor by tensor.
//
// In a grid (grid.h) not all ranks may own a chunk: there are as many chunks as ranks that may. But in a reduce-scatter
// each rank has a chunk.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/kernels/formats/format.h"
#include "core/ring/grid.h"
#include "core/wire/message.h"

namespace lockstep::ring {

struct Chunk {
  std::uint64_t begin = 0;  // in elements
  std::uint64_t end = 0;
  [[nodiscard]] constexpr std::uint64_t size() const { return end - begin; }
};

// The chunk of one rank: count/world elements, one more for the first count % world ranks.
constexpr Chunk chunk_of(std::uint32_t rank, std::uint32_t world, std::uint64_t count) {
  const std::uint64_t base = count / world;
  const std::uint64_t rest = count % world;
  const std::uint64_t begin = base * rank + (rank < rest ? rank : rest);
  return {begin, begin + base + (rank < rest ? 1 : 0)};
}

// The largest tensor that an all-reduce does not cut: the smallest segment size that would be chosen for a chunk. For
// smaller segments, the cost of a message exceeds the cost of its bytes.
constexpr std::uint64_t kWholeBytes = 16U << 10U;

// Whether an all-reduce leaves the tensor whole. A configured segment size takes precedence.
constexpr bool goes_whole(wire::Collective collective, std::uint64_t count, std::uint32_t element_bytes,
                          std::uint32_t configured_segment_bytes) {
  return collective == wire::Collective::kAllReduce && count <= kWholeBytes / element_bytes &&
         configured_segment_bytes == 0;
}

// How a broadcast or a reduce goes direct. On a long line of 200 Mbit/s so many bytes are under way: so many more take
// as long as another hop. Straight between the root and the others, the root's line carries all bytes once for each of
// them, in one hop; through the owners of chunks, twice, in two hops; around the ring, once, in n - 1 hops.
constexpr std::uint64_t kUnderWay = std::uint64_t{1} << 20U;
constexpr bool goes_straight(std::uint64_t bytes, std::uint32_t world) {
  return bytes <= kUnderWay && (world <= 3 || bytes <= kUnderWay / (world - 3));
}
constexpr bool goes_through_owners(std::uint64_t bytes, std::uint32_t world) {
  return !goes_straight(bytes, world) && world > 3 && bytes <= kUnderWay * (world - 3);
}
// In a grid. Straight, the root's line carries all bytes once for each rank below it, in two hops; through owners,
// twice, in four hops; around the ring, once, in n - 1 hops.
constexpr bool goes_straight_in_grid(std::uint64_t bytes, std::uint32_t world) {
  const std::uint32_t below = Grid::square(world).most_children();
  return bytes <= kUnderWay && (below <= 1 || bytes <= 2 * kUnderWay / (below - 1));
}
constexpr bool pays_in_grid(std::uint64_t bytes, std::uint32_t world) {
  return goes_straight_in_grid(bytes, world) || (world > 5 && bytes <= kUnderWay * (world - 5));
}
// Whether it is cut into chunks, which go through their owners.
constexpr bool is_cut(wire::Algorithm algorithm, std::uint64_t bytes, std::uint32_t world) {
  if (algorithm == wire::Algorithm::kGrid) return !goes_straight_in_grid(bytes, world);
  return algorithm == wire::Algorithm::kDirect && goes_through_owners(bytes, world);
}

using wire::reduces;

// Whether ranks end with different results: only the owner of a chunk gets its result, or only the receiver of a block
// gets the block.
constexpr bool results_differ(wire::Collective collective) {
  return collective == wire::Collective::kReduceScatter || collective == wire::Collective::kReduce ||
         wire::exchanges(collective);
}

// Whether a collective has this phase.
constexpr bool has_phase(wire::Collective collective, wire::Phase phase) {
  switch (collective) {
    case wire::Collective::kAllReduce: return true;
    case wire::Collective::kReduceScatter:
    case wire::Collective::kReduce: return phase == wire::Phase::kReduceScatter;
    case wire::Collective::kAllGather:
    case wire::Collective::kBroadcast:
    case wire::Collective::kGather:
    case wire::Collective::kScatter:
    case wire::Collective::kAllToAll: return phase == wire::Phase::kAllGather;
    case wire::Collective::kBarrier:
    case wire::Collective::kSync: return false;
  }
  return false;
}

// Whether a rank receives and sends a chunk in one phase. `hops` is the distance from the rank where the chunk starts.
struct Part {
  bool receives = false;
  bool sends = false;
};
constexpr Part part_of(wire::Phase phase, std::uint32_t rank, std::uint32_t owner, std::uint32_t world) {
  const std::uint32_t start = phase == wire::Phase::kReduceScatter ? (owner + 1) % world : owner;
  const std::uint32_t hops = (rank + world - start) % world;
  return {hops > 0, hops + 1 < world};
}

// The encoding of a piece in one phase, and its size in bytes.
struct Form {
  WireFormat format = WireFormat::kNative;
  std::uint32_t bytes = 0;
};

// One segment: a piece of one tensor within one owner's chunk.
struct Piece {
  std::uint32_t tensor = 0;
  std::uint32_t owner = 0;
  std::uint32_t last = 0;     // of a reduction: the rank whose contribution is folded last
  std::uint64_t offset = 0;   // bytes from the start of the tensor (all-gather: from the start of the whole result)
  std::uint32_t length = 0;   // bytes
  std::array<Form, 2> forms;  // by phase

  [[nodiscard]] const Form& form(wire::Phase phase) const {
    return forms[phase == wire::Phase::kReduceScatter ? 0 : 1];
  }
};

// A chunk whose encoding would not be smaller is sent in its native form.
constexpr WireFormat format_of_chunk(WireFormat format, std::uint64_t elements) {
  return encoded_size(format, elements) < elements * sizeof(float) ? format : WireFormat::kNative;
}

// The distance between ranks; the two ranks that are farthest apart decide.
enum class Distance : std::uint8_t {
  kFar,       // the latency of the network dominates the cost of a message
  kNear,      // sending and receiving a message costs more than its way through the network (kFarCoordinator)
  kSameHost,  // like kNear, and the ranks share cores
};

// Parameters of an attempt that decide how it is cut. Invariant: equal on all ranks.
struct Segmenting {
  std::uint32_t configured = 0;  // bytes; 0: chosen from the size of a chunk
  Distance distance = Distance::kFar;
  Formats formats{};  // all-reduce: pieces are whole blocks, except the last piece of a chunk
  wire::Algorithm algorithm = wire::Algorithm::kRing;  // never kAuto
  std::uint64_t room = 0;  // direct all-reduce: bytes for the contributions of other ranks to this rank's chunks
  // direct: pieces of one owner that have room at the same time; 0: as many as there is room for
  std::uint32_t turns = 0;
  bool by_rate = false;  // the rank parameters are reports of lines, by which the pieces are dealt out (shares.h)
  bool lossy = false;    // far: a line loses packets, and has many slow streams
  // Segments are passed along the whole ring, so the delay grows with their size.
  bool along_ring = false;
};

// How many segments there are in place of one, because a line loses packets.
std::uint32_t lossy_segments_in_one(const Segmenting& segmenting);

// The payload size of a segment. A segment is large enough that the cost of messages is negligible, small enough to
// stay in cache between its arrival and its departure, and small enough that every rank has several segments under way.
std::uint32_t segment_bytes_for(std::uint64_t chunk_bytes, std::uint32_t element_bytes, std::uint32_t world,
                                Segmenting segmenting);

// Lists all segments of a call on tensors with these sizes (in elements); equal on every rank. In a broadcast or a
// reduce the whole tensor is one chunk, owned by `root`, unless the bytes go through owners.
std::vector<Piece> cut(wire::Collective collective, std::span<const std::uint64_t> counts, std::uint32_t element_bytes,
                       std::uint32_t world, std::uint32_t root, Segmenting segmenting);

// The number of segments that cut() would list. Cheap for any counts: checked before the segments are listed.
std::uint64_t segments_in(wire::Collective collective, std::span<const std::uint64_t> counts,
                          std::uint32_t element_bytes, std::uint32_t world, Segmenting segmenting);
std::uint64_t segments_in_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                                 Segmenting segmenting);

// Lists all segments of an all-gather of blocks with these sizes (in bytes), in rank order.
std::vector<Piece> cut_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                              Segmenting segmenting);

// Lists the segments of one block of a gather, a scatter or an all-to-all, which begins at byte `begin` of its place.
// Sender and receiver list the same ones. segments_in_block(): how many.
std::vector<Piece> cut_block(std::uint32_t owner, std::uint64_t begin, std::uint64_t bytes, std::uint32_t element_bytes,
                             std::uint32_t world, Segmenting segmenting);
std::uint64_t segments_in_block(std::uint64_t bytes, std::uint32_t element_bytes, std::uint32_t world,
                                Segmenting segmenting);

}  // namespace lockstep::ring
