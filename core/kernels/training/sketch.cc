// Highway compiles this file once for each supported instruction set and chooses among them at run time.
#include "core/kernels/training/sketch.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/assert.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/lanes.h"
#include "core/kernels/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/training/sketch.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::training::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Rest = std::array<std::uint32_t, 3>;
#if HWY_TARGET != HWY_SCALAR

using Words = hn::CappedTag<std::uint64_t, 8>;  // each lane holds a word of 32 bits; what lies above is ignored

// The product of the lower halves of each lane.
HWY_INLINE hn::Vec<Words> product(hn::Vec<Words> a, std::uint32_t multiplier) {
  const hn::Repartition<std::uint32_t, Words> d;
  return hn::MulEven(hn::BitCast(d, a), hn::BitCast(d, hn::Set(Words(), multiplier)));
}

// The words of as many counters as a vector has lanes; `first` holds the first words of the counters.
HWY_INLINE void philox_vector(hn::Vec<Words> first, Rest rest, PhiloxKey key, std::uint32_t* words) {
  const Words d;
  const hn::Repartition<std::uint32_t, Words> narrow;
  auto c0 = first;
  auto c1 = hn::Set(d, rest[0]);
  auto c2 = hn::Set(d, rest[1]);
  auto c3 = hn::Set(d, rest[2]);
  for (std::size_t round = 0; round < kPhiloxRounds; ++round) {
    const auto left = product(c0, kPhiloxMultipliers[0]);
    const auto right = product(c2, kPhiloxMultipliers[1]);
    c0 = hn::Xor3(hn::ShiftRight<32>(right), c1, hn::Set(d, key[0]));
    c1 = right;
    c2 = hn::Xor3(hn::ShiftRight<32>(left), c3, hn::Set(d, key[1]));
    c3 = left;
    key[0] += kPhiloxWeyl[0];
    key[1] += kPhiloxWeyl[1];
  }
  const auto pair = [&](hn::Vec<Words> low, hn::Vec<Words> high) {  // one word after the other
    return hn::OddEven(hn::BitCast(narrow, hn::ShiftLeft<32>(high)), hn::BitCast(narrow, low));
  };
  hn::StoreInterleaved2(hn::BitCast(d, pair(c0, c1)), hn::BitCast(d, pair(c2, c3)), d,
                        reinterpret_cast<std::uint64_t*>(words));
}

// Returns the number of counters that fit whole vectors.
std::size_t philox_vectors(std::uint32_t first, Rest rest, PhiloxKey key, std::uint32_t* words, std::size_t counters) {
  const Words d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= counters; i += lanes)
    philox_vector(hn::Iota(d, std::uint64_t{first} + i), rest, key, words + 4 * i);
  return i;
}

#else  // one lane has no pair of words

std::size_t philox_vectors(std::uint32_t, Rest, PhiloxKey, std::uint32_t*, std::size_t) { return 0; }

#endif

void philox_here(std::uint32_t first, Rest rest, PhiloxKey key, std::uint32_t* words, std::size_t counters) {
  for (std::size_t i = philox_vectors(first, rest, key, words, counters); i < counters; ++i) {
    const auto four = philox({static_cast<std::uint32_t>(first + i), rest[0], rest[1], rest[2]}, key);
    std::copy(four.begin(), four.end(), words + 4 * i);
  }
}

constexpr std::size_t kElements = 8;  // that share a counter of a sketch

// Random bits of one chunk, and what they mean.
struct Hashes {
  alignas(64) std::uint32_t words[SketchHash::kChunk / 2];
  alignas(64) std::uint16_t places[SketchHash::kChunk];  // buckets
  alignas(64) std::uint32_t signs[SketchHash::kChunk];   // bits of a float32

  [[gnu::flatten]] void of(const SketchHash& hash, std::uint64_t first, std::size_t count, std::size_t buckets) {
    const std::size_t counters = (count + kElements - 1) / kElements;
    const Rest rest = {static_cast<std::uint32_t>(hash.turn), static_cast<std::uint32_t>(hash.turn >> 32U), 1};
    philox_here(static_cast<std::uint32_t>(first / kElements), rest, hash.key, words, counters);
    const auto size = static_cast<std::uint32_t>(buckets);
    LOCKSTEP_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < counters * kElements / 2; ++i) {  // the lower half of a word comes first
      const std::uint32_t low = words[i] & 0xffffU;
      const std::uint32_t high = words[i] >> 16U;
      places[2 * i] = static_cast<std::uint16_t>((low >> 1U) * size >> 15U);
      places[2 * i + 1] = static_cast<std::uint16_t>((high >> 1U) * size >> 15U);
      signs[2 * i] = low << 31U;
      signs[2 * i + 1] = high << 31U;
    }
  }
};

