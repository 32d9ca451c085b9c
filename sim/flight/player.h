// Replays a flight recording: a fresh machine of core gets the recorded state and the recorded inputs, and must have
// the recorded effects.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/coordinator/coordinator.h"
#include "core/flight/recording.h"
#include "core/peer/effect.h"
#include "core/peer/peer.h"

namespace lockstep::sim {

// An observer of the replay. Inputs are counted from the birth of the machine, from 1; times are relative to it.
class PlayWitness {
 public:
  virtual ~PlayWitness() = default;
  // The machine before the first input.
  virtual void begins(const peer::Peer&, Instant) {}
  virtual void begins(const coordinator::Coordinator&, Instant) {}
  virtual void given(std::uint64_t /*input*/, Duration /*at*/, const flight::Record<peer::Input>&) {}
  virtual void given(std::uint64_t /*input*/, Duration /*at*/, const flight::Record<coordinator::Input>&) {}
  virtual void answered(const peer::Effects&) {}
  virtual void answered(const coordinator::Effects&) {}
};

struct PlayOptions {
  std::uint64_t until = 0;  // stop after the input of this number; 0: at the end
  PlayWitness* witness = nullptr;
};

// The first difference between the machine and the recording.
struct Difference {
  std::uint64_t input = 0;
  Duration at;
  std::string what;  // the part that differs
  std::string given;
  std::optional<std::uint32_t> expected;  // hash; nullopt: no effects
  std::optional<std::uint32_t> actual;
  std::vector<std::string> effects;  // of the machine, now
};

struct Played {
  std::uint64_t first = 1;  // number of the first input that is recorded
  std::uint64_t inputs = 0;
  std::uint64_t effects = 0;
  Duration from;  // the first and the last input
  Duration to;
  std::optional<Difference> difference;
  // Only if the recorded machine never returned from its last step: whether the replayed machine returned from it, and
  // the text that it threw. (A broken assertion ends this process, too.)
  bool came_back = false;
  std::string thrown;
};

// An error: the recording cannot be played.
Result<Played> play(const flight::Recording& recording, const PlayOptions& options = {});

}  // namespace lockstep::sim
