// Everything that can happen to a peer: API commands, streams, finished jobs, facts of the outside world, time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/kernels/job.h"
#include "core/ring/request.h"

namespace lockstep::peer {

using ring::Request;
using ring::Tensor;
using ring::Watched;
using wire::Collective;

// ---- API commands; each `call` is completed exactly once ----

// Join a run. Completes when this peer is a member. Once per Peer.
struct Connect {
  CallId call;
  std::string coordinator;  // "host:port", as the user wrote it, for texts
  Duration timeout{0};      // 0: none; the time to be admitted counts
};

// Why the caller's side takes no part in a collective that it has called, such as an argument that is wrong.
struct Refusal {
  Status status = Status::kInvalidArgument;
  std::string operation;  // in the caller's words, such as "all_reduce"
  std::string why;        // its first kMaxTextBytes count
};

// A refused call ends at once. It takes its use of the tag as any other call, and ends the round for all members (rule
// 42). Of its request only the collective and the tag count.
struct Launch {
  CallId call;
  Request request;
  std::optional<Refusal> refused{};
};

// A point-to-point transfer: a tensor for, or from, one member.
struct Transfer {
  PeerId peer;  // send: the receiver; receive: the sender, nobody: any member
  Tag tag;      // a receive takes sends of its tag only, those of one member in the order of their calls
  DataType type = DataType::kU8;
  std::uint64_t count = 0;  // elements; equal on both sides
  BufferRef memory;         // of `count` elements
  Duration timeout{0};      // 0: none
};

// Completes when the receiver holds the tensor.
struct Send {
  CallId call;
  Transfer what;
};

struct Receive {
  CallId call;
  Transfer what;
};

// Serve this state (a sync's request: its statement, its tensors as `recv`), which changes no more, to peers that wait
// for their admission. Completes when it is stopped, a newer one of the same tag is published, or this peer leaves:
// then its memory is back.
struct Publish {
  CallId call;
  Request request;
};

// While this peer waits for its admission: fill these tensors with pieces of the newest state that members publish
// under this tag. Completes when all of it is here, or at the admission with what has come until then. The next sync
// believes nothing of it.
struct Prefetch {
  CallId call;
  Request request;
};

// Let waiting peers in. Completes with the new view (also when nobody waited).
struct Admit {
  CallId call;
  std::uint32_t at_least = 1;  // wait until the view has this many members
  Duration timeout{0};
};

// Leave politely. Completes when the calls launched before it have ended and the others know.
struct Leave {
  CallId call;
  Duration timeout{0};
};

// End a call that has not completed: a round is aborted for all unless it is committed.
struct Stop {
  CallId call;
  std::string why;  // its first kMaxTextBytes count
};

// Give the run up, at once: every call that is open ends as when the run is lost, once its memory is back and its input
// restored. The others see a peer that is lost. At any time, and as often as the owner likes.
struct Abandon {
  std::string why;  // its first kMaxTextBytes count
};

// ---- facts ----

// Answer to Resolve: addresses in the order to be tried, or why there are none.
struct Resolved {
  Result<std::vector<io::Address>> addresses;
  std::vector<std::string> unresolved{};  // of several names: why some have no address now
};

// Answer to Listen: the port, or why not.
struct Listening {
  Result<std::uint16_t> port;
};

struct JobDone {
  JobToken token;
  JobResult result;
};

// deadline() has come.
struct Timer {};

using Input =
    std::variant<Connect, Launch, Admit, Leave, Stop, Resolved, Listening, JobDone, Timer, io::Opened, io::Accepted,
                 io::ReadDone, io::WriteDone, io::Revoked, io::Closed, Publish, Prefetch, Abandon, Send, Receive>;

}  // namespace lockstep::peer
