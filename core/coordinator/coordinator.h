// The coordinator: decides membership, order and outcome, and never sees a tensor. Pure: streams and time come in,
// effects go out. Rounds run without it; it commits them when all members are done, and decides them after a loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/holdings.h"
#include "core/base/time.h"
#include "core/coordinator/grants.h"
#include "core/coordinator/lifecycle.h"
#include "core/io/stream.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

struct CoordinatorOptions {
  Term term{1};
  LinkKey link_key;                                  // random, from the driver's entropy
  Duration heartbeat = lockstep::milliseconds(500);  // for every peer
  Duration silence = lockstep::seconds(3);           // a peer without a byte for so long is lost
  Duration greeting = lockstep::seconds(3);          // limit for a stranger's first message
  Duration gang_leave = lockstep::seconds(10);       // limit from a gang's first leave to its last
  std::uint32_t strangers = kMaxStrangers;           // streams whose greeting is not over
  std::uint32_t waiting_of_one = kMaxWaitingOfOne;   // newcomers that wait, from one network (core/io/lobby.h)
  Duration link_patience = lockstep::seconds(5);  // a broken link that is reported again after so long costs a member
  std::uint32_t stops_at_once = kMaxStopsAtOnce;  // that one peer may ask for (rule 67)
  std::uint32_t stops_per_second = kStopsPerSecond;  // for good
  Duration dial_back{};         // limit for dialling a newcomer back (rule 70); 0: nobody is dialled back
  bool secured = false;         // streams prove keys and tokens, and only peers with a grant may join (rule 63)
  std::vector<Grant> grants{};  // at first
};

// Why no coordinator can have these options; empty: they are valid. The text begins with the name of an option.
std::string validate_options(const CoordinatorOptions& options);

struct Timer {};
// The grants from now on, at most kMaxGrants, and the keys that are barred. Peers whose grant is gone or whose key is
// barred are evicted (rule 64).
struct ChangeGrants {
  std::vector<Grant> grants;
  std::vector<BarredKey> barred{};
};

using Input =
    std::variant<Timer, io::Accepted, io::ReadDone, io::WriteDone, io::Revoked, io::Closed, ChangeGrants, io::Opened>;
// A peer has used up this token. Comes before the peer is told that it may join: a driver that keeps tokens on disk
// notes it first.
struct TokenUsed {
  io::TokenId token;
};
using Effect = std::variant<trace::Event, TokenUsed, io::Read, io::Write, io::Revoke, io::Close, io::Dial>;
using Effects = std::vector<Effect>;

class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, Instant now);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  void step(Input input, Instant now, Effects& out);
  [[nodiscard]] Instant deadline() const;

  // Members, view, rounds, counters, as `lockstep status` shows them.
  [[nodiscard]] wire::StatusReply snapshot(Instant now) const;

  struct Footprint {
    std::size_t streams = 0;
    std::size_t members = 0;
    std::size_t waiting = 0;
    std::size_t rounds = 0;
    std::size_t queued_bytes = 0;
    std::uint64_t drafts = 0;   // drafted changes, so far
    std::size_t published = 0;  // published states, and states that newcomers want
    std::size_t strangers = 0;  // streams whose greeting is not over
    std::size_t waits = 0;      // rounds, and peers with transfers, that wait long
  };
  [[nodiscard]] Footprint footprint() const;

  // No round, proposal or admission is under way, and nothing is to be written. Holdings: as in peer/peer.h.
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings() const;

  // The whole state, between two steps; as in peer/peer.h.
  void save(std::vector<std::byte>& out) const;
  [[nodiscard]] bool load(std::span<const std::byte> state, Effects& lent);

  [[nodiscard]] Lifecycle lifecycle() const;
  // Whether messages that arrive on this stream are read; false once the stream ends.
  [[nodiscard]] bool hears(StreamId stream) const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace lockstep::coordinator
