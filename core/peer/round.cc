#include "core/peer/round.h"

#include <algorithm>
#include <bit>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/ring/choice.h"
#include "core/ring/exchange_operation.h"
#include "core/ring/grid.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

std::string words_of(const Request& request) {
  return std::string(wire::name_of(request.collective)) + " with tag " + std::to_string(request.tag.value);
}

std::uint64_t Round::own_rank_parameter(PeerId self, ring::LineReport line) const {
  LOCKSTEP_ASSERT(has_rank_parameters());
  if (wire::has_blocks(request.collective)) return ring::block_bytes_to(request, self);
  return request.weight ? std::bit_cast<std::uint32_t>(*request.weight) : line.parameter();
}

std::optional<std::string> Round::validate_rank_parameter(Rank of, std::uint64_t value) const {
  const std::string whose = " for rank " + std::to_string(of.value);
  if (attempt->by_rate) {
    if (ring::LineReport::is_one(value)) return std::nullopt;
    return "a line" + whose + " that is none: the bits " + std::to_string(value);
  }
  if (request.weight) {
    const bool sound = value <= UINT32_MAX && ring::is_weight(std::bit_cast<float>(static_cast<std::uint32_t>(value)));
    if (sound) return std::nullopt;
    return "a weight" + whose + " that is none: the bits " + std::to_string(value);
  }
  const std::size_t element = size_of(request.type);
  if (value % element == 0) return std::nullopt;
  return "a block of " + std::to_string(value) + " bytes" + whose + ", which are no whole elements of " +
         std::to_string(element) + " bytes";
}

Attempt::Attempt(const RoundKey& round, Generation its_generation, const Cohort::Roster& among,
                 const PeerOptions& options, const wire::Descriptor& what)
    : key(round),
      generation(its_generation),
      ring(among.ring),
      distance(among.distance),
      sizes(among.sizes),
      peer_commit(among.peer_commit),
      algorithm(
          ring::choose(what, static_cast<std::uint32_t>(ring->size()),
                       mutant(Mutant::kChoosesAlone) && options.id == ring->front() ? ring::Reach::kAll : among.reach)),
      direct((wire::has_owners(algorithm) || wire::exchanges(what.collective)) && among.ring->size() > 1),
      by_rate(ring::goes_by_rate(what, world(), algorithm, options.direct.by_rate_bytes)) {
  const auto me = std::find(ring->begin(), ring->end(), options.id);
  LOCKSTEP_ASSERT(me != ring->end());
  rank = Rank{static_cast<std::uint32_t>(me - ring->begin())};
}

std::optional<Rank> Attempt::other(PeerId peer) const {
  const auto found = std::find(ring->begin(), ring->end(), peer);
  if (found == ring->end() || peer == peer_at(rank)) return std::nullopt;
  return Rank{static_cast<std::uint32_t>(found - ring->begin())};
}

std::optional<Rank> Attempt::linked(PeerId peer) const {
  const std::optional<Rank> there = other(peer);
  return there && ring::grid_of(algorithm, world()).are_linked(rank.value, there->value) ? there : std::nullopt;
}

Rank Attempt::on_the_way(Rank from, Rank owner) const {
  return Rank{ring::grid_of(algorithm, world()).parent(from.value, owner.value)};
}

std::uint32_t Attempt::linked_ranks() const { return direct ? ring::grid_of(algorithm, world()).most_children() : 2; }

void Attempt::agree(PeerId member, const wire::Done& done) {
  const auto at = std::find(ring->begin(), ring->end(), member);
  if (at == ring->end() || (agreed.ranks != 0 && agreed.hash != done.hash)) return;
  const bool drifted =
      done.state_fingerprint != 0 && agreed.fingerprint != 0 && done.state_fingerprint != agreed.fingerprint;
  if (drifted && !mutant(Mutant::kWatchBlind)) return;
  agreed.ranks |= std::uint64_t{1} << static_cast<std::uint32_t>(at - ring->begin());
  agreed.hash = done.hash;
  if (done.state_fingerprint != 0) agreed.fingerprint = done.state_fingerprint;
}

bool Attempt::agrees(PeerId member) const {
  const auto at = std::find(ring->begin(), ring->end(), member);
  return at != ring->end() && (agreed.ranks >> static_cast<std::uint32_t>(at - ring->begin()) & 1U) != 0;
}

bool Attempt::all_agree(std::uint64_t hash) const {
  if (agreed.ranks == 0) return false;
  LOCKSTEP_ASSERT(world() <= kMaxMeshed);
  const std::uint64_t all = UINT64_MAX >> (64 - world() + (mutant(Mutant::kAgreesWithoutOne) ? 1 : 0));
  return (agreed.ranks & all) == all && agreed.hash == hash;
}

std::vector<std::uint64_t> Attempt::known_rank_parameters() const {
  std::vector<std::uint64_t> known;
  for (const auto& parameter : rank_parameters) known.push_back(*parameter);
  return known;
}

