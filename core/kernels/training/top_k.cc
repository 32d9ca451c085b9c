// Highway compiles this file once for each supported instruction set and chooses among them at run time.
#include "core/kernels/training/top_k.h"

#include <algorithm>
#include <bit>

#include "core/base/assert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/training/top_k.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::training::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Keys = hn::CappedTag<std::int32_t, 64>;  // keys have 31 bits

constexpr std::int32_t kWithoutSign = 0x7fff'ffff;
constexpr std::size_t kRoom = kLongestChunk + 64;  // a vector may be written behind the last candidate

HWY_INLINE hn::Vec<Keys> keys_at(const float* values) {
  const Keys d;
  return hn::And(hn::BitCast(d, hn::LoadU(hn::RebindToFloat<Keys>(), values)), hn::Set(d, kWithoutSign));
}

struct Candidates {
  alignas(64) std::int32_t keys[kRoom];
  alignas(64) std::int32_t places[kRoom];
  std::size_t count = 0;
};

// A key that at least `most` elements reach, and 1 at least. The chunk is cut into `most` groups or more: each group
// has an element that reaches the least of all maxima.
std::int32_t floor_of(const float* chunk, std::size_t count, std::size_t most) {
  const Keys d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t blocks = (most + lanes - 1) / lanes;
  const std::size_t each = count / lanes / blocks;
  if (each < 2) return 1;
  auto least = hn::Set(d, kWithoutSign);
  for (std::size_t block = 0; block < blocks; ++block) {
    auto largest = hn::Zero(d);
    for (std::size_t vector = block * each; vector < (block + 1) * each; ++vector)
      largest = hn::Max(largest, keys_at(chunk + vector * lanes));
    least = hn::Min(least, largest);
  }
  return std::max(hn::GetLane(hn::MinOfLanes(d, least)), 1);
}

// The elements whose key reaches `floor`, in the order of their places.
void collect(const float* chunk, std::size_t count, std::int32_t floor, Candidates& into) {
  const Keys d;
  const std::size_t lanes = hn::Lanes(d);
  const auto below = hn::Set(d, floor - 1);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto keys = keys_at(chunk + i);
    const auto reaches = hn::Gt(keys, below);
    if (hn::AllFalse(d, reaches)) continue;
    hn::CompressStore(hn::Iota(d, static_cast<std::int32_t>(i)), reaches, d, into.places + found);
    found += hn::CompressStore(keys, reaches, d, into.keys + found);
  }
  for (; i < count; ++i) {
    const std::int32_t key = std::bit_cast<std::int32_t>(chunk[i]) & kWithoutSign;
    into.keys[found] = key;
    into.places[found] = static_cast<std::int32_t>(i);
    found += key >= floor ? 1 : 0;
  }
  into.count = found;
}

// Candidates with a larger key.
std::size_t count_above(const Candidates& candidates, std::int32_t key) {
  const Keys d;
  const std::size_t lanes = hn::Lanes(d);
  const auto below = hn::Set(d, key);
  auto counts = hn::Zero(d);
  for (std::size_t i = 0; i < candidates.count; i += lanes)
    counts = hn::Sub(counts, hn::VecFromMask(d, hn::Gt(hn::Load(d, candidates.keys + i), below)));
  return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, counts)));
}

// The largest key that at least `most` candidates reach, bit by bit from the highest.
std::int32_t threshold(Candidates& candidates, std::int32_t floor, std::size_t most) {
  const Keys d;
  std::fill_n(candidates.keys + candidates.count, hn::Lanes(d), 0);  // no key is below
  const std::int32_t largest = *std::max_element(candidates.keys, candidates.keys + candidates.count);
  const int bits =
      static_cast<int>(std::bit_width(static_cast<std::uint32_t>(floor ^ largest)));  // all keys are equal above these
  std::int32_t key = floor >> bits << bits;
  for (int bit = bits - 1; bit >= 0; --bit) {
    const std::int32_t larger = key | 1 << bit;
    if (count_above(candidates, larger - 1) >= most) key = larger;
  }
  return key;
}

std::size_t keep_largest_here(const float* chunk, std::size_t count, std::size_t most, std::uint16_t* places,
                              float* values) {
  Candidates candidates;
  const std::int32_t floor = floor_of(chunk, count, most);
  collect(chunk, count, floor, candidates);
  std::int32_t least = floor;
  std::size_t of_equal = candidates.count;  // elements with the key `least` that are kept: the first ones
  if (candidates.count > most) {
    least = threshold(candidates, floor, most);
    of_equal = most - count_above(candidates, least);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.count && kept < most; ++i) {
    const std::int32_t key = candidates.keys[i];
    if (key < least || (key == least && of_equal == 0)) continue;
    if (key == least) --of_equal;
    const auto place = static_cast<std::uint16_t>(candidates.places[i]);
    places[kept] = place;
    values[kept] = chunk[place];
    ++kept;
  }
  return kept;
}

}  // namespace
}  // namespace lockstep::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::training {

HWY_EXPORT(keep_largest_here);

std::size_t keep_largest(std::span<const float> chunk, std::size_t most, std::uint16_t* places, float* values) {
  LOCKSTEP_ASSERT(most >= 1 && chunk.size() <= kLongestChunk);
  return HWY_DYNAMIC_DISPATCH(keep_largest_here)(chunk.data(), chunk.size(), most, places, values);
}

}  // namespace lockstep::training
#endif  // HWY_ONCE
