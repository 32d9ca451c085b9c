#include "sim/explain/history.h"

#include "core/base/assert.h"

namespace lockstep::sim {

std::string_view name_of(Spark spark) {
  switch (spark) {
    case Spark::kStart: return "start";
    case Spark::kEnd: return "end";
    case Spark::kCall: return "call";
    case Spark::kMessage: return "message";
    case Spark::kTimer: return "timer";
    case Spark::kKernel: return "kernel";
    case Spark::kStream: return "stream";
    case Spark::kFault: return "fault";
    case Spark::kFailure: return "failure";
  }
  LOCKSTEP_UNREACHABLE();
}

std::string_view name_of(Because because) {
  switch (because) {
    case Because::kFault: return "fault";
    case Because::kMessage: return "message";
    case Because::kKernel: return "kernel";
    case Because::kProgram: return "program";
    case Because::kState: return "state";
    case Because::kStream: return "stream";
    case Because::kTimer: return "timer";
    case Because::kView: return "view";
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep::sim
