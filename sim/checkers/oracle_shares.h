// The parts of an all-reduce that ranks own by the rates of their lines, written a second time from rule 58 of
// docs/protocol.md. This oracle searches in floating point; the core solves the same with integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "sim/checkers/oracle_chunks.h"
#include "sim/workload/call.h"

namespace lockstep::sim::oracle {

// Whether the ranks of a direct call own what their lines carry.
inline bool goes_by_rate(const Call& call, std::uint64_t world) {
  const ring::Request& request = call.request;
  const bool as_it_is = request.formats.up == WireFormat::kNative && request.formats.down == WireFormat::kNative;
  return request.collective == wire::Collective::kAllReduce && asked(request) == wire::Algorithm::kAuto && as_it_is &&
         !request.weight && world >= 3 && bytes_of(request) >= world * call.launch.by_rate_bytes;
}

// Lines in a row of which the slowest has at least two thirds of the fastest count as that slowest one.
inline std::vector<double> levelled(std::span<const std::uint32_t> rates) {
  std::vector<double> lines;
  double slowest = 0;
  for (const std::uint32_t rate : rates) {
    if (rate > 0) slowest = slowest == 0 ? rate : std::min<double>(slowest, rate);
  }
  for (const std::uint32_t rate : rates) lines.push_back(rate == 0 ? slowest : rate);
  std::vector<double> levels = lines;
  double below = HUGE_VAL;
  while (true) {
    double fastest = 0;
    for (const double line : lines) {
      if (line < below) fastest = std::max(fastest, line);
    }
    if (fastest == 0) return levels;
    double level = fastest;
    for (const double line : lines) {
      if (line <= fastest && 3 * line >= 2 * fastest) level = std::min(level, line);
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] <= fastest && lines[i] >= level) levels[i] = level;
    }
    below = level;
  }
}

// The parts of all bytes that the ranks own; empty: equal ones. A rank that owns w carries 1 + (n - 2) w: the least
// time in which the parts that lines have room for add up to 1.
inline std::vector<double> parts_of(std::span<const std::uint32_t> rates) {
  const std::vector<double> lines = levelled(rates);
  const auto [slowest, fastest] = std::ranges::minmax(lines);
  if (slowest == fastest) return {};
  const auto owned = [&](double time) {
    std::vector<double> parts;
    parts.reserve(lines.size());
    for (const double line : lines)
      parts.push_back(std::max(0.0, (time * line - 1) / static_cast<double>(lines.size() - 2)));
    return parts;
  };
  double low = 0;
  double high = static_cast<double>(lines.size()) / slowest;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    const std::vector<double> parts = owned(middle);
    (std::accumulate(parts.begin(), parts.end(), 0.0) < 1 ? low : high) = middle;
  }
  return owned(high);
}

}  // namespace lockstep::sim::oracle
