// The fast loops compared with the reference, on every instruction set of the machine.
#include "core/kernels/training/outer_step.h"

#include <bit>
#include <cfenv>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/kernels/training/reference.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep::training {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

constexpr DataType kHeld[] = {DataType::kF32, DataType::kBF16, DataType::kF16};
constexpr std::size_t kCounts[] = {0, 1, 7, 64, 1023, 1024, 1025, 5000};

// Hostile numbers, among them infinities and NaNs with signs and payloads.
Floats any_floats(std::uint64_t seed, std::size_t count) {
  constexpr std::uint32_t kSpecial[] = {0x7f80'0000U, 0xff80'0000U, 0x7fc0'1234U, 0xffa0'0001U};
  Floats values = test::hostile_floats(seed, count);
  for (std::size_t i = seed; i < count; i += 29) values[i] = std::bit_cast<float>(kSpecial[i % std::size(kSpecial)]);
  return values;
}

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// Calls f(std::type_identity<T>{}) with the type in which a model holds its parameters.
template <typename F>
void with_held(DataType type, F f) {
  if (type == DataType::kBF16) return f(std::type_identity<BF16>{});
  if (type == DataType::kF16) return f(std::type_identity<F16>{});
  f(std::type_identity<float>{});
}

Bytes held_bytes(DataType type, std::span<const float> values) {
  Bytes bytes(values.size() * size_of(type));
  with_held(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (SmallFloat<T>)
        lockstep::reference::store(bytes.data(), i, narrow<T>(values[i]));
      else
        lockstep::reference::store(bytes.data(), i, values[i]);
    }
  });
  return bytes;
}

class OuterStep : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(OuterStep);

TEST_P(OuterStep, DifferenceIsTheReferenceForEachTypeOfModel) {
  for (const DataType type : kHeld) {
    for (const std::size_t count : kCounts) {
      const Floats old = any_floats(1, count);
      const Bytes now = held_bytes(type, any_floats(2, count));
      Floats expected;
      with_held(type, [&]<typename T>(std::type_identity<T>) {
        for (std::size_t i = 0; i < count; ++i)
          expected.push_back(reference::difference<T>(old[i], lockstep::reference::load<T>(now.data(), i)));
      });
      Floats into(count);
      difference(into, old, {type, now});
      ASSERT_EQ(bits_of(into), bits_of(expected)) << static_cast<int>(type) << ", " << count;
    }
  }
}

TEST_P(OuterStep, DifferenceMayOverwriteTheModel) {
  const Floats old = any_floats(1, 3000);
  Floats now = any_floats(2, 3000);
  Floats expected(3000);
  difference(expected, old, {DataType::kF32, std::as_bytes(std::span(now))});
  difference(now, old, {DataType::kF32, std::as_bytes(std::span(now))});
  EXPECT_EQ(bits_of(now), bits_of(expected));
}

TEST_P(OuterStep, SgdIsTheReference) {
  for (const DataType type : kHeld) {
    for (const std::size_t count : kCounts) {
      Floats theta = any_floats(3, count);
      const Floats gradient = any_floats(4, count);
      Floats expected;
      for (std::size_t i = 0; i < count; ++i) expected.push_back(reference::sgd_step(theta[i], gradient[i], 0.7F));
      Bytes model(count * size_of(type));
      sgd_step(theta, gradient, 0.7F, {type, model});
      ASSERT_EQ(bits_of(theta), bits_of(expected));
      ASSERT_EQ(model, held_bytes(type, expected));
    }
  }
}

TEST_P(OuterStep, NesterovIsTheReference) {
  for (const DataType type : kHeld) {
    for (const std::size_t count : kCounts) {
      Floats theta = any_floats(5, count);
      Floats momentum = any_floats(6, count);
      const Floats gradient = any_floats(7, count);
      Floats thetas;
      Floats momenta;
      for (std::size_t i = 0; i < count; ++i) {
        const auto moved = reference::nesterov_step(theta[i], momentum[i], gradient[i], 0.7F, 0.9F);
        thetas.push_back(moved.theta);
        momenta.push_back(moved.momentum);
      }
      Bytes model(count * size_of(type));
      nesterov_step(theta, momentum, gradient, 0.7F, 0.9F, {type, model});
      ASSERT_EQ(bits_of(theta), bits_of(thetas));
      ASSERT_EQ(bits_of(momentum), bits_of(momenta));
      ASSERT_EQ(model, held_bytes(type, thetas));
    }
  }
}

TEST_P(OuterStep, MixIsTheReference) {
  for (const DataType type : kHeld) {
    for (const std::size_t count : kCounts) {
      const Floats shared = any_floats(10, count);
      Bytes model = held_bytes(type, any_floats(11, count));
      Bytes expected(model.size());
      with_held(type, [&]<typename T>(std::type_identity<T>) {
        for (std::size_t i = 0; i < count; ++i) {
          const T own = lockstep::reference::load<T>(model.data(), i);
          lockstep::reference::store(expected.data(), i, reference::mixed(own, shared[i], 0.3F, 0.7F));
        }
      });
      mix({type, model}, shared, 0.3F, 0.7F);
      ASSERT_EQ(model, expected) << static_cast<int>(type) << ", " << count;
    }
  }
}

TEST_P(OuterStep, TheGradientMayLieInTheModel) {
  Floats theta = any_floats(5, 3000);
  Floats apart = theta;
  Floats model = any_floats(7, 3000);
  const Floats gradient = model;
  sgd_step(theta, model, 0.5F, {DataType::kF32, std::as_writable_bytes(std::span(model))});
  sgd_step(apart, gradient, 0.5F, {});
  EXPECT_EQ(bits_of(theta), bits_of(apart));
  EXPECT_EQ(bits_of(model), bits_of(apart));
}

TEST_P(OuterStep, RoundsInTheStandardEnvironment) {
  Floats theta = any_floats(8, 500);
  Floats apart = theta;
  const Floats gradient = any_floats(9, 500);
  std::fesetround(FE_UPWARD);
  sgd_step(theta, gradient, 0.3F, {});
  std::fesetround(FE_TONEAREST);
  sgd_step(apart, gradient, 0.3F, {});
  EXPECT_EQ(bits_of(theta), bits_of(apart));
}

}  // namespace
}  // namespace lockstep::training
