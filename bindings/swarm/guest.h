// One communicator of a program in a swarm: the calls that its driver received, and the simulated process that makes
// them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/input.h"
#include "core/wire/message.h"
#include "sim/workload/program.h"
#include "sim/world/world.h"
#include "transport/call.h"
#include "transport/log.h"
#include "transport/memory.h"

namespace lockstep::swarm {

// Receives the events that may let a guest's program continue.
class Host {
 public:
  virtual ~Host() = default;
  virtual void call_ended() = 0;
  virtual void run_over() = 0;
};

// Lives as long as the world. Used only by the holder of the baton.
class Guest final : public sim::Program {
 public:
  Guest(sim::World& world, Host& host, transport::Log log) : world_(world), host_(host), log_(std::move(log)) {}

  void runs_as(std::uint32_t process) { process_ = process; }
  [[nodiscard]] std::uint32_t process() const { return process_; }

  // ---- the driver's side ----
  void submit(std::shared_ptr<transport::Call> call, peer::Input input);
  void stop(CallId call, const std::string& why);
  // Ends all calls here, whatever happens to them in the world.
  void fail_all(const std::string& why);
  // Called when the program has finished with the guest.
  void close() { phase_ = Phase::kOver; }
  // Leaves the run on behalf of its program.
  void leave_politely();
  [[nodiscard]] bool has_calls() const { return !calls_.empty(); }
  [[nodiscard]] std::uint32_t pending() const { return waiting_.count; }
  [[nodiscard]] std::uint32_t fetching() const { return waiting_.fetching; }
  [[nodiscard]] std::uint32_t holding() const { return waiting_.holding; }
  [[nodiscard]] std::shared_ptr<const wire::View> view() const { return view_; }
  transport::Memory& memory() { return memory_; }
  transport::ScratchPool& scratch() { return scratch_; }
  // The calls that its program waits for: "all-reduce ...".
  [[nodiscard]] std::vector<std::string> open_calls() const;

  // ---- sim::Program ----
  void begin() override {}
  void on_event(std::uint64_t /*what*/) override {}
  void on_complete(const sim::Call& call) override;
  void on_view(const std::shared_ptr<const wire::View>& view) override;
  void on_pending(const peer::PendingChanged& pending) override;
  void on_progress(const peer::Progress& progress) override;
  void on_trace(const trace::Event& event) override;
  void on_over(const peer::RunOver& over) override;
  void leave() override { leave_politely(); }
  void stop_call(CallId call) override;
  void abandon() override;

 private:
  sim::World& world_;
  Host& host_;
  transport::Log log_;
  std::uint32_t process_ = sim::kNoProcess;
  transport::Memory memory_;
  transport::ScratchPool scratch_;
  std::map<std::uint64_t, std::shared_ptr<transport::Call>> calls_;  // by the world's call id
  std::shared_ptr<const wire::View> view_;
  peer::PendingChanged waiting_;
};

}  // namespace lockstep::swarm
