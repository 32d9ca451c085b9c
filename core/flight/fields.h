// The inputs, effects and options of the machines, field by field, like wire/fields.h: one list per struct saves,
// loads, hashes and describes. A changed list changes recordings: increment kRevision (recording.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/coordinator/coordinator.h"
#include "core/flight/archive.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"

namespace lockstep::flight {

// ---- memory, jobs ----

void fields(auto& a, Is<BufferRef> auto& m) {
  a("buffer", m.id);
  a("at", m.offset);
  a("bytes", m.length);
}

void fields(auto& a, Is<JobResult> auto& m) {
  a("intact", m.intact);
  a("checksum", m.checksum);
  a("digest", m.digest);
  a("malformed", m.malformed);
  a("not_finite", m.not_finite);
}

void fields(auto& a, Is<KernelJob> auto& m) {
  a("token", m.token);
  a("kind", m.kind);
  a("type", m.type);
  a("op", m.op);
  a("divisor", m.divisor);
  a("into", m.into);
  a("from", m.from);
  a("own", m.own);
  a("residual", m.residual);
  a("expected", m.expected);
  a("count", m.count);
  a("arrived", m.arrived);
  a("departs", m.departs);
  a("weight", m.weight);
  a("total", m.total);
}

// ---- shared state ----

void fields(auto& a, Is<state::TensorSpec> auto& m) {
  a("name", m.name);
  a("type", m.type);
  a("count", m.count);
  a("may_differ", m.may_differ);
}

void fields(auto& a, Is<state::ValueSpec> auto& m) {
  a("name", m.name);
  a("type", m.type);
}

void fields(auto& a, Is<state::Manifest> auto& m) {
  a("tensors", m.tensors);
  a("values", m.values);
  a("piece_bytes", m.piece_bytes);
}

void fields(auto& a, Is<state::Statement> auto& m) {
  a("manifest", m.manifest);
  a("values", m.values);
  a("revision", m.revision);
  a("strategy", m.strategy);
  a("unchanged", m.unchanged);
  a("blank", m.blank);
  a("restored", m.restored);
  a("staged", m.staged);
}

// ---- calls ----

void fields(auto& a, Is<peer::Tensor> auto& m) {
  a("send", m.send);
  a("recv", m.recv);
  a("count", m.count);
  a("residual", m.residual);
}

void fields(auto& a, Is<peer::Watched> auto& m) {
  a("state", m.state);
  a("memory", m.memory);
}

void fields(auto& a, Is<peer::Request> auto& m) {
  a("collective", m.collective);
  a("type", m.type);
  a("op", m.op);
  a("tag", m.tag);
  a("retry", m.retry);
  a("minimum_world", m.minimum_world);
  a("root", m.root);
  a("formats", m.formats);
  a("algorithm", m.algorithm);
  a("weight", m.weight);
  a("timeout", m.timeout);
  a("tensors", m.tensors);
  a("scratch", m.scratch);
  a("state", m.state);
  a("watch", m.watch);
}

// ---- options ----

void fields(auto& a, Is<peer::Options> auto& m) {
  a("id", m.id);
  a("seed", m.seed);
  a("name", m.name);
  a("group", m.group);
  a("gang", m.gang);
  a("gang_size", m.gang_size);
  a("founders", m.founders);
  a("auto_admit", m.auto_admit);
  a("advertised", m.advertised);
  a("first_port", m.first_port);
  a("last_port", m.last_port);
  a("stripes", m.stripes);
  a("segment_bytes", m.segment_bytes);
  a("unasked", m.unasked);
  a("turns", m.turns);
  a("strangers", m.strangers);
  a("state_bytes_per_second", m.state_bytes_per_second);
  a("first_serial", m.first_serial);
  a("first_use", m.first_use);
  a("dial_timeout", m.dial_timeout);
  a("link_heartbeat", m.link_heartbeat);
  a("link_silence", m.link_silence);
  a("link_timeout", m.link_timeout);
  a("abort_grace", m.abort_grace);
}

void fields(auto& a, Is<coordinator::Options> auto& m) {
  a("term", m.term);
  a("link_key", m.link_key);
  a("heartbeat", m.heartbeat);
  a("silence", m.silence);
  a("greeting", m.greeting);
  a("gang_leave", m.gang_leave);
  a("strangers", m.strangers);
  a("waiting_of_one", m.waiting_of_one);
  a("link_patience", m.link_patience);
}

// ---- inputs ----

void fields(auto& a, Is<peer::Connect> auto& m) {
  a("call", m.call);
  a("coordinator", m.coordinator);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<peer::Launch> auto& m) {
  a("call", m.call);
  a("request", m.request);
}

void fields(auto& a, Is<peer::Publish> auto& m) {
  a("call", m.call);
  a("request", m.request);
}

void fields(auto& a, Is<peer::Prefetch> auto& m) {
  a("call", m.call);
  a("request", m.request);
}

void fields(auto& a, Is<peer::Admit> auto& m) {
  a("call", m.call);
  a("at_least", m.at_least);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<peer::Leave> auto& m) {
  a("call", m.call);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<peer::Stop> auto& m) {
  a("call", m.call);
  a("why", m.why);
}

void fields(auto& a, Is<peer::Abandon> auto& m) { a("why", m.why); }

void fields(auto& a, Is<peer::Resolved> auto& m) { a("addresses", m.addresses); }

void fields(auto& a, Is<peer::Listening> auto& m) { a("port", m.port); }

void fields(auto& a, Is<peer::JobDone> auto& m) {
  a("token", m.token);
  a("result", m.result);
}

void fields(auto&, Is<peer::Timer> auto&) {}
void fields(auto&, Is<coordinator::Timer> auto&) {}

void fields(auto& a, Is<io::Opened> auto& m) {
  a("stream", m.stream);
  a("round_trip", m.round_trip);
}

void fields(auto& a, Is<io::Accepted> auto& m) {
  a("stream", m.stream);
  a("from", m.from);
}

void fields(auto& a, Is<io::ReadDone> auto& m) {
  a("stream", m.stream);
  a("bytes", m.bytes);
}

void fields(auto& a, Is<io::WriteDone> auto& m) {
  a("stream", m.stream);
  a("bytes", m.bytes);
}

void fields(auto& a, Is<io::Revoked> auto& m) {
  a("stream", m.stream);
  a("direction", m.direction);
  a("bytes", m.bytes);
}

void fields(auto& a, Is<io::Closed> auto& m) {
  a("stream", m.stream);
  a("reason", m.reason);
  a("text", m.text);
}

// ---- effects; these are never loaded ----

inline void fields(auto& a, const peer::Resolve& m) { a("coordinator", m.coordinator); }

inline void fields(auto&, const peer::Listen&) {}

void fields(auto& a, Is<peer::Outcome> auto& m) {
  a("status", m.status);
  a("text", m.text);
  a("view", m.view);
  a("round", m.round);
  a("attempt", m.attempt);
  a("world", m.world);
  a("contributors", m.contributors);
  a("hash", m.hash);
  a("retries", m.retries);
  a("bytes_sent", m.bytes_sent);
  a("bytes_received", m.bytes_received);
  a("chunk_begin", m.chunk_begin);
  a("chunk_count", m.chunk_count);
  a("blocks", m.blocks);
  a("weight", m.weight);
  a("parity", m.parity);
  a("state_defined", m.state_defined);
  a("revision", m.revision);
  a("root", m.root);
  a("values", m.values);
}

inline void fields(auto& a, const peer::Complete& m) {
  a("call", m.call);
  a("outcome", m.outcome);
}

inline void fields(auto& a, const peer::Installed& m) { a("view", m.view); }

inline void fields(auto& a, const peer::PendingChanged& m) {
  a("count", m.count);
  a("fetching", m.fetching);
}

inline void fields(auto& a, const peer::Progress& m) {
  a("call", m.call);
  a("bytes", m.bytes);
  a("of", m.of);
}

inline void fields(auto& a, const peer::RunOver& m) {
  a("status", m.status);
  a("text", m.text);
  a("left", m.left);
}

inline void fields(auto& a, const trace::Event& m) {
  a("kind", m.kind);
  a("view", m.view);
  a("peer", m.peer);
  a("round", m.round);
  a("status", m.status);
  a("number", m.number);
  a("text", m.text);
}

inline void fields(auto& a, const io::Dial& m) {
  a("stream", m.stream);
  a("to", m.to);
}

// The address of core's own memory has no meaning; its lent size does.
inline void fields(auto& a, const io::Read& m) {
  a("stream", m.stream);
  a("place", m.place);
  a("tail", static_cast<std::uint64_t>(m.tail.size()));
}

inline void fields(auto& a, const io::Slice& m) {
  a("own", m.bytes);
  if (m.bytes.empty()) a("payload", m.payload);
}

inline void fields(auto& a, const io::Write& m) {
  a("stream", m.stream);
  a("slices", m.slices.all());
}

inline void fields(auto& a, const io::Revoke& m) {
  a("stream", m.stream);
  a("direction", m.direction);
}

inline void fields(auto& a, const io::Close& m) {
  a("stream", m.stream);
  a("flush_first", m.flush_first);
}

// These bytes belong to the caller's memory, and a recording never contains that memory.
inline void fields(auto& a, const io::Place& m) {
  a("into", m.into);
  a("bytes", static_cast<std::uint64_t>(m.bytes.size()));
}

}  // namespace lockstep::flight
