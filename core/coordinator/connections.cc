#include "core/coordinator/connections.h"

#include <algorithm>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

// ---- inputs ----

// A stranger may take the place of another stranger (rule 20 of docs/protocol.md).
void Connections::on_accepted(const io::Accepted& in) {
  const auto [at, fresh] = connections_.try_emplace(in.stream, in.stream, context_.now, in.from, in.identity);
  LOCKSTEP_ASSERT(fresh);
  if (const auto displaced = lobby_.enter(in.stream, in.from)) close(connections_.at(*displaced));
  mark(at->second);
  if (context_.next_timer == kNever) {
    next_heartbeat_ = context_.now + context_.options.heartbeat;
    context_.next_timer = next_heartbeat_;
  }
  context_.wake_at(context_.now + context_.options.greeting);
}

void Connections::on_read_done(const io::ReadDone& in) {
  Connection& connection = connections_.at(in.stream);
  connection.channel.read_done(in.bytes, context_.now);
  mark(connection);
}

void Connections::on_write_done(const io::WriteDone& in) {
  Connection& connection = connections_.at(in.stream);
  connection.channel.write_done(in.bytes);
  mark(connection);
}

void Connections::on_revoked(const io::Revoked& in) {
  Connection& connection = connections_.at(in.stream);
  connection.channel.revoked(in.direction, in.bytes, context_.now);
  mark(connection);
}

PeerId Connections::on_closed(const io::Closed& in) {
  const auto at = connections_.find(in.stream);
  LOCKSTEP_ASSERT(at != connections_.end());
  const PeerId peer = at->second.peer;
  connections_.erase(at);
  lobby_.leave(in.stream);
  const auto stream = stream_of_.find(peer);
  return stream != stream_of_.end() && stream->second == in.stream ? peer : PeerId{};
}

std::vector<Eviction> Connections::on_timer(bool slept) {
  const Instant now = context_.now;
  const bool beat = now >= next_heartbeat_;
  if (beat) next_heartbeat_ = now + context_.options.heartbeat;
  context_.next_timer = next_heartbeat_;
  std::vector<Eviction> lost;
  for (auto& [stream, connection] : connections_) {
    if (slept) {
      connection.channel.forgive_silence(now);
      connection.since = std::max(connection.since, now);
    }
    if (connection.channel.closing()) continue;
    if (connection.peer.is_nobody() || connection.channel.finishing()) {
      const Instant limit = connection.since + context_.options.greeting;
      if (now < limit) {
        context_.wake_at(limit);
        continue;
      }
      if (!connection.channel.finishing()) {
        context_.note({.kind = trace::Kind::kPeerRefused,
                       .view = {},
                       .peer = {},
                       .round = {},
                       .status = Status::kTimedOut,
                       .text = connection.from.text() + ": said nothing that makes sense in time"});
      }
      close(connection);
      continue;
    }
    if (auto eviction = judge(connection)) {
      if (!mutant(Mutant::kSilentMemberStays)) lost.push_back(*std::move(eviction));
      continue;
    }
    if (beat) say_on(connection, wire::Heartbeat{});
  }
  return lost;
}

// Nothing: the peer stays, and the machine is woken when it must be judged again.
std::optional<Eviction> Connections::judge(Connection& connection) const {
  const Duration beat = context_.options.heartbeat;
  const Instant now = context_.now;
  const wire::Progress& progress = connection.channel.progress();
  if (now - progress.since() >= beat * 2 || connection.channel.writer.is_writing()) connection.steady = now;
  const Duration drips = wire::Progress::limit(beat, connection.round_trip, context_.options.silence);
  if (connection.channel.is_nearly_dead(now, beat, drips)) {
    return Eviction{connection.peer, Status::kEvicted,
                    "its stream to the coordinator is nearly dead: " + progress.words(now)};
  }
  const Instant limit = silence_limit(connection);
  if (now >= limit) {
    const std::string ms = std::to_string(context_.options.silence.ns / 1'000'000);
    return Eviction{connection.peer, Status::kEvicted, "silent for " + ms + " ms"};
  }
  context_.wake_at(limit);
  context_.wake_at(progress.look_at(now, beat, drips));
  return std::nullopt;
}

