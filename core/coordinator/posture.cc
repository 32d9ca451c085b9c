#include "core/coordinator/posture.h"

#include <algorithm>

#include "core/coordinator/machine.h"

namespace lockstep::coordinator {

Posture Coordinator::posture() const { return machine_->posture(); }
bool Coordinator::hears(StreamId stream) const { return machine_->hears(stream); }

bool Coordinator::Machine::hears(StreamId stream) const {
  const auto party = parties_.find(stream);
  return party != parties_.end() && !party->second.channel.finishing();
}

Posture Coordinator::Machine::posture() const {
  const bool empty = membership_.view().members.empty();
  if (proposal_) {
    if (proposal_->settled_once) return Posture::kSettling;
    if (!proposal_->admission) return Posture::kChanging;
    return empty ? Posture::kFounding : Posture::kAdmitting;
  }
  const auto any = [&](const auto& holds) {
    return std::any_of(seats_.begin(), seats_.end(), [&](const auto& entry) { return holds(entry.second); });
  };
  if (empty) return any([](const Seat& seat) { return seat.cut; }) ? Posture::kSeeingOff : Posture::kEmpty;
  if (any([](const Seat& seat) { return seat.admit.has_value(); })) return Posture::kGathering;
  return rounds_.size() > 0 ? Posture::kInRounds : Posture::kQuiet;
}

}  // namespace lockstep::coordinator
