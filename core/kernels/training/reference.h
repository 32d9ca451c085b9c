// The scalar reference of the per-element work of training: the result for one element. This file is written for
// readability, not for speed; the loops of outer_step.cc must produce the same bits.
//
// Every operation is rounded to f32 on its own, to nearest even, with denormals. A result that is a NaN is the
// canonical one (element.h), because payloads and signs of NaNs differ between CPUs.
#pragma once

#include "core/kernels/element.h"
#include "core/kernels/reference.h"

namespace lockstep::training::reference {

using lockstep::reference::canonical;

// An element of the shared parameters as a model of type T holds it.
template <typename T>
constexpr float as_held(float value) {
  if constexpr (SmallFloat<T>) return widen(narrow<T>(value));
  return value;
}

// What a model has learnt: old - now, after `old` was rounded as the model had rounded it.
template <typename T>
constexpr float difference(float old, T now) {
  if constexpr (SmallFloat<T>)
    return canonical(as_held<T>(old) - widen(now));
  else
    return canonical(old - now);
}

constexpr float sgd_step(float theta, float gradient, float lr) { return canonical(theta - lr * gradient); }

// A parameter of a model of type T, as part of itself and part of the shared one.
template <typename T>
constexpr T mixed(T own, float shared, float alpha, float rest) {
  if constexpr (SmallFloat<T>)
    return narrow<T>(alpha * widen(own) + rest * shared);
  else
    return canonical(alpha * own + rest * shared);
}

struct Moved {
  float theta;
  float momentum;
};

// SGD with Nesterov momentum, in the form of torch.
constexpr Moved nesterov_step(float theta, float momentum, float gradient, float lr, float mu) {
  const float speed = mu * momentum + gradient;
  return {.theta = canonical(theta - lr * (gradient + mu * speed)), .momentum = canonical(speed)};
}

}  // namespace lockstep::training::reference
