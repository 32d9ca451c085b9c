// Random projections that all peers share: count sketches (SketchedSGD), and directions of +1 and -1 (JustOneByte).
// Their random bits are words of Philox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernels/training/philox.h"

namespace lockstep::training {

// Words of `count` counters (first, rest[0], rest[1], rest[2]), (first + 1, ...) and so on; 4 words for each.
// first + count <= 2^32.
void philox_words(std::uint32_t first, std::array<std::uint32_t, 3> rest, PhiloxKey key,
                  std::span<std::uint32_t> words);

inline constexpr std::uint64_t kMostSketched = std::uint64_t{8} << 32U;  // the counters of Philox have 32 bits

// Hash functions of a count sketch. Chunks of 4096 elements have buckets of their own, and so has the last, shorter
// chunk. An element has 16 random bits h, and eight elements share a counter of Philox. The element goes to bucket
// (h >> 1) * buckets >> 15 of its chunk, and changes its sign if h is odd.
struct SketchHash {
  static constexpr std::size_t kChunk = 4096;

  std::uint64_t count = 0;  // elements, at most kMostSketched
  std::size_t each = 0;     // buckets of a whole chunk, 1 to 4096
  std::size_t last = 0;     // buckets of the last, shorter chunk, at most its elements; 0 without
  PhiloxKey key{};
  std::uint64_t turn = 0;  // number of the sketch

  [[nodiscard]] bool is_valid() const;
  [[nodiscard]] std::size_t buckets() const { return count / kChunk * each + last; }
};

// Sets the buckets of the chunks from element `first` on to the sketch of `values`: sums in float64 in the order of the
// elements, rounded to float32 at the end. first: a multiple of 4096. values: whole chunks, or up to the last element.
// buckets: of all chunks. A NaN in a bucket is the canonical one.
void sketch(const SketchHash& hash, std::uint64_t first, std::span<const float> values, std::span<float> buckets);

// Sets `values`, from element `first` on, to their buckets with the signs taken back.
void unsketch(const SketchHash& hash, std::uint64_t first, std::span<float> values, std::span<const float> buckets);

// values[i] = slope, with its sign changed where bit first + i of the words of Philox is 0. 128 elements share a
// counter (c, rest[0], rest[1], rest[2]). first: a multiple of 128; first + values.size() <= 2^39.
void direction(std::uint64_t first, std::array<std::uint32_t, 3> rest, PhiloxKey key, float slope,
               std::span<float> values);

}  // namespace lockstep::training
