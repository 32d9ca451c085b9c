#include "bindings/swarm/swarm.h"

#include <utility>

#include "bindings/c/calls.h"
#include "bindings/c/error.h"
#include "bindings/c/guard.h"
#include "bindings/c/options.h"
#include "bindings/swarm/driver.h"
#include "bindings/swarm/stage.h"
#include "core/base/assert.h"
#include "transport/communicator.h"

namespace lockstep::swarm {

const char* name_of(End end) {
  switch (end) {
    case End::kRunning: return "running";
    case End::kReturned: return "returned";
    case End::kFailed: return "failed";
    case End::kKilled: return "killed";
    case End::kLeft: return "left";
    case End::kTooLate: return "too late";
  }
  LOCKSTEP_UNREACHABLE();
}

Swarm::Swarm(const Conditions& conditions) : stage_(std::make_shared<Stage>(conditions)) {}
Swarm::~Swarm() = default;

Report Swarm::run(const Start& start, const Interrupt& interrupt) { return stage_->run(start, interrupt); }

std::uint32_t Swarm::host_of(ProgramId program) const { return stage_->host_of(stage_->player(program)); }

void Swarm::enter(ProgramId program) { stage_->enter(stage_->player(program)); }

lockstep_status Swarm::open(ProgramId program, const lockstep_comm_options* options, lockstep_comm** comm) {
  return c::guard([&] {
    if (comm == nullptr) return c::fail(c::invalid("comm is NULL; give the address of a lockstep_comm*"));
    *comm = nullptr;
    Player& player = stage_->player(program);
    if (!player.is_here()) {
      return c::fail(
          c::invalid("a program of a swarm opens its communicator on its own thread, between enter() and exit()"));
    }
    if (!stage_->may_call(player)) return c::fail(Error{Status::kNotConnected, stage_->why_killed(player)});
    auto checked = c::communicator_options(options);
    if (!checked) return c::fail(checked.error());
    // Unset options follow from the conditions.
    const lockstep_comm_options unsaid = LOCKSTEP_COMM_OPTIONS_INIT;
    const lockstep_comm_options& said = options != nullptr ? *options : unsaid;
    if (said.founders == 0) checked->peer.founders = stage_->founders();
    if (said.name == nullptr) checked->peer.name = host_name(stage_->host_of(player));
    checked->flight_folder.clear();
    auto communicator = transport::Communicator::create(*checked, [&](peer::PeerOptions peer) {
      if (said.dial_timeout_ms == 0) peer.dial_timeout = {};
      if (said.link_heartbeat_ms == 0) peer.link_heartbeat = {};
      if (said.link_silence_ms == 0) peer.link_silence = {};
      if (said.link_timeout_ms == 0) peer.link_timeout = {};
      if (said.abort_grace_ms == 0) peer.abort_grace = {};
      peer.first_port = peer.last_port = 0;
      peer.advertised = {};
      return std::make_unique<Driver>(stage_, player, stage_->open(player, std::move(peer), checked->log));
    });
    if (!communicator) return c::fail(communicator.error());
    *comm = c::handle_of(std::move(*communicator));
    return LOCKSTEP_OK;
  });
}

Duration Swarm::now(ProgramId /*program*/) const { return stage_->now() - Instant{}; }
bool Swarm::spend(ProgramId program, Duration duration) { return stage_->spend(stage_->player(program), duration); }
bool Swarm::killed(ProgramId program) const { return stage_->killed(stage_->player(program)); }
void Swarm::exit(ProgramId program, const std::optional<std::string>& failure) {
  const std::shared_ptr<Stage> stage = stage_;  // run() may return before this function does
  stage->exit(stage->player(program), failure);
}

}  // namespace lockstep::swarm
