// The floating-point environment that kernels of training need, for callers that see this folder only.
#pragma once

#include "core/kernels/float_environment.h"

namespace lockstep::training {

using lockstep::StandardFloats;

}  // namespace lockstep::training
