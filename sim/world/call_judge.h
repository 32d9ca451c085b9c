// Judges a call that has ended by every promise about calls.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/ids.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/network/network.h"
#include "sim/plan/plan.h"
#include "sim/world/cast.h"
#include "sim/world/checkers.h"
#include "sim/world/chronicle.h"
#include "sim/world/options.h"

namespace lockstep::sim {

class CallJudge {
 public:
  CallJudge(const Plan& plan, const WorldOptions& options, const Cast& cast, Network& network, Checkers& checkers,
            Chronicle& chronicle)
      : plan_(plan), options_(options), cast_(cast), network_(network), checkers_(checkers), chronicle_(chronicle) {}

  // No stream and no kernel holds a buffer of the call any more.
  void check_loans_of(const SimProcess& process, const Call& call);
  // `healed`: faults are over, and recovery is not measured any more. `news`: nobody was told before that the round has
  // committed.
  void judge_collective(const SimProcess& process, const Call& call, bool healed, bool news);
  // L4: a time-out has passed, and an abort was asked for.
  [[nodiscard]] Complaint check_time_out_of(const Call& call) const;
  // A member of its cohort has lied.
  [[nodiscard]] bool is_among_liars(const Call& call) const;
  // Rule 56: also, each honest member that has told its caller another outcome is gone, and nobody else can tell of it.
  [[nodiscard]] bool is_untold(const Call& call) const;
  // P3 and L2, of an admission.
  [[nodiscard]] Complaint check_admission(const Call& call);

 private:
  [[nodiscard]] Complaint check_fold(const SimProcess& process, const Call& call, const FindCall& find);
  [[nodiscard]] Complaint check_receivers(const Call& call, const FindCall& find) const;
  [[nodiscard]] bool is_member(PeerId peer, Instant now) const;
  [[nodiscard]] Complaint check_time_of(const SimProcess& process, const Call& call);
  // P3 and L5.
  void check_recovery(const Call& call, bool healed);
  // L6.
  void check_wait(const Call& call);
  [[nodiscard]] bool is_odd(const peer::Outcome& outcome) const;
  [[nodiscard]] bool is_stateless(const Call& call, const wire::View* founding, const FindCall& find) const;

  const Plan& plan_;
  const WorldOptions& options_;
  const Cast& cast_;
  Network& network_;
  Checkers& checkers_;
  Chronicle& chronicle_;
  std::map<RoundKey, std::vector<std::uint64_t>> folded_;  // by guests, found exact: fingerprints of the results
};

}  // namespace lockstep::sim
