// A coordinator on a thread of its own, for the command line and for programs that carry one along.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/coordinator/coordinator.h"
#include "core/flight/recorder.h"
#include "core/io/stream.h"
#include "core/trace/event.h"
#include "core/wire/message.h"
#include "transport/door.h"
#include "transport/event_log.h"
#include "transport/flight.h"
#include "transport/log.h"
#include "transport/machine_loop.h"
#include "transport/memory.h"
#include "transport/reactor_thread.h"
#include "transport/stream_set.h"

namespace lockstep::transport {

class CoordinatorServer {
 public:
  struct Options {
    std::string listen = ":0";  // "host:port"; no host or "*": every address, IPv6 and IPv4; port 0: any free one
    coordinator::Options machine;
    std::string congestion_control;                   // as Door::Options
    Log log;                                          // what happens, a line each; may be empty
    std::function<void(const trace::Event&)> events;  // as log is called; takes the machine's events in its place
    std::size_t flight_bytes = kFlightBytes;          // that the flight recorder remembers; 0: nothing
    std::string flight_file;                          // where it writes when the coordinator fails; empty: nowhere
  };

  // Listens, then starts the thread. May block while a host name is looked up. Errors name the address and what to do.
  static Result<std::unique_ptr<CoordinatorServer>> start(Options options);
  ~CoordinatorServer() { stop(); }
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  // Closes every stream (the run is lost to its peers) and joins the thread. Again: does nothing. From one thread only.
  void stop();

  // What is listened on; the host is 0.0.0.0 or [::] when it is every address.
  [[nodiscard]] const io::Address& address() const { return address_; }
  // From any thread: asks the coordinator's. After stop(): how it was then.
  [[nodiscard]] wire::StatusReply snapshot();
  [[nodiscard]] coordinator::Coordinator::Footprint footprint();

  // From any thread, as snapshot(): writes what the flight recorder remembers, whole or not at all.
  Result<std::string> write_flight(const std::string& path, const std::string& reason = "asked for");

  // ---- effects; from the machine loop ----
  void carry_out(trace::Event& effect);
  void last_words();

 private:
  using Machine = coordinator::Coordinator;
  using Loop = MachineLoop<Machine, coordinator::Input, coordinator::Effects, coordinator::Timer, CoordinatorServer>;

  explicit CoordinatorServer(Options options);
  void run(asio::io_context& io);
  void ask(std::function<void()> question);
  void write_flight_of_failure(const std::string& reason);

  const Options options_;
  EventLog event_log_;
  io::Address address_;
  std::atomic<bool> over_{false};  // the thread touches the machine no more
  Memory memory_;
  ReactorThread thread_;
  const Instant born_;
  Machine machine_;
  std::optional<flight::Recorder<Machine>> recorder_;
  StreamSet streams_;
  Loop loop_;
};

}  // namespace lockstep::transport
