// The sweep: one small plan, run once with every fault at every one of its events. What a swarm of seeds hits by
// chance, this hits for certain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/plan.h"

namespace lockstep::sim {

// Every single fault that can begin in this plan: crashes, silent deaths, pauses below and above the silence time-out,
// resets and departures of each peer, pieces of state that it falsifies, calls that are aborted, and one-way cuts and
// silent streams of each pair.
std::vector<Entry> single_faults(const Plan& plan);

class Sweep {
 public:
  // `events`: how many a run without further faults has before the network heals; faults begin at every `stride`-th.
  Sweep(const Plan& plan, std::uint64_t events, std::uint64_t stride = 1);
  Sweep(Plan plan, std::uint64_t events, std::uint64_t stride, std::vector<Entry> faults);

  [[nodiscard]] std::uint64_t size() const { return moments_ * faults_.size(); }
  [[nodiscard]] std::size_t faults() const { return faults_.size(); }
  [[nodiscard]] std::uint64_t moments() const { return moments_; }
  [[nodiscard]] Plan plan(std::uint64_t index) const;
  [[nodiscard]] std::string name(std::uint64_t index) const;  // "crash of 2 at event 117"

 private:
  [[nodiscard]] Entry entry(std::uint64_t index) const;

  Plan plan_;
  std::uint64_t stride_;
  std::uint64_t moments_;
  std::vector<Entry> faults_;
};

}  // namespace lockstep::sim
