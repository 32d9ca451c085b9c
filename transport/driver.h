// What a Communicator needs of whoever drives its peer::Peer: the engine (engine.h), on real sockets and in real time; or another
// one, such as a simulator's. Arguments are checked before they come here.
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
#include "transport/memory.h"

namespace lockstep::transport {

class Driver {
 public:
  // What the caller does next.
  enum class Then : std::uint8_t {
    kGoOn,
    kWait,  // wait(), at once: the call may begin only there
  };

  // close(), if that was not called before.
  virtual ~Driver() = default;

  // Ends every call in flight as when the run is lost, its memory back and restored; likewise what is submitted later. Again: does
  // nothing. From one thread only.
  virtual void close() = 0;

  [[nodiscard]] virtual PeerId self() const = 0;
  virtual std::shared_ptr<Call> new_call() = 0;
  // `input` names the call. Its loans are given back when it ends.
  virtual void submit(std::shared_ptr<Call> call, peer::Input input, Then then) = 0;
  // Blocks until the call is over, or the calling thread is interrupted.
  virtual Waited wait(Call& call, Interrupted interrupted) = 0;
  virtual void stop(CallId call, std::string why) = 0;
  // Blocks until the machine was told all that was submitted before, and its effects are carried out.
  virtual void settle() = 0;

  [[nodiscard]] virtual std::uint32_t pending() const = 0;
  [[nodiscard]] virtual std::uint32_t fetching() const = 0;
  [[nodiscard]] virtual std::shared_ptr<const wire::View> view() const = 0;
  virtual Memory& memory() = 0;
  virtual ScratchPool& scratch() = 0;

  // Bytes that went through its streams, headers included.
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

  // Writes what the flight recorder remembers.
  virtual Result<std::string> write_flight(const std::string& path, const std::string& reason) = 0;
};

// A call is over: what it has borrowed goes back, the values of a state that it has taken over to their places.
void end_call(Call& call, peer::Outcome outcome, Memory& memory);

}  // namespace lockstep::transport
