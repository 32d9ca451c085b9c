// How commands of `lockstep_wan` fail: as those of `lockstep` do.
#pragma once

#include <utility>

#include "bindings/cli/command.h"
#include "core/base/result.h"

namespace lockstep::wan {

using cli::Failure;
using cli::kExitFailed;
using cli::kExitInterrupted;
using cli::kExitOk;
using cli::kExitUsage;

// The value; an error is the end.
template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  const bool usage = result.error().status == Status::kInvalidArgument;
  throw Failure(usage ? kExitUsage : kExitFailed, result.error().text);
}

}  // namespace lockstep::wan
