#include "core/ring/schedule.h"

#include <algorithm>
#include <numeric>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::ring {

namespace {

// A second-level cache (1 to 2 MiB) holds several segments of 256 KiB. Below 16 KiB, headers, system calls and steps of
// the machines cost more than the bytes.
constexpr std::uint64_t kLargestSegment = 256U << 10U;
constexpr std::uint64_t kSmallestSegment = 16U << 10U;
// Far peers have many slow streams where lines lose packets or are thin, and the last segment on each of them takes
// long. Each piece of a chunk takes the time of a segment twice, and its room is taken for as long. The more packets a
// line loses, the slower its streams: there, segments are as small as they may be.
constexpr std::uint64_t kLargestFarSegment = 64U << 10U;
// Far peers: enough segments to keep a line full. Near peers: one segment is folded while the next one arrives. Peers
// on one host gain nothing from that, so a chunk of up to 512 KiB is one segment. With a world of two, no segment is
// passed on and has to stay in cache, so a chunk of any size is one segment.
constexpr std::uint64_t kSegmentsPerChunk = 8;
constexpr std::uint64_t kSegmentsPerNearChunk = 2;
constexpr std::uint64_t kWholeChunk = 512U << 10U;
// Direct algorithm: the pieces whose contributions are under way at the same time, each with room of its own.
constexpr std::uint64_t kLeastInTurn = 4;

// The size of a block in bytes. Every piece consists of whole blocks, except the last piece of a chunk.
constexpr std::uint64_t block_bytes_of(Formats formats) {
  return formats.native() ? 1 : formats.block_elements() * sizeof(float);
}

// A remainder of less than one block is part of the piece before it: encoded on its own, it might need more room than
// it has.
void cut_range(std::vector<Piece>& pieces, std::uint32_t tensor, std::uint32_t owner, std::uint64_t begin,
               std::uint64_t end, std::uint32_t segment, Formats formats = {}) {
  const std::uint64_t block = block_bytes_of(formats);
  const std::uint64_t elements = (end - begin) / sizeof(float);  // used only for encoded formats
  const WireFormat up = format_of_chunk(formats.up, elements);
  const WireFormat down = format_of_chunk(formats.down, elements);
  for (std::uint64_t at = begin; at < end; at += pieces.back().length) {
    const std::uint64_t rest = end - at;
    const auto length = static_cast<std::uint32_t>(rest < segment + block ? rest : segment);
    const auto form = [&](WireFormat format) -> Form {
      if (format == WireFormat::kNative) return {format, length};
      return {format, static_cast<std::uint32_t>(encoded_size(format, length / sizeof(float)))};
    };
    pieces.push_back({tensor, owner, owner, at, length, {form(up), form(down)}});
  }
}

constexpr std::uint64_t segments_of(std::uint64_t bytes, std::uint32_t segment, Formats formats = {}) {
  const std::uint64_t rest = bytes % segment;
  return bytes / segment + (rest >= block_bytes_of(formats) || (rest > 0 && bytes < segment) ? 1 : 0);
}

// One segment size for all chunks of a tensor, or for all blocks: the size for the largest one.
std::uint32_t segment_of_tensor(std::uint64_t count, std::uint32_t owners, std::uint32_t element_bytes,
                                std::uint32_t world, Segmenting segmenting) {
  return segment_bytes_for(chunk_of(0, owners, count).size() * element_bytes, element_bytes, world, segmenting);
}
std::uint32_t segment_of_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                                Segmenting segmenting) {
  const std::uint64_t largest = block_bytes.empty() ? 0 : *std::max_element(block_bytes.begin(), block_bytes.end());
  return segment_bytes_for(largest, element_bytes, static_cast<std::uint32_t>(block_bytes.size()), segmenting);
}

std::uint64_t chosen_segment(std::uint64_t chunk_bytes, std::uint32_t world, const Segmenting& segmenting) {
  const bool whole = chunk_bytes <= kWholeChunk || world == 2;
  if (segmenting.distance == Distance::kSameHost && whole && !segmenting.along_ring) return chunk_bytes;
  const bool far = segmenting.distance == Distance::kFar;
  const std::uint64_t segments = far || segmenting.along_ring ? kSegmentsPerChunk : kSegmentsPerNearChunk;
  const std::uint64_t largest_far = segmenting.lossy ? kSmallestSegment : kLargestFarSegment;
  const std::uint64_t largest = far ? largest_far : kLargestSegment;
  return std::clamp(chunk_bytes / segments, kSmallestSegment, largest);
}

