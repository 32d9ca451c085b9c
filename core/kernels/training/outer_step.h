// The per-element work of an outer step: what a model has learnt, and the step of an outer optimizer. Each function
// reads every byte once, in blocks that stay in the first-level cache; reference.h defines the results. Any thread may
// call them; they have no state.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/data_type.h"

namespace lockstep::training {

// Whether a model may hold its parameters in this type: f32, bf16 or f16.
[[nodiscard]] bool holds_parameters(DataType type);

// Part of a model's parameters, in the type in which the model holds them. Without bytes, there is none.
template <typename Byte>
struct Held {
  DataType type = DataType::kF32;
  std::span<Byte> bytes;
};

// into[i] = old[i], rounded to the type of `now`, minus now[i]. `into` may be the memory of `old` or of an f32 `now`.
void difference(std::span<float> into, std::span<const float> old, Held<const std::byte> now);

// theta[i] -= lr * gradient[i]; then model[i] = theta[i], if there is a model. `gradient` may lie in the memory of an
// f32 model; nothing else overlaps.
void sgd_step(std::span<float> theta, std::span<const float> gradient, float lr, Held<std::byte> model);

// momentum[i] = mu * momentum[i] + gradient[i]; theta[i] -= lr * (gradient[i] + mu * momentum[i]); model as above.
void nesterov_step(std::span<float> theta, std::span<float> momentum, std::span<const float> gradient, float lr,
                   float mu, Held<std::byte> model);

// model[i] = values[i], rounded to the type of the model.
void hold(Held<std::byte> model, std::span<const float> values);

// model[i] = alpha * model[i] + rest * shared[i].
void mix(Held<std::byte> model, std::span<const float> shared, float alpha, float rest);

}  // namespace lockstep::training
