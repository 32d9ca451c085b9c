// The states in this peer's memory, by tag: the digests that the last sync left, the memory that holds a torn state,
// and the state that was watched last. Makes a state::Sync for each call on a state, and paces the pieces that they
// send. Knows neither rounds nor streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/pace.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/ring/operation.h"
#include "core/ring/request.h"
#include "core/state/sync.h"
#include "core/wire/link_writer.h"

namespace lockstep::peer {

class LocalStates {
 public:
  explicit LocalStates(const PeerOptions& options);

  // ---- calls ----

  // The reason why a sync, a publication or a prefetch cannot have this state, or nullopt.
  [[nodiscard]] static std::optional<Error> validate_state(const Request& request);
  // The same of the state that is watched beside a collective.
  [[nodiscard]] static std::optional<Error> validate_watch(const Request& request);

  // The caller has restored the state under this tag: its memory is not torn any more.
  void restored(Tag tag) { torn_.erase(tag); }
  // Whether the caller's memory holds a state.
  [[nodiscard]] bool is_defined(const Request& request) const;
  [[nodiscard]] std::unique_ptr<state::Sync> new_sync(const Request& request) const;
  // Pieces that have not changed since the last sync of this tag are not digested again.
  void recall(Tag tag, std::uint64_t layout, state::Sync& sync) const;
  // A sync is over. Its digests count for the next one if it has committed.
  void remember(Tag tag, std::uint64_t layout, const state::Sync& sync, bool committed);
  // A call that may have written to the state is over: whether its memory is torn.
  void note_torn(Tag tag, const state::Sync& sync);
  void note_torn(Tag tag) { torn_.insert(tag); }  // only in a planted bug
  // What the caller learns about the state in its memory.
  static void describe(const state::Sync& sync, bool is_member, Outcome& outcome);

  // ---- watched states (rule 40) ----

  // Of the call with this launch number. Digests that are still valid count; those of a state that has changed do not,
  // even if the call never begins. `in_order`: all launches before it have begun; otherwise no digest counts.
  [[nodiscard]] std::unique_ptr<state::Sync> watch(const Request& request, std::uint64_t launch, bool in_order);
  [[nodiscard]] std::unique_ptr<state::Sync> new_watch(const Request& request) const;
  void watched(std::uint64_t launch, const state::Sync& sync);
  // A call that watches a state never begins, or begins out of order.
  void forget_watched();

  // ---- pieces ----

  [[nodiscard]] bool may_send(Instant now) const { return pace_.allows(now); }
  [[nodiscard]] Instant may_send_at() const { return pace_.next(); }
  // Queues the next piece for this peer; false: there is none now.
  bool send_next(state::Sync& sync, const RoundKey& key, AttemptId attempt, PeerId to, Instant now, Term term,
                 wire::LinkWriter& writer);
  [[nodiscard]] static ring::Operation::SegmentPlace place_of(const state::Sync::LandingPlace& place);
  // A job of the sync has ended. Reports progress; returns the sender of a wrong piece.
  static std::optional<PeerId> job_done(state::Sync& sync, CallId call, const JobDone& in, Effects& out);

  // Entries, of tags and of digests.
  [[nodiscard]] std::size_t tags() const { return known_.size() + torn_.size(); }
  [[nodiscard]] std::size_t digests() const;

  // Left out: own_, patience_ and reach_, which are options.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(known_, torn_, watched_, watched_by_, pace_);
  }

 private:
  struct Known {
    std::uint64_t layout = 0;
    std::vector<std::optional<Digest>> pieces;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(layout, pieces);
    }
  };

  [[nodiscard]] static std::optional<Error> validate(const state::Statement& state, std::span<const BufferRef> memory);
  [[nodiscard]] std::unique_ptr<state::Sync> new_sync(const state::Statement& state, std::vector<BufferRef> memory,
                                                      BufferRef staging) const;

  PeerId own_;
  Duration patience_;             // with a source that delivers nothing
  Duration reach_;                // time without a link to any source
  std::map<Tag, Known> known_;    // after the last sync of the tag, if it succeeded
  std::set<Tag> torn_;            // memory that holds a part of a state, because a call ended too early
  Known watched_;                 // of the state that was watched last, as far as it has not changed since
  std::uint64_t watched_by_ = 0;  // the launch that digests it
  Pace pace_;
};

}  // namespace lockstep::peer
