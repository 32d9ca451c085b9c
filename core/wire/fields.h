// The wire, field by field: one list per struct, in the order of the bytes. The same list encodes, decodes, describes
// and, in tests, generates, so these four cannot disagree. A changed list changes the wire: increment kVersion.
//
// A visitor `a` is called as a(name, field) or a(name, field, most). `most` is the largest number, the most entries of
// a list, or the most bytes of a string.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::wire {

// `T` is `Plain`, const or not: encoders receive const fields, decoders do not.
template <typename T, typename Plain>
concept Is = std::same_as<std::remove_const_t<T>, Plain>;

template <typename T>
inline constexpr bool kIsNumber = false;
template <typename Name, typename Int>
inline constexpr bool kIsNumber<Number<Name, Int>> = true;

// Every round in a proposal or a status is a round whose outcome a peer keeps.
inline constexpr std::uint32_t kMaxRoundsInMessage = kMaxVerdicts;
inline constexpr std::uint32_t kMaxHaveWords = 2 * kMaxSegments / 64;  // a bit per segment and phase
// About 31 years: adding a few of them to an Instant does not overflow.
inline constexpr Duration kMaxDuration{1'000'000'000'000'000'000};

// ---- enums: which values exist ----

constexpr bool is_known(Collective v) { return static_cast<std::uint8_t>(v) < kCollectiveCount; }
constexpr bool is_known(DataType v) { return static_cast<std::uint8_t>(v) < kDataTypeCount; }
constexpr bool is_known(ReduceOp v) { return static_cast<std::uint8_t>(v) < kReduceOpCount; }
constexpr bool is_known(Algorithm v) { return static_cast<std::uint8_t>(v) <= kAlgorithmCount; }
constexpr bool is_known(WireFormat v) { return static_cast<std::uint8_t>(v) < kWireFormatCount; }
constexpr bool is_known(Status v) { return static_cast<std::uint8_t>(v) < kStatusCount; }
constexpr bool is_known(Phase v) { return v <= Phase::kTransfer; }
constexpr bool is_known(LinkUse v) { return v <= LinkUse::kDialBack; }
constexpr bool is_known(SendState v) { return v <= SendState::kWithdrawn; }
constexpr bool is_known(CallStage v) { return v <= CallStage::kOver; }
constexpr bool is_known(state::Strategy v) { return static_cast<std::uint8_t>(v) < state::kStrategyCount; }
constexpr bool is_known(Outlined v) { return v <= Outlined::kContents; }
constexpr bool is_known(io::Role v) { return static_cast<std::uint8_t>(v) < io::kRoleCount; }
constexpr bool is_known(io::Address::Family v) {
  using Family = io::Address::Family;
  return v == Family::kNone || v == Family::kV4 || v == Family::kV6;
}

// ---- structs inside messages ----

void fields(auto& a, Is<PeerId> auto& m) {
  a("high", m.high);
  a("low", m.low);
}

void fields(auto& a, Is<LinkKey> auto& m) {
  a("high", m.high);
  a("low", m.low);
}

void fields(auto& a, Is<Digest> auto& m) {
  a("high", m.high);
  a("low", m.low);
}

void fields(auto& a, Is<RoundKey> auto& m) {
  a("cohort", m.cohort);
  a("group", m.group);
  a("tag", m.tag);
  a("use", m.use);
}

void fields(auto& a, Is<io::KeyDigest> auto& m) {
  for (auto& byte : m.bytes) a("bytes", byte);
}

void fields(auto& a, Is<io::Address> auto& m) {
  a("family", m.family);
  for (auto& byte : m.bytes) a("bytes", byte);
  a("port", m.port);
}

void fields(auto& a, Is<Formats> auto& m) {
  a("up", m.up);
  a("down", m.down);
}

void fields(auto& a, Is<Descriptor> auto& m) {
  a("collective", m.collective);
  a("type", m.type);
  a("op", m.op);
  a("retry", m.retry);
  a("minimum_world", m.minimum_world);
  a("tensors", m.tensors, kMaxTensorsPerCall);
  a("count", m.count);
  a("layout", m.layout);
  a("root", m.root);
  a("formats", m.formats);
  a("algorithm", m.algorithm);
  a("weighted", m.weighted);
  a("segment_bytes", m.segment_bytes, kMaxSegmentBytes);
}

