// Encodes and decodes f32 elements; reference.h defines the results bit by bit. The results are equal on every machine
// and in every floating-point environment. Buffers may have any alignment and must not overlap.
//
// A weighted average around a ring: the first rank calls weigh() and encode() for its contribution. Every following
// rank calls decode() for the received sum, decode_add() for its own contribution (kNative), and encode(). The last
// rank, the owner, calls divide_sums() with the total of the weights before encode(), and decode() for the bytes that
// it has sent, so that the owner holds the same values as all others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/kernels/formats/format.h"

namespace lockstep {

// encoded.size() is encoded_size(format, elements). Returns the index of the first value that is infinite or NaN, if
// there is one: such a value would spoil the whole average, so no format has a code for it. `encoded` is then
// unspecified.
[[nodiscard]] std::optional<std::size_t> encode(WireFormat format, std::span<std::byte> encoded,
                                                std::span<const std::byte> values);

// Fills `values` with finite numbers. Returns false if `encoded`, which may come from an untrusted sender, is not the
// output of an encoder for this number of elements; `values` is then unspecified.
[[nodiscard]] bool decode(WireFormat format, std::span<std::byte> values, std::span<const std::byte> encoded);

// Whether decode() would accept the encoding of `count` elements.
[[nodiscard]] bool is_encoding(WireFormat format, std::span<const std::byte> encoded, std::size_t count);

// weighed[i] = weight * values[i]. The weight must be finite and not negative.
void weigh(std::span<std::byte> weighed, std::span<const std::byte> values, float weight);

// sums[i] += weight * decoded[i], with two roundings. A sum beyond the largest f32 becomes infinite, and encode()
// reports it. The weight must be finite. Returns false as decode() does.
[[nodiscard]] bool decode_add(WireFormat format, std::span<std::byte> sums, std::span<const std::byte> encoded,
                              float weight);

// sums[i] /= total. The total must be finite and positive.
void divide_sums(std::span<std::byte> sums, float total);

}  // namespace lockstep
