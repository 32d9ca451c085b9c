// One peer from the program's point of view: raw memory in, handles of calls out. A driver does the work, usually the
// engine (engine.h) on its own thread.
//
// Every method may be called from any thread at any time. No method blocks, except create(), launch() while there is no
// room for another call, wait(), unpublish(), settle() and footprint() (briefly), and the destructor. Only the
// destructor must be the last call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/options.h"
#include "core/peer/peer.h"
#include "core/wire/message.h"
#include "transport/destination.h"
#include "transport/driver.h"
#include "transport/flight.h"
#include "transport/interrupt.h"
#include "transport/launch_gate.h"
#include "transport/log.h"
#include "transport/work.h"

namespace lockstep::transport {

inline constexpr Duration kLongestSpin = milliseconds(10);

struct CommunicatorOptions {
  // Without id and seed, which the driver draws. `advertised`: the port only; 0: the port that this peer listens on.
  peer::PeerOptions peer;
  std::string listen_host;  // address or host name to listen on; empty: all addresses, IPv6 and IPv4
  // address or host name for the other peers; empty: the address that the coordinator sees
  std::string advertised_host;
  std::uint32_t minimum_world = 1;  // for launches that do not set one

  // Without a run token. `insecure`: anybody on the way reads and changes all.
  Protection protection;

  // For example "cubic". A value that the kernel refuses is logged and ignored. Empty: chosen for each stream
  // (Connector::Options).
  std::string congestion_control;

  // While a call is in flight, a waiting thread polls this long before it sleeps (transport/spin.h). 0: never polls.
  Duration spin = microseconds(50);

  bool shared_thread = false;  // runs on the reactor that all of the process share

  Log log;      // may be empty
  Log journal;  // observations of this peer in JSON (transport/journal.h); may be empty

  // The flight recorder keeps this many bytes of this peer's inputs for `lockstep sim replay`. It writes them to the
  // folder, which must exist, when the run ends unexpectedly. Without a folder only write_flight() writes them. 0:
  // kFlightBytes if there is a folder, otherwise no recorder.
  std::size_t flight_bytes = 0;
  std::string flight_folder;
};

// One tensor of a call; the fields have the meaning of ring::Tensor. The memory is lent until the call is over.
struct TensorArgs {
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t count = 0;  // elements; if 0, the pointers may be null
  // bytes at `recv`: reduce-scatter, reduce and wire::has_blocks() only; elsewhere `count` determines them
  std::uint64_t recv_bytes = 0;
  void* residual = nullptr;  // `count` elements; null: no residual
};

struct LaunchArgs : ring::Arguments {
  LaunchArgs() { minimum_world = 0; }  // 0: CommunicatorOptions::minimum_world

  bool waits_for_room = true;       // false: fails with kTooManyInFlight if there is no room for another call
  std::vector<TensorArgs> tensors;  // exactly one where wire::has_blocks(); none for barrier
  std::vector<ring::Block> blocks;  // gather, scatter and all-to-all, as in ring::Request
  // Sync: the state's description, with its tensors as `recv` in bytes (type u8), and the destinations of its values if
  // another state is elected.
  std::shared_ptr<const state::Statement> state;
  std::vector<void*> values;
};

// A point-to-point transfer; the fields have the meaning of peer::Transfer. The memory is lent until the call is over.
struct TransferArgs {
  PeerId peer;
  Tag tag;
  DataType type = DataType::kU8;
  const void* data = nullptr;  // of `count` elements; a receive writes to it
  std::uint64_t count = 0;
  Duration timeout{0};  // 0: no timeout
};

struct Watch;

class Communicator {
 public:
  // Draws the peer's id and starts the thread. Looks up `listen_host` and `advertised_host` if they are names, which
  // may block as long as the system's resolver. Errors: invalid options, unknown host, out of memory or threads.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);

  // The same with another driver. `make` receives validated options of the peer, without id and seed, which the driver
  // draws. `make` may throw std::bad_alloc.
  using MakeDriver = std::function<std::unique_ptr<Driver>(peer::PeerOptions)>;
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options, const MakeDriver& make);

  // Calls close() unless it was called before.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Ends all calls in flight as if the run were lost (kOutcomeUnknown, or kNotConnected for a call that had not begun)
  // and restores their memory. Closes all streams and joins the thread. To other peers, this peer is lost; call leave()
  // first for an orderly exit. Other threads may be inside methods of this communicator: their calls end, and later
  // calls end at once (kNotConnected).
  void close();

  // What the caller of launch() does next.
  using Then = Driver::Then;

