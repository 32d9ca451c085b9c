// One peer's links to its neighbours: which streams to dial, which to accept, when to give up on a link, and which
// stripe carries a segment. Knows nothing of what is reduced.
//
// The peer with the smaller id dials. A stripe that breaks is dialled again; Ready on the new stream tells which
// segments were lost. A stream belongs to a link only once it has presented the key of the run, because ids and
// addresses of members are no secret. Until then the stream stands in a lobby of few places (rule 20 of
// docs/protocol.md); a stream that has presented the key never loses its place to a stranger. A stripe is replaced
// only after the driver has given back all memory of the old stream, so that a place in memory has one stream at a
// time.
//
// In a run over TLS each stream proves a key. A link is made of streams that prove its member's key and of no others
// (rule 65).
//
// Beside its neighbours, a peer has prefetch links (rule 39): a peer that waits for its admission, the prefetcher,
// dials members that publish a state, its sources, with a key of its own, and fetches pieces from them. An error on a
// prefetch link closes the link and has no other effect.
//
// Members that send tensors to each other have a link, too (rule 44). The peer with the larger id cannot dial it: it
// knocks. It opens a stream, says for which link, and the other peer closes that stream and dials.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/lobby.h"
#include "core/io/stream.h"
#include "core/peer/effect.h"
#include "core/peer/link_progress.h"
#include "core/peer/mesh_links.h"
#include "core/peer/mesh_owners.h"
#include "core/peer/options.h"
#include "core/peer/own_line.h"
#include "core/peer/segment_sender.h"
#include "core/wire/channel.h"

namespace lockstep::peer {

class Mesh {
 public:
  Mesh(const PeerOptions& options, io::StreamNames& names)
      : options_(options), names_(names), lobby_(options.strangers) {}
  Mesh(const Mesh&) = delete;  // progress_ looks at this mesh
  Mesh& operator=(const Mesh&) = delete;
  ~Mesh() = default;
  // Before anything else.
  void attach(const MeshOwners& owners) { owners_.emplace(owners); }

  void set_term(Term term) { term_ = term; }
  // The key of the run, known from the first proposal on. Streams that came before it and say another are refused.
  void set_key(const LinkKey& key, Instant now, Effects& out);
  [[nodiscard]] const std::optional<LinkKey>& key() const { return key_; }

  struct Wanted {
    Contact contact;
    bool needed = true;                     // rounds cannot go on without this link: it is reported when it is broken
    std::optional<LinkKey> prefetch_key{};  // this peer prefetches from it, with this key
    wire::LinkUse use = wire::LinkUse::kRing;  // otherwise the other side may not want it yet
  };
  // The neighbours and the sources of prefetches that are wanted from now on; other links are closed. Links of
  // prefetchers stay, unless the prefetcher becomes a neighbour.
  void want(const std::map<PeerId, Wanted>& neighbours, Instant now, Effects& out);
  // Closes the links of these prefetchers.
  template <typename Unwelcome>
  void disconnect_prefetchers(Unwelcome unwelcome, Instant now, Effects& out) {
    for (auto at = links_.begin(); at != links_.end();) {
      const bool goes = at->second.relation == Relation::kPrefetcher && unwelcome(at->first);
      at = goes ? let_go(at, now, out) : std::next(at);
    }
  }
  // The run is over for this peer: every stream is closed, and so is each that comes later.
  void close_all(Effects& out);

  // Whether the stream is one of ours (dialled by us, or accepted: those are all ours).
  [[nodiscard]] bool owns(StreamId stream) const { return flows_.contains(stream); }
  void on_accepted(const io::Accepted& in, Instant now, Effects& out);
  void on_opened(const io::Opened& in, Instant now, Effects& out);
  void on_read_done(const io::ReadDone& in, Instant now, Effects& out);
  void on_write_done(const io::WriteDone& in, Instant now);
  void on_revoked(const io::Revoked& in, Instant now, Effects& out);
  void on_closed(const io::Closed& in, Instant now, Effects& out);
  void on_timer(Instant now, Effects& out);
  [[nodiscard]] Instant deadline() const { return next_timer_; }

