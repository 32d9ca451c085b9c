// Runs one peer::Peer with its streams, timer and jobs, on the thread of its reactor or on a caller that waits. Other
// threads submit commands and wait for calls; they never access the machine.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/flight/recorder.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/peer/peer.h"
#include "transport/call.h"
#include "transport/clock.h"
#include "transport/command_queue.h"
#include "transport/connector.h"
#include "transport/driver.h"
#include "transport/event_log.h"
#include "transport/flight.h"
#include "transport/job_pool.h"
#include "transport/log.h"
#include "transport/machine_loop.h"
#include "transport/memory.h"
#include "transport/reactor.h"
#include "transport/resolver.h"
#include "transport/run_view.h"
#include "transport/stream_set.h"

namespace lockstep::transport {

class Engine final : public Driver, private Reactor::User {
 public:
  struct Options {
    peer::PeerOptions peer;
    ListenPlan listen;
    Connector::Options connector;
    Log log;
    Log journal;
    std::size_t flight_bytes = kFlightBytes;  // size of the flight recorder; 0: no recorder
    std::chrono::nanoseconds spin{0};         // the `longest` of Spin
    std::shared_ptr<Reactor> reactor;         // null: one of its own
    std::string flight_folder;                // folder for the recording when the run ends unexpectedly; empty: none
  };

  // Throws std::bad_alloc, or std::system_error if there is no thread or descriptor.
  explicit Engine(Options options);
  ~Engine() override { close(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Gives up the run: the calls in flight end, and their memory is returned and restored. Then resets all streams and
  // leaves the reactor. After an orderly leave, streams that are closing get the time to finish. Submissions from other
  // threads end at once. A second call does nothing. Call it from one thread only.
  void close() override;

  // ---- from any thread ----

  void secure(const Security& security) override {
    reactor_->ask([&] { streams_.secure(security); });
  }
  [[nodiscard]] PeerId self() const override { return options_.peer.id; }
  std::shared_ptr<Call> new_call() override;
  void submit(std::shared_ptr<Call> call, peer::Input input, Then then) override;
  void stop(CallId call, std::string why) override;
  // Asks the thread that runs the engine.
  void settle() override;

  [[nodiscard]] std::uint32_t pending() const override { return run_.pending(); }
  [[nodiscard]] std::uint32_t fetching() const override { return run_.fetching(); }
  [[nodiscard]] std::uint32_t holding() const override { return run_.holding(); }
  [[nodiscard]] std::shared_ptr<const wire::View> view() const override { return run_.view(); }
  Memory& memory() override { return memory_; }
  ScratchPool& scratch() override { return scratch_; }
  [[nodiscard]] Traffic traffic() const override { return {streams_.bytes_written(), streams_.bytes_read()}; }

  // Ask the thread that runs the engine.
  [[nodiscard]] peer::Lifecycle lifecycle() override;
  [[nodiscard]] Footprint footprint() override;

  // Asks the thread that runs the engine, or writes the file itself if the engine no longer runs.
  Result<std::string> write_flight(const std::string& path, const std::string& reason) override;

  // ---- effects; called by the machine loop ----

  void carry_out(peer::Resolve& effect);
  void carry_out(peer::Listen& effect);
  void carry_out(peer::Complete& effect);
  void carry_out(peer::Installed& effect);
  void carry_out(peer::PendingChanged& effect);
  void carry_out(peer::Progress& effect);
  void carry_out(peer::RunOver& effect);
  void carry_out(KernelJob& effect);
  void carry_out(trace::Event& effect);
  void last_words();

 private:
  using Loop = MachineLoop<peer::Peer, peer::Input, peer::Effects, peer::Timer, Engine>;

  void on_failure(const Error& why) override;
  void give_up();
  template <typename Answer>
  std::optional<Answer> answer_of(std::future<Answer> future, Clock::time_point limit = Clock::time_point::max());
  void enqueue(Command command, Reactor::Wake wake);
  void take_commands();
  void answer_once_told(std::uint64_t inputs, const std::shared_ptr<std::promise<bool>>& answer);
  void take_answers();
  void fail_everything(const Error& why);
  void write_flight_of_failure(const std::string& reason);

  // Used by any thread.
  const Options options_;
  EventLog events_;  // used by the owner of the loop
  const Instant born_;
  std::atomic<std::uint64_t> last_call_{0};
  RunView run_;
  Memory memory_;
  ScratchPool scratch_;
  CommandQueue commands_;

  const std::shared_ptr<Reactor> reactor_;
  bool closed_ = false;  // used by close()

  // Used by the owner of the loop.
  std::vector<Command> taken_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Call>> calls_;
  struct Ending {
    std::shared_ptr<std::promise<bool>> all_ended;  // set while close() waits for the last call to end
    bool has_left = false;                          // in an orderly way
  };
  Ending ending_;
  peer::Peer peer_;
  std::optional<flight::Recorder<peer::Peer>> recorder_;
  StreamSet streams_;
  Resolver resolver_;
  Loop loop_;
  JobPool pool_;
};

}  // namespace lockstep::transport
