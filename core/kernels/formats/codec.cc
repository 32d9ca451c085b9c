// Highway compiles this file once for each supported instruction set and chooses among them at run time. The codecs are
// ordinary inline functions in headers. They become part of the functions below and are compiled for the same
// instruction set.
#include "core/kernels/formats/codec.h"

#include <cmath>

#include "core/base/assert.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/formats/abs_max.h"
#include "core/kernels/formats/block.h"
#include "core/kernels/formats/codebook.h"
#include "core/kernels/formats/e3m0.h"
#include "core/kernels/formats/min_max.h"
#include "core/kernels/formats/number.h"
#include "core/kernels/lanes.h"
#include "core/kernels/reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/formats/codec.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::HWY_NAMESPACE {
namespace {

// Returns the first element of the first block that contains a value that is not finite, or `count`.
template <typename Format>
[[gnu::flatten]] std::size_t encode_all(std::byte* encoded, const std::byte* values, std::size_t count) {
  std::size_t flaw = count;
  formats::each_block<Format>(count, [=, &flaw](std::size_t element, std::size_t byte, std::size_t block_count) {
    const formats::Block block{values + element * sizeof(float), block_count};
    if (!block.finite()) {
      flaw = element;
      return false;
    }
    Format::encode(encoded + byte, block);
    return true;
  });
  return flaw;
}

template <typename Format, typename Sink>
[[gnu::flatten]] bool decode_all(const std::byte* encoded, std::size_t count, Sink sink) {
  return formats::each_block<Format>(count, [=](std::size_t element, std::size_t byte, std::size_t block_count) {
    return Format::decode(encoded + byte, block_count, sink.from(element));
  });
}

template <typename Function>
auto with_format(WireFormat format, Function function) {
  switch (format) {
    case WireFormat::kNative: return function(formats::Native{});
    case WireFormat::kBF16: return function(formats::Small<BF16>{});
    case WireFormat::kF16: return function(formats::Small<F16>{});
    case WireFormat::kInt8: return function(formats::Int8{});
    case WireFormat::kInt8MinMax: return function(formats::Int8MinMax{});
    case WireFormat::kInt8Codebook: return function(formats::Int8Codebook{});
    case WireFormat::kInt4: return function(formats::Int4{});
    case WireFormat::kE3M0: return function(formats::E3M0{});
  }
  LOCKSTEP_UNREACHABLE();
}

std::size_t encode_here(WireFormat format, std::byte* encoded, const std::byte* values, std::size_t count) {
  return with_format(format, [=]<typename Format>(Format) { return encode_all<Format>(encoded, values, count); });
}

bool decode_here(WireFormat format, std::byte* values, const std::byte* encoded, std::size_t count) {
  return with_format(
      format, [=]<typename Format>(Format) { return decode_all<Format>(encoded, count, formats::Store{values}); });
}

bool is_encoding_here(WireFormat format, const std::byte* encoded, std::size_t count) {
  return with_format(format,
                     [=]<typename Format>(Format) { return decode_all<Format>(encoded, count, formats::Nowhere{}); });
}

bool decode_add_here(WireFormat format, std::byte* sums, const std::byte* encoded, std::size_t count, float weight) {
  return with_format(format, [=]<typename Format>(Format) {
    return decode_all<Format>(encoded, count, formats::AddWeighted{sums, weight});
  });
}

[[gnu::flatten]] void weigh_here(std::byte* weighed, const std::byte* values, std::size_t count, float weight) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    formats::store(weighed, i, lanes::quiet(weight * formats::load<float>(values, i)));
  }
}

[[gnu::flatten]] void divide_sums_here(std::byte* sums, std::size_t count, float total) {
  for (std::size_t i = 0; i < count; ++i) {
    formats::store(sums, i, lanes::quiet(formats::load<float>(sums, i) / total));
  }
}

}  // namespace
}  // namespace lockstep::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
namespace {

HWY_EXPORT(encode_here);
HWY_EXPORT(decode_here);
HWY_EXPORT(is_encoding_here);
HWY_EXPORT(decode_add_here);
HWY_EXPORT(weigh_here);
HWY_EXPORT(divide_sums_here);

std::size_t count_of(std::span<const std::byte> values) {
  LOCKSTEP_ASSERT(values.size() % sizeof(float) == 0);
  return values.size() / sizeof(float);
}

}  // namespace

std::optional<std::size_t> encode(WireFormat format, std::span<std::byte> encoded, std::span<const std::byte> values) {
  const std::size_t count = count_of(values);
  LOCKSTEP_ASSERT(encoded.size() == encoded_size(format, count));
  const StandardFloats standard_floats;
  std::size_t flaw = HWY_DYNAMIC_DISPATCH(encode_here)(format, encoded.data(), values.data(), count);
  if (flaw == count) return std::nullopt;
  while (std::isfinite(reference::load<float>(values.data(), flaw))) ++flaw;
  return flaw;
}

bool decode(WireFormat format, std::span<std::byte> values, std::span<const std::byte> encoded) {
  const std::size_t count = count_of(values);
  if (encoded.size() != encoded_size(format, count)) return false;
  const StandardFloats standard_floats;
  return HWY_DYNAMIC_DISPATCH(decode_here)(format, values.data(), encoded.data(), count);
}

bool is_encoding(WireFormat format, std::span<const std::byte> encoded, std::size_t count) {
  return encoded.size() == encoded_size(format, count) &&
         HWY_DYNAMIC_DISPATCH(is_encoding_here)(format, encoded.data(), count);
}

bool decode_add(WireFormat format, std::span<std::byte> sums, std::span<const std::byte> encoded, float weight) {
  LOCKSTEP_ASSERT(std::isfinite(weight));
  const std::size_t count = count_of(sums);
  if (encoded.size() != encoded_size(format, count)) return false;
  const StandardFloats standard_floats;
  return HWY_DYNAMIC_DISPATCH(decode_add_here)(format, sums.data(), encoded.data(), count, weight);
}

void weigh(std::span<std::byte> weighed, std::span<const std::byte> values, float weight) {
  LOCKSTEP_ASSERT(std::isfinite(weight) && weight >= 0 && weighed.size() == values.size());
  const std::size_t count = count_of(weighed);
  const StandardFloats standard_floats;
  HWY_DYNAMIC_DISPATCH(weigh_here)(weighed.data(), values.data(), count, weight);
}

void divide_sums(std::span<std::byte> sums, float total) {
  LOCKSTEP_ASSERT(std::isfinite(total) && total > 0);
  const std::size_t count = count_of(sums);
  const StandardFloats standard_floats;
  HWY_DYNAMIC_DISPATCH(divide_sums_here)(sums.data(), count, total);
}

}  // namespace lockstep
#endif  // HWY_ONCE
