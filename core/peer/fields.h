// The inputs, effects and options of a peer, field by field, as in core/archive/fields.h.
#pragma once

#include "core/archive/fields.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/ring/fields.h"

namespace lockstep::peer {

using archive::Is;

// ---- options ----

void fields(auto& a, Is<PeerOptions> auto& m) {
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
  a("most_stripes", m.most_stripes);
  a("segment_bytes", m.segment_bytes);
  a("by_rate_bytes", m.direct.by_rate_bytes);
  a("rate_window", m.direct.rate_window);
  a("eager_segments", m.eager_segments);
  a("window", m.window);
  a("queued_calls", m.queued_calls);
  a("turns", m.direct.turns);
  a("strangers", m.strangers);
  a("bytes_per_second", m.sending.bytes_per_second);
  a("state_bytes_per_second", m.sending.state_bytes_per_second);
  a("first_serial", m.first_serial);
  a("first_use", m.first_use);
  a("dial_timeout", m.dial_timeout);
  a("link_heartbeat", m.link_heartbeat);
  a("link_silence", m.link_silence);
  a("link_timeout", m.link_timeout);
  a("abort_grace", m.abort_grace);
}

// ---- inputs ----

void fields(auto& a, Is<Connect> auto& m) {
  a("call", m.call);
  a("coordinator", m.coordinator);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<Refusal> auto& m) {
  a("status", m.status);
  a("operation", m.operation);
  a("why", m.why);
}

void fields(auto& a, Is<Launch> auto& m) {
  a("call", m.call);
  a("request", m.request);
  a("refused", m.refused);
}

void fields(auto& a, Is<Transfer> auto& m) {
  a("peer", m.peer);
  a("tag", m.tag);
  a("type", m.type);
  a("count", m.count);
  a("memory", m.memory);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<Send> auto& m) {
  a("call", m.call);
  a("what", m.what);
}

void fields(auto& a, Is<Receive> auto& m) {
  a("call", m.call);
  a("what", m.what);
}

void fields(auto& a, Is<Publish> auto& m) {
  a("call", m.call);
  a("request", m.request);
}

void fields(auto& a, Is<Prefetch> auto& m) {
  a("call", m.call);
  a("request", m.request);
}

void fields(auto& a, Is<Admit> auto& m) {
  a("call", m.call);
  a("at_least", m.at_least);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<Leave> auto& m) {
  a("call", m.call);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<Stop> auto& m) {
  a("call", m.call);
  a("why", m.why);
}

void fields(auto& a, Is<Abandon> auto& m) { a("why", m.why); }

void fields(auto& a, Is<Resolved> auto& m) {
  a("addresses", m.addresses);
  a("unresolved", m.unresolved);
}

void fields(auto& a, Is<Listening> auto& m) { a("port", m.port); }

void fields(auto& a, Is<JobDone> auto& m) {
  a("token", m.token);
  a("result", m.result);
}

void fields(auto&, Is<Timer> auto&) {}

// ---- effects; these are never loaded ----

inline void fields(auto& a, const Resolve& m) { a("coordinator", m.coordinator); }

inline void fields(auto&, const Listen&) {}

void fields(auto& a, Is<Outcome> auto& m) {
  a("status", m.status);
  a("text", m.text);
  a("view", m.view);
  a("round", m.round);
  a("attempt", m.attempt);
  a("world", m.world);
  a("contributors", m.contributors);
  a("members", m.sizes.members);
  a("groups", m.sizes.groups);
  a("largest_group", m.sizes.largest_group);
  a("newcomers", m.newcomers);
  a("hash", m.hash);
  a("algorithm", m.way.algorithm);
  a("rates", m.way.rates);
  a("retries", m.retries);
  a("bytes_sent", m.bytes_sent);
  a("bytes_received", m.bytes_received);
  a("chunk_begin", m.chunk.begin);
  a("chunk_end", m.chunk.end);
  a("blocks", m.blocks);
  a("weight", m.weight);
  a("state_difference", m.state_difference);
  a("state_defined", m.state_defined);
  a("revision", m.revision);
  a("root", m.root);
  a("lineage", m.lineage);
  a("values", m.values);
  a("partner", m.transfer.partner);
  a("tag", m.transfer.tag);
  a("count", m.transfer.count);
}

inline void fields(auto& a, const Complete& m) {
  a("call", m.call);
  a("outcome", m.outcome);
}

inline void fields(auto& a, const Installed& m) { a("view", m.view); }

inline void fields(auto& a, const PendingChanged& m) {
  a("count", m.count);
  a("fetching", m.fetching);
  a("holding", m.holding);
}

inline void fields(auto& a, const Progress& m) {
  a("call", m.call);
  a("bytes", m.bytes);
  a("of", m.of);
}

inline void fields(auto& a, const RunOver& m) {
  a("status", m.status);
  a("text", m.text);
  a("left", m.left);
}

}  // namespace lockstep::peer
