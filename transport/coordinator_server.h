// A coordinator on the thread of its reactor, for the command line and for programs that embed one.
#pragma once

#include <asio/steady_timer.hpp>
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
#include "transport/access.h"
#include "transport/connector.h"
#include "transport/event_log.h"
#include "transport/flight.h"
#include "transport/log.h"
#include "transport/machine_loop.h"
#include "transport/memory.h"
#include "transport/reactor.h"
#include "transport/stream_set.h"

namespace lockstep::transport {

class CoordinatorServer final : private Reactor::User {
 public:
  struct Options {
    std::string listen = ":0";  // "host:port"; no host or "*": all addresses, IPv6 and IPv4; port 0: any free port
    coordinator::CoordinatorOptions machine;  // without `secured` and `grants`, which `access` decides
    bool dial_back = true;  // find out which peers can be dialled (rule 70); if not, all are taken for dialable
    AccessOptions access;
    std::shared_ptr<Reactor> reactor;                 // null: one of its own
    std::string congestion_control;                   // as in Connector::Options
    Log log;                                          // one line per event; may be empty
    std::function<void(const trace::Event&)> events;  // replaces `log` for the machine's events; called in the same way
    std::size_t flight_bytes = kFlightBytes;          // size of the flight recorder; 0: no recorder
    std::string flight_file;                          // file written when the coordinator fails; empty: none
  };

  // Listens and begins. May block while a host name is looked up. An error names the address and what to
  // do.
  static Result<std::unique_ptr<CoordinatorServer>> start(Options options);
  ~CoordinatorServer() override { stop(); }
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  // Closes all streams (the run is lost for its peers) and leaves the reactor. A second call does nothing. Call it from
  // one thread only.
  void stop();

  // The address that the coordinator listens on; the host is 0.0.0.0 or [::] if it listens on all addresses.
  [[nodiscard]] const io::Address& address() const { return address_; }
  // The string that peers connect with (transport/access.h); empty without TLS.
  [[nodiscard]] const std::string& token() const { return token_; }
  // The coordinator's status; after stop(), the last status. Callable from any thread.
  [[nodiscard]] wire::StatusReply snapshot();
  [[nodiscard]] coordinator::Coordinator::Footprint footprint();

  // Writes the contents of the flight recorder: the whole file or nothing. Callable from any thread.
  Result<std::string> write_flight(const std::string& path, const std::string& reason = "asked for");

  // ---- effects; called by the machine loop ----
  void carry_out(trace::Event& effect);
  void carry_out(coordinator::TokenUsed& effect);
  void last_words();

 private:
  using Machine = coordinator::Coordinator;
  using Loop = MachineLoop<Machine, coordinator::Input, coordinator::Effects, coordinator::Timer, CoordinatorServer>;

  CoordinatorServer(Options options, std::unique_ptr<Access> access);
  void watch_tokens();
  void tell_complaint();
  void told_unkept(const Error& why);
  void on_failure(const Error& why) override;
  void write_flight_of_failure(const std::string& reason);

  const Options options_;
  EventLog event_log_;
  io::Address address_;
  bool stopped_ = false;  // used by stop()
  Memory memory_;
  const std::shared_ptr<Reactor> reactor_;
  const Instant born_;
  Machine machine_;
  std::optional<flight::Recorder<Machine>> recorder_;
  StreamSet streams_;
  Loop loop_;
  const std::unique_ptr<Access> access_;  // used by the owner of the loop
  std::string token_;
  bool said_unkept_ = false;   // that a used token is not in the file
  std::string complaint_;      // of the files, as it was logged
  asio::steady_timer reload_;  // when the file of tokens is looked at next
};

}  // namespace lockstep::transport
