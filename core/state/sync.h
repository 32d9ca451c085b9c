// One sync on one peer, through all of its attempts (rules 25 to 27 and 38 of docs/protocol.md). The peer digests its
// state and claims it. After an election, a peer that has the elected state sends pieces on request; a peer whose state
// differs fetches the pieces that differ from all peers that have them. Emits jobs and messages; its owner knows the
// streams. Invariant: a state comes from one peer and is never a mixture, because every piece is verified against
// digests that add up to the elected root.
//
// In place, a state that is being taken over is undefined until all pieces are here. Staged, pieces land beside the
// state and are copied into it after the round has committed.
//
// OwnState keeps the contents of memory. Knowledge of other peers belongs to one attempt: Sync::Attempt.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/job.h"
#include "core/state/digest_query.h"
#include "core/state/election.h"
#include "core/state/fellow_offers.h"
#include "core/state/fetch.h"
#include "core/state/own_state.h"
#include "core/state/piece_jobs.h"
#include "core/state/pieces.h"
#include "core/state/requests.h"
#include "core/state/source_reach.h"
#include "core/state/source_trust.h"
#include "core/state/statement.h"
#include "core/wire/message.h"

namespace lockstep::state {

// Names a transfer in messages between peers.
struct TransferName {
  RoundKey key;
  AttemptId attempt;

  template <typename Archive>
  void archive(Archive& a) {
    a.all(key, attempt);
  }
};

// In what the own state differed from the first elected one.
struct Differed {
  std::uint32_t first = 0;  // tensor
  std::uint32_t tensors = 0;
  std::uint32_t pieces = 0;
  bool values = false;  // values differ
  template <typename Archive>
  void archive(Archive& a) {
    a.all(first, tensors, pieces, values);
  }
};

class Sync {
 public:
  // `memory`: of each tensor. `staging`: staging_bytes(), if staged. The statement outlives the sync. `patience`: a
  // source that delivers nothing for this long after a request has stalled. `reach`: how long the sync waits for a link
  // to any source.
  Sync(const Statement& statement, std::vector<BufferRef> memory, BufferRef staging, PeerId self, Duration patience,
       Duration reach);

  using Messages = std::vector<std::pair<PeerId, wire::Message>>;

  // ---- claiming ----

  // The digests of the pieces at the last successful sync; they still hold for unchanged tensors. Call it before any
  // other function.
  void know(const std::vector<std::optional<Digest>>& digests) { own_.know(digests); }
  // Memory holds a partial state: it is digested and not claimed. Call it before any other function.
  void disown() { own_.disown(); }
  // Digests the pieces whose digests are not known. Call it until digested().
  void digest_some(std::vector<KernelJob>& jobs);
  [[nodiscard]] bool digested() const { return own_.digested(); }
  [[nodiscard]] Claim claim() const { return own_.claim(self_); }
  // Once digested: a 64-bit fingerprint of contents, revision and manifest; never 0.
  [[nodiscard]] std::uint64_t fingerprint() const { return own_.fingerprint(); }
  // Answers the coordinator's questions about a claimed or watched state, after two states differ that must be equal.
  // Returns nothing if there is no state, or no such entry.
  [[nodiscard]] std::optional<wire::StateOutline> outline(const wire::AskOutline& ask) const {
    return own_.outline(ask);
  }
  [[nodiscard]] std::optional<wire::StateEntry> entry(const wire::AskEntry& ask) const { return own_.entry(ask); }

  // ---- an elected state ----

