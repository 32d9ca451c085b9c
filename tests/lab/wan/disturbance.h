// Resets of streams in the midst of every second call that is measured: when, where, and what came of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/lab/wan/connections.h"

namespace lockstep::wan {

// `resets` of the busiest connections of a hop of the ring, at equal distances in what that hop carries in a call. The
// call before is left in peace, and says how much that is. The next disturbed call has the next hop.
class Disturbance {
 public:
  // `hosts`: by rank.
  Disturbance(std::uint32_t resets, std::vector<std::uint32_t> hosts) : resets_(resets), hosts_(std::move(hosts)) {}

  // Rank 0 begins the n-th measured call, from 1.
  void on_call(std::uint32_t number, Connections& connections);
  [[nodiscard]] static bool disturbs(std::uint32_t number) { return number % 2 == 0; }

  struct Hits {
    std::uint32_t wanted = 0;
    std::uint32_t hit = 0;
  };
  // By call. Once the last call is over.
  [[nodiscard]] std::vector<Hits> hits(std::uint32_t calls, const std::vector<ResetRecord>& resets) const;

 private:
  const std::uint32_t resets_;
  const std::vector<std::uint32_t> hosts_;
  std::vector<std::size_t> before_;  // how many resets there were when each call began
  std::uint64_t carried_ = 0;        // by the hop of the next disturbed call, when the call before it began
};

// N of "call N", as `lockstep bench --say-calls` says it.
std::optional<std::uint32_t> call_in(std::string_view line);

// Seconds of the calls that were left in peace, and of those that had all of their resets.
struct Effect {
  std::vector<double> undisturbed;
  std::vector<double> disturbed;
  std::uint32_t wanted = 0;  // resets
  std::uint32_t hit = 0;
};
Effect effect_of(const std::vector<double>& calls, const std::vector<Disturbance::Hits>& hits);

// Of an even number the mean of the two in the middle; 0 of none.
double median_of(std::vector<double> values);

}  // namespace lockstep::wan
