#include "sim/world/cast.h"

namespace lockstep::sim {

SimProcess* Cast::running(std::uint32_t host) {
  if (host >= hosts.size() || hosts[host].process == kNoProcess) return nullptr;
  SimProcess& process = processes[hosts[host].process];
  return process.alive ? &process : nullptr;
}

const Call* Cast::contribution(PeerId peer, const RoundKey& round) const {
  const auto it = by_id.find(peer);
  if (it == by_id.end()) return nullptr;
  const SimProcess& process = processes[it->second];
  for (auto call = process.caller.calls.rbegin(); call != process.caller.calls.rend(); ++call) {
    if (call->kind != CallKind::kCollective || call->request.tag != round.tag) continue;
    if (round_of(process, *call) == round) return &*call;
  }
  return nullptr;
}

std::optional<RoundKey> Cast::round_of(const SimProcess& process, const Call& call) {
  if (call.outcome) return call.outcome->round;
  return process.peer ? process.peer->round_of(call.id) : call.round_at_death;
}

bool Cast::is_open_before(CohortId newest) const {
  for (const SimProcess& process : processes) {
    if (!process.alive) continue;
    for (const std::uint32_t place : process.caller.open_calls) {
      const Call& call = process.caller.calls[place];
      if (call.kind == CallKind::kCollective && call.launch.cohort < newest) return true;
    }
  }
  return false;
}

std::string Cast::letters_of(const std::vector<PeerId>& peers) const {
  std::string out = "{";
  for (const PeerId& peer : peers) {
    const auto it = by_id.find(peer);
    const std::uint32_t host = it == by_id.end() ? 0 : processes[it->second].host;
    out += (out.size() > 1 ? " " : "") + std::string(1, host == 0 ? '?' : static_cast<char>('a' + (host - 1) % 26));
  }
  return out + "}";
}

std::int64_t draw_delay(const Dice& dice, SimProcess& process, Duration at_most, Purpose purpose) {
  return 1 + static_cast<std::int64_t>(
                 dice.skewed(static_cast<std::uint64_t>(at_most.ns), purpose, process.index, process.draws++));
}

}  // namespace lockstep::sim
