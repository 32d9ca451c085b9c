#include "core/peer/segment_sender.h"

#include <algorithm>
#include <cstddef>

#include "core/base/mutant.h"
#include "core/peer/own_line.h"

namespace lockstep::peer {
namespace {

// Segments that a stripe holds: one being written, one to follow without a gap.
constexpr std::size_t kSegmentsPerStripe = 2;
// Where streams are slow, a segment that waits on one could go on another.
constexpr std::size_t kSegmentsPerSlowStripe = 1;
// A piece on its way to a prefetcher delays segments of rounds: one piece at a time.
constexpr std::size_t kSegmentsPerPrefetcher = 1;

}  // namespace

// Where the rate is used up, the neighbour after the last one that got a segment has the next turn. A step in which
// nothing may be sent takes no turn away.
bool SegmentSender::fill_stripes(const Streams& streams, std::uint16_t stripes, const MeshOwners& owners, Instant now) {
  const auto first = streams.links.upper_bound(last_turn_);
  for (auto at = first; at != streams.links.end(); ++at) {
    if (!fill(at->first, at->second, stripes, streams, owners, now)) return false;
  }
  for (auto at = streams.links.begin(); at != first; ++at) {
    if (!fill(at->first, at->second, stripes, streams, owners, now)) return false;
  }
  last_turn_ = {};
  return true;
}

// Small transfers go first: each is one segment, and there are few of them (rule 46). Large ones wait for rounds.
bool SegmentSender::fill(PeerId peer, const Link& link, std::uint16_t stripes, const Streams& streams,
                         const MeshOwners& owners, Instant now) {
  if (link.relation != Relation::kNeighbour) return true;
  NeighbourOwner& rounds = owners.neighbours;
  TransferOwner& transfers = owners.transfers;
  const bool transfer = transfers.has_segments_for(peer);
  if (!transfer && !rounds.has_segments_for(peer)) return true;
  const std::uint16_t used = std::min(link.width(), stripes);
  const std::size_t queued = used > kFewStripes ? kSegmentsPerSlowStripe : kSegmentsPerStripe;
  for (bool more = true; more;) {
    more = false;
    for (std::uint16_t i = 0; i < used; ++i) {
      if (!link.stripes[i].up) continue;
      const StreamId stream = link.stripes[i].stream;
      Flow& flow = streams.flows.at(stream);
      wire::LinkWriter& writer = flow.channel.writer;
      if (writer.segments_queued() >= queued) continue;
      if (!may_send(now)) return false;
      if (!(transfer && transfers.next_small_segment(peer, StripeIndex{i}, stream, writer)) &&
          !rounds.next_segment(peer, StripeIndex{i}, stream, writer) &&
          !(transfer && transfers.next_segment(peer, StripeIndex{i}, stream, writer)))
        continue;
      last_turn_ = peer;
      sent(flow, streams, now);
      more = true;
    }
  }
  return true;
}

bool SegmentSender::serve_prefetchers(const Streams& streams, const MeshOwners& owners, Instant now) {
  if (!owners.prefetches.serves()) return true;
  for (auto& [peer, link] : streams.links) {
    if (link.relation != Relation::kPrefetcher || !link.stripes.front().up) continue;
    Flow& flow = streams.flows.at(link.stripes.front().stream);
    if (flow.channel.writer.segments_queued() >= kSegmentsPerPrefetcher) continue;
    if (owners.neighbours.has_segments()) return true;
    if (!may_send(now)) return false;
    if (!owners.prefetches.next_segment(peer, {}, flow.channel.stream(), flow.channel.writer)) continue;
    sent(flow, streams, now);
  }
  return true;
}

bool SegmentSender::may_send(Instant now) const { return pace_.allows(now) || mutant(Mutant::kFloodsTheLine); }

void SegmentSender::sent(Flow& flow, const Streams& streams, Instant now) {
  pace_.sent(flow.channel.writer.newest_segment_bytes(), now);
  flow.touch(streams.to_be_pumped);
}

}  // namespace lockstep::peer
