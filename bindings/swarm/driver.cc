#include "bindings/swarm/driver.h"

#include <utility>

namespace lockstep::swarm {
namespace {

peer::Outcome refused(Status status, std::string why) {
  peer::Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(why);
  return outcome;
}

}  // namespace

std::shared_ptr<transport::Call> Driver::new_call() {
  return std::make_shared<transport::Call>(CallId{++last_call_}, &player_);
}

void Driver::submit(std::shared_ptr<transport::Call> call, peer::Input input, Then /*then*/) {
  if (!player_.is_here()) {
    return transport::end_call(
        *call,
        refused(Status::kInvalidArgument,
                "a program of a swarm calls from its own thread only, between enter() and exit()"),
        memory());
  }
  if (closed_) {
    return transport::end_call(*call, refused(Status::kNotConnected, "the communicator was closed"), memory());
  }
  if (!stage_->may_call(player_)) {
    return transport::end_call(*call, refused(Status::kNotConnected, stage_->why_killed(player_)), memory());
  }
  guest_.submit(std::move(call), std::move(input));
}

void Driver::stop(CallId call, std::string why) {
  if (player_.is_here() && stage_->may_call(player_)) guest_.stop(call, why);
}

std::uint32_t Driver::pending() const {
  stage_->looks(player_);
  return guest_.pending();
}

peer::Lifecycle Driver::lifecycle() {
  stage_->looks(player_);
  return stage_->world().lifecycle_of(guest_.process());
}

std::uint32_t Driver::fetching() const {
  stage_->looks(player_);
  return guest_.fetching();
}

std::uint32_t Driver::holding() const {
  stage_->looks(player_);
  return guest_.holding();
}

std::shared_ptr<const wire::View> Driver::view() const {
  stage_->looks(player_);
  return guest_.view();
}

Result<std::string> Driver::write_flight(const std::string& /*path*/, const std::string& /*reason*/) {
  return Error{Status::kInvalidArgument,
               "there is no flight recorder in a swarm: the conditions and the seed repeat the run"};
}

}  // namespace lockstep::swarm
