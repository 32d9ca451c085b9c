// What Mesh asks and tells: each of these is implemented by the part that it concerns.
#pragma once

#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/peer/mesh_links.h"
#include "core/ring/operation.h"
#include "core/wire/link_reader.h"
#include "core/wire/link_writer.h"
#include "core/wire/message.h"

namespace lockstep::peer {

// Segments that come and go on some links.
class SegmentExchange {
 public:
  virtual ~SegmentExchange() = default;
  [[nodiscard]] virtual ring::Operation::SegmentPlace on_segment_began(PeerId from, StreamId stream,
                                                                       const wire::Segment& segment) = 0;
  virtual void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) = 0;
  // Queues the next segment for this peer on `writer`; false when there is none now.
  [[nodiscard]] virtual bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) = 0;
};

// What neighbours say and send about rounds.
class NeighbourOwner : public SegmentExchange {
 public:
  virtual void on_ready(PeerId from, StripeIndex stripe, StreamId stream, wire::Ready ready) = 0;
  virtual void on_offer(PeerId from, StreamId stream, const wire::Offer& offer) = 0;
  virtual void on_rank_parameter(PeerId from, const wire::RankParameter& parameter) = 0;
  virtual void on_done(PeerId from, const wire::Done& done) = 0;
  virtual void on_state_message(PeerId from, StreamId stream, const wire::Message& message) = 0;
  virtual void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) = 0;
  virtual void on_stream_gone(PeerId peer, StreamId stream) = 0;  // nobody: it had no link yet
  // Whether any segment waits to be sent, to whomever.
  [[nodiscard]] virtual bool has_segments() const = 0;
  // Whether one may wait for this neighbour.
  [[nodiscard]] virtual bool has_segments_for(PeerId to) const = 0;
};

// Prefetch links: a peer that waits for its admission fetches a published state from a member (rule 39).
class PrefetchOwner : public SegmentExchange {
 public:
  // Whether prefetchers have a reason to stay.
  [[nodiscard]] virtual bool serves() const = 0;
  // The reason why this peer may not prefetch, or nullopt.
  [[nodiscard]] virtual std::optional<std::string> validate_prefetcher(PeerId peer) const = 0;
  virtual void on_message(PeerId from, StreamId stream, const wire::Message& message) = 0;
  virtual void on_stream_gone(PeerId peer, StreamId stream) = 0;
};

// Point-to-point transfers between members (rules 44 to 47).
class TransferOwner : public SegmentExchange {
 public:
  virtual void on_message(PeerId from, StripeIndex stripe, StreamId stream, const wire::Message& message) = 0;
  virtual void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) = 0;
  virtual void on_stream_gone(PeerId peer, StreamId stream) = 0;
  [[nodiscard]] virtual bool has_segments() const = 0;
  [[nodiscard]] virtual bool has_segments_for(PeerId to) const = 0;
  // As next_segment(), for transfers of one segment: they go before the segments of rounds.
  [[nodiscard]] virtual bool next_small_segment(PeerId to, StripeIndex stripe, StreamId stream,
                                                wire::LinkWriter& writer) = 0;
};

// Links as such.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  // `avoid`: the link may work again, and costs no member the run.
  virtual void on_link_broken(PeerId peer, const std::string& why, bool avoid) = 0;
  // A peer to which no link is wanted here has dialled, for rounds with the direct algorithm.
  virtual void on_direct_caller(PeerId from) = 0;
  // The same, for point-to-point transfers; or the peer has asked this peer, which has the smaller id, to dial.
  virtual void on_transfer_caller(PeerId from) = 0;
  // Null if no view that is in use or proposed names the peer.
  [[nodiscard]] virtual const Contact* find_contact(PeerId peer) const = 0;
  // The peer, which nobody can dial, is to be asked to dial.
  virtual void ask_to_dial(PeerId peer) = 0;
  // Whether a round waits for a link that is not needed all the time.
  [[nodiscard]] virtual bool needs_link(PeerId to) const = 0;
};

struct MeshOwners {
  NeighbourOwner& neighbours;
  PrefetchOwner& prefetches;
  TransferOwner& transfers;
  LinkOwner& links;
};

}  // namespace lockstep::peer
