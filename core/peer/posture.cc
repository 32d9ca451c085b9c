#include "core/peer/posture.h"

#include "core/peer/machine.h"

namespace lockstep::peer {

Posture Peer::posture() const { return machine_->posture(); }
RoundPhase Peer::phase_of(const RoundKey& round) const { return machine_->phase_of(round); }
std::optional<RoundKey> Peer::round_of(CallId call) const { return machine_->round_of(call); }
bool Peer::hears(StreamId stream) const { return machine_->hears(stream); }

Standing Peer::Machine::standing() const {
  switch (admission_.life()) {
    case Life::kNew: return Standing::kNew;
    case Life::kOver: return Standing::kOver;
    case Life::kLeaving: return admission_.has_said_leave() ? Standing::kGoing : Standing::kLeaving;
    case Life::kMember:
      if (views_.proposal()) return Standing::kFrozen;
      if (admission_.admits()) return Standing::kAdmitting;
      return rounds_.empty() ? Standing::kIdle : Standing::kInRounds;
    case Life::kJoining: break;
  }
  switch (context_.session.state()) {
    case Session::State::kIdle:
    case Session::State::kPausing:
    case Session::State::kLooking: return Standing::kLooking;
    case Session::State::kDialling: return Standing::kDialling;
    case Session::State::kGreeting: return Standing::kGreeting;
    case Session::State::kWelcomed:
    case Session::State::kOver: break;
  }
  return views_.proposal() ? Standing::kInvited : Standing::kWaiting;
}

Posture Peer::Machine::posture() const {
  Posture posture{standing(), 0};
  for (const auto& [order, round] : rounds_) {
    posture.phases = static_cast<std::uint16_t>(posture.phases | 1U << static_cast<unsigned>(round.phase()));
  }
  return posture;
}

RoundPhase Peer::Machine::phase_of(const RoundKey& key) const {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return rounds_.at(known->second).phase();
  const Cohort* cohort = views_.cohort_of(key);
  if (admission_.is_over() || (cohort == nullptr && key.cohort <= context_.view->cohort)) return RoundPhase::kPast;
  if (cohort == nullptr) return RoundPhase::kToCome;
  if (key.cohort < context_.view->cohort || cohort->used_up.contains(key)) return RoundPhase::kPast;
  return is_earlier_use(key.use, cohort->uses.next(key.tag)) ? RoundPhase::kPast : RoundPhase::kToCome;
}

std::optional<RoundKey> Peer::Machine::round_of(CallId call) const {
  for (const auto& [order, round] : rounds_) {
    if (round.call == call && round.state != Round::State::kQueued) return round.key;
  }
  return std::nullopt;
}

bool Peer::Machine::hears(StreamId stream) const {
  return context_.session.owns(stream) ? context_.session.hears() : context_.mesh.hears(stream);
}

}  // namespace lockstep::peer