void fields(auto& a, Is<Member> auto& m) {
  a("id", m.id);
  a("group", m.group);
  a("gang", m.gang);
  a("address", m.address);
  a("name", m.name, kMaxNameBytes);
  a("round_trip", m.round_trip);
  a("key", m.key);
  a("calls_out", m.calls_out);
  a("outside", m.outside);
  a("local", m.local);
}

void fields(auto& a, Is<View> auto& m) {
  a("term", m.term);
  a("number", m.number);
  a("cohort", m.cohort);
  a("members", m.members, kMaxMembers);
  a("unmeshed", m.unmeshed, kMaxMembers);
}

void fields(auto& a, Is<OpenRound> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("done", m.done);
  a("retry", m.retry);
  a("hash", m.hash);
  a("agreed", m.agreed);
}

void fields(auto& a, Is<Verdict> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("status", m.status);
  a("hash", m.hash);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<RoundStatus> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("done", m.done);
  a("members", m.members);
}

void fields(auto& a, Is<Source> auto& m) {
  a("id", m.id);
  a("address", m.address);
  a("key", m.key);
}

void fields(auto& a, Is<TransferWait> auto& m) {
  a("other", m.other);
  a("tag", m.tag);
  a("receives", m.receives);
  a("age", m.age);
}

void fields(auto& a, Is<WaitStatus> auto& m) {
  a("call", m.call, kMaxNameBytes);
  a("key", m.key);
  a("age", m.age);
  a("come", m.come, kMaxNamedInWait);
  a("missing", m.missing, kMaxNamedInWait);
  a("text", m.text, kMaxTextBytes);
}

// ---- messages, in the order of the variant ----

void fields(auto& a, Is<Join> auto& m) {
  a("peer", m.peer);
  a("group", m.group);
  a("gang", m.gang);
  a("gang_size", m.gang_size);
  a("founders", m.founders);
  a("auto_admit", m.auto_admit);
  a("advertised", m.advertised);
  a("name", m.name, kMaxNameBytes);
  a("round_trip", m.round_trip);
  a("local", m.local);
}

void fields(auto& a, Is<Link> auto& m) {
  a("from", m.from);
  a("to", m.to);
  a("stripe", m.stripe);
  a("stripes", m.stripes, kMaxStripes);
  a("key", m.key);
  a("use", m.use);
}

void fields(auto&, Is<StatusRequest> auto&) {}

void fields(auto& a, Is<Refused> auto& m) {
  a("status", m.status);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<Waiting> auto& m) {
  a("seen_from", m.seen_from);
  a("heartbeat", m.heartbeat);
  a("silence", m.silence);
}

void fields(auto&, Is<LinkWelcome> auto&) {}

void fields(auto&, Is<Heartbeat> auto&) {}

void fields(auto& a, Is<Done> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("what", m.what);
  a("hash", m.hash);
  a("state_fingerprint", m.state_fingerprint);
  a("fetched", m.fetched, kMaxFetchedBytes);
}

void fields(auto& a, Is<Admit> auto& m) {
  a("cohort", m.cohort);
  a("at_least", m.at_least);
  a("automatic", m.automatic);
  a("open", m.open, kMaxUndecided);
}

void fields(auto& a, Is<AdmitCancel> auto& m) { a("status", m.status); }

void fields(auto& a, Is<Leave> auto& m) { a("open", m.open, kMaxUndecided); }

void fields(auto& a, Is<StopRound> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("status", m.status);
  a("done", m.done);
  a("text", m.text, kMaxTextBytes);
  a("other", m.other);
}

void fields(auto& a, Is<LinkBroken> auto& m) {
  a("other", m.other);
  a("text", m.text, kMaxTextBytes);
  a("avoid", m.avoid);
}

void fields(auto& a, Is<Flush> auto& m) {
  a("proposal", m.proposal);
  a("open", m.open, kMaxUndecided);
}

void fields(auto& a, Is<Pending> auto& m) {
  a("count", m.count);
  a("fetching", m.fetching);
  a("holding", m.holding);
}

void fields(auto& a, Is<Admitting> auto& m) {
  a("peer", m.peer);
  a("cohort", m.cohort);
  a("at_least", m.at_least);
  a("automatic", m.automatic);
  a("open", m.open, kMaxUndecided);
}

