// The interface between a Communicator and the driver of its peer::Peer: the engine (engine.h) with real sockets and
// time, or another driver such as the simulator's. Invariant: arguments are validated before they reach a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/peer/peer.h"
#include "core/wire/message.h"
#include "transport/call.h"
#include "transport/connector.h"
#include "transport/memory.h"

namespace lockstep::transport {

class Driver {
 public:
  // What the caller does next.
  enum class Then : std::uint8_t {
    kGoOn,
    kWait,       // the caller calls wait() at once, and the call may begin only there
    kWaitLater,  // the caller waits soon: the call begins at once, and goes on there, or without it after 2 ms at most
  };

  // Calls close() unless it was called before.
  virtual ~Driver() = default;

  // Ends all calls in flight as if the run were lost, and restores their memory; later submissions end in the same way.
  // A second call does nothing. Call it from one thread only.
  virtual void close() = 0;

  // How streams are protected from now on; before the peer connects. Blocks briefly.
  virtual void secure(const Security& security) = 0;

  [[nodiscard]] virtual PeerId self() const = 0;
  virtual std::shared_ptr<Call> new_call() = 0;
  // `input` names the call. The memory lent to the call is returned when it ends.
  virtual void submit(std::shared_ptr<Call> call, peer::Input input, Then then) = 0;
  virtual void stop(CallId call, std::string why) = 0;
  // Blocks until the machine has processed all earlier submissions and their effects are carried out.
  virtual void settle() = 0;

  [[nodiscard]] virtual std::uint32_t pending() const = 0;
  [[nodiscard]] virtual std::uint32_t fetching() const = 0;
  [[nodiscard]] virtual std::uint32_t holding() const = 0;
  [[nodiscard]] virtual std::shared_ptr<const wire::View> view() const = 0;
  // How far the peer is on its way into the run and out of it.
  [[nodiscard]] virtual peer::Lifecycle lifecycle() = 0;
  virtual Memory& memory() = 0;
  virtual ScratchPool& scratch() = 0;

  // Bytes sent and received on this peer's streams, including headers.
  struct Traffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  [[nodiscard]] virtual Traffic traffic() const = 0;

  struct Footprint {
    peer::Peer::Footprint machine;
    std::size_t sockets = 0;
  };
  [[nodiscard]] virtual Footprint footprint() = 0;

  // Writes the contents of the flight recorder.
  virtual Result<std::string> write_flight(const std::string& path, const std::string& reason) = 0;
};

// Ends a call: returns its borrowed memory, and writes the values of a state that was taken over to their destinations.
void end_call(Call& call, peer::Outcome outcome, Memory& memory);

}  // namespace lockstep::transport
