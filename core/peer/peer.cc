#include "core/peer/peer.h"

#include "core/peer/machine.h"

namespace lockstep::peer {

Peer::Peer(const PeerOptions& options, Instant now) : machine_(std::make_unique<Machine>(options, now)) {}
Peer::~Peer() = default;

void Peer::step(Input input, Instant now, Effects& out) { machine_->step(input, now, out); }
Instant Peer::deadline() const { return machine_->deadline(); }
Peer::Footprint Peer::footprint() const { return machine_->footprint(); }
bool Peer::is_quiet() const { return machine_->is_quiet(); }
Snapshot Peer::snapshot() const { return machine_->snapshot(); }
RoundPhase Peer::phase_of(const RoundKey& round) const { return machine_->phase_of(round); }
std::optional<RoundKey> Peer::round_of(CallId call) const { return machine_->round_of(call); }
bool Peer::hears(StreamId stream) const { return machine_->hears(stream); }

}  // namespace lockstep::peer
