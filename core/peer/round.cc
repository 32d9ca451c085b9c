#include "core/peer/round.h"

#include <algorithm>
#include <bit>

#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

std::optional<std::uint64_t> stake_of(const Request& request) {
  if (request.collective == Collective::kAllGather) return request.tensors.front().count * size_of(request.type);
  if (request.weight) return std::bit_cast<std::uint32_t>(*request.weight);
  return std::nullopt;
}

std::optional<std::string> validate_stake(const Request& request, const wire::Stake& stake) {
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

Attempt::Attempt(const RoundKey& round, Generation its_generation, const Cohort::Roster& among, PeerId self,
                 const wire::Descriptor& what)
    : key(round),
      generation(its_generation),
      ring(among.ring),
      distance(among.distance),
      peer_commit(among.peer_commit),
      direct(what.algorithm == wire::Algorithm::kDirect && among.ring->size() > 1) {
  const auto me = std::find(ring->begin(), ring->end(), self);
  LOCKSTEP_ASSERT(me != ring->end());
  rank = Rank{static_cast<std::uint32_t>(me - ring->begin())};
}

std::optional<Rank> Attempt::other(PeerId peer) const {
  const auto found = std::find(ring->begin(), ring->end(), peer);
  if (found == ring->end() || peer == peer_at(rank)) return std::nullopt;
  return Rank{static_cast<std::uint32_t>(found - ring->begin())};
}

void Attempt::agree(PeerId member, const wire::Done& done) {
  const auto at = std::find(ring->begin(), ring->end(), member);
  if (at == ring->end() || (agreed != 0 && agreed_hash != done.hash)) return;
  const bool drifted = done.parity != 0 && agreed_parity != 0 && done.parity != agreed_parity;
  if (drifted && !mutant(Mutant::kWatchBlind)) return;
  agreed |= 1U << static_cast<std::uint32_t>(at - ring->begin());
  agreed_hash = done.hash;
  if (done.parity != 0) agreed_parity = done.parity;
}

bool Attempt::all_agree(std::uint64_t hash) const {
  if (agreed == 0) return false;
  LOCKSTEP_ASSERT(world() <= kMaxDirect);
  const std::uint32_t all = (1U << (world() - (mutant(Mutant::kAgreesWithoutOne) ? 1 : 0))) - 1;
  return (agreed & all) == all && agreed_hash == hash;
}

std::vector<std::uint64_t> Attempt::known_stakes() const {
  std::vector<std::uint64_t> known;
  for (const auto& stake : stakes) known.push_back(*stake);
  return known;
}

bool Attempt::knows_stakes() const {
  return std::all_of(stakes.begin(), stakes.end(), [](const auto& stake) { return stake.has_value(); });
}

bool Round::runs(const RoundKey& named, Generation in) const {
  if (!attempted()) return false;
  LOCKSTEP_ASSERT(attempt.has_value());
  return attempt->key == named && (attempt->generation == in || mutant(Mutant::kReadyOfAnyAttempt));
}

RoundPhase Round::phase() const {
  switch (state) {
    case State::kQueued: return RoundPhase::kQueued;
    case State::kHeld: return RoundPhase::kHeld;
    case State::kStakes:
    case State::kDigests:
    case State::kClaimed: return RoundPhase::kSizes;
    case State::kRunning: {
      const bool moved =
          sync ? sync->bytes_received() > 0 : operation()->bytes_sent() + operation()->bytes_received() > 0;
      return moved ? RoundPhase::kFlowing : RoundPhase::kStarting;
    }
    case State::kStuck: return RoundPhase::kStuck;
    case State::kDone: return RoundPhase::kDone;
    case State::kEnding: return has_outcome() ? RoundPhase::kEnding : RoundPhase::kGivenUp;
  }
  LOCKSTEP_UNREACHABLE();
}

std::optional<std::uint32_t> Round::root() const {
  if (request.collective != Collective::kBroadcast) return 0;
  const std::vector<PeerId>& ring = *attempt->ring;
  const auto at = std::find(ring.begin(), ring.end(), request.root);
  if (at == ring.end()) return std::nullopt;
  return static_cast<std::uint32_t>(at - ring.begin());
}

ring::Segmenting Round::segmenting(const Options& options) const {
  return {options.segment_bytes, attempt->distance, request.formats, direct_room(request), options.turns};
}

std::optional<Error> Round::validate_operation(const Options& options) const {
  return ring::Operation::refusal(request, attempt->rank, attempt->world(), attempt->known_stakes(),
                                  segmenting(options));
}

std::unique_ptr<ring::Operation> Round::new_operation(const Options& options) const {
  const std::optional<std::uint32_t> root_rank = root();
  LOCKSTEP_ASSERT(root_rank.has_value());
  return ring::Operation::of(request, attempt->rank, attempt->world(), *root_rank, attempt->known_stakes(),
                             segmenting(options));
}

}  // namespace lockstep::peer
