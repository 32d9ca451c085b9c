// What the ranks of a round must know of each other before it begins: how large the blocks of an all-gather are, what contributions
// weigh. Travels once around the ring; where a round goes direct, everybody tells everybody who is ready.
#include <algorithm>
#include <bit>

#include "core/peer/machine.h"

namespace lockstep::peer {

// Of this rank; nothing where the collective has none.
std::optional<std::uint64_t> Peer::Machine::stake_of(const Request& request) {
  if (request.collective == Collective::kAllGather) return request.tensors.front().count * size_of(request.type);
  if (request.weight) return std::bit_cast<std::uint32_t>(*request.weight);
  return std::nullopt;
}

// Once all are known.
std::vector<std::uint64_t> Peer::Machine::stakes_of(const Round& round) {
  std::vector<std::uint64_t> stakes;
  for (const auto& stake : round.stakes) stakes.push_back(*stake);
  return stakes;
}

void Peer::Machine::tell_stakes(Round& round, PeerId to) {
  for (std::uint32_t r = 0; r < round.stakes.size(); ++r) {
    const bool tells = round.is_direct() ? r == round.rank.value : round.stakes[r] && (*round.ring)[r] != to;
    if (tells) context_.mesh.say(to, wire::Stake{round.key, round.attempt, Rank{r}, *round.stakes[r]});
  }
}

void Peer::Machine::on_stake(PeerId from, const wire::Stake& stake) {
  Round* round = find(stake.key);
  if (round == nullptr || round->state != Round::State::kStakes || round->attempt != stake.attempt) return;
  if (!round->sender(from) || stake.rank.value >= round->world()) return;
  if (round->is_direct() && (*round->ring)[stake.rank.value] != from) return;
  if (const auto flaw = flaw_of_stake(round->request, stake)) {
    return ask_to_stop(*round, Status::kProtocolError, context_.name_of(from) + " states " + *flaw);
  }
  learn_stake(*round, stake.rank, stake.value);
}

std::optional<std::string> Peer::Machine::flaw_of_stake(const Request& request, const wire::Stake& stake) {
  const std::string whose = " for rank " + std::to_string(stake.rank.value);
  if (request.weight) {
    const bool sound =
        stake.value <= UINT32_MAX && is_weight(std::bit_cast<float>(static_cast<std::uint32_t>(stake.value)));
    if (sound) return std::nullopt;
    return "a weight" + whose + " that is none: the bits " + std::to_string(stake.value);
  }
  const std::size_t element = size_of(request.type);
  if (stake.value % element == 0) return std::nullopt;
  return "a block of " + std::to_string(stake.value) + " bytes" + whose + ", which are no whole elements of " +
         std::to_string(element) + " bytes";
}

void Peer::Machine::learn_stake(Round& round, Rank rank, std::uint64_t value) {
  if (round.stakes[rank.value]) return;
  round.stakes[rank.value] = value;
  if (round.downstream_ready && !round.is_direct() && (*round.ring)[rank.value] != round.downstream()) {
    context_.mesh.say(round.downstream(), wire::Stake{round.key, round.attempt, rank, value});
  }
  const bool all =
      std::all_of(round.stakes.begin(), round.stakes.end(), [](const auto& stake) { return stake.has_value(); });
  if (all) begin_operation(round);
}

}  // namespace lockstep::peer