  // Neighbours, and sources of prefetches, to which a stripe is up.
  [[nodiscard]] std::set<PeerId> linked() const { return linked(Relation::kNeighbour); }
  [[nodiscard]] std::set<PeerId> sources() const { return linked(Relation::kSource); }
  // To a neighbour, on its first stripe that is up; false when none is.
  bool say(PeerId to, const wire::Message& message);
  // The stream that say() would use.
  [[nodiscard]] std::optional<StreamId> first_stream(PeerId to) const;
  void say_on(StreamId stream, const wire::Message& message);

  // A segment that had to wait gets its place.
  void place(StreamId stream, BufferRef into, Instant now, Effects& out);
  // What came on this stream was not what was sent. False: it is gone already.
  bool reset(StreamId stream, const std::string& why, Instant now, Effects& out);
  // The same, on a stream that is gone: all of the link begins anew, so that what is missing is told.
  void reset_link(PeerId peer, const std::string& why, Instant now, Effects& out);
  // Rule 35: a payload that came on this stream of this peer has a wrong checksum. The stream begins anew, or all of
  // the link if the stream is gone. That is no fault of the link: memory may have changed at either end.
  void reopen(StreamId stream, PeerId peer, const std::string& why, Instant now, Effects& out);
  // Takes the round's memory back from all streams; true once none holds any. Call again until it is.
  bool release(const RoundKey& key, AttemptId attempt, Instant now, Effects& out);
  // The same for a point-to-point transfer to this peer, or from it.
  bool release_sent(PeerId to, const RoundKey& key, Effects& out);
  bool release_received(PeerId from, const RoundKey& key, Instant now, Effects& out);

  // Segments of this attempt that wait for a place (Landing::kLater) ask for it again.
  void ask_again(const RoundKey& key, AttemptId attempt, Instant now, Effects& out);
  // The report on its line that this peer sends to the others when a call begins.
  [[nodiscard]] ring::LineReport line() { return line_.report(); }
  // Returns how many contributions fill this peer's line (rule 61). Empty while no round trip is known.
  [[nodiscard]] std::optional<ring::UnderWay> under_way() const { return line_.under_way(links_); }

  // Fills stripes with segments and lends what is wanted. Call at the end of every step.
  void pump(Instant now, Effects& out);

  [[nodiscard]] std::size_t streams() const { return flows_.size(); }
  [[nodiscard]] std::size_t strangers() const { return lobby_.size(); }
  [[nodiscard]] bool hears(StreamId stream) const {
    const auto at = flows_.find(stream);
    return at != flows_.end() && at->second.kind != Kind::kDying && !at->second.channel.finishing();
  }
  [[nodiscard]] std::size_t queued_bytes() const;
  // All streams are up, and nothing is to be written.
  [[nodiscard]] bool is_quiet() const {
    return std::all_of(flows_.begin(), flows_.end(), [](const auto& entry) {
      const Flow& flow = entry.second;
      return flow.kind == Kind::kUp && !flow.channel.writer.wants_write() && !flow.channel.reader.arriving();
    });
  }
  [[nodiscard]] std::size_t links() const { return links_.size(); }
  [[nodiscard]] std::size_t stripes() const {
    std::size_t sum = 0;
    for (const auto& [peer, link] : links_) sum += link.stripes.size();
    return sum;
  }
  // Of those links that this peer dials, the stripes of the one that has most.
  [[nodiscard]] std::size_t widest() const {
    std::size_t most = 0;
    for (const auto& [peer, link] : links_) most = std::max(most, link.dials ? link.stripes.size() : 0);
    return most;
  }
  [[nodiscard]] std::size_t lobby_entries() const { return lobby_.entries(); }
  // Bytes that streams keep for use.
  [[nodiscard]] std::size_t memory() const {
    std::size_t sum = 0;
    for (const auto& [stream, flow] : flows_) sum += flow.channel.memory();
    return sum;
  }

  // What a recording begins with (core/flight/); defined in peer/archive.cc.
  template <typename Archive>
  void archive(Archive& a);
  void lend_again(Effects& out) const {
    for (const auto& [stream, flow] : flows_) flow.channel.lend_again(out);
  }

 private:
  using Kind = Flow::Kind;

