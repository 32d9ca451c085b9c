// One sync on one peer, through all of its attempts. The peer digests its state and claims it. After an election, a
// peer that has the elected state sends pieces on request; a peer whose state differs fetches the pieces that differ
// from all peers that have them. Emits jobs and messages; its owner knows the streams. Invariant: a state comes from
// one peer and is never a mixture, because every piece is verified against digests that add up to the elected root.
//
// In place, a state that is being taken over is undefined until all pieces are here. Staged, pieces land beside the
// state and are copied into it after the round has committed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/job.h"
#include "core/state/election.h"
#include "core/state/fetch.h"
#include "core/state/pieces.h"
#include "core/state/statement.h"
#include "core/wire/message.h"

namespace lockstep::state {

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
  void know(const std::vector<std::optional<Digest>>& digests);
  // Memory holds a partial state: it is digested and not claimed. Call it before any other function.
  void disown();
  // Digests the pieces whose digests are not known. Call it until digested().
  void digest_some(std::vector<KernelJob>& jobs);
  [[nodiscard]] bool digested() const { return undigested_.empty() && digesting_ == 0; }
  [[nodiscard]] Claim claim() const;
  // Once digested: a 64-bit fingerprint of contents, revision and manifest; never 0.
  [[nodiscard]] std::uint64_t parity() const;
  // Answers the coordinator's questions about a claimed or watched state, after two states differ that must be equal.
  // Returns nothing if there is no state, or no such entry.
  [[nodiscard]] std::optional<wire::StateOutline> outline(const wire::AskOutline& ask) const;
  [[nodiscard]] std::optional<wire::StateEntry> entry(const wire::AskEntry& ask) const;

  // ---- an elected state ----

  // Whether this peer has the elected state, or is a receiver that may be overwritten. Otherwise the election is
  // invalid.
  [[nodiscard]] bool fits(const wire::Elected& elected) const;
  void elected(const wire::Elected& elected);
  [[nodiscard]] bool receives() const { return receives_; }
  // The elected state stays, but its sources have changed.
  void sources_changed(const std::vector<PeerId>& sources);
  // The peers to link to, once a state is elected: sources and receivers need links to each other.
  [[nodiscard]] std::vector<PeerId> partners() const;
  // All pieces of the elected state are here.
  [[nodiscard]] bool complete() const { return elected_ && (!receives_ || (fetch_ && fetch_->complete())); }
  // Every source has sent wrong data in this attempt: no source is left.
  [[nodiscard]] bool is_stranded() const;
  // There has been no link to any source for `reach`.
  [[nodiscard]] bool is_cut_off() const { return cut_off_; }
  [[nodiscard]] const std::vector<PeerId>& sources() const { return elected_->sources; }  // once a state is elected
  // Appends the requests and answers that are due to `out`. `linked`: the peers that have a link to this one.
  void ask(const std::set<PeerId>& linked, Instant now, Messages& out);
  // Messages of other peers. Each function returns false if the message violates the protocol or does not match the
  // elected state; then call distrust().
  [[nodiscard]] bool on_ask(PeerId from, const wire::AskDigests& ask);
  [[nodiscard]] bool on_digests(PeerId from, const wire::PieceDigests& in, Instant now, Messages& out);
  [[nodiscard]] bool on_ask(PeerId from, const wire::AskPieces& ask);
  [[nodiscard]] bool on_have(PeerId from, const wire::HavePieces& have);
  // The link was opened again: messages and pieces of the previous link may be lost.
  void relinked(PeerId peer);
  // Makes no more requests to this peer in this attempt.
  void distrust(PeerId peer);

  // ---- arriving pieces ----

  enum class Landing : std::uint8_t { kPlace, kSink, kNonsense };
  struct Place {
    Landing landing = Landing::kSink;
    BufferRef into;
  };
  [[nodiscard]] Place begin(PeerId from, const wire::Segment& segment, StreamId stream, Instant now);
  void landed(PeerId from, const wire::Segment& segment, bool taken_back, Instant now, std::vector<KernelJob>& jobs);
  void stream_closed(StreamId stream);

  // ---- departing pieces ----

  struct Outgoing {
    PieceIndex piece;
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  [[nodiscard]] bool has_next() const { return !asked_of_us_.empty() && !stopped_; }
  [[nodiscard]] std::optional<Outgoing> next(PeerId to);

  // ---- jobs, time, end ----

  // Names the source if its piece has a wrong digest. The piece is requested again, a limited number of times.
  [[nodiscard]] std::optional<PeerId> job_done(JobToken token, const JobResult& result);
  [[nodiscard]] std::size_t jobs_running() const { return running_.size(); }
  [[nodiscard]] Instant deadline() const;
  void on_timer(Instant now);
  // Ends the attempt. Verified pieces stay; nothing new begins before the next claim.
  void stop();
  void begin_again();
  // Staged, after the round has committed: copies the fetched pieces into the state. Call it until no job runs.
  void swap_some(std::vector<KernelJob>& jobs);

  // Memory holds a whole state: the state at the time of the call, or the elected one.
  [[nodiscard]] bool defined() const { return defined_; }
  // Memory holds a mixture: a part of it was overwritten by another peer's state.
  [[nodiscard]] bool torn() const { return torn_; }
  [[nodiscard]] std::uint64_t revision() const { return revision_; }
  [[nodiscard]] const Digest& root() const { return root_; }
  [[nodiscard]] const std::vector<std::uint64_t>& values() const { return values_; }
  // The known digests of the pieces in memory.
  [[nodiscard]] const std::vector<std::optional<Digest>>& digests() const { return own_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return bytes_received_; }
  // Bytes of the pieces that differ, as found in this attempt: all of them, and those that are still missing.
  [[nodiscard]] std::uint64_t bytes_wanted() const { return fetch_ ? fetch_->bytes_wanted() : 0; }
  [[nodiscard]] std::uint64_t bytes_left() const { return fetch_ ? fetch_->bytes_left() : 0; }