  // Whether this peer has the elected state, or is a receiver that may be overwritten. Otherwise the election is
  // invalid.
  [[nodiscard]] bool fits(const Elected& elected) const;
  void elected(const TransferName& name, const Elected& elected);
  [[nodiscard]] bool receives() const { return attempt_.receives; }
  // The elected state stays, but its sources have changed.
  void sources_changed(const std::vector<PeerId>& sources);
  // The peers to link to, once a state is elected: sources and receivers need links to each other.
  [[nodiscard]] std::vector<PeerId> partners() const;
  // All pieces of the elected state are here.
  [[nodiscard]] bool complete() const {
    return attempt_.elected && (!attempt_.receives || (attempt_.fetch && attempt_.fetch->complete()));
  }
  // Every source has sent wrong data in this attempt: no source is left.
  [[nodiscard]] bool is_stranded() const;
  // There has been no link to any source for `reach`.
  [[nodiscard]] bool is_cut_off() const { return attempt_.reach.is_cut_off(); }
  [[nodiscard]] std::uint64_t elected_revision() const {  // the own one if all states are equal
    return attempt_.elected ? attempt_.elected->revision : own_.revision();
  }
  // Once a state is elected.
  [[nodiscard]] const std::vector<PeerId>& sources() const { return attempt_.elected->sources; }
  // Appends the requests and answers that are due to `out`. `linked`: the peers that have a link to this one.
  void ask(const std::set<PeerId>& linked, Instant now, Messages& out);
  // Messages of other peers. Each function returns false if the message violates the protocol or does not match the
  // elected state; then call distrust().
  [[nodiscard]] bool on_ask(PeerId from, const wire::AskDigests& ask);
  [[nodiscard]] bool on_digests(PeerId from, const wire::PieceDigests& in, Instant now, Messages& out);
  [[nodiscard]] bool on_ask(PeerId from, const wire::AskPieces& ask);
  [[nodiscard]] bool on_have(PeerId from, const wire::HavePieces& have);
  // A stream to the peer is gone: messages and pieces may be lost.
  void link_lost(PeerId peer);
  // A stream is open in its place. What the peer has said on the old one since link_lost(), before it noticed, is lost,
  // too.
  void relinked(PeerId peer);
  // Makes no more requests to this peer in this attempt.
  void distrust(PeerId peer);

  // ---- arriving pieces ----

  enum class Landing : std::uint8_t { kPlace, kSink, kNonsense };
  struct LandingPlace {
    Landing landing = Landing::kSink;
    BufferRef into;
  };
  [[nodiscard]] LandingPlace begin(PeerId from, const wire::Segment& segment, StreamId stream, Instant now);
  void landed(PeerId from, const wire::Segment& segment, bool taken_back, Instant now, std::vector<KernelJob>& jobs);
  void stream_closed(StreamId stream);

  // ---- departing pieces ----

  struct Outgoing {
    PieceIndex piece;
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  [[nodiscard]] bool has_next() const { return attempt_.requests.has_pieces() && !attempt_.stopped; }
  [[nodiscard]] std::optional<Outgoing> next(PeerId to);

  // ---- jobs, time, end ----

  // Names the source if its piece has a wrong digest. The piece is requested again, a limited number of times.
  [[nodiscard]] std::optional<PeerId> job_done(JobToken token, const JobResult& result);
  [[nodiscard]] std::size_t jobs_running() const { return jobs_.running(); }
  [[nodiscard]] Instant deadline() const;
  void on_timer(Instant now);
  // Ends the attempt. Verified pieces stay; nothing new begins before the next claim.
  void stop() { attempt_.stopped = true; }
  void begin_again();
  // Staged, after the round has committed: copies the fetched pieces into the state. Call it until no job runs.
  void swap_some(std::vector<KernelJob>& jobs);

  // Memory holds a whole state: the state at the time of the call, or the elected one.
  [[nodiscard]] bool defined() const { return own_.defined(); }
  // Memory holds a mixture: a part of it was overwritten by another peer's state.
  [[nodiscard]] bool torn() const { return own_.torn(); }
  [[nodiscard]] std::uint64_t revision() const { return own_.revision(); }
  [[nodiscard]] const Digest& root() const { return own_.root(); }
  [[nodiscard]] Lineage lineage() const { return own_.lineage(); }
  [[nodiscard]] const std::vector<std::uint64_t>& values() const { return own_.values(); }
  // The known digests of the pieces in memory.
  [[nodiscard]] const std::vector<std::optional<Digest>>& digests() const { return own_.digests(); }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return bytes_received_; }
  // The part of the own state that the elected one has replaced, in all attempts, at most kMaxFetchedBytes: "in 'w' and
  // 2 more tensors (3 of 12 pieces)". Empty until a fetch begins.
  [[nodiscard]] std::string fetched() const;
  // Bytes of the pieces that differ, as found in this attempt: all of them, and those that are still missing.
  [[nodiscard]] std::uint64_t bytes_wanted() const { return attempt_.fetch ? attempt_.fetch->bytes_wanted() : 0; }
  [[nodiscard]] std::uint64_t bytes_left() const { return attempt_.fetch ? attempt_.fetch->bytes_left() : 0; }

