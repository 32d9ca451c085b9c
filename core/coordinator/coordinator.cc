#include "core/coordinator/coordinator.h"

#include "core/coordinator/machine.h"

namespace lockstep::coordinator {

std::string validate_options(const CoordinatorOptions& options) {
  if (options.heartbeat.ns <= 0) return "heartbeat must be longer than 0";
  if (options.silence <= options.heartbeat) return "silence must be longer than heartbeat";
  if (options.greeting.ns <= 0) return "greeting must be longer than 0";
  if (options.strangers < 1 || options.strangers > kMaxStrangers) {
    return "strangers is " + std::to_string(options.strangers) + "; allowed: 1 to " + std::to_string(kMaxStrangers);
  }
  if (options.waiting_of_one < 1) return "waiting_of_one must be at least 1";
  if (options.stops_at_once < 1) return "stops_at_once must be at least 1";
  if (options.dial_back.ns < 0) return "dial_back must not be negative";
  if (options.stops_per_second < 1) return "stops_per_second must be at least 1";
  return validate_grants(options.grants);
}

Coordinator::Coordinator(const CoordinatorOptions& options, Instant now)
    : machine_(std::make_unique<Machine>(options, now)) {}
Coordinator::~Coordinator() = default;

void Coordinator::step(Input input, Instant now, Effects& out) { machine_->step(input, now, out); }
Instant Coordinator::deadline() const { return machine_->deadline(); }
wire::StatusReply Coordinator::snapshot(Instant now) const { return machine_->snapshot(now); }
Coordinator::Footprint Coordinator::footprint() const { return machine_->footprint(); }
bool Coordinator::is_quiet() const { return machine_->is_quiet(); }
Lifecycle Coordinator::lifecycle() const { return machine_->lifecycle(); }
bool Coordinator::hears(StreamId stream) const { return machine_->hears(stream); }

}  // namespace lockstep::coordinator
