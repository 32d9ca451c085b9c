// Any bytes in a wire format: the first names the format, the next two how many elements, the rest is an encoding, if
// it is too short with zeros behind it. It decodes to what the truth says, or to nothing if that says so; what it
// decodes to is finite, and can be added and encoded. The same bytes are values too: they are encoded as the truth
// encodes them, or the first bad one is found.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/assert.h"
#include "core/kernels/formats/codec.h"
#include "core/kernels/formats/reference.h"
#include "fuzz/door.h"

namespace reference = lockstep::reference;
using lockstep::WireFormat;

namespace {

constexpr std::size_t kMostElements = 5000;  // more than a block of any format

void look_at_values(WireFormat format, std::span<const std::byte> bytes) {
  reference::Floats values(std::min(bytes.size() / sizeof(float), kMostElements));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  reference::Bytes encoded(encoded_size(format, values.size()));
  const auto flaw = encode(format, encoded, std::as_bytes(std::span(values)));
  LOCKSTEP_ASSERT(flaw == reference::first_not_finite(values));
  if (!flaw) LOCKSTEP_ASSERT(encoded == reference::encode(format, values));
}

void look_at_encoding(WireFormat format, std::span<const std::byte> bytes, std::size_t count) {
  reference::Bytes encoded(bytes.begin(), bytes.end());
  encoded.resize(encoded_size(format, count));
  reference::Floats values(count);
  const auto value_bytes = std::as_writable_bytes(std::span(values));
  const bool decoded = decode(format, value_bytes, encoded);
  const auto truth = reference::decode(format, encoded, count);
  LOCKSTEP_ASSERT(decoded == truth.has_value());
  reference::Floats sums(count, 1.0F);
  LOCKSTEP_ASSERT(decode_add(format, std::as_writable_bytes(std::span(sums)), encoded, 0.5F) == decoded);
  LOCKSTEP_ASSERT(is_encoding(format, encoded, sums.size()) == decoded);
  if (!decoded) return;
  LOCKSTEP_ASSERT(std::ranges::equal(value_bytes, std::as_bytes(std::span(*truth))));
  for (std::size_t i = 0; i < count; ++i) {
    LOCKSTEP_ASSERT(std::isfinite(values[i]));
    LOCKSTEP_ASSERT(sums[i] == reference::add_weighted(1.0F, 0.5F, values[i]));
  }
  look_at_values(format, value_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto format = static_cast<WireFormat>(data[0] % lockstep::kWireFormatCount);
  const std::size_t count = (data[1] + 256U * data[2]) % kMostElements;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(3);
  look_at_encoding(format, rest, count);
  look_at_values(format, rest);
  reference::Floats values(count);
  if (rest.size() != encoded_size(format, count)) {
    LOCKSTEP_ASSERT(!decode(format, std::as_writable_bytes(std::span(values)), rest));
  }
  return 0;
}