void fields(auto& a, Is<AdmitEnded> auto& m) {
  a("status", m.status);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<Propose> auto& m) {
  a("number", m.number);
  a("view", m.view);
  a("lost", m.lost, kMaxMembers);
  a("left", m.left, kMaxMembers);
  a("relinked", m.relinked, kMaxMembers);
  a("kept", m.kept, kMaxRoundsInMessage);
  a("verdicts", m.verdicts, kMaxRoundsInMessage);
  a("link_key", m.link_key);
}

void fields(auto& a, Is<Install> auto& m) { a("number", m.number); }

void fields(auto& a, Is<Commit> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("hash", m.hash);
  a("admit_here", m.admit_here);
  a("state_difference", m.state_difference, kMaxTextBytes);
}

void fields(auto& a, Is<Evicted> auto& m) {
  a("status", m.status);
  a("text", m.text, kMaxTextBytes);
  a("round", m.round);
}

void fields(auto&, Is<Left> auto&) {}

void fields(auto& a, Is<Trouble> auto& m) {
  a("age", m.age);
  a("peer", m.peer);
  a("other", m.other);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<Proof> auto& m) {
  a("peer", m.peer);
  a("by", m.by, kMaxIdentityBytes);
}

void fields(auto& a, Is<StatusReply> auto& m) {
  a("view", m.view);
  a("waiting", m.waiting, kMaxMembers);
  a("rounds", m.rounds, kMaxRoundsInMessage);
  a("proposal_open", m.proposal_open);
  a("uptime", m.uptime);
  a("commits", m.commits);
  a("aborts", m.aborts);
  a("repairs", m.repairs);
  a("admitted", m.admitted);
  a("lost", m.lost);
  a("left", m.left);
  a("bytes_reduced", m.bytes_reduced);
  a("troubles", m.troubles, kMaxTroubles);
  a("waits", m.waits, kMaxWaitsInStatus);
  a("proofs", m.proofs, kMaxMembers);
}

void fields(auto& a, Is<Ready> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("what", m.what);
  a("landing", m.landing);
  a("have", m.have, kMaxHaveWords);
  a("has_parameter", m.has_parameter);
  a("parameter", m.parameter);
}

void fields(auto& a, Is<Offer> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("what", m.what);
  a("follows", m.follows);
}

void fields(auto& a, Is<RankParameter> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("rank", m.rank);
  a("value", m.value);
}

void fields(auto& a, Is<Segment> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("phase", m.phase);
  a("index", m.index, std::max(kMaxSegments, kMaxStatePieces) - 1);
  a("length", m.length, kMaxSegmentBytes);
}

// ---- constraints between fields; an empty text means that the message is valid ----

template <typename T>
constexpr std::string_view fault(const T&) {
  return {};
}

inline std::string_view fault(const io::Address& m) {
  using Family = io::Address::Family;
  const std::size_t used = m.family == Family::kV6 ? 16 : m.family == Family::kV4 ? 4 : 0;
  for (std::size_t i = used; i < m.bytes.size(); ++i) {
    if (m.bytes[i] != 0) return "unused bytes of the address must be 0";
  }
  return {};
}

inline std::string_view fault(const Descriptor& m) {
  if (!has_root(m.collective) && !m.root.is_nobody()) {
    return "only a broadcast, a reduce, a gather and a scatter have a root";
  }
  const bool plain = m.formats.native() && !m.weighted;
  if (!plain && (m.collective != Collective::kAllReduce || m.type != DataType::kF32)) {
    return "only an all-reduce of f32 supports wire formats and weights";
  }
  if (!plain && m.algorithm == Algorithm::kGrid) return "a grid has no wire formats and no weights";
  const bool chosen =
      m.algorithm == Algorithm::kRing || (m.algorithm != Algorithm::kDirect && has_choice(m.collective));
  if (!chosen && m.collective != Collective::kAllReduce) {
    return m.algorithm == Algorithm::kAuto ? "there is no algorithm to choose"
                                           : "only an all-reduce can ask for this algorithm";
  }
  if (has_blocks(m.collective) && (m.count != 0 || m.layout != 0)) {
    return "count and layout must be 0 where blocks may differ";
  }
  return {};
}

inline std::string_view fault(const Link& m) {
  return m.stripe.value < m.stripes ? std::string_view{} : "the stripe must be below the number of stripes";
}

