// The record of a run: its hash, its trace, and its report with the first broken promise.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "sim/checkers/complaint.h"
#include "sim/engine/event.h"
#include "sim/plan/report.h"
#include "sim/workload/call.h"
#include "sim/world/cast.h"
#include "sim/world/options.h"

namespace lockstep::sim {

class Chronicle {
 public:
  // `now`: of the world.
  Chronicle(const WorldOptions& options, std::uint64_t seed, const Instant& now);

  // ---- the hash ----
  void mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d);
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  // ---- words ----
  [[nodiscard]] bool traces() const { return static_cast<bool>(options_.trace); }
  void tell(const std::string& line);  // with the time in front
  void say(const SimProcess& process, const std::string& line);
  void observe(const SimProcess& process, const std::string& line);
  void happened(const Event& event) { happened_[static_cast<std::size_t>(event.what)] += 1; }
  [[nodiscard]] std::string what_happened() const;  // "12 arrive, 3 timer"

  // ---- promises ----
  // The call that checkers judge now; null: none.
  void judging(const Call* call) { judged_ = call; }
  void check(const char* promise, Complaint complaint);
  void fail(std::string promise, std::string text);  // ends the run
  // From now on nobody checks this promise.
  void waive(std::string_view promise) { waived_.insert(promise); }

  [[nodiscard]] bool over() const { return over_; }
  void end() { over_ = true; }

  Report report;  // Invariant: hash, time and views are filled in when the report is asked for

 private:
  const WorldOptions& options_;
  const Instant& now_;
  std::uint64_t hash_;
  const Call* judged_ = nullptr;
  std::set<std::string_view> waived_;
  bool over_ = false;
  std::array<std::uint64_t, kWhatCount> happened_{};
};

}  // namespace lockstep::sim