  // Takes memory back from one stream; true once it holds none.
  bool release_write(Flow& flow, const RoundKey& key, AttemptId attempt, Effects& out);
  bool release_read(Flow& flow, const RoundKey& key, AttemptId attempt, std::vector<StreamId>& sunk, Effects& out);
  // The use of a link is another now: the other side hears of it.
  void greet_again(PeerId peer, Link& link, Instant now, Effects& out);
  void greet(Flow& flow, const Link& link);
  // A member has greeted, or has said another use: the owner of that use may want the link, too.
  void tell_caller(const Flow& flow);
  void knock(PeerId peer, Link& link, Instant now, Effects& out);
  void put_off_knock(Link& link, Instant now);
  void on_knock(Flow& flow, PeerId from, wire::LinkUse use, Instant now, Effects& out);
  Links::iterator let_go(Links::iterator at, Instant now, Effects& out);
  [[nodiscard]] std::set<PeerId> linked(Relation relation) const;
  [[nodiscard]] std::optional<std::string> validate_prefetch_link(PeerId from) const;
  void send_segments(Instant now);
  void touch(Flow& flow) { flow.touch(touched_); }
  void put(Flow& flow, BufferRef into, Effects& out);
  void take_events(Flow& flow, Instant now, Effects& out);
  void on_message(Flow& flow, wire::Message& message, Instant now, Effects& out);
  void on_prefetch_message(Flow& flow, const wire::Message& message, Instant now, Effects& out);
  void take_segment(Flow& flow, const wire::SegmentBegan& in, Instant now, Effects& out);
  void on_greeting(Flow& flow, const wire::Link& link, Instant now, Effects& out);
  [[nodiscard]] bool is_greeting_again(const Flow& flow, const wire::Link& link) const;
  [[nodiscard]] bool is_greeting_back(const Flow& flow, const wire::Link& link) const;
  void attach_parked(Flow& flow, Instant now, Effects& out);
  void bring_up(Flow& flow, Instant now);
  // Without a stream.
  static Stripe new_stripe(Instant now);
  void dial(PeerId peer, Link& link, StripeIndex stripe, Instant now, Effects& out);
  // ---- more streams where packets are lost (rule 60) ----
  // Dials so many stripes, or asks the other side to.
  void widen(PeerId peer, Link& link, std::uint16_t stripes, Instant now, Effects& out);
  void widen_links(Instant now, Effects& out);
  void drop(Flow& flow, bool in_order, Instant now, Effects& out);
  void refuse_key(Flow& flow, Instant now, Effects& out);
  // ---- the keys of members (rule 65) ----
  // Whether an accepted stream has proved this key of a member.
  [[nodiscard]] static bool proves(const Flow& flow, const io::KeyDigest& key);
  // Whether an accepted stream names a known member and proves another key.
  [[nodiscard]] bool is_impostor(const Flow& flow, PeerId named) const;
  void refuse_impostor(Flow& flow, Instant now, Effects& out);
  void break_protocol(Flow& flow, const std::string& why, Instant now, Effects& out);
  void close_as_wrong(Flow& flow, const std::string& why, Instant now, Effects& out);
  void refuse(Flow& flow, const std::string& why, Instant now, Effects& out);
  void note_fault(PeerId peer, std::uint32_t weight, const std::string& why, Instant now);
  // ---- progress (rule 51) ----
  void watch(Flow& flow, bool beat, Instant now, Effects& out);
  void drop_dripping(Flow& flow, Instant now, Effects& out);
  void sample(Flow& flow, Instant now, Effects& out);
  void avoid(PeerId peer, const std::string& why, Instant now);
  void set_timer(Instant at) { next_timer_ = at < next_timer_ ? at : next_timer_; }
  void make_room_for_parked(Instant now, Effects& out);
  [[nodiscard]] SegmentExchange& exchange_of(const Flow& flow, const wire::Segment& segment) const {
    if (flow.is_prefetch) return owners_->prefetches;
    if (segment.phase == wire::Phase::kTransfer) return owners_->transfers;
    return owners_->neighbours;
  }
  [[nodiscard]] bool is_proven(const Flow& flow) const { return key_ && (flow.is_prefetch || flow.key == *key_); }

  PeerOptions options_;
  io::StreamNames& names_;
  std::optional<MeshOwners> owners_;
  Term term_;
  std::optional<LinkKey> key_;
  Links links_;
  Flows flows_;
  io::Lobby lobby_;
  std::vector<StreamId> touched_;
  SegmentSender sender_{options_.sending.bytes_per_second};
  OwnLine line_{options_};
  LinkProgress progress_{options_, links_, flows_};
  Instant next_heartbeat_;
  Instant next_timer_ = kNever;
  bool closed_ = false;
};

}  // namespace lockstep::peer
