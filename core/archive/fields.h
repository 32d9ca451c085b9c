// The structs below the machines, field by field, like wire/fields.h: one list per struct saves, loads, hashes and
// describes. A changed list changes recordings: increment kRevision (core/flight/recording.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/archive/archive.h"
#include "core/buffers/buffer_ref.h"
#include "core/io/stream.h"
#include "core/kernels/job.h"
#include "core/state/manifest.h"
#include "core/state/statement.h"
#include "core/trace/event.h"

namespace lockstep::archive {

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
  a("lineage", m.lineage);
  a("strategy", m.strategy);
  a("unchanged", m.unchanged);
  a("blank", m.blank);
  a("restored", m.restored);
  a("staged", m.staged);
}

// ---- inputs ----

void fields(auto& a, Is<io::Opened> auto& m) {
  a("stream", m.stream);
  a("round_trip", m.round_trip);
  a("identity", m.identity);
  a("local", m.local);
}

void fields(auto& a, Is<io::Accepted> auto& m) {
  a("stream", m.stream);
  a("from", m.from);
  a("round_trip", m.round_trip);
  a("identity", m.identity);
}

void fields(auto& a, Is<io::ReadDone> auto& m) {
  a("stream", m.stream);
  a("bytes", m.bytes);
}

void fields(auto& a, Is<io::Written> auto& m) {
  a("acknowledged", m.acknowledged);
  a("outstanding", m.outstanding);
  a("lost", m.lost);
}

void fields(auto& a, Is<io::WriteDone> auto& m) {
  a("stream", m.stream);
  a("bytes", m.bytes);
  a("written", m.written);
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

inline void fields(auto& a, const KernelJob& m) {
  a("token", m.token);
  const auto kind = static_cast<std::uint8_t>(m.work.index());
  a("kind", kind);
  std::visit(
      [&a](const auto& work) {
        if constexpr (requires { work.type; }) {
          a("type", work.type);
          a("op", work.op);
          a("divisor", work.divisor);
        }
        if constexpr (requires { work.into; }) a("into", work.into);
        a("from", work.from);
        if constexpr (requires { work.own; }) a("own", work.own);
        if constexpr (requires { work.residual; }) a("residual", work.residual);
        if constexpr (requires { work.expected; }) a("expected", work.expected);
        if constexpr (requires { work.count; }) a("count", work.count);
        if constexpr (requires { work.arrived; }) a("arrived", work.arrived);
        if constexpr (requires { work.departs; }) a("departs", work.departs);
        if constexpr (requires { work.weight; }) a("weight", work.weight);
        if constexpr (requires { work.total; }) a("total", work.total);
      },
      m.work);
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
  a("to_coordinator", m.to_coordinator);
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
inline void fields(auto& a, const io::CopyBytes& m) {
  a("into", m.into);
  a("bytes", static_cast<std::uint64_t>(m.bytes.size()));
}

}  // namespace lockstep::archive
