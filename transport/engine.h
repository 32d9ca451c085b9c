// One peer::Peer and everything it touches: streams, timer, jobs. A thread turns it, or a caller that waits (seat.h); other threads
// leave commands and wait for calls, and never see the machine.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
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
#include "transport/door.h"
#include "transport/driver.h"
#include "transport/event_log.h"
#include "transport/flight.h"
#include "transport/job_pool.h"
#include "transport/log.h"
#include "transport/machine_loop.h"
#include "transport/memory.h"
#include "transport/reactor_thread.h"
#include "transport/resolver.h"
#include "transport/seat.h"
#include "transport/stream_set.h"

namespace lockstep::transport {

class Engine final : public Driver {
 public:
  struct Options {
    peer::Options peer;
    ListenPlan listen;
    Door::Options door;
    Log log;
    Log journal;
    std::size_t flight_bytes = kFlightBytes;  // that the flight recorder remembers; 0: nothing
    std::chrono::nanoseconds spin{0};         // Spin's `longest`
    std::string flight_folder;                // where it writes when the run ends unexpectedly; empty: nowhere
  };

  // Throws std::bad_alloc, or std::system_error when there is no thread or descriptor to be had.
  explicit Engine(Options options);
  ~Engine() override { close(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Gives the run up, so that the calls in flight end with their memory back and restored; then resets all streams (those on their
  // farewell get their time, if this peer has left politely) and joins the thread. What others submit meanwhile or later ends at once. Again: does nothing. From one
  // thread only.
  void close() override;

  // ---- from any thread ----

  [[nodiscard]] PeerId self() const override { return options_.peer.id; }
  std::shared_ptr<Call> new_call() override;
  void submit(std::shared_ptr<Call> call, peer::Input input, Then then) override;
  // Turns the engine meanwhile if nobody does.
  Waited wait(Call& call, Interrupted interrupted) override;
  void stop(CallId call, std::string why) override;
  // Asks whoever turns the engine.
  void settle() override;

  [[nodiscard]] std::uint32_t pending() const override { return pending_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t fetching() const override { return fetching_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::shared_ptr<const wire::View> view() const override;
  Memory& memory() override { return memory_; }
  ScratchPool& scratch() override { return scratch_; }
  [[nodiscard]] Traffic traffic() const override { return {streams_.bytes_written(), streams_.bytes_read()}; }

  // Likewise.
  [[nodiscard]] Footprint footprint() override;

  // Asks whoever turns the engine, or writes itself once nobody does.
  Result<std::string> write_flight(const std::string& path, const std::string& reason) override;

  // ---- effects; from the machine loop ----

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

  struct Command {
    peer::Input input;
    std::shared_ptr<Call> call;  // null: not a new call
  };

  class Leaving;

  void run(asio::io_context& io);
  void give_up();
  template <typename Turn>
  void guarded(Turn turn);
  template <typename Answer>
  std::optional<Answer> answer_of(std::future<Answer> future, Clock::time_point limit = Clock::time_point::max());
  void enqueue(Command command, Seat::Wake wake);
  void take_commands();
  void answer_once_told(std::uint64_t inputs, const std::shared_ptr<std::promise<bool>>& answer);
  void take_answers();
  void fail_everything(const Error& why);
  void write_flight_of_failure(const std::string& reason);

  // Any thread.
  const Options options_;
  EventLog events_;  // of whoever sits
  const Instant born_;
  std::atomic<std::uint64_t> last_call_{0};
  std::atomic<std::uint32_t> pending_{0};
  std::atomic<std::uint32_t> fetching_{0};
  mutable std::mutex view_mutex_;
  std::shared_ptr<const wire::View> view_;
  Memory memory_;
  ScratchPool scratch_;
  std::mutex mutex_;
  std::vector<Command> commands_;  // under mutex_
  std::optional<Error> failed_;    // under mutex_: nobody turns the engine any more, and why

  // Whoever sits.
  ReactorThread thread_;
  Seat seat_{thread_.io()};
  std::vector<Command> taken_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Call>> calls_;
  std::shared_ptr<std::promise<bool>> all_ended_;  // the owner has given the run up, and waits for the last call to end
  bool has_left_ = false;                          // politely
  bool call_ended_ = false;                        // since the thread last thought of stepping aside
  peer::Peer peer_;
  std::optional<flight::Recorder<peer::Peer>> recorder_;
  StreamSet streams_;
  Resolver resolver_;
  Loop loop_;
  JobPool pool_;
};

}  // namespace lockstep::transport
