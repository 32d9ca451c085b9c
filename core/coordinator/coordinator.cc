#include "core/coordinator/coordinator.h"

#include "core/coordinator/machine.h"

namespace lockstep::coordinator {

Coordinator::Coordinator(const Options& options, Instant now) : machine_(std::make_unique<Machine>(options, now)) {}
Coordinator::~Coordinator() = default;

void Coordinator::step(Input input, Instant now, Effects& out) { machine_->step(input, now, out); }
Instant Coordinator::deadline() const { return machine_->deadline(); }
wire::StatusReply Coordinator::snapshot(Instant now) const { return machine_->snapshot(now); }
Coordinator::Footprint Coordinator::footprint() const { return machine_->footprint(); }
bool Coordinator::is_quiet() const { return machine_->is_quiet(); }

}  // namespace lockstep::coordinator