Connections::Connection* Connections::connection_of(PeerId peer) {
  const auto stream = stream_of_.find(peer);
  const auto at = stream == stream_of_.end() ? connections_.end() : connections_.find(stream->second);
  return at == connections_.end() ? nullptr : &at->second;
}

Instant Connections::heard_since(PeerId peer) {
  Connection* const connection = connection_of(peer);
  if (connection == nullptr) return kNever;
  if (connection->channel.writer.is_writing()) return kNever;  // it cannot answer what it does not have
  const Duration since = context_.now - connection->channel.progress().since();
  return since < context_.options.heartbeat * 2 ? connection->steady : kNever;
}

Duration Connections::round_trip_to(PeerId peer) {
  const Connection* const connection = connection_of(peer);
  return connection == nullptr ? Duration{} : connection->round_trip;
}

Instant Connections::silence_limit(Connection& connection) const {
  const Duration silence = context_.options.silence;
  const Instant heard = connection.channel.progress().since();
  if (!mutant(Mutant::kSuspectStays)) return heard + silence;
  const bool late = context_.now - heard >= silence / 2;
  const bool again = connection.suspect && late;
  connection.suspect = connection.suspect || late;
  return heard + silence / (again ? 2 : 1);
}

// ---- messages ----

std::optional<Connections::Event> Connections::next_event(StreamId stream) {
  Connection& connection = connections_.at(stream);
  while (!connection.channel.finishing()) {
    const PeerId peer = connection.peer;
    auto next = connection.channel.reader.next();
    if (!next.ok()) {
      if (!peer.is_nobody()) return Violation{peer, next.error().text};
      on_bad_stranger(connection, next.error().text);
      return std::nullopt;
    }
    if (!next->has_value()) return std::nullopt;
    std::optional<Event> event;
    std::visit(overloaded{
                   [&](wire::Preamble& in) { on_preamble(connection, in); },
                   [&](wire::Received& in) {
                     if (peer.is_nobody()) {
                       event = Greeting{stream, std::move(in.message)};
                     } else if (in.term > context_.options.term) {  // rule 2
                       event = Violation{peer, "speaks of a term that does not exist yet"};
                     } else {
                       // Rule 36: an answer to a proposal stands behind such messages.
                       if (!std::holds_alternative<wire::Heartbeat>(in.message)) connection.steady = context_.now;
                       event = FromPeer{peer, std::move(in.message)};
                     }
                   },
                   [&](wire::SegmentBegan&) {
                     connection.channel.reader.sink();
                     if (peer.is_nobody()) {
                       refuse(connection, Status::kProtocolError, "a coordinator takes no tensor data");
                     } else {
                       event = Violation{peer, "sent tensor data to the coordinator"};
                     }
                   },
                   [&](wire::SegmentEnded&) {},
               },
               **next);
    if (event) return event;
  }
  return std::nullopt;
}

void Connections::on_bad_stranger(Connection& connection, const std::string& why) {
  if (connection.channel.reader.met_tls()) return answer_tls(connection);
  context_.note({.kind = trace::Kind::kPeerRefused,
                 .view = {},
                 .peer = {},
                 .round = {},
                 .status = Status::kProtocolError,
                 .text = connection.from.text() + ": " + why});
  if (connection.greeted) return refuse(connection, Status::kProtocolError, why);
  end(connection);
}

// Rule 68: a program with a run token, or with a certificate, learns that it never gets in here.
void Connections::answer_tls(Connection& connection) {
  connection.channel.writer.preamble();
  refuse(connection, Status::kRefused,
         "this coordinator speaks no TLS, and was called with a run token or a certificate: connect with HOST:PORT "
         "alone, or start the coordinator with --tokens FILE, or with certificates, and without --insecure");
}

void Connections::on_preamble(Connection& connection, const wire::Preamble& preamble) {
  connection.greeted = true;
  connection.channel.writer.preamble();
  if (preamble.version == wire::kVersion) return;
  refuse(connection, Status::kProtocolError,
         "this coordinator speaks protocol version " + std::to_string(wire::kVersion) + ", you speak version " +
             std::to_string(preamble.version) + ": run the same release on both sides");
}

