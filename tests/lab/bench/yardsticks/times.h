// Seconds of the rounds of a measurement.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

struct Times {
  std::vector<double> samples;

  void add(double sample) { samples.push_back(sample); }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  [[nodiscard]] double least() const { return *std::min_element(samples.begin(), samples.end()); }
  [[nodiscard]] double most() const { return *std::max_element(samples.begin(), samples.end()); }
  [[nodiscard]] std::string words() const {
    return fmt::format("{:.1f} ms ({:.1f} to {:.1f})", median() * 1e3, least() * 1e3, most() * 1e3);
  }
  [[nodiscard]] std::string json() const {
    return fmt::format("{{\"median\": {:.6f}, \"least\": {:.6f}, \"most\": {:.6f}}}", median(), least(), most());
  }
};

}  // namespace lockstep::bench