// A message that ends something carries a status. The status must not be ok, because there is no result.
template <typename T>
requires Is<T, Refused> || Is<T, AdmitCancel> || Is<T, StopRound> || Is<T, AdmitEnded> || Is<T, Evicted>
constexpr std::string_view fault(const T& m) {
  return m.status != Status::kOk ? std::string_view{} : "the status must not be ok";
}

void fields(auto& a, Is<Claim> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("what", m.what);
  a("strategy", m.strategy);
  a("defined", m.defined);
  a("revision", m.revision);
  a("root", m.root);
  a("lineage", m.lineage);
}

void fields(auto& a, Is<Elected> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("revision", m.revision);
  a("root", m.root);
  a("lineage", m.lineage);
  a("sources", m.sources, kMaxMembers);
  a("receivers", m.receivers, kMaxMembers);
}

void fields(auto& a, Is<AskDigests> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("first", m.first);
}

void fields(auto& a, Is<PieceDigests> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("first", m.first);
  a("digests", m.digests, kMaxDigestsPerMessage);
  a("values", m.values, kMaxStateValues);
}

void fields(auto& a, Is<AskPieces> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("pieces", m.pieces, kMaxPiecesAsked);
}

void fields(auto& a, Is<HavePieces> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("pieces", m.pieces, kMaxPiecesAsked);
  a("whole", m.whole);
}

void fields(auto& a, Is<AskOutline> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("of", m.of);
}

void fields(auto& a, Is<StateOutline> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("piece_bytes", m.piece_bytes);
  a("tensors", m.tensors, kMaxStateTensors);
  a("values", m.values, kMaxStateValues);
  a("revision", m.revision);
}

void fields(auto& a, Is<AskEntry> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("is_value", m.is_value);
  a("index", m.index, kMaxStateTensors - 1);
}

void fields(auto& a, Is<StateEntry> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("text", m.text, kMaxStateEntryBytes);
}

void fields(auto& a, Is<Publish> auto& m) {
  a("tag", m.tag);
  a("what", m.what);
  a("revision", m.revision);
  a("root", m.root);
  a("lineage", m.lineage);
  a("ends", m.ends);
}

void fields(auto& a, Is<WantState> auto& m) {
  a("tag", m.tag);
  a("what", m.what);
  a("ends", m.ends);
  a("holds", m.holds);
}

void fields(auto& a, Is<Published> auto& m) {
  a("tag", m.tag);
  a("revision", m.revision);
  a("root", m.root);
  a("lineage", m.lineage);
  a("sources", m.sources, kMaxSources);
  a("link_key", m.link_key);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<SendOffer> auto& m) {
  a("number", m.number);
  a("heard", m.heard);
  a("id", m.id);
  a("tag", m.tag);
  a("type", m.type);
  a("count", m.count);
  a("segment_bytes", m.segment_bytes, kMaxSegmentBytes);
  a("eager", m.eager);
}

void fields(auto& a, Is<SendReport> auto& m) {
  a("number", m.number);
  a("heard", m.heard);
  a("id", m.id);
  a("state", m.state);
  a("status", m.status);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<SendReady> auto& m) {
  a("id", m.id);
  a("have", m.have, kMaxSegments / 64);
}

void fields(auto& a, Is<SendsHeard> auto& m) {
  a("heard", m.heard);
  a("answer", m.answer);
}

void fields(auto& a, Is<CallWaits> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("collective", m.collective);
  a("stage", m.stage);
  a("age", m.age);
  a("busy", m.busy, kMaxBusyBytes);
}

void fields(auto& a, Is<TransfersWait> auto& m) { a("transfers", m.transfers, kMaxWaitsTold); }

void fields(auto& a, Is<Knock> auto& m) { a("other", m.other); }

void fields(auto& a, Is<CallAwaited> auto& m) {
  a("key", m.key);
  a("attempt", m.attempt);
  a("collective", m.collective);
  a("missing", m.missing);
  a("text", m.text, kMaxTextBytes);
}

void fields(auto& a, Is<EvictRequest> auto& m) { a("peer", m.peer); }

void fields(auto& a, Is<EvictReply> auto& m) {
  a("evicted", m.evicted);
  a("text", m.text, kMaxTextBytes);
}

}  // namespace lockstep::wire