bool Attempt::is_lossy() const {
  return by_rate && std::any_of(rank_parameters.begin(), rank_parameters.end(), [](const auto& parameter) {
           return parameter && ring::LineReport::of(*parameter).loses;
         });
}

bool Attempt::knows_rank_parameters() const {
  return std::all_of(rank_parameters.begin(), rank_parameters.end(),
                     [](const auto& parameter) { return parameter.has_value(); });
}

bool Round::runs(const RoundKey& named, Generation in) const {
  if (!attempted()) return false;
  LOCKSTEP_ASSERT(attempt.has_value());
  return attempt->key == named && (attempt->generation == in || mutant(Mutant::kReadyOfAnyAttempt));
}

void Round::assert_invariants() const {
  LOCKSTEP_ASSERT(key.has_value() || !open());
  LOCKSTEP_ASSERT(!completed_early || stop.has_value());
  if (!attempted()) return;
  LOCKSTEP_ASSERT(attempt.has_value() && attempt->rank.value < attempt->world());
  // Rule 31: what neighbours say of this round names the attempt that runs here.
  LOCKSTEP_ASSERT(attempt->generation == generation);
  LOCKSTEP_ASSERT(!attempt->peer_commit || attempt->world() <= kMaxMeshed);
  if (is<stage::Digesting>() || is<stage::Claimed>()) LOCKSTEP_ASSERT(sync != nullptr);
  if (is<stage::Running>()) LOCKSTEP_ASSERT(moves());
  LOCKSTEP_ASSERT(operation() == nullptr || attempt->jobs.has_value());
}

std::uint64_t Round::bytes_moved() const {
  if (sync) return sync->bytes_received();
  return operation() == nullptr ? 0 : operation()->bytes_sent() + operation()->bytes_received();
}

RoundPhase Round::phase() const {
  return std::visit(
      overloaded{
          [](const stage::Queued&) { return RoundPhase::kQueued; },
          [](const stage::Held&) { return RoundPhase::kHeld; },
          [](const stage::ExchangingParameters&) { return RoundPhase::kSizes; },
          [](const stage::Digesting&) { return RoundPhase::kSizes; },
          [](const stage::Claimed&) { return RoundPhase::kSizes; },
          [&](const stage::Running&) { return bytes_moved() > 0 ? RoundPhase::kFlowing : RoundPhase::kStarting; },
          [](const stage::Stuck&) { return RoundPhase::kStuck; },
          [](const stage::Done&) { return RoundPhase::kDone; },
          [](const stage::Ending& end) { return end.outcome ? RoundPhase::kEnding : RoundPhase::kGivenUp; },
      },
      stage);
}

std::optional<std::uint32_t> Round::root() const {
  if (!wire::has_root(request.collective)) return 0;
  const std::vector<PeerId>& ring = *attempt->ring;
  const auto at = std::find(ring.begin(), ring.end(), request.root);
  if (at == ring.end()) return std::nullopt;
  return static_cast<std::uint32_t>(at - ring.begin());
}

PeerId Round::receiver_that_is_no_member() const {
  const std::vector<PeerId>& ring = *attempt->ring;
  for (const ring::Block& block : request.blocks) {
    if (std::find(ring.begin(), ring.end(), block.to) == ring.end()) return block.to;
  }
  return {};
}

ring::Segmenting Round::segmenting(const PeerOptions& options) const {
  const std::uint64_t room = request.collective == Collective::kAllReduce ? direct_room(request) : 0;
  return {options.segment_bytes, attempt->distance, request.formats,    attempt->algorithm, room,
          options.direct.turns,  attempt->by_rate,  attempt->is_lossy()};
}

std::optional<Error> Round::validate_operation(const PeerOptions& options) const {
  const std::optional<std::uint32_t> root_rank = root();
  LOCKSTEP_ASSERT(root_rank.has_value());
  if (wire::exchanges(request.collective)) {
    return ring::ExchangeOperation::validate(request, *attempt->ring, attempt->rank, attempt->known_rank_parameters(),
                                             segmenting(options));
  }
  return ring::Operation::validate(request, attempt->rank, attempt->world(), *root_rank,
                                   attempt->known_rank_parameters(), segmenting(options));
}

std::unique_ptr<ring::Operation> Round::new_operation(const PeerOptions& options) const {
  const std::optional<std::uint32_t> root_rank = root();
  LOCKSTEP_ASSERT(root_rank.has_value());
  if (wire::exchanges(request.collective)) {
    return std::make_unique<ring::ExchangeOperation>(request, *attempt->ring, attempt->rank,
                                                     attempt->known_rank_parameters(), segmenting(options));
  }
  return ring::Operation::of(request, attempt->rank, attempt->world(), *root_rank, attempt->known_rank_parameters(),
                             segmenting(options));
}

}  // namespace lockstep::peer
