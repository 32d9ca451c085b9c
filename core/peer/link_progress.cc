#include "core/peer/link_progress.h"

#include <algorithm>

namespace lockstep::peer {

namespace {

// Signs of progress come once in a heartbeat. So many may be missing before a stripe counts as silent.
constexpr std::int64_t kMissedBeats = 3;
// Round trips of one more attempt on a line that loses packets.
constexpr std::int64_t kRoundTrips = 8;
// A stripe is slow that brings less than this share of the most that its link brought, in each of so many beats.
constexpr std::uint64_t kSlowShare = 50;
constexpr std::uint32_t kSlowBeats = 4;
// A rate is known from this part of a beat on.
constexpr std::int64_t kLeastBusy = 25;
// Heartbeats without a stripe before rings had better avoid a link: one that worked, and one to a peer that may be busy
// with its first proposal.
constexpr std::int64_t kDownBeats = 2;
constexpr std::int64_t kFreshBeats = 6;

}  // namespace

Duration LinkProgress::drip_limit(Duration round_trip) const {
  return wire::Progress::limit(heartbeat_, round_trip, silence_);
}

Duration LinkProgress::drip_limit(PeerId peer) const {
  const auto link = links_.find(peer);
  return drip_limit(link == links_.end() ? Duration{} : link->second.round_trip);
}

// As long as the pauses of this stream allow: a neighbour may have longer heartbeats than this peer.
Duration LinkProgress::silence_limit(Flow& flow, Duration round_trip) const {
  const Duration pause = flow.channel.progress().pause();
  if (pause.ns == 0) return silence_;
  const Duration beats = std::max(heartbeat_, pause) * kMissedBeats;
  return std::min(silence_, beats + round_trip * kRoundTrips);
}

Duration LinkProgress::down_limit(const Link& link, const Stripe& stripe) const {
  const Duration beats = heartbeat_ * (stripe.worked ? kDownBeats : kFreshBeats);
  return std::min(timeout_, beats + link.round_trip * kRoundTrips);
}

template <typename Is>
bool LinkProgress::any_other_stripe(const Link& link, StreamId than, Is is) const {
  return std::any_of(link.stripes.begin(), link.stripes.end(), [&](const Stripe& stripe) {
    return stripe.up && stripe.stream != than && is(flows_.at(stripe.stream));
  });
}

bool LinkProgress::another_works(const Link& link, StreamId than, Instant now) const {
  const Duration limit = drip_limit(link.round_trip);
  return any_other_stripe(link, than, [&](Flow& other) { return now - other.channel.progress().since() < limit; });
}

// What a stripe brings in the middle of segments depends on the line alone: the sender has all of them.
std::optional<LinkProgress::Slow> LinkProgress::sample(Flow& flow, Link& link) const {
  const wire::Progress::Busy busy = flow.channel.take_busy();
  if (link.relation != Relation::kNeighbour) return std::nullopt;
  bool slow = false;
  if (busy.time >= heartbeat_ / kLeastBusy) {
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(busy.bytes) / busy.time.seconds());
    link.best = std::max(rate, link.best - link.best / 1024);
    slow = busy.time >= heartbeat_ / 2 && rate * kSlowShare < link.best;
    if (slow && flow.slow_beats + 1 == kSlowBeats) {
      flow.slow_beats = 0;
      const auto is_well = [](const Flow& other) { return other.slow_beats == 0; };
      return Slow{any_other_stripe(link, flow.channel.stream(), is_well), rate};
    }
  }
  flow.slow_beats = slow ? flow.slow_beats + 1 : 0;
  return std::nullopt;
}

}  // namespace lockstep::peer