[[gnu::flatten]] void sketch_chunk(const SketchHash& hash, std::uint64_t first, const float* values, std::size_t count,
                                   float* buckets, std::size_t size) {
  Hashes hashes{};
  hashes.of(hash, first, count, size);
  alignas(64) float signed_values[SketchHash::kChunk];
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i)
    signed_values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i]) ^ hashes.signs[i]);
  alignas(64) double sums[SketchHash::kChunk];
  std::fill_n(sums, size, 0.0);
  for (std::size_t i = 0; i < count; ++i) sums[hashes.places[i]] += static_cast<double>(signed_values[i]);
  for (std::size_t i = 0; i < size; ++i) buckets[i] = lanes::quiet(static_cast<float>(sums[i]));
}

[[gnu::flatten]] void unsketch_chunk(const SketchHash& hash, std::uint64_t first, float* values, std::size_t count,
                                     const float* buckets, std::size_t size) {
  Hashes hashes{};
  hashes.of(hash, first, count, size);
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(buckets[hashes.places[i]]) ^ hashes.signs[i]);
}

[[gnu::flatten]] void direction_here(std::uint64_t first, Rest rest, PhiloxKey key, float slope, float* values,
                                     std::size_t count) {
  constexpr std::size_t kShare = 128;  // elements that share a counter
  constexpr std::size_t kCounters = 32;
  const auto up = std::bit_cast<std::uint32_t>(slope);
  alignas(64) std::uint32_t words[4 * kCounters];
  for (std::size_t at = 0; at < count; at += kShare * kCounters) {
    const std::size_t size = std::min(kShare * kCounters, count - at);
    philox_here(static_cast<std::uint32_t>((first + at) / kShare), rest, key, words, (size + kShare - 1) / kShare);
    for (std::size_t word = 0; word * 32 < size; ++word) {
      const std::uint32_t bits = ~words[word];
      float* const into = values + at + word * 32;
      const std::size_t elements = std::min<std::size_t>(32, size - word * 32);
      for (std::uint32_t bit = 0; bit < elements; ++bit) into[bit] = std::bit_cast<float>(((bits >> bit) << 31U) ^ up);
    }
  }
}

}  // namespace
}  // namespace lockstep::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::training {
namespace {

HWY_EXPORT(philox_here);
HWY_EXPORT(sketch_chunk);
HWY_EXPORT(unsketch_chunk);
HWY_EXPORT(direction_here);

// Calls do_chunk(element in the call, its count, first bucket, buckets) for each chunk.
template <typename DoChunk>
void each_chunk(const SketchHash& hash, std::uint64_t first, std::size_t count, std::size_t buckets, DoChunk do_chunk) {
  LOCKSTEP_ASSERT(hash.is_valid());
  LOCKSTEP_ASSERT(buckets == hash.buckets() && first % SketchHash::kChunk == 0);
  LOCKSTEP_ASSERT(first + count == hash.count || (first + count < hash.count && count % SketchHash::kChunk == 0));
  const StandardFloats standard_floats;
  for (std::size_t at = 0; at < count; at += SketchHash::kChunk) {
    const std::size_t elements = std::min(SketchHash::kChunk, count - at);
    const bool whole = elements == SketchHash::kChunk;
    do_chunk(at, elements, (first + at) / SketchHash::kChunk * hash.each, whole ? hash.each : hash.last);
  }
}

}  // namespace

bool SketchHash::is_valid() const {
  const std::uint64_t rest = count % kChunk;
  return count <= kMostSketched && each >= 1 && each <= kChunk && last <= rest && (last > 0) == (rest > 0);
}

void philox_words(std::uint32_t first, std::array<std::uint32_t, 3> rest, PhiloxKey key,
                  std::span<std::uint32_t> words) {
  LOCKSTEP_ASSERT(words.size() % 4 == 0 && std::uint64_t{first} + words.size() / 4 <= std::uint64_t{1} << 32U);
  HWY_DYNAMIC_DISPATCH(philox_here)(first, rest, key, words.data(), words.size() / 4);
}

void sketch(const SketchHash& hash, std::uint64_t first, std::span<const float> values, std::span<float> buckets) {
  each_chunk(hash, first, values.size(), buckets.size(),
             [&](std::size_t at, std::size_t count, std::size_t bucket, std::size_t size) {
               HWY_DYNAMIC_DISPATCH(sketch_chunk)
               (hash, first + at, values.data() + at, count, buckets.data() + bucket, size);
             });
}

void unsketch(const SketchHash& hash, std::uint64_t first, std::span<float> values, std::span<const float> buckets) {
  each_chunk(hash, first, values.size(), buckets.size(),
             [&](std::size_t at, std::size_t count, std::size_t bucket, std::size_t size) {
               HWY_DYNAMIC_DISPATCH(unsketch_chunk)
               (hash, first + at, values.data() + at, count, buckets.data() + bucket, size);
             });
}

void direction(std::uint64_t first, std::array<std::uint32_t, 3> rest, PhiloxKey key, float slope,
               std::span<float> values) {
  LOCKSTEP_ASSERT(first % 128 == 0 && first + values.size() <= std::uint64_t{1} << 39U);
  HWY_DYNAMIC_DISPATCH(direction_here)(first, rest, key, slope, values.data(), values.size());
}

}  // namespace lockstep::training
#endif  // HWY_ONCE
