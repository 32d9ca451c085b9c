// f32 elements to and from a wire format; reference.h says what that means, bit for bit. The same bits on every
// machine, whatever the caller's floating-point environment. Buffers may have any alignment, and do not overlap.
//
// A weighted average around a ring: weigh() and encode() of the first contribution; at every stop decode() of what
// comes, decode_add() of that rank's own (kNative), encode(); at the last, the owner, divide_sums() by the total of the
// weights before; and decode() of what it has sent, so that the owner holds what all others will hold.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/kernels/formats/format.h"

namespace lockstep {

// encoded.size() is encoded_size(format, elements). Returns the index of the first value that is infinite or NaN, if
// there is one: no format carries those, they would make the whole average theirs. `encoded` is then unspecified.
[[nodiscard]] std::optional<std::size_t> encode(WireFormat format, std::span<std::byte> encoded,
                                                std::span<const std::byte> values);

// Fills `values`. False if `encoded`, which may come from anybody, is not what an encoder writes for as many elements:
// `values` is then unspecified. What is decoded is finite.
[[nodiscard]] bool decode(WireFormat format, std::span<std::byte> values, std::span<const std::byte> encoded);

// Whether decode() of so many elements would accept it.
[[nodiscard]] bool is_encoding(WireFormat format, std::span<const std::byte> encoded, std::size_t count);

// weighed[i] = weight * values[i]. The weight is finite and not negative.
void weigh(std::span<std::byte> weighed, std::span<const std::byte> values, float weight);

// sums[i] += weight * decoded[i], two roundings; a sum beyond the largest f32 becomes infinite, which encode() finds.
// The weight is finite. False as in decode().
[[nodiscard]] bool decode_add(WireFormat format, std::span<std::byte> sums, std::span<const std::byte> encoded,
                              float weight);

// sums[i] /= total. The total is finite and positive.
void divide_sums(std::span<std::byte> sums, float total);

}  // namespace lockstep
