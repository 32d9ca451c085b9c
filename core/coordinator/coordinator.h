// The coordinator: decides membership, order and outcome, and never sees a tensor. Pure: streams and time come in, effects go
// out. Rounds start and move without it; it commits them when all are done, and settles them when somebody is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/holdings.h"
#include "core/base/time.h"
#include "core/coordinator/posture.h"
#include "core/io/stream.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

struct Options {
  Term term{1};
  LinkKey link_key;                                  // random, from the driver's entropy
  Duration heartbeat = lockstep::milliseconds(500);  // told to every peer
  Duration silence = lockstep::seconds(3);           // a peer without a byte for so long is lost
  Duration greeting = lockstep::seconds(3);          // a stranger must have said what it wants by then
  Duration gang_leave = lockstep::seconds(10);       // from the first of a gang that leaves to the last
  std::uint32_t strangers = kMaxStrangers;           // streams whose greeting is not over
  std::uint32_t waiting_of_one = kMaxWaitingOfOne;   // newcomers that wait, of one network (core/io/lobby.h)
  Duration link_patience = lockstep::seconds(5);  // a broken link that is reported again after so long costs a member
};

// As in peer/options.h.
inline std::string_view flaw_of(const Options& options) {
  if (options.heartbeat.ns <= 0) return "its heartbeat is no time";
  if (options.silence <= options.heartbeat) return "its silence is no longer than its heartbeat";
  if (options.strangers < 1 || options.strangers > kMaxStrangers) return "its strangers are none, or too many";
  if (options.waiting_of_one < 1) return "nobody may wait";
  if (options.greeting.ns <= 0) return "its time for a greeting is none";
  return {};
}

struct Timer {};

using Input = std::variant<Timer, io::Accepted, io::ReadDone, io::WriteDone, io::Revoked, io::Closed>;
using Effect = std::variant<trace::Event, io::Read, io::Write, io::Revoke, io::Close>;
using Effects = std::vector<Effect>;

class Coordinator {
 public:
  Coordinator(const Options& options, Instant now);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  void step(Input input, Instant now, Effects& out);
  [[nodiscard]] Instant deadline() const;

  // Members, view, rounds, counters: what `lockstep status` shows.
  [[nodiscard]] wire::StatusReply snapshot(Instant now) const;

  struct Footprint {
    std::size_t streams = 0;
    std::size_t members = 0;
    std::size_t waiting = 0;
    std::size_t rounds = 0;
    std::size_t queued_bytes = 0;
    std::uint64_t drafts = 0;   // of views, so far
    std::size_t published = 0;  // states that are published, or wanted in advance
    std::size_t strangers = 0;  // streams whose greeting is not over
  };
  [[nodiscard]] Footprint footprint() const;

  // No round, proposal or admission is under way, and nothing is to be written. And all that it holds, as in peer/peer.h.
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings() const;

  // All that it holds, between two steps; as in peer/peer.h.
  void save(std::vector<std::byte>& out) const;
  [[nodiscard]] bool load(std::span<const std::byte> state, Effects& lent);

  [[nodiscard]] Posture posture() const;
  // Whether messages that come on this stream are looked at; not once it is to be closed.
  [[nodiscard]] bool hears(StreamId stream) const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace lockstep::coordinator
