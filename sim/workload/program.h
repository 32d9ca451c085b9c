// The program that runs on a process of the simulated world and makes its calls: the simulator's own training loop
// (workload.h), or a guest, a program from outside (World::open).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/effect.h"
#include "core/trace/event.h"
#include "core/wire/message.h"
#include "sim/workload/call.h"

namespace lockstep::sim {

class Program {
 public:
  enum class Phase : std::uint8_t { kConnecting, kSyncing, kStepping, kAdmitting, kLeaving, kOver };

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  // ---- events ----
  virtual void begin() = 0;
  virtual void on_event(std::uint64_t what) = 0;
  virtual void on_complete(const Call& call) = 0;
  virtual void on_view(const std::shared_ptr<const wire::View>& view) = 0;
  virtual void on_pending(const peer::PendingChanged& /*pending*/) {}
  virtual void on_progress(const peer::Progress& /*progress*/) {}
  virtual void on_trace(const trace::Event& /*event*/) {}
  virtual void on_over(const peer::RunOver& /*over*/) { phase_ = Phase::kOver; }

  // ---- requests of the nemesis ----
  virtual void leave() = 0;
  virtual void stop_call(CallId call) = 0;
  virtual void abandon() = 0;

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool connected() const { return phase_ != Phase::kConnecting && phase_ != Phase::kOver; }
  [[nodiscard]] bool leaving() const { return leaving_; }
  [[nodiscard]] std::uint64_t step() const { return step_; }

 protected:
  Phase phase_ = Phase::kConnecting;
  bool leaving_ = false;
  std::uint64_t step_ = 0;
};

// How often a program has launched each tag in the newest cohort that it knows of.
class TagUses {
 public:
  explicit TagUses(std::uint32_t first = 0) : first_(first) {}
  void on_view(const wire::View& view) {
    if (view.cohort == cohort_) return;
    cohort_ = view.cohort;
    before_ = uses_.size();
    uses_.clear();
  }
  // Tags that were launched in this cohort, and in the one before: those of calls that have moved to this one.
  [[nodiscard]] std::size_t tags() const { return uses_.size() + before_; }
  [[nodiscard]] CohortId cohort() const { return cohort_; }
  // The launches of this tag before this one.
  std::uint32_t launch(Tag tag) {
    auto use = std::find_if(uses_.begin(), uses_.end(), [&](const auto& entry) { return entry.first == tag; });
    if (use == uses_.end()) use = uses_.insert(uses_.end(), {tag, first_});
    return use->second++;
  }

 private:
  std::uint32_t first_;  // use of each tag
  CohortId cohort_;
  std::size_t before_ = 0;  // tags, in the cohort before
  std::vector<std::pair<Tag, std::uint32_t>> uses_;
};

}  // namespace lockstep::sim