  // Restores a sync that was constructed with the same arguments. Left out: the arguments self_, patience_ and reach_.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(own_, differed_, jobs_, bytes_sent_, bytes_received_);
    archive_of(a, attempt_);
  }

 private:
  struct Arriving {
    PeerId from;
    StreamId stream;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(from, stream);
    }
  };
  // What this peer knows of the others in one attempt. begin_again() constructs the next attempt anew.
  struct Attempt {
    Attempt(Duration patience, Duration longest_alone) : query(patience), reach(longest_alone, patience) {}

    TransferName name;  // once a state is elected
    std::optional<Elected> elected;
    bool receives = false;  // Invariant: only if a state is elected
    bool stopped = false;
    DigestQuery query;
    SourceTrust trust;
    SourceReach reach;
    FellowOffers fellows;
    Requests requests;
    std::map<PeerId, std::uint32_t> lost_streams;  // that no other stream has replaced yet
    std::optional<Fetch> fetch;                    // Invariant: only if this peer receives and knows all digests
    std::map<PieceIndex, Arriving> arriving;       // Invariant: empty before the fetch begins
    std::vector<PieceIndex> here;                  // pieces that were fetched, in the order of their arrival
  };
  template <typename Archive>
  void archive_of(Archive& a, Attempt& attempt) {
    a.all(attempt.name, attempt.elected, attempt.receives, attempt.stopped, attempt.query, attempt.trust, attempt.reach,
          attempt.fellows, attempt.requests, attempt.lost_streams, attempt.arriving, attempt.here);
    const std::uint32_t count = own_.pieces().count();
    bool fetches = attempt.fetch.has_value();
    std::vector<PieceIndex> missing = fetches ? attempt.fetch->missing() : std::vector<PieceIndex>{};
    a.all(fetches, missing);
    if constexpr (Archive::kLoads) {
      const bool fit = !fetches || attempt.query.digests().pieces.size() == count;
      const bool known =
          std::all_of(missing.begin(), missing.end(), [&](PieceIndex piece) { return piece.value < count; });
      if (!fit || !known || !std::is_sorted(missing.begin(), missing.end())) return a.fail();
      attempt.fetch.reset();
      if (fetches) attempt.fetch.emplace(own_.pieces(), std::move(missing), 0, patience_);
    }
    if (fetches) a.all(*attempt.fetch);
  }

  // The digest of a piece of the elected state. All digests are known once the fetch has begun.
  [[nodiscard]] const Digest& elected_digest(PieceIndex piece) const {
    return attempt_.query.digests().pieces[piece.value];
  }
  [[nodiscard]] bool has(PieceIndex piece) const;  // whether this peer has this piece of the elected state
  [[nodiscard]] bool knows_digests() const { return !attempt_.receives || attempt_.fetch.has_value(); }
  [[nodiscard]] wire::PieceDigests digests_for(std::uint32_t first) const;
  // The place of this peer among the receivers: receivers begin with different sources and pieces.
  [[nodiscard]] std::size_t turn() const;
  void start(const PieceJob& job, const JobWork& work, std::vector<KernelJob>& jobs);
  void watch_sources(const std::set<PeerId>& linked, Instant now);
  void ask_digests(const std::set<PeerId>& linked, Instant now, Messages& out);
  void tell_fellows(const std::set<PeerId>& linked, Messages& out);
  void repeat_questions(PeerId peer);
  void begin_fetch();
  void note_differed(const std::vector<PieceIndex>& missing);
  void adopt();

  PeerId self_;
  Duration patience_;
  Duration reach_;

  OwnState own_;
  Attempt attempt_;
  std::optional<Differed> differed_;
  PieceJobs jobs_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
};

}  // namespace lockstep::state