// The ranks that own chunks of a tensor, in order.
class Owners {
 public:
  Owners(wire::Collective collective, std::uint32_t world, const Segmenting& segmenting)
      : grid_(grid_of(segmenting.algorithm, world)),
        number_(collective == wire::Collective::kReduceScatter ? world : grid_.owners()) {}
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] std::uint32_t rank(std::uint32_t index) const {
    return number_ == grid_.owners() ? grid_.owner(index) : index;
  }

 private:
  Grid grid_;
  std::uint32_t number_;
};

// Whether each tensor is one chunk, which the root owns.
bool is_of_root(wire::Collective collective, std::span<const std::uint64_t> counts, std::uint32_t element_bytes,
                std::uint32_t world, const Segmenting& segmenting) {
  if (!wire::has_root(collective)) return false;
  const std::uint64_t bytes = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) * element_bytes;
  return !is_cut(segmenting.algorithm, bytes, world);
}

// The segment size of a broadcast.
std::uint32_t segment_of_broadcast(std::uint64_t bytes, std::uint32_t element_bytes, std::uint32_t world,
                                   Segmenting segmenting) {
  return segment_bytes_for(bytes, element_bytes, world,
                           {.configured = segmenting.configured, .distance = segmenting.distance, .along_ring = true});
}

}  // namespace

std::uint32_t lossy_segments_in_one(const Segmenting& segmenting) {
  const bool smaller = segmenting.lossy && segmenting.distance == Distance::kFar && segmenting.configured == 0;
  return smaller ? kLargestFarSegment / kSmallestSegment : 1;
}

std::uint32_t segment_bytes_for(std::uint64_t chunk_bytes, std::uint32_t element_bytes, std::uint32_t world,
                                Segmenting segmenting) {
  std::uint64_t bytes = segmenting.configured;
  if (bytes == 0) bytes = chosen_segment(chunk_bytes, world, segmenting);
  bytes = std::max(bytes, chunk_bytes / (kMaxSegments / 64));  // keeps the number of segments bounded
  bytes = std::min<std::uint64_t>(bytes, kMaxSegmentBytes);
  const bool takes_turns = wire::has_owners(segmenting.algorithm) && segmenting.room > 0 && world > 1;
  const Grid grid = grid_of(segmenting.algorithm, world);
  if (takes_turns && chunk_bytes * grid.rows() * grid.most_children() > segmenting.room) {
    const std::uint64_t each = segmenting.room / kLeastInTurn / grid.most_children();
    const bool native = segmenting.formats.up == WireFormat::kNative;
    bytes = std::min(bytes, native ? each : each * 8 / bits_of(segmenting.formats.up) * element_bytes);
  }
  if (!segmenting.formats.native()) {  // whole blocks; the last piece of a chunk may be longer by less than a block
    const std::uint64_t block = block_bytes_of(segmenting.formats);
    bytes = std::min(std::max(bytes, block) / block * block, kMaxSegmentBytes - block);
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(bytes / element_bytes * element_bytes, element_bytes));
}