void Connections::identify(StreamId stream, PeerId peer, Duration round_trip) {
  Connection& connection = connections_.at(stream);
  LOCKSTEP_ASSERT(connection.peer.is_nobody() && !peer.is_nobody());
  lobby_.leave(stream);
  connection.peer = peer;
  connection.round_trip = round_trip;
  connection.channel.reader.set_max_body_bytes(kMaxWaitingBodyBytes);
  const bool fresh = stream_of_.emplace(peer, stream).second;
  LOCKSTEP_ASSERT(fresh);
}

void Connections::admit(PeerId peer) {
  connections_.at(stream_of_.at(peer)).channel.reader.set_max_body_bytes(kMaxBodyBytes);
}

void Connections::say(PeerId to, const wire::Message& message) {
  const auto stream = stream_of_.find(to);
  if (stream == stream_of_.end()) return;
  const auto connection = connections_.find(stream->second);
  if (connection != connections_.end()) say_on(connection->second, message);
}

void Connections::say_on(StreamId stream, const wire::Message& message) { say_on(connections_.at(stream), message); }

void Connections::say_on(Connection& connection, const wire::Message& message) {
  if (connection.channel.finishing()) return;
  connection.channel.writer.message(message, context_.options.term);
  mark(connection);
}

void Connections::refuse(StreamId stream, Status status, std::string text) {
  refuse(connections_.at(stream), status, std::move(text));
}

void Connections::refuse(Connection& connection, Status status, std::string text) {
  context_.note({.kind = trace::Kind::kPeerRefused,
                 .view = {},
                 .peer = connection.peer,
                 .round = {},
                 .status = status,
                 .text = connection.from.text() + ": " + text});
  say_on(connection, wire::Refused{status, std::move(text)});
  end(connection);
}

void Connections::end(StreamId stream) { end(connections_.at(stream)); }

void Connections::end(PeerId peer) {
  const auto stream = stream_of_.find(peer);
  LOCKSTEP_ASSERT(stream != stream_of_.end());
  const auto connection = connections_.find(stream->second);
  if (connection != connections_.end()) end(connection->second);
  stream_of_.erase(stream);
}

void Connections::end(Connection& connection) {
  lobby_.leave(connection.channel.stream());
  connection.since = context_.now;
  connection.channel.finish(context_.out());
  context_.wake_at(context_.now + context_.options.greeting);
}

void Connections::close(Connection& connection) {
  lobby_.leave(connection.channel.stream());
  connection.channel.close(context_.out());
}

std::vector<PeerId> Connections::pump() {
  std::vector<PeerId> deaf;
  LOCKSTEP_ASSERT(pumped_.empty());
  std::sort(dirty_.begin(), dirty_.end());
  std::swap(pumped_, dirty_);
  for (const StreamId stream : pumped_) {
    const auto at = connections_.find(stream);
    if (at == connections_.end()) continue;
    Connection& connection = at->second;
    connection.dirty = false;
    connection.channel.pump(context_.out());
    if (connection.channel.writer.control_bytes_queued() <= kMaxQueuedControlBytes || connection.channel.finishing()) {
      continue;
    }
    if (connection.peer.is_nobody()) {
      close(connection);
    } else {
      deaf.push_back(connection.peer);
    }
  }
  pumped_.clear();
  return deaf;
}

// ---- inspection ----

bool Connections::hears(StreamId stream) const {
  const auto connection = connections_.find(stream);
  return connection != connections_.end() && !connection->second.channel.finishing();
}

std::size_t Connections::queued_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [stream, connection] : connections_) bytes += connection.channel.writer.control_bytes_queued();
  return bytes;
}

std::size_t Connections::queued_bytes(PeerId to) {
  const Connection* const connection = connection_of(to);
  return connection == nullptr ? 0 : connection->channel.writer.control_bytes_queued();
}

std::size_t Connections::memory() const {
  std::size_t bytes = (dirty_.capacity() + pumped_.capacity()) * sizeof(StreamId);
  for (const auto& [stream, connection] : connections_) bytes += connection.channel.memory();
  return bytes;
}

bool Connections::is_quiet() const {
  return std::none_of(connections_.begin(), connections_.end(), [](const auto& entry) {
    const wire::Channel& channel = entry.second.channel;
    return channel.finishing() || channel.writer.wants_write();
  });
}

void Connections::lend_again(Effects& out) const {
  for (const auto& [stream, connection] : connections_) connection.channel.lend_again(out);
}

}  // namespace lockstep::coordinator
