// A5, only administrators evict: a peer is taken out of the run by a request only if an administrator has asked for it
// (rule 69 of docs/protocol.md). Knows who asks, and hears from the coordinator whom it takes out.
#pragma once

#include <set>
#include <string>

#include "core/base/ids.h"
#include "core/trace/event.h"
#include "core/wire/message.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class Evictions {
 public:
  // An administrator asks for the eviction of this peer.
  void may_ask(PeerId peer) { asked_.insert(peer); }

  // Judges an event of the coordinator.
  [[nodiscard]] Complaint noted(const trace::Event& event) const {
    if (event.kind != trace::Kind::kPeerLost || !event.text.ends_with(" has evicted this peer")) return {};
    if (event.text.find("its gang lost ") != std::string::npos || asked_.contains(event.peer)) return {};
    return "a peer is evicted by request (" + event.text + "), and no administrator has asked for that";
  }
  // Somebody has asked, and gets this answer instead of a refusal. `admin`: with the proof of an administrator's token.
  [[nodiscard]] static Complaint answered(bool admin, const wire::EvictReply& reply) {
    if (admin) return {};
    return "the coordinator answers a request to evict a peer (" + reply.text + "), which no administrator has made";
  }

 private:
  std::set<PeerId> asked_;
};

}  // namespace lockstep::sim
