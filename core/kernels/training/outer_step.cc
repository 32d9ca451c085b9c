// Loops without branches, so that compilers turn them into vector code. Highway compiles this file once for each
// supported instruction set and chooses among them at run time.
#include "core/kernels/training/outer_step.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/assert.h"
#include "core/kernels/element.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/lanes.h"
#include "core/kernels/loops.h"
#include "core/kernels/reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/training/outer_step.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::training::HWY_NAMESPACE {
namespace {

using lockstep::reference::load;
using lockstep::reference::store;

template <typename T>
[[gnu::flatten]] void difference_of(float* into, const float* old, const std::byte* now, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (SmallFloat<T>) {
      const float held = lanes::widen_lane(lanes::narrow_lane<T>(old[i]));
      into[i] = lanes::quiet(held - lanes::widen_lane(load<T>(now, i)));
    } else {
      into[i] = lanes::quiet(old[i] - load<float>(now, i));
    }
  }
}

void difference_here(DataType type, float* into, const float* old, const std::byte* now, std::size_t count) {
  if (type == DataType::kBF16) return difference_of<BF16>(into, old, now, count);
  if (type == DataType::kF16) return difference_of<F16>(into, old, now, count);
  difference_of<float>(into, old, now, count);
}

[[gnu::flatten]] void sgd_here(float* theta, const float* gradient, float lr, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) theta[i] = lanes::quiet(theta[i] - lr * gradient[i]);
}

[[gnu::flatten]] void nesterov_here(float* theta, float* momentum, const float* gradient, float lr, float mu,
                                    std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    const float speed = mu * momentum[i] + gradient[i];
    theta[i] = lanes::quiet(theta[i] - lr * (gradient[i] + mu * speed));
    momentum[i] = lanes::quiet(speed);
  }
}

template <SmallFloat T>
[[gnu::flatten]] void narrow_all(std::byte* model, const float* values, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) store(model, i, lanes::narrow_lane<T>(values[i]));
}

template <typename T>
[[gnu::flatten]] void mix_of(std::byte* model, const float* shared, float alpha, float rest, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (SmallFloat<T>) {
      const float own = lanes::widen_lane(load<T>(model, i));
      store(model, i, lanes::narrow_lane<T>(alpha * own + rest * shared[i]));
    } else {
      store(model, i, lanes::quiet(alpha * load<float>(model, i) + rest * shared[i]));
    }
  }
}

void mix_here(DataType type, std::byte* model, const float* shared, float alpha, float rest, std::size_t count) {
  if (type == DataType::kBF16) return mix_of<BF16>(model, shared, alpha, rest, count);
  if (type == DataType::kF16) return mix_of<F16>(model, shared, alpha, rest, count);
  mix_of<float>(model, shared, alpha, rest, count);
}

void hold_here(DataType type, std::byte* model, const float* values, std::size_t count) {
  if (type == DataType::kBF16) return narrow_all<BF16>(model, values, count);
  if (type == DataType::kF16) return narrow_all<F16>(model, values, count);
  std::memcpy(model, values, count * sizeof(float));
}

}  // namespace
}  // namespace lockstep::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::training {
namespace {

HWY_EXPORT(difference_here);
HWY_EXPORT(sgd_here);
HWY_EXPORT(nesterov_here);
HWY_EXPORT(hold_here);
HWY_EXPORT(mix_here);

// Theta, momentum, gradient and the model's part of a block, 4 times 4 KiB, leave room in a cache of 32 KiB.
constexpr std::size_t kBlock = 1024;

template <typename Byte>
void check(const Held<Byte>& model, std::size_t count) {
  LOCKSTEP_ASSERT(holds_parameters(model.type));
  LOCKSTEP_ASSERT(model.bytes.size() == count * size_of(model.type));
}

void hold_block(const Held<std::byte>& model, std::span<const float> values, std::size_t at) {
  if (model.bytes.empty() || values.empty()) return;
  std::byte* const into = model.bytes.data() + at * size_of(model.type);
  HWY_DYNAMIC_DISPATCH(hold_here)(model.type, into, values.data(), values.size());
}

// Calls do_block(first element, count) for each block.
template <typename DoBlock>
void each_block(std::size_t count, DoBlock do_block) {
  const StandardFloats standard_floats;
  for (std::size_t at = 0; at < count; at += kBlock) do_block(at, std::min(kBlock, count - at));
}

}  // namespace

bool holds_parameters(DataType type) {
  return type == DataType::kF32 || type == DataType::kBF16 || type == DataType::kF16;
}

void difference(std::span<float> into, std::span<const float> old, Held<const std::byte> now) {
  check(now, old.size());
  LOCKSTEP_ASSERT(into.size() == old.size());
  const StandardFloats standard_floats;
  HWY_DYNAMIC_DISPATCH(difference_here)(now.type, into.data(), old.data(), now.bytes.data(), old.size());
}

void sgd_step(std::span<float> theta, std::span<const float> gradient, float lr, Held<std::byte> model) {
  if (!model.bytes.empty()) check(model, theta.size());
  LOCKSTEP_ASSERT(gradient.size() == theta.size());
  each_block(theta.size(), [&](std::size_t at, std::size_t count) {
    HWY_DYNAMIC_DISPATCH(sgd_here)(theta.data() + at, gradient.data() + at, lr, count);
    hold_block(model, theta.subspan(at, count), at);
  });
}

void nesterov_step(std::span<float> theta, std::span<float> momentum, std::span<const float> gradient, float lr,
                   float mu, Held<std::byte> model) {
  if (!model.bytes.empty()) check(model, theta.size());
  LOCKSTEP_ASSERT(gradient.size() == theta.size() && momentum.size() == theta.size());
  each_block(theta.size(), [&](std::size_t at, std::size_t count) {
    HWY_DYNAMIC_DISPATCH(nesterov_here)
    (theta.data() + at, momentum.data() + at, gradient.data() + at, lr, mu, count);
    hold_block(model, theta.subspan(at, count), at);
  });
}

void hold(Held<std::byte> model, std::span<const float> values) {
  check(model, values.size());
  const StandardFloats standard_floats;
  hold_block(model, values, 0);
}

void mix(Held<std::byte> model, std::span<const float> shared, float alpha, float rest) {
  check(model, shared.size());
  const StandardFloats standard_floats;
  HWY_DYNAMIC_DISPATCH(mix_here)(model.type, model.bytes.data(), shared.data(), alpha, rest, shared.size());
}

}  // namespace lockstep::training
#endif  // HWY_ONCE
