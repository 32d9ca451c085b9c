// What the ranks of a round must know of each other before it begins: how large the blocks of an all-gather are, what contributions
// weigh. Travels once around the ring; where a round goes direct, everybody tells everybody who is ready.
#include <algorithm>
#include <bit>

#include "core/peer/machine.h"

namespace lockstep::peer {

void Peer::Machine::tell_stakes(Round& round, PeerId to) {
  for (std::uint32_t r = 0; r < round.attempt->stakes.size(); ++r) {
    const bool tells = round.attempt->direct ? r == round.attempt->rank.value
                                             : round.attempt->stakes[r] && (*round.attempt->ring)[r] != to;
    if (tells) context_.mesh.say(to, wire::Stake{round.key, round.generation, Rank{r}, *round.attempt->stakes[r]});
  }
}

void Peer::Machine::on_stake(PeerId from, const wire::Stake& stake) {
  Round* round = find(stake.key);
  if (round == nullptr || round->state != Round::State::kStakes || round->generation != stake.attempt) return;
  if (!round->attempt->sender(from) || stake.rank.value >= round->attempt->world()) return;
  if (round->attempt->direct && (*round->attempt->ring)[stake.rank.value] != from) return;
  if (const auto flaw = validate_stake(round->request, stake)) {
    return ask_to_stop(*round, Status::kProtocolError, context_.name_of(from) + " states " + *flaw);
  }
  learn_stake(*round, stake.rank, stake.value);
}

void Peer::Machine::learn_stake(Round& round, Rank rank, std::uint64_t value) {
  if (round.attempt->stakes[rank.value]) return;
  round.attempt->stakes[rank.value] = value;
  if (round.attempt->downstream_ready && !round.attempt->direct &&
      (*round.attempt->ring)[rank.value] != round.attempt->downstream()) {
    context_.mesh.say(round.attempt->downstream(), wire::Stake{round.key, round.generation, rank, value});
  }
  if (round.attempt->knows_stakes()) begin_operation(round);
}

}  // namespace lockstep::peer
