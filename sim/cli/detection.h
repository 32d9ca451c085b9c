// How often seeds find a planted bug. The rates are recorded in sim/mutants.toml: a change of the simulator or of core
// after which a bug is found half as often has made the simulator weaker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lockstep::sim {

// `found` searches came to their end, in `seeds` seeds; a search that ran out of seeds counts in `seeds` only.
struct Detection {
  std::uint64_t found = 0;
  std::uint64_t seeds = 0;

  [[nodiscard]] double rate() const { return seeds == 0 ? 0 : static_cast<double>(found) / static_cast<double>(seeds); }
  bool operator==(const Detection&) const = default;
};

inline bool fell_to_half(const Detection& now, const Detection& recorded) { return now.rate() * 2 < recorded.rate(); }

// By the id of the mutant.
using Detections = std::map<std::string, Detection, std::less<>>;

Detections read_detections(const std::string& path);  // throws UsageError, with line and column
void write_detections(const Detections& detections, const std::string& path);  // throws UsageError

}  // namespace lockstep::sim
