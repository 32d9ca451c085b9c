// `lockstep sim replay FILE` with a flight recording in the place of a plan.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::sim {

struct RecordingFlags {
  std::string file;
  std::uint64_t until = 0;
  bool watch = false;
  bool json = false;
  std::string plan;  // where to write one made of it; empty: nowhere
};

// Whether the file begins as a recording does. Throws UsageError where it cannot be read, or cannot be a text either.
bool holds_recording(const std::string& path);
// Plays it, and returns the exit code. Throws UsageError where it cannot be played.
int replay_recording(const RecordingFlags& flags);

}  // namespace lockstep::sim
