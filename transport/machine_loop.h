// Turns a machine of core: inputs in, effects out, one at a time, never nested; and its timer. What is not a stream's effect goes
// to `Owner::carry_out`, so an effect without a home does not compile.
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
#include "transport/fifo.h"
#include "transport/handler_memory.h"
#include "transport/stream_set.h"

namespace lockstep::transport {

// Not thread-safe: belongs to the thread that runs `io`.
template <typename Machine, typename Input, typename Effects, typename TimerInput, typename Owner>
class MachineLoop {
 public:
  MachineLoop(asio::io_context& io, Machine& machine, StreamSet& streams, Owner& owner)
      : io_(io), machine_(machine), streams_(streams), owner_(owner), timer_(io) {}
  MachineLoop(const MachineLoop&) = delete;
  MachineLoop& operator=(const MachineLoop&) = delete;
  ~MachineLoop() = default;

  // Looks on from now on; may be null. `Owner::last_words` is called when the machine breaks an assertion.
  void record(flight::Recorder<Machine>* recorder) { recorder_ = recorder; }

  // Handed over in the next turn, before anything from the streams.
  void push(Input input) { inputs_.push(std::move(input)); }

  // How many inputs were pushed so far, and how many of them the machine was told.
  [[nodiscard]] std::uint64_t pushed() const { return told_ + inputs_.size(); }
  [[nodiscard]] std::uint64_t told() const { return told_; }

  // Goes on until there is nothing to do, or others (new connections, commands, the timer) must have their chance.
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

  // Nothing is handed to the machine any more.
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }

 private:
  // A step is some microseconds, with a kernel job at most some hundred.
  static constexpr int kStepsPerTurn = 128;
  // Streams have their chance after so many inputs of other kinds: a caller that posts commands without end must not make
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
              LOCKSTEP_UNREACHABLE();  // answers to what this machine cannot ask: a coordinator dials nobody
            }
          },
          from_stream);
      return true;
    }
    return streams_.advance();
  }

  // `In` is an Input or one of its kinds, made into an Input in the machine's own parameter.
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

  // Most steps put the deadline off (every byte is a sign of life). The timer is moved only when it would ring too late; when it
  // rings too early, it is set anew.
  void arm() {
    const Instant deadline = machine_.deadline();
    if (deadline >= armed_) return;
    armed_ = deadline;
    timer_.expires_at(to_time_point(deadline));
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
  std::shared_ptr<HandlerMemory> continue_memory_ = std::make_shared<HandlerMemory>();  // the io_context may outlive us
  flight::Recorder<Machine>* recorder_ = nullptr;
  bool turning_ = false;
  int inputs_in_a_row_ = 0;
  bool continuing_ = false;
  bool stopped_ = false;
};

}  // namespace lockstep::transport
