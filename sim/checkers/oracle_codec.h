// The second implementation of encoding and decoding: block sizes and errors from the table in
// bindings/c/include/lockstep.h, bits from the table at the head of core/kernels/formats/reference.h. It shares no code
// with either: blocks are lists of numbers, and arithmetic finds the codes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/kernels/formats/format.h"
#include "sim/checkers/oracle_elements.h"

namespace lockstep::sim::oracle {

using Floats = std::vector<float>;

Bytes encode(WireFormat format, std::span<const float> values);  // finite ones
Floats decode(WireFormat format, std::span<const std::byte> encoded,
              std::uint64_t count);  // inverse of encode()

// The largest error that the header's table allows for element `i` of `values`, which form one block. Of a code book:
// nothing, since the table gives none for what is outside of the bins.
std::optional<double> largest_error(WireFormat format, std::span<const float> values, std::size_t i);

// weight * values: 0 where the weight is, whatever they are. sums + weight * values, rounded after each operation.
Floats weighed(float weight, std::span<const float> values);
Floats add_weighted(std::span<const float> sums, float weight, std::span<const float> values);

// The error of an encoding, for values that count `weight` times.
Floats lost_of(WireFormat format, float weight, std::span<const float> values);

// How an average weighs contributions. All weights are multiplied by one power of two so that ranks weigh about 1 each:
// formats have a smallest and a largest number.
class Weights {
 public:
  // `all`: the weights of every contributor, in rank order.
  explicit Weights(std::span<const float> all);
  [[nodiscard]] float total() const { return total_; }      // the total weight in the receipt
  [[nodiscard]] float divisor() const { return divisor_; }  // of the sum
  [[nodiscard]] float scaled(float weight) const;
  // Whether there is an average: some weigh something, and all together a finite number.
  [[nodiscard]] bool valid() const;

 private:
  float total_ = 0;
  float divisor_ = 1;
  int shift_ = 0;  // of exponents
};

}  // namespace lockstep::sim::oracle
