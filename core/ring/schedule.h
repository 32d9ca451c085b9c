// Who sends which piece to whom: arithmetic only. A tensor is cut into one chunk per rank, a chunk into segments. Every
// chunk has an owner, the rank of the same number. In reduce-scatter a chunk starts at the rank after its owner,
// travels once around the ring, is folded at every stop, and ends whole at its owner; in all-gather it travels from its
// owner to everybody else. So the fold of chunk c is ((x_{c+1} op x_{c+2}) op ...) op x_c, ranks modulo the world size,
// on every peer.
//
// An all-reduce of a small tensor is not cut: all of it is one chunk. That makes as many hops one after the other, but
// one message at each where there would be one from every rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/kernels/formats/format.h"
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

// The largest tensor of an all-reduce that goes whole: no larger than the smallest segment that would be chosen for a
// part of it, below which messages weigh more than bytes.
constexpr std::uint64_t kWholeBytes = 16U << 10U;

// Whether it does. Who configures the size of segments wants to have them.
constexpr bool goes_whole(wire::Collective collective, std::uint64_t count, std::uint32_t element_bytes,
                          std::uint32_t configured_segment_bytes) {
  return collective == wire::Collective::kAllReduce && count <= kWholeBytes / element_bytes &&
         configured_segment_bytes == 0;
}

// Who owns it: the ranks take turns, tensor by tensor.
constexpr std::uint32_t owner_of_whole(std::uint32_t tensor, std::uint32_t world) { return tensor % world; }

constexpr bool reduces(wire::Collective collective) {
  return collective == wire::Collective::kAllReduce || collective == wire::Collective::kReduceScatter;
}

// Which phases a collective has.
constexpr bool has_phase(wire::Collective collective, wire::Phase phase) {
  switch (collective) {
    case wire::Collective::kAllReduce: return true;
    case wire::Collective::kReduceScatter: return phase == wire::Phase::kReduceScatter;
    case wire::Collective::kAllGather:
    case wire::Collective::kBroadcast: return phase == wire::Phase::kAllGather;
    case wire::Collective::kBarrier:
    case wire::Collective::kSync: return false;
  }
  return false;
}

// What a rank does with a chunk in one phase. `hops` counts from the rank where the chunk starts.
struct Part {
  bool receives = false;
  bool sends = false;
};
constexpr Part part_of(wire::Phase phase, std::uint32_t rank, std::uint32_t owner, std::uint32_t world) {
  const std::uint32_t start = phase == wire::Phase::kReduceScatter ? (owner + 1) % world : owner;
  const std::uint32_t hops = (rank + world - start) % world;
  return {hops > 0, hops + 1 < world};
}

// How a piece travels in one phase.
struct Form {
  WireFormat format = WireFormat::kNative;
  std::uint32_t bytes = 0;
};

// One segment: a piece of one tensor within one owner's chunk.
struct Piece {
  std::uint32_t tensor = 0;
  std::uint32_t owner = 0;
  std::uint64_t offset = 0;   // bytes from the start of the tensor (all-gather: of the whole result)
  std::uint32_t length = 0;   // bytes
  std::array<Form, 2> forms;  // by phase

  [[nodiscard]] const Form& form(wire::Phase phase) const {
    return forms[phase == wire::Phase::kReduceScatter ? 0 : 1];
  }
};

// A chunk so small that its encoding would be no smaller travels as it is.
constexpr WireFormat format_of_chunk(WireFormat format, std::uint64_t elements) {
  return encoded_size(format, elements) < elements * sizeof(float) ? format : WireFormat::kNative;
}

// How far the ranks are from each other: the farthest counts.
enum class Distance : std::uint8_t {
  kFar,       // a message is a while on its way
  kNear,      // it costs those who send and take it more than the way takes (kFarCoordinator)
  kSameHost,  // and they share its cores
};

// How large segments are to be: the same on all ranks.
struct Segmenting {
  std::uint32_t configured = 0;  // bytes; 0: chosen from the size of a chunk
  Distance distance = Distance::kFar;
  Formats formats{};        // all-reduce: pieces are whole blocks, but for the last of a chunk
  std::uint64_t room = 0;   // direct: bytes for what others contribute to a rank's chunks; 0: around the ring
  std::uint32_t turns = 0;  // direct: pieces of one owner that have room at once; 0: as many as there is room for
};

// The payload of a segment: large enough that messages do not count, small enough that it stays in cache between its
// arrival and its departure, and that every rank has enough of them under way.
std::uint32_t segment_bytes_for(std::uint64_t chunk_bytes, std::uint32_t element_bytes, std::uint32_t world,
                                Segmenting segmenting);

// All segments of a call on tensors of these sizes (in elements), the same list on every rank. An owner's chunk of a
// broadcast is the whole tensor; `root` owns it.
std::vector<Piece> cut(wire::Collective collective, std::span<const std::uint64_t> counts, std::uint32_t element_bytes,
                       std::uint32_t world, std::uint32_t root, Segmenting segmenting);

// How many segments that makes. Cheap whatever the counts: asked before they are listed.
std::uint64_t segments_in(wire::Collective collective, std::span<const std::uint64_t> counts,
                          std::uint32_t element_bytes, std::uint32_t world, Segmenting segmenting);
std::uint64_t segments_in_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                                 Segmenting segmenting);

// All segments of an all-gather whose blocks have these sizes (in bytes), in rank order.
std::vector<Piece> cut_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                              Segmenting segmenting);

}  // namespace lockstep::ring