  // Joins the run of the coordinator that this text names (transport/destination.h). Ends when this peer is a member.
  // Allowed once per communicator; a call with an invalid text (kInvalidArgument) does not count. A timeout of 0 means
  // none.
  Work connect(std::string_view coordinator, Duration timeout = {0});
  // Admits waiting peers, and waits until the view has `at_least` members.
  Work admit(std::uint32_t at_least = 1, Duration timeout = {0});
  // Leaves the run in an orderly way. Ends when all calls launched before have ended and the other peers know.
  Work leave(Duration timeout = {0});
  // Starts a collective. After an error (kInvalidArgument: null, overlapping or impossible memory; kOutOfMemory: no
  // scratch) nothing was started, and the call is refused. Without room for another call (LaunchGate), blocks until a
  // call ends; kTooManyInFlight, kTimedOut: there was none, the call was not launched, and no other peer knows of it.
  // Throws LaunchInterrupted.
  Result<Work> launch(const LaunchArgs& args, Then then = Then::kGoOn, Interrupted interrupted = nullptr);
  // Takes the place of a collective whose arguments are refused here: it takes one use of the tag, and ends the round
  // for all members, with this status and reason (rule 42). Does not wait. No effect while this peer is no member.
  void refuse(wire::Collective collective, Tag tag, peer::Refusal refusal);
  // Sends a tensor to one member; ends when that member has it. Errors as launch(). A small one begins on this thread.
  Result<Work> send(const TransferArgs& args, Then then = Then::kGoOn);
  // Receives a tensor from one member, or from any.
  Result<Work> receive(const TransferArgs& args, Then then = Then::kGoOn);
  // Serves this state (the arguments of a sync) to waiting peers until it is stopped, unpublished or replaced by a
  // newer publication of its tag, or until this peer leaves the run. Serves a copy, which publish() makes. `stable`:
  // serves the tensors themselves, which are lent and must not change meanwhile.
  Result<Work> publish(const LaunchArgs& args, bool stable);
  // Ends the publication of this tag. Waits until its memory is returned, unless interrupted.
  Waited unpublish(Tag tag, Interrupted interrupted = nullptr);
  // From now on, every collective except a sync watches this state (the arguments of a sync) as it is at the launch.
  // Null ends the watch. The tensors are lent until the watch ends and all collectives launched meanwhile are over.
  std::optional<Error> watch(const LaunchArgs* args);
  // Fetches the state that members publish under this tag into these tensors, while this peer waits for admission.
  Result<Work> prefetch(const LaunchArgs& args);
  // Blocks briefly until all earlier calls have begun. A call that is refused is over then.
  void settle();
  // Ends a call that is not over. A round that is not committed is aborted for all members. The outcome of the call
  // says how it ended.
  void stop(const Work& work, std::string why);

  // The number of peers that wait for admission. Local: one atomic load.
  [[nodiscard]] std::uint32_t pending() const;
  // The number of waiting peers that prefetch a state and have none yet.
  [[nodiscard]] std::uint32_t fetching() const;
  // The number of waiting peers that hold a published state.
  [[nodiscard]] std::uint32_t holding() const;
  // The newest installed view; null before the first. The view object never changes.
  [[nodiscard]] std::shared_ptr<const wire::View> view() const;
  [[nodiscard]] PeerId self() const;
  // How far this peer is on its way into the run and out of it. Asks the thread that runs the communicator.
  [[nodiscard]] peer::Lifecycle lifecycle();

  // Writes the contents of the flight recorder: the whole file or nothing. May block on the file system; do not call it
  // from a log.
  Result<std::string> write_flight(const std::string& path);

  using Traffic = Driver::Traffic;
  [[nodiscard]] Traffic traffic() const;

  // The resources that are held now (promise S11).
  struct Footprint {
    peer::Peer::Footprint machine;
    std::size_t sockets = 0;
    std::size_t buffers = 0;        // registered buffers of calls in flight
    std::size_t scratch_bytes = 0;  // scratch lent to calls in flight
    std::size_t cached_bytes = 0;   // scratch kept for later calls
  };
  [[nodiscard]] Footprint footprint() const;

 private:
  Communicator(std::unique_ptr<Driver> driver, const CommunicatorOptions& options);
  Result<Duration> enter(const LaunchArgs& args, Call& call, Interrupted interrupted);
  Result<Work> start(const LaunchArgs& args, Then then, std::shared_ptr<Call> call, Duration timeout);

  [[nodiscard]] std::shared_ptr<const Watch> watch_now();
  std::unique_ptr<Driver> engine_;
  std::uint32_t minimum_world_;
  Protection protection_;
  std::atomic<bool> connects_{false};  // connect() was called with a valid text
  LaunchGate gate_;
  std::mutex published_mutex_;
  std::vector<std::pair<Tag, Work>> published_;  // publications that were not over at the last check
  std::atomic<bool> watches_{false};             // whether a watch exists; usually false
  std::mutex watch_mutex_;
  std::shared_ptr<const Watch> watch_;
};

}  // namespace lockstep::transport
