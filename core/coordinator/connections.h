// The coordinator's streams, and the peers behind them. Reads greetings and messages, writes what is said to peers, and
// notices silence. Knows nothing of membership and rounds.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/context.h"
#include "core/io/lobby.h"
#include "core/io/stream.h"
#include "core/wire/channel.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Connections {
 public:
  explicit Connections(Context& context) : context_(context), lobby_(context.options.strangers) {}

  // ---- inputs ----

  void on_accepted(const io::Accepted& in);
  void on_read_done(const io::ReadDone& in);
  void on_write_done(const io::WriteDone& in);
  void on_revoked(const io::Revoked& in);
  // The peer that this stream belonged to; nobody: a stranger, or a peer that is out of the run.
  [[nodiscard]] PeerId on_closed(const io::Closed& in);
  // Sends heartbeats, and closes the streams of strangers that say nothing in time (rule 24 of docs/protocol.md).
  // Returns the peers that have been silent for too long, or whose streams are nearly dead (rule 51). `slept`: this
  // machine stood still, and forgives that time.
  [[nodiscard]] std::vector<Eviction> on_timer(bool slept);

  // ---- messages ----

  // The first message of a stream.
  struct Greeting {
    StreamId stream;
    wire::Message message;
  };
  struct FromPeer {
    PeerId peer;
    wire::Message message;
  };
  // A peer breaks the protocol.
  struct Violation {
    PeerId peer;
    std::string text;
  };
  using Event = std::variant<Greeting, FromPeer, Violation>;
  // The next event that has arrived on this stream, or nullopt: all were taken, or the stream ends.
  [[nodiscard]] std::optional<Event> next_event(StreamId stream);

  // The stream's greeting is over: `peer` is at its other end, and measured this round trip.
  void identify(StreamId stream, PeerId peer, Duration round_trip);
  // The peer has become a member, and may send long messages (rule 3).
  void admit(PeerId peer);
  [[nodiscard]] const io::Address& address_of(StreamId stream) const { return connections_.at(stream).from; }
  [[nodiscard]] const io::Identity& identity_of(StreamId stream) const { return connections_.at(stream).identity; }

  // Since when messages of this peer come without a pause: it lives, and its stream works. kNever: they do not.
  [[nodiscard]] Instant heard_since(PeerId peer);
  // As the peer measured it; 0: not known.
  [[nodiscard]] Duration round_trip_to(PeerId peer);

  // Sends a message, unless the peer is out of the run or its stream ends.
  void say(PeerId to, const wire::Message& message);
  void say_on(StreamId stream, const wire::Message& message);
  // The time of the last byte from this peer, which must be in the run or wait.
  [[nodiscard]] Instant heard(PeerId peer) { return connections_.at(stream_of_.at(peer)).channel.progress().since(); }
  [[nodiscard]] bool has(PeerId peer) const { return stream_of_.contains(peer); }
  void refuse(StreamId stream, Status status, std::string text);
  // Ends a stream in order; on_timer() closes it when that takes too long.
  void end(StreamId stream);
  // The peer is out of the run. Ends its stream in order.
  void end(PeerId peer);

  // Bytes go out. Returns the peers that do not read: too many bytes wait for them (rule 3). Call it again until it
  // returns none.
  [[nodiscard]] std::vector<PeerId> pump();

  // ---- inspection ----

  // Whether messages that arrive on this stream are read; false once it ends.
  [[nodiscard]] bool hears(StreamId stream) const;
  [[nodiscard]] std::size_t size() const { return connections_.size(); }
  [[nodiscard]] std::size_t strangers() const { return lobby_.size(); }
  [[nodiscard]] std::size_t lobby_entries() const { return lobby_.entries(); }
  [[nodiscard]] std::size_t queued_bytes() const;
  [[nodiscard]] std::size_t queued_bytes(PeerId to);  // 0: it has no stream
  [[nodiscard]] std::size_t memory() const;           // bytes of streams' buffers and of lists
  [[nodiscard]] bool is_quiet() const;                // nothing is to be written, and no stream ends
  void lend_again(Effects& out) const;

  // Left out: context_, which is saved before it, and pumped_, which is empty between two steps.
  template <typename Archive>
  void archive(Archive& a);

 private:
  // A stream, and the peer at its other end as far as it is known.
  struct Connection {
    Connection(StreamId stream, Instant now, const io::Address& address, const io::Identity& proved)
        : channel(stream, now), from(address), identity(proved), since(now), steady(now) {}
    wire::Channel channel;
    io::Address from;
    io::Identity identity;
    Instant since;        // start of the stream; start of its orderly end, once that has begun
    PeerId peer;          // nobody: a stranger
    Duration round_trip;  // 0: not known
    // When one of these was last seen: a pause of its messages, one that is no heartbeat, one to it that was unwritten.
    Instant steady;
    bool greeted = false;  // the preamble has arrived
    bool dirty = false;    // listed in dirty_
    bool suspect = false;  // the peer was silent for half of its time; only in a planted bug
    template <typename Archive>
    void archive(Archive& a) {
      a.all(channel, from, identity, since, peer, round_trip, steady, greeted, dirty, suspect);
    }
  };

  void on_preamble(Connection& connection, const wire::Preamble& preamble);
  // A stranger breaks the protocol.
  void on_bad_stranger(Connection& connection, const std::string& why);
  void answer_tls(Connection& connection);
  [[nodiscard]] Instant silence_limit(Connection& connection) const;
  [[nodiscard]] std::optional<Eviction> judge(Connection& connection) const;
  [[nodiscard]] Connection* connection_of(PeerId peer);
  void say_on(Connection& connection, const wire::Message& message);
  void refuse(Connection& connection, Status status, std::string text);
  void end(Connection& connection);
  void close(Connection& connection);
  void mark(Connection& connection) {
    if (!std::exchange(connection.dirty, true)) dirty_.push_back(connection.channel.stream());
  }

  Context& context_;
  std::map<StreamId, Connection> connections_;
  std::map<PeerId, StreamId> stream_of_;  // peers in the run, and those that wait
  io::Lobby lobby_;                       // streams whose greeting is not over
  std::vector<StreamId> dirty_;           // to be pumped at the end of the step
  std::vector<StreamId> pumped_;          // takes turns with dirty_
  Instant next_heartbeat_;
};

}  // namespace lockstep::coordinator
