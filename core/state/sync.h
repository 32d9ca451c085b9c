// One call of sync on one peer, through all of its attempts: it digests its state and claims it; once a state is
// elected it sends pieces to those who ask, or gets the pieces in which its own differs, from all who have them. Emits
// jobs and messages; its owner knows the streams. A state is one source's, never a mixture: every piece is checked
// against digests that make up the elected root.
//
// In place, a state that is being taken over is none until all of it is here; staged, pieces land beside it and are
// copied into it once the round has committed.
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
  // `memory`: of each tensor; `staging`: staging_bytes(), if staged. The statement outlives this.
  // `patience`: who is asked and delivers nothing for so long has stalled. `reach`: for so long it waits for a link to
  // any source.
  Sync(const Statement& statement, std::vector<BufferRef> memory, BufferRef staging, PeerId self, Duration patience,
       Duration reach);

  using Messages = std::vector<std::pair<PeerId, wire::Message>>;

  // ---- claiming ----

  // What the pieces' digests were when the last sync succeeded: those of unchanged tensors are so still. Before
  // anything else.
  void know(const std::vector<std::optional<Digest>>& digests);
  // What lies in memory is a part of some state: it is digested, and claimed by nobody. Before anything else.
  void disown();
  // Digests what is not known; call it until digested().
  void digest_some(std::vector<KernelJob>& jobs);
  [[nodiscard]] bool digested() const { return undigested_.empty() && digesting_ == 0; }
  [[nodiscard]] Claim claim() const;
  // Once digested: 64 bits of what it holds, of its revision and of how it is described; never 0.
  [[nodiscard]] std::uint64_t parity() const;
  // What the coordinator asks about a state that was claimed or is watched, when two differ that must not. Nothing: it
  // has no contents, or no such entry.
  [[nodiscard]] std::optional<wire::StateOutline> outline(const wire::AskOutline& ask) const;
  [[nodiscard]] std::optional<wire::StateEntry> entry(const wire::AskEntry& ask) const;

  // ---- an elected state ----

  // Whether this peer has the elected state, or is one that may be written to. Else nobody can have elected it.
  [[nodiscard]] bool fits(const wire::Elected& elected) const;
  void elected(const wire::Elected& elected);
  [[nodiscard]] bool receives() const { return receives_; }
  // The same state has other sources now.
  void sources_changed(const std::vector<PeerId>& sources);
  // To whom there should be a link: sources and receivers to each other, once a state is elected.
  [[nodiscard]] std::vector<PeerId> partners() const;
  // All of the elected state is here.
  [[nodiscard]] bool complete() const { return elected_ && (!receives_ || (fetch_ && fetch_->complete())); }
  // Every source has lied in this attempt: there is nobody left of whom it could be had.
  [[nodiscard]] bool is_stranded() const;
  // There is no link to any source, and has been none for long.
  [[nodiscard]] bool is_cut_off() const { return cut_off_; }
  [[nodiscard]] const std::vector<PeerId>& sources() const { return elected_->sources; }  // once a state is elected
  // What is to be asked and answered now; asked of those to whom there is a link.
  void ask(const std::set<PeerId>& linked, Instant now, Messages& out);
  // What others say. False: it breaks the protocol, or is not the state that was elected: distrust().
  [[nodiscard]] bool on_ask(PeerId from, const wire::AskDigests& ask);
  [[nodiscard]] bool on_digests(PeerId from, const wire::PieceDigests& in, Instant now, Messages& out);
  [[nodiscard]] bool on_ask(PeerId from, const wire::AskPieces& ask);
  [[nodiscard]] bool on_have(PeerId from, const wire::HavePieces& have);
  // A link was opened again: what was said and sent on the one before may be lost.
  void relinked(PeerId peer);
  // Is asked no more in this attempt.
  void distrust(PeerId peer);

  // ---- pieces that come ----

  enum class Landing : std::uint8_t { kPlace, kSink, kNonsense };
  struct Place {
    Landing landing = Landing::kSink;
    BufferRef into;
  };
  [[nodiscard]] Place begin(PeerId from, const wire::Segment& segment, StreamId stream, Instant now);
  void landed(PeerId from, const wire::Segment& segment, bool taken_back, Instant now, std::vector<KernelJob>& jobs);
  void stream_closed(StreamId stream);

  // ---- pieces that go ----

  struct Outgoing {
    PieceIndex piece;
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  [[nodiscard]] bool has_next() const { return !asked_of_us_.empty() && !stopped_; }
  [[nodiscard]] std::optional<Outgoing> next(PeerId to);

  // ---- jobs, time, the end ----

  // Names the source whose piece is not what it should be: it is asked again, but not often.
  [[nodiscard]] std::optional<PeerId> job_done(JobToken token, const JobResult& result);
  [[nodiscard]] std::size_t jobs_running() const { return running_.size(); }
  [[nodiscard]] Instant deadline() const;
  void on_timer(Instant now);
  // The attempt is over. What has landed and was verified stays; nothing new is begun before the next claim.
  void stop();
  void begin_again();
  // The round has committed, staged: copies what was fetched into its place; call it until no job runs.
  void swap_some(std::vector<KernelJob>& jobs);

  // The state in memory is one: as it was at the call, or the elected one.
  [[nodiscard]] bool defined() const { return defined_; }
  // It is not, and some of it is what another left there.
  [[nodiscard]] bool torn() const { return torn_; }
  [[nodiscard]] std::uint64_t revision() const { return revision_; }
  [[nodiscard]] const Digest& root() const { return root_; }
  [[nodiscard]] const std::vector<std::uint64_t>& values() const { return values_; }
  // Of the pieces in memory, as far as they are known.
  [[nodiscard]] const std::vector<std::optional<Digest>>& digests() const { return own_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return bytes_received_; }
  // Of the pieces in which the state differs, as this attempt found it: all, and those that are not here.
  [[nodiscard]] std::uint64_t bytes_wanted() const { return fetch_ ? fetch_->bytes_wanted() : 0; }
  [[nodiscard]] std::uint64_t bytes_left() const { return fetch_ ? fetch_->bytes_left() : 0; }

  // For one that was made of the same arguments. Left out: those, that is statement_, memory_, staging_, self_,
  // patience_ and reach_; and pieces_.
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
  [[nodiscard]] bool has(std::uint32_t piece) const;  // of the elected state
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

  std::vector<std::optional<Digest>> own_;  // of what lies in memory_; nothing: not known
  std::deque<std::uint32_t> undigested_;
  std::size_t digesting_ = 0;
  std::map<std::uint32_t, Digest> staged_;  // pieces that lie in staging_, verified
  bool defined_ = true;
  bool torn_ = false;
  std::uint64_t revision_ = 0;
  Digest root_;  // of our own, once digested
  std::vector<std::uint64_t> values_;

  std::optional<wire::Elected> elected_;
  bool receives_ = false;
  bool stopped_ = false;
  Digests tree_;  // of the elected state, as far as it is known
  struct Question {
    PeerId to;
    Instant since;
    template <typename Archive>
    void state(Archive& a) {
      a.all(to, since);
    }
  };
  std::optional<Question> asked_digests_;
  std::optional<Instant> alone_since_;  // no source can be asked, and nothing has come
  bool cut_off_ = false;
  std::set<PeerId> silent_;  // did not answer it
  std::set<PeerId> liars_;
  std::map<PeerId, std::uint32_t> wrong_;  // pieces of each that were not what they should be
  std::optional<Fetch> fetch_;
  std::map<std::uint32_t, Arriving> arriving_;
  std::vector<std::uint32_t> here_;                          // pieces that were fetched
  std::map<PeerId, std::size_t> told_;                       // fellow receivers: how many of them
  std::map<PeerId, std::deque<std::uint32_t>> asked_of_us_;  // pieces
  std::map<PeerId, std::uint32_t> digests_asked_of_us_;      // from which piece on; the last question
  std::map<PeerId, std::set<std::uint32_t>> offered_;        // by fellows, before there was anything to fetch

  std::uint32_t swapped_ = 0;  // pieces up to this one

  std::map<std::uint64_t, Job> running_;
  std::uint64_t jobs_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
};

}  // namespace lockstep::state
