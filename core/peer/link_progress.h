// Whether the stripes of links make progress (rule 51 of docs/protocol.md): how long a stripe may be silent, drip, or
// be down, and whether it is slow. A stripe drips when bytes come, and neither a frame nor as many bytes as a line of
// use passes; it is slow when it brings a small share of what its link brought before. Closes no stream and tells
// nobody: Mesh carries out what follows.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/mesh_links.h"
#include "core/peer/options.h"

namespace lockstep::peer {

class LinkProgress {
 public:
  LinkProgress(const PeerOptions& options, const Links& links, Flows& flows)
      : heartbeat_(options.link_heartbeat),
        silence_(options.link_silence),
        timeout_(options.link_timeout),
        links_(links),
        flows_(flows) {}

  // ---- how long a stripe may go without progress, if no other stripe of its link makes any ----

  // While it drips. For a peer without a link: as if its round trip was 0.
  [[nodiscard]] Duration drip_limit(Duration round_trip) const;
  [[nodiscard]] Duration drip_limit(PeerId peer) const;
  // While it is silent.
  [[nodiscard]] Duration silence_limit(Flow& flow, Duration round_trip) const;
  // While it has no stream.
  [[nodiscard]] Duration down_limit(const Link& link, const Stripe& stripe) const;
  // Whether a stripe with another stream than this makes progress.
  [[nodiscard]] bool another_works(const Link& link, StreamId than, Instant now) const;

  // ---- slow stripes ----

  struct Slow {
    bool others_are_well = false;  // another stripe of the link is not slow
    std::uint64_t rate = 0;        // bytes a second
  };
  // Takes what the stripe has brought since the last beat. Nullopt unless the stripe has been slow for some beats.
  [[nodiscard]] std::optional<Slow> sample(Flow& flow, Link& link) const;

 private:
  template <typename Is>
  [[nodiscard]] bool any_other_stripe(const Link& link, StreamId than, Is is) const;

  Duration heartbeat_;
  Duration silence_;
  Duration timeout_;
  const Links& links_;
  Flows& flows_;
};

}  // namespace lockstep::peer
