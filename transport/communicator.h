// One peer as a program sees it: raw memory in, handles on calls out. A driver does the work: the engine (engine.h) in a thread of its
// own, as a rule.
//
// Every method may be called from any thread at any time; none blocks, except create(), wait(), unpublish(), settle() and
// footprint() (a moment), and the destructor. Only the destructor must be the last call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/options.h"
#include "core/peer/peer.h"
#include "core/wire/message.h"
#include "transport/driver.h"
#include "transport/flight.h"
#include "transport/log.h"
#include "transport/work.h"

namespace lockstep::transport {

inline constexpr Duration kLongestSpin = milliseconds(10);

// The defaults are those of peer::Options, where their meaning is written down.
struct CommunicatorOptions {
  std::string name;  // for people; at most kMaxNameBytes
  GroupId group;
  GangId gang;
  std::uint32_t gang_size = 1;
  std::uint32_t founders = 1;
  bool auto_admit = false;

  std::string listen_host;            // address or host name to listen on; empty: every address, IPv6 and IPv4
  std::uint16_t first_port = 0;       // the first free port of this range; 0: any port
  std::uint16_t last_port = 0;        // 0: same as first_port
  std::string advertised_host;        // address or host name told to the others; empty: the one the coordinator sees
  std::uint16_t advertised_port = 0;  // 0: the port listened on

  std::uint16_t stripes = peer::Options{}.stripes;
  std::uint32_t segment_bytes = peer::Options{}.segment_bytes;
  std::uint64_t state_bytes_per_second = 0;  // that it sends of shared states; 0: no limit
  std::uint32_t minimum_world = 1;           // of launches that state none

  Duration dial_timeout = peer::Options{}.dial_timeout;
  Duration link_heartbeat = peer::Options{}.link_heartbeat;
  Duration link_silence = peer::Options{}.link_silence;
  Duration link_timeout = peer::Options{}.link_timeout;
  Duration abort_grace = peer::Options{}.abort_grace;

  // Such as "cubic"; refused by the kernel: logged, not fatal. Empty: chosen for each stream (Door::Options).
  std::string congestion_control;

  // While a call is in flight, whoever waits for it looks for news for so long before it sleeps (transport/spin.h). 0: never.
  Duration spin = microseconds(50);

  Log log;      // may be empty
  Log journal;  // what this peer saw, in JSON (transport/journal.h); may be empty

  // The flight recorder: remembers so many bytes of what this peer was told, for `lockstep sim replay`. Written to the folder, which
  // must be there, when the run ends unexpectedly; empty: only when write_flight() is called. 0: kFlightBytes with a folder, else
  // there is no recorder.
  std::size_t flight_bytes = 0;
  std::string flight_folder;
};

// One tensor of a call; the meaning of the places is that of peer::Tensor. The memory is lent until the call is over.
struct TensorArgs {
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t count = 0;       // elements; with 0 the pointers may be null
  std::uint64_t recv_bytes = 0;  // room at `recv`: reduce-scatter and all-gather; elsewhere `count` says it
  void* residual = nullptr;      // `count` elements, or none
};

struct LaunchArgs {
  wire::Collective collective = wire::Collective::kBarrier;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  Tag tag;
  bool retry = true;                // all-reduce, barrier and sync only
  std::uint32_t minimum_world = 0;  // 0: CommunicatorOptions::minimum_world
  PeerId root;                      // broadcast
  Formats formats;                  // all-reduce, as peer::Request says, like the next two
  std::optional<wire::Algorithm> algorithm;
  std::optional<float> weight;
  Duration timeout{0};              // 0: none
  std::vector<TensorArgs> tensors;  // exactly one for all-gather; none for barrier
  // Sync: what the state is, its tensors as `recv`, in bytes (type u8); and where its values go if another one wins.
  std::shared_ptr<const state::Statement> state;
  std::vector<void*> values;
};

struct Watch;

class Communicator {
 public:
  // Draws the peer's id, starts its thread. Looks up `listen_host` and `advertised_host` if they are names: may block as long as
  // the system's resolver does. Errors: invalid options, unknown host, out of memory or threads.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);

