// One table of excuses: for each kind of fault, its subject, its duration and its possible effects. L2, P1 and P2 use
// the table. A new kind of fault needs a line in excuse_of(). checkers/l2_times.h derives from the time-outs of a run
// how long effects can last after the end of a fault.
#pragma once

#include <cstdint>

#include "core/base/assert.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

struct ExcuseRule {
  enum class Subject : std::uint8_t {
    kNobody,
    kProcess,  // the process that runs on host a when it begins; one that starts there later is another peer
    kHost,     // whatever runs on host a while it lasts
    kHosts,    // the way between the hosts a and b, for every process that runs there while it lasts
    kStreams,  // the streams between the processes on a and b when it begins; all streams of a, where b = a
  };
  enum class Lasts : std::uint8_t {
    kMoment,   // the fault is over as soon as it begins
    kWhileOn,  // until the nemesis ends the fault, or the process of the fault is dead
    kForEver,  // as long as the streams exist
  };
  Subject subject = Subject::kNobody;
  Lasts lasts = Lasts::kMoment;
  bool quiet = false;    // messages of the subject do not arrive
  bool breaks = false;   // streams end
  bool ends = false;     // the process is gone, or leaves the run
  bool program = false;  // the program makes other calls than the programs of other peers, or ends calls
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
    case Fault::kCutBoth:
    case Fault::kDrip: return {.subject = Subject::kHosts, .lasts = Lasts::kWhileOn, .quiet = true};
    case Fault::kLie: return {.subject = Subject::kHost, .lasts = Lasts::kWhileOn, .quiet = true, .breaks = true};
    case Fault::kReset: return {.subject = Subject::kStreams, .breaks = true};
    case Fault::kSilence: return {.subject = Subject::kStreams, .lasts = Lasts::kForEver, .quiet = true};
    case Fault::kSlow: return {.subject = Subject::kHosts, .lasts = Lasts::kWhileOn};
    case Fault::kKernels:
    case Fault::kSpoil: return {.subject = Subject::kHost, .lasts = Lasts::kWhileOn};
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip: return {.subject = Subject::kProcess, .program = true};
    case Fault::kDrift: return {.subject = Subject::kProcess};
    case Fault::kShut:
    case Fault::kMute: return {.subject = Subject::kHost, .lasts = Lasts::kWhileOn};
    case Fault::kFlip:
    case Fault::kMiscompute: return {.subject = Subject::kStreams, .breaks = true};
    case Fault::kStrangers:
    case Fault::kJoin: return {};
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep::sim