std::vector<Piece> cut(wire::Collective collective, std::span<const std::uint64_t> counts, std::uint32_t element_bytes,
                       std::uint32_t world, std::uint32_t root, Segmenting segmenting) {
  std::vector<Piece> pieces;
  const bool of_root = is_of_root(collective, counts, element_bytes, world, segmenting);
  const Owners owners(collective, world, segmenting);
  const std::uint32_t number = owners.number();
  LOCKSTEP_ASSERT(number > 0);
  for (std::uint32_t tensor = 0; tensor < counts.size(); ++tensor) {
    const std::uint64_t count = counts[tensor];
    if (of_root) {
      const std::uint64_t bytes = count * element_bytes;
      const bool forgets = collective == wire::Collective::kReduce && mutant(Mutant::kReducesAtRankZero);
      cut_range(pieces, tensor, forgets ? 0 : root, 0, bytes,
                segment_of_broadcast(bytes, element_bytes, world, segmenting));
      continue;
    }
    const auto cut_chunk = [&](std::uint32_t owner, Chunk chunk, std::uint32_t segment) {
      cut_range(pieces, tensor, owner, chunk.begin * element_bytes, chunk.end * element_bytes, segment,
                segmenting.formats);
    };
    if (goes_whole(collective, count, element_bytes, segmenting.configured)) {
      cut_chunk(owners.rank(tensor % number), {0, count}, kWholeBytes);
      continue;
    }
    const std::uint32_t segment = segment_of_tensor(count, number, element_bytes, world, segmenting);
    for (std::uint32_t owner = 0; owner < number; ++owner) {
      Chunk chunk = chunk_of(owner, number, count);
      if (mutant(Mutant::kRemainderSkipped)) chunk.end = chunk.begin + count / number;
      cut_chunk(owners.rank(owner), chunk, segment);
    }
  }
  if (collective == wire::Collective::kReduce) {
    for (Piece& piece : pieces) piece.last = root;
  }
  return pieces;
}

std::uint64_t segments_in(wire::Collective collective, std::span<const std::uint64_t> counts,
                          std::uint32_t element_bytes, std::uint32_t world, Segmenting segmenting) {
  std::uint64_t segments = 0;
  const bool of_root = is_of_root(collective, counts, element_bytes, world, segmenting);
  const std::uint32_t owners = Owners(collective, world, segmenting).number();
  LOCKSTEP_ASSERT(owners > 0);
  for (const std::uint64_t count : counts) {
    if (of_root) {
      const std::uint64_t bytes = count * element_bytes;
      segments += segments_of(bytes, segment_of_broadcast(bytes, element_bytes, world, segmenting));
      continue;
    }
    if (goes_whole(collective, count, element_bytes, segmenting.configured)) {
      segments += count > 0 ? 1 : 0;
      continue;
    }
    const std::uint32_t segment = segment_of_tensor(count, owners, element_bytes, world, segmenting);
    const std::uint64_t larger = count % owners;  // chunks with one more element
    const auto segments_of_chunk = [&](std::uint32_t owner) {
      return segments_of(chunk_of(owner, owners, count).size() * element_bytes, segment, segmenting.formats);
    };
    segments += larger * segments_of_chunk(0) + (owners - larger) * segments_of_chunk(owners - 1);
  }
  return segments;
}

std::uint64_t segments_in_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                                 Segmenting segmenting) {
  const std::uint32_t segment = segment_of_blocks(block_bytes, element_bytes, segmenting);
  std::uint64_t segments = 0;
  for (const std::uint64_t bytes : block_bytes) segments += segments_of(bytes, segment);
  return segments;
}

std::vector<Piece> cut_blocks(std::span<const std::uint64_t> block_bytes, std::uint32_t element_bytes,
                              Segmenting segmenting) {
  const std::uint32_t segment = segment_of_blocks(block_bytes, element_bytes, segmenting);
  std::vector<Piece> pieces;
  std::uint64_t begin = 0;
  for (std::uint32_t owner = 0; owner < block_bytes.size(); ++owner) {
    cut_range(pieces, 0, owner, begin, begin + block_bytes[owner], segment);
    begin += block_bytes[owner];
  }
  return pieces;
}

std::vector<Piece> cut_block(std::uint32_t owner, std::uint64_t begin, std::uint64_t bytes, std::uint32_t element_bytes,
                             std::uint32_t world, Segmenting segmenting) {
  std::vector<Piece> pieces;
  cut_range(pieces, 0, owner, begin, begin + bytes, segment_bytes_for(bytes, element_bytes, world, segmenting));
  return pieces;
}

std::uint64_t segments_in_block(std::uint64_t bytes, std::uint32_t element_bytes, std::uint32_t world,
                                Segmenting segmenting) {
  return segments_of(bytes, segment_bytes_for(bytes, element_bytes, world, segmenting));
}

}  // namespace lockstep::ring
