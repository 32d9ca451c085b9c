// Everything a peer can ask of its driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/io/stream.h"
#include "core/kernels/job.h"
#include "core/peer/world_sizes.h"
#include "core/ring/schedule.h"
#include "core/ring/shares.h"
#include "core/trace/event.h"
#include "core/wire/message.h"

namespace lockstep::peer {

// Look up the coordinator's name. Answered by Resolved.
struct Resolve {
  std::string coordinator;
};

// Listen on one port out of PeerOptions::first_port..last_port. Answered by Listening. Streams come as io::Accepted
// until the Peer is destroyed; from RunOver on each is closed at once.
struct Listen {};

// What a send or a receive was, at its end.
struct TransferEnd {
  PeerId partner;  // the other member; nobody while a receive from any member waits
  Tag tag;
  std::uint64_t count = 0;  // elements sent or received
};

// The way of the bytes of a round.
struct Way {
  wire::Algorithm algorithm = wire::Algorithm::kAuto;  // of a committed collective that has a choice; else kAuto
  std::vector<ring::Rate> rates;  // what the line of each rank carries, where ranks own by that (rule 58); else empty
};

// How a call ended. Fields that do not apply are zero.
struct Outcome {
  Status status = Status::kOk;
  std::string text;         // empty on success
  ViewNumber view;          // newest installed view
  RoundKey round;           // collectives
  Generation attempt;       // collectives: the generation it committed in
  std::uint32_t world = 0;  // contributors of a committed round; else members of the caller's group now
  std::shared_ptr<const std::vector<PeerId>> contributors;  // committed rounds: in rank order
  WorldSizes sizes;               // committed rounds: of the view in which the attempt began; else of the newest view
  std::vector<PeerId> newcomers;  // admit: the peers that joined during the call
  std::uint64_t hash = 0;         // committed rounds: of the result, the same on every peer
  Way way;
  std::uint32_t retries = 0;     // attempts that were given up because a member was lost or left
  std::uint64_t bytes_sent = 0;  // payload on the wire, this call, all attempts
  std::uint64_t bytes_received = 0;
  ring::Chunk chunk;                  // reduce-scatter with one tensor: the elements of the input that `recv` now holds
  std::vector<std::uint64_t> blocks;  // all-gather: elements of each rank's block
  float weight = 0;  // committed rounds: what all contributions weigh together, of an average with weights
  // committed rounds: how the watched states of contributors differ; sync: the states that it has repaired (rule 55)
  std::string state_difference;
  // sync: the state in memory is one, the caller's or the elected one; and which. Otherwise it was being taken over,
  // in place, when the round ended, and is none.
  bool state_defined = true;
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
  std::vector<std::uint64_t> values;
  TransferEnd transfer;
};

// The call is over: none of its memory is touched any more.
struct Complete {
  CallId call;
  Outcome outcome;
};

// A view was installed; this peer is a member of it.
struct Installed {
  std::shared_ptr<const wire::View> view;
};

// So many peers wait for admission now; so many of those fetch a state in advance and have none yet; and so many hold a
// published state.
struct PendingChanged {
  std::uint32_t count = 0;
  std::uint32_t fetching = 0;
  std::uint32_t holding = 0;
};

// A sync has got so many bytes of those in which the state differs.
struct Progress {
  CallId call;
  std::uint64_t bytes = 0;
  std::uint64_t of = 0;
};

// The run is lost to this peer (evicted, coordinator gone, left): every later call fails with this status and text.
struct RunOver {
  Status status = Status::kNotConnected;
  std::string text;
  bool left = false;  // because it called leave
};

using Effect = std::variant<Resolve, Listen, Complete, Installed, PendingChanged, Progress, RunOver, KernelJob,
                            trace::Event, io::Dial, io::Read, io::Write, io::Revoke, io::Close, io::CopyBytes>;
// Carried out in order. The driver owns the vector and clears it between steps: steady state allocates nothing.
using Effects = std::vector<Effect>;

}  // namespace lockstep::peer