  // The same over another driver. `make` takes checked options of the peer, all but its id and seed, which are the driver's to draw;
  // it may throw std::bad_alloc.
  using MakeDriver = std::function<std::unique_ptr<Driver>(peer::Options)>;
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options, const MakeDriver& make);

  // close(), if that was not called before.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Ends every call in flight as when the run is lost (kOutcomeUnknown, or kNotConnected where nothing had begun), its memory
  // restored; closes every stream, joins the thread. The others see a peer that is lost: leave() first to go politely. Other threads
  // may be in methods of this communicator, and their calls end; calls that they begin later end at once (kNotConnected).
  void close();

  // What the caller of launch() does next.
  using Then = Driver::Then;

  // Join the run of the coordinator at "host:port" ("[v6]:port"). Over when this peer is a member. Once per communicator;
  // what is no address (kInvalidArgument) does not count.
  // Time-outs of 0: none.
  Work connect(std::string coordinator, Duration timeout = {0});
  // Let waiting peers in; wait until the view has `at_least` members.
  Work admit(std::uint32_t at_least = 1, Duration timeout = {0});
  // Leave politely. Over when the calls launched before it are, and the others know.
  Work leave(Duration timeout = {0});
  // Start a collective. An error here (kInvalidArgument: null, overlapping or impossible memory; kOutOfMemory: scratch) means
  // that nothing was started and no other peer knows of it.
  Result<Work> launch(const LaunchArgs& args, Then then = Then::kGoOn);
  // Serve this state (the arguments of a sync) to peers that wait for their admission, until it is stopped, unpublished,
  // replaced by a newer one of its tag, or this peer leaves the run. From a copy, which is made here; `stable`: from the
  // tensors themselves, which are lent, and do not change, until then.
  Result<Work> publish(const LaunchArgs& args, bool stable);
  // Ends what was published under this tag, and waits until its memory is back, unless it is interrupted before.
  Waited unpublish(Tag tag, Interrupted interrupted = nullptr);
  // From now on each collective but a sync watches this state (the arguments of a sync), as it is at its launch; null: none does.
  // The tensors are lent until then, and until the collectives that were launched meanwhile are over.
  std::optional<Error> watch(const LaunchArgs* args);
  // While this peer waits for its admission: fetch into these tensors what members publish under this tag.
  Result<Work> prefetch(const LaunchArgs& args);
  // Blocks until the call is over, as work.wait() does, and does the communicator's own work meanwhile where that saves time.
  // Unless it is interrupted before.
  Waited wait(const Work& work, Interrupted interrupted = nullptr);
  // Blocks, a moment, until what was called before has begun: a call that is refused is over then.
  void settle();
  // End a call that is not over; a round is aborted for all unless it is committed. The call itself tells how it ended.
  void stop(const Work& work, std::string why);

  // How many peers wait for admission. Local, an atomic load.
  [[nodiscard]] std::uint32_t pending() const;
  // Of those, so many fetch a state in advance.
  [[nodiscard]] std::uint32_t fetching() const;
  // The newest installed view; null before the first. Never changes under the caller's hands.
  [[nodiscard]] std::shared_ptr<const wire::View> view() const;
  [[nodiscard]] PeerId self() const;

  // Writes what the flight recorder remembers, whole or not at all. May block as long as a file takes; not from a log.
  Result<std::string> write_flight(const std::string& path);

  using Traffic = Driver::Traffic;
  [[nodiscard]] Traffic traffic() const;

  // What is held right now (promise S11).
  struct Footprint {
    peer::Peer::Footprint machine;
    std::size_t sockets = 0;
    std::size_t buffers = 0;        // registered places of calls in flight
    std::size_t scratch_bytes = 0;  // lent to calls in flight
    std::size_t cached_bytes = 0;   // scratch kept for the next call
  };
  [[nodiscard]] Footprint footprint() const;

 private:
  Communicator(std::unique_ptr<Driver> driver, std::uint32_t minimum_world);
  std::unique_ptr<Driver> engine_;
  std::uint32_t minimum_world_;
  std::mutex published_mutex_;
  std::vector<std::pair<Tag, Work>> published_;  // not over, when last looked at
  std::atomic<bool> watches_{false};             // there is one, as nearly never
  std::mutex watch_mutex_;
  std::shared_ptr<const Watch> watch_;
};

}  // namespace lockstep::transport