  // Restores a sync that was constructed with the same arguments. Left out: the arguments statement_, memory_,
  // staging_, self_, patience_ and reach_; and pieces_, which follows from them.
  template <typename Archive>
  void state(Archive& a) {
    a.all(own_, undigested_, digesting_, staged_, defined_, torn_, revision_, root_, values_, elected_, receives_,
          stopped_, tree_, asked_digests_, alone_since_, cut_off_, silent_, liars_, arriving_, here_, told_,
          asked_of_us_, digests_asked_of_us_, offered_, wrong_, swapped_, running_, jobs_, bytes_sent_,
          bytes_received_);
    bool fetches = fetch_.has_value();
    std::vector<PieceIndex> missing = fetches ? fetch_->missing() : std::vector<PieceIndex>{};
    a.all(fetches, missing);
    if constexpr (Archive::kLoads) {
      const bool fit = own_.size() == pieces_.count() && (!fetches || tree_.pieces.size() == pieces_.count());
      const bool known =
          std::all_of(missing.begin(), missing.end(), [&](PieceIndex piece) { return piece.value < pieces_.count(); });
      if (!fit || !known || !std::is_sorted(missing.begin(), missing.end())) return a.fail();
      fetch_.reset();
      if (fetches) fetch_.emplace(pieces_, std::move(missing), 0, patience_);
    }
    if (fetches) a.all(*fetch_);
  }

 private:
  enum class Purpose : std::uint8_t { kOwn, kArrived, kSwap };
  struct Job {
    Purpose purpose = Purpose::kOwn;
    std::uint32_t piece = 0;
    PeerId from;  // kArrived
    template <typename Archive>
    void state(Archive& a) {
      a.all(purpose, piece, from);
    }
  };
  struct Arriving {
    PeerId from;
    StreamId stream;
    template <typename Archive>
    void state(Archive& a) {
      a.all(from, stream);
    }
  };

  [[nodiscard]] Digests own_digests() const;  // once digested
  [[nodiscard]] BufferRef own_place(std::uint32_t piece) const;
  [[nodiscard]] BufferRef staging_place(std::uint32_t piece) const;
  [[nodiscard]] bool has(std::uint32_t piece) const;  // whether this peer has this piece of the elected state
  [[nodiscard]] bool is_staged(std::uint32_t piece) const;
  void root_if_digested();
  void start(const Job& job, JobKind kind, BufferRef into, BufferRef from, std::vector<KernelJob>& jobs);
  void piece_arrived(const Job& job, const Digest& digest);
  void look_for_sources(const std::set<PeerId>& linked, Instant now);
  void ask_digests(const std::set<PeerId>& linked, Instant now, Messages& out);
  void tell_fellows(const std::set<PeerId>& linked, Messages& out);
  void answer(PeerId to, std::uint32_t first, Messages& out) const;
  void begin_fetch();
  void adopt();
  void take_over();

  const Statement& statement_;
  std::vector<BufferRef> memory_;
  BufferRef staging_;
  PeerId self_;
  Duration patience_;
  Duration reach_;
  Pieces pieces_;

  std::vector<std::optional<Digest>> own_;  // digests of the pieces in memory_; empty: not known
  std::deque<std::uint32_t> undigested_;
  std::size_t digesting_ = 0;
  std::map<std::uint32_t, Digest> staged_;  // verified pieces in staging_
  bool defined_ = true;
  bool torn_ = false;
  std::uint64_t revision_ = 0;
  Digest root_;  // of this peer's own state, once digested
  std::vector<std::uint64_t> values_;

  std::optional<wire::Elected> elected_;
  bool receives_ = false;
  bool stopped_ = false;
  Digests tree_;  // the known digests of the elected state
  struct Question {
    PeerId to;
    Instant since;
    template <typename Archive>
    void state(Archive& a) {
      a.all(to, since);
    }
  };
  std::optional<Question> asked_digests_;
  std::optional<Instant> alone_since_;  // since when no source is linked and no piece has arrived
  bool cut_off_ = false;
  std::set<PeerId> silent_;  // sources that did not answer a request for digests
  std::set<PeerId> liars_;
  std::map<PeerId, std::uint32_t> wrong_;  // number of wrong pieces of each source
  std::optional<Fetch> fetch_;
  std::map<std::uint32_t, Arriving> arriving_;
  std::vector<std::uint32_t> here_;     // pieces that were fetched
  std::map<PeerId, std::size_t> told_;  // number of entries of here_ that each fellow receiver has been told
  std::map<PeerId, std::deque<std::uint32_t>> asked_of_us_;  // pieces that each peer has requested
  std::map<PeerId, std::uint32_t> digests_asked_of_us_;      // first piece of the last request of each peer
  std::map<PeerId, std::set<std::uint32_t>> offered_;        // offers of fellow receivers before the fetch began

  std::uint32_t swapped_ = 0;  // number of pieces that were copied

  std::map<std::uint64_t, Job> running_;
  std::uint64_t jobs_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
};

}  // namespace lockstep::state
