// The driver of a communicator in a swarm: passes its calls to a process of the simulated world.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "bindings/swarm/guest.h"
#include "bindings/swarm/stage.h"
#include "transport/driver.h"

namespace lockstep::swarm {

class Driver final : public transport::Driver {
 public:
  Driver(std::shared_ptr<Stage> stage, Player& player, Guest& guest)
      : stage_(std::move(stage)), player_(player), guest_(guest) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() override { Driver::close(); }

  void close() override {
    if (!std::exchange(closed_, true)) stage_->close(player_, guest_);
  }

  void secure(const transport::Security&) override {}  // the world's own transport proves identities

  [[nodiscard]] PeerId self() const override { return stage_->world().peer_of(guest_.process()); }
  std::shared_ptr<transport::Call> new_call() override;
  void submit(std::shared_ptr<transport::Call> call, peer::Input input, Then then) override;
  void stop(CallId call, std::string why) override;
  void settle() override {}  // submitted calls have begun already

  [[nodiscard]] std::uint32_t pending() const override;
  [[nodiscard]] std::uint32_t fetching() const override;
  [[nodiscard]] std::uint32_t holding() const override;
  [[nodiscard]] std::shared_ptr<const wire::View> view() const override;
  [[nodiscard]] peer::Lifecycle lifecycle() override;
  transport::Memory& memory() override { return guest_.memory(); }
  transport::ScratchPool& scratch() override { return guest_.scratch(); }
  [[nodiscard]] Traffic traffic() const override { return {}; }  // there are no sockets
  [[nodiscard]] Footprint footprint() override { return {stage_->world().footprint_of(guest_.process())}; }
  Result<std::string> write_flight(const std::string& path, const std::string& reason) override;

 private:
  std::shared_ptr<Stage> stage_;
  Player& player_;
  Guest& guest_;
  std::uint64_t last_call_ = 0;
  bool closed_ = false;
};

}  // namespace lockstep::swarm
