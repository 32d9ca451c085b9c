// Fills the stripes of all links with segments, no faster than the program allows (rule 62 of docs/protocol.md).
// Decides when segments go, and in which order neighbours have their turns. Their owners decide which segments go.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/pace.h"
#include "core/base/time.h"
#include "core/peer/mesh_links.h"
#include "core/peer/mesh_owners.h"

namespace lockstep::peer {

class SegmentSender {
 public:
  // The links and streams that carry the segments.
  struct Streams {
    Links& links;
    Flows& flows;
    std::vector<StreamId>& to_be_pumped;
  };

  // The most bytes a second; 0: no limit.
  explicit SegmentSender(std::uint64_t bytes_per_second) : pace_(bytes_per_second, milliseconds(20)) {}

  // Queues segments for neighbours, on so many stripes of each link. False: segments wait until next_at().
  bool fill_stripes(const Streams& streams, std::uint16_t stripes, const MeshOwners& owners, Instant now);
  // Queues pieces for prefetchers, while no round has anything to send. False: pieces wait until next_at().
  bool serve_prefetchers(const Streams& streams, const MeshOwners& owners, Instant now);
  [[nodiscard]] Instant next_at() const { return pace_.next(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(pace_, last_turn_);
  }

 private:
  // As many segments as have room, and time: false if the rate is used up.
  bool fill(PeerId peer, const Link& link, std::uint16_t stripes, const Streams& streams, const MeshOwners& owners,
            Instant now);
  [[nodiscard]] bool may_send(Instant now) const;
  // A segment was queued last on this stream.
  void sent(Flow& flow, const Streams& streams, Instant now);

  Pace pace_;
  PeerId last_turn_;  // the neighbour to which the last segment went; all zeros while no segments wait for pace_
};

}  // namespace lockstep::peer
