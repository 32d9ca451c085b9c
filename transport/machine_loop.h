// Runs a machine of core and its timer: one input at a time, never nested, then its effects. Effects that do not
// concern streams go to `Owner::carry_out`; an effect without a handler does not compile.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "core/base/assert.h"
#include "core/base/time.h"
#include "core/flight/recorder.h"
#include "core/io/stream.h"
#include "transport/clock.h"
#include "transport/driver_mutant.h"
#include "transport/fifo.h"
#include "transport/handler_memory.h"
#include "transport/stream_set.h"

namespace lockstep::transport {

// Not thread-safe: used by the thread that runs `io` only.
template <typename Machine, typename Input, typename Effects, typename TimerInput, typename Owner>
class MachineLoop {
 public:
  MachineLoop(asio::io_context& io, Machine& machine, StreamSet& streams, Owner& owner)
      : io_(io), machine_(machine), streams_(streams), owner_(owner), timer_(io) {}
  MachineLoop(const MachineLoop&) = delete;
  MachineLoop& operator=(const MachineLoop&) = delete;
  ~MachineLoop() = default;

  // Records all inputs from now on; may be null. `Owner::last_words` is called when an assertion of the machine fails.
  void record(flight::Recorder<Machine>* recorder) { recorder_ = recorder; }

  // Queues an input for the next turn, before all inputs from streams.
  void push(Input input) { inputs_.push(std::move(input)); }

  // The number of inputs pushed so far, and the number of those that the machine has processed.
  [[nodiscard]] std::uint64_t pushed() const { return told_ + inputs_.size(); }
  [[nodiscard]] std::uint64_t told() const { return told_; }

  // Runs until there is nothing to do, or until other work (new connections, commands, the timer) needs a turn.
  void turn() {
    if (stopped_) return;
    LOCKSTEP_ASSERT(!turning_);
    std::optional<LastWords> words;
    if (recorder_ != nullptr) words.emplace([](void* owner) { static_cast<Owner*>(owner)->last_words(); }, &owner_);
    turning_ = true;
    if (machine_.deadline() <= now()) step(TimerInput{});
    bool more = true;
    for (int i = 0; more && i < kStepsPerTurn; ++i) more = advance();
    turning_ = false;
    if (more) {
      continue_later();
    } else {
      arm();
    }
  }

  // The machine receives no more inputs.
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  // A step takes a few microseconds; with a kernel job, a few hundred at most.
  static constexpr int kStepsPerTurn = 128;
  // Streams get a turn after this many other inputs. Otherwise a caller that posts commands without pause would make
  // its own peer look dead.
  static constexpr int kInputsInARow = 32;

  bool advance() {
    if (!inputs_.empty() && ++inputs_in_a_row_ <= kInputsInARow) {
      step(inputs_.pop());
      ++told_;
      return true;
    }
    inputs_in_a_row_ = 0;
    return advance_streams() || !inputs_.empty();
  }

  bool advance_streams() {
    io::Input from_stream;
    if (streams_.next(from_stream)) {
      std::visit(
          [&](auto& input) {
            if constexpr (std::constructible_from<Input, decltype(input)>) {
              step(std::move(input));
            } else {
              // an answer to a request that this machine never makes: a coordinator does not dial
              LOCKSTEP_UNREACHABLE();
            }
          },
          from_stream);
      return true;
    }
    return streams_.advance();
  }

  // `In` is an Input or one of its alternatives; it is converted to Input in the parameter of the machine's step().
  template <typename In>
  void step(In&& input) {
    if (recorder_ == nullptr) {
      machine_.step(Input(std::forward<In>(input)), now(), effects_);
    } else {
      Input whole(std::forward<In>(input));
      const Instant at = now();
      recorder_->before(whole, at);
      machine_.step(std::move(whole), at, effects_);
      recorder_->after(effects_, machine_);
    }
    for (auto& effect : effects_) {
      std::visit(
          [&](auto& one) {
            if constexpr (requires { streams_.carry_out(one); }) {
              streams_.carry_out(one);
            } else {
              owner_.carry_out(one);
            }
          },
          effect);
    }
    effects_.clear();
  }

  void continue_later() {
    if (std::exchange(continuing_, true)) return;
    asio::post(io_, placed(*continue_memory_, [this, memory = continue_memory_] {
                 continuing_ = false;
                 turn();
               }));
  }

  // Most steps postpone the deadline, because every byte is a sign of life. So the timer is moved only if it would fire
  // too late; if it fires too early, it is armed again.
  void arm() {
    const Instant deadline = machine_.deadline();
    if (deadline >= armed_) return;
    armed_ = deadline;
    const Duration late = planted(DriverMutant::kTimerLate) ? milliseconds(500) : Duration{};
    timer_.expires_at(to_time_point(deadline + late));
    timer_.async_wait([this](std::error_code aborted) {
      if (aborted) return;
      armed_ = kNever;
      turn();
    });
  }

  asio::io_context& io_;
  Machine& machine_;
  StreamSet& streams_;
  Owner& owner_;
  asio::steady_timer timer_;
  Instant armed_ = kNever;
  Fifo<Input> inputs_;
  std::uint64_t told_ = 0;
  Effects effects_;
  // shared, because the io_context may outlive this object
  std::shared_ptr<HandlerMemory> continue_memory_ = std::make_shared<HandlerMemory>();
  flight::Recorder<Machine>* recorder_ = nullptr;
  bool turning_ = false;
  int inputs_in_a_row_ = 0;
  bool continuing_ = false;
  bool stopped_ = false;
};

}  // namespace lockstep::transport
