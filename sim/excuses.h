// What a fault is an excuse for, in one table: whom it touches, for how long, and what it can do to those. A new fault gets its line
// in excuse_of(), and L2, P1 and P2 know it. How long after its end its effects may still be seen is derived from the time-outs in use:
// checkers/l2_times.h.
#pragma once

#include <cstdint>

#include "core/base/assert.h"
#include "sim/plan.h"

namespace lockstep::sim {

struct ExcuseRule {
  enum class Subject : std::uint8_t {
    kNobody,
    kProcess,  // the process that runs on host a when it begins; one that starts there later is another peer
    kHost,     // whatever runs on host a while it lasts
    kHosts,    // the way between the hosts a and b, for every process that runs there while it lasts
    kStreams,  // the streams between the two processes that run on a and b when it begins; of a with everybody, where b = a
  };
  enum class Lasts : std::uint8_t {
    kMoment,   // what it does is done at once
    kWhileOn,  // until the nemesis ends it, or the process that it is about is dead
    kForEver,  // as long as those streams are there
  };
  Subject subject = Subject::kNobody;
  Lasts lasts = Lasts::kMoment;
  bool quiet = false;    // who it is about is not heard
  bool breaks = false;   // streams end
  bool ends = false;     // the process is gone, or leaves the run
  bool program = false;  // the program makes other calls than the others' programs, or ends some
};

constexpr ExcuseRule excuse_of(Fault fault) {
  using Subject = ExcuseRule::Subject;
  using Lasts = ExcuseRule::Lasts;
  switch (fault) {
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kLeave:
    case Fault::kAbandon: return {.subject = Subject::kProcess, .ends = true};
    case Fault::kStall: return {.subject = Subject::kProcess, .lasts = Lasts::kWhileOn, .quiet = true};
    case Fault::kCut:
    case Fault::kCutBoth: return {.subject = Subject::kHosts, .lasts = Lasts::kWhileOn, .quiet = true};
    case Fault::kReset: return {.subject = Subject::kStreams, .breaks = true};
    case Fault::kSilence: return {.subject = Subject::kStreams, .lasts = Lasts::kForEver, .quiet = true};
    case Fault::kSlow: return {.subject = Subject::kHosts, .lasts = Lasts::kWhileOn};
    case Fault::kKernels:
    case Fault::kSpoil: return {.subject = Subject::kHost, .lasts = Lasts::kWhileOn};
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kSkip: return {.subject = Subject::kProcess, .program = true};
    case Fault::kDrift: return {.subject = Subject::kProcess};
    case Fault::kMute: return {.subject = Subject::kHost, .lasts = Lasts::kWhileOn};
    case Fault::kFlip:
    case Fault::kMiscompute: return {.subject = Subject::kStreams, .breaks = true};
    case Fault::kStrangers:
    case Fault::kJoin: return {};
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep::sim
