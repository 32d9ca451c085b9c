// One collective call, the round that it takes part in, and the attempt that runs (docs/protocol.md, "The life of a
// round"). Values and questions about them; Rounds moves a round from state to state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/cohort.h"
#include "core/peer/effect.h"
#include "core/peer/jobs.h"
#include "core/peer/options.h"
#include "core/peer/posture.h"
#include "core/peer/request.h"
#include "core/ring/operation.h"
#include "core/state/sync.h"
#include "core/wire/message.h"

namespace lockstep::peer {

// What the ranks of a round must know of each other before data flows: how large the blocks of an all-gather are, or
// what contributions weigh. Of this rank; nothing where the collective has none.
[[nodiscard]] std::optional<std::uint64_t> stake_of(const Request& request);
// Why a neighbour's stake is none; nothing: it is one.
[[nodiscard]] std::optional<std::string> validate_stake(const Request& request, const wire::Stake& stake);

// A round in one generation (rule 31). Constructed anew for each attempt, and kept until the next one begins.
struct Attempt {
  Attempt() = default;  // to be loaded into
  Attempt(const RoundKey& round, Generation its_generation, const Cohort::Roster& among, PeerId self,
          const wire::Descriptor& what);

  RoundKey key;  // on streams; that of the round differs while the attempt is given up for another cohort
  Generation generation;
  std::shared_ptr<const std::vector<PeerId>> ring;
  Rank rank;
  ring::Distance distance = ring::Distance::kFar;
  bool peer_commit = false;                          // rule 14 may apply
  bool direct = false;                               // the direct algorithm, with others
  bool mismatched = false;                           // a neighbour has other arguments: its data means nothing
  bool downstream_ready = false;                     // the downstream neighbour has launched, too
  bool eager = false;                                // its segment goes to downstream without a Ready
  std::vector<std::optional<std::uint64_t>> stakes;  // of each rank, where the collective has stakes

  std::unique_ptr<ring::Operation> operation;
  std::optional<JobPrefix> jobs;  // of the operation or the sync, while it is under way

  // Peer commit: the ranks that are done with one hash, a bit for each; that hash; and the fingerprint of the states
  // that some of them watch, 0 for none.
  std::uint32_t agreed = 0;
  std::uint64_t agreed_hash = 0;
  std::uint64_t agreed_parity = 0;

  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(ring->size()); }
  [[nodiscard]] Rank before() const { return Rank{(rank.value + world() - 1) % world()}; }
  [[nodiscard]] Rank after() const { return Rank{(rank.value + 1) % world()}; }
  [[nodiscard]] PeerId downstream() const { return (*ring)[after().value]; }
  [[nodiscard]] PeerId upstream() const { return (*ring)[before().value]; }
  [[nodiscard]] PeerId peer_at(Rank place) const { return (*ring)[place.value]; }
  // The peer's rank, if its segments come here, or segments go there: any other rank with the direct algorithm, else a
  // neighbour.
  [[nodiscard]] std::optional<Rank> sender(PeerId peer) const { return direct ? other(peer) : at(before(), peer); }
  [[nodiscard]] std::optional<Rank> receiver(PeerId peer) const { return direct ? other(peer) : at(after(), peer); }
  [[nodiscard]] std::optional<Rank> other(PeerId peer) const;
  [[nodiscard]] std::optional<Rank> at(Rank place, PeerId peer) const {
    return peer_at(place) == peer ? std::optional(place) : std::nullopt;
  }
  // Counts this member's Done. The coordinator judges results that differ, and watched states that differ.
  void agree(PeerId member, const wire::Done& done);
  // All members of the ring are done with this hash.
  [[nodiscard]] bool all_agree(std::uint64_t hash) const;
  // Once all are known.
  [[nodiscard]] std::vector<std::uint64_t> known_stakes() const;
  [[nodiscard]] bool knows_stakes() const;

  // Left out: operation, which its round saves.
  template <typename Archive>
  void state(Archive& a) {
    a.all(key, generation, ring, rank, distance, peer_commit, direct, mismatched, downstream_ready, eager, stakes, jobs,
          agreed, agreed_hash, agreed_parity);
  }
};

// Why this peer asks the coordinator to end a round: a time-out, an abort or a refusal (rule 15).
struct StopRequest {
  Status status = Status::kAborted;
  std::string text;
  template <typename Archive>
  void state(Archive& a) {
    a.all(status, text);
  }
};

// The end of an attempt, while its memory comes back (rule 16).
struct Ending {
  enum class Inputs : std::uint8_t { kKept, kToRestore, kRestoring };
  std::optional<Outcome> outcome;  // nothing: the next attempt follows, in the newest generation
  Inputs inputs = Inputs::kKept;
  bool requeue = false;  // a key of the next cohort comes before the next attempt
  template <typename Archive>
  void state(Archive& a) {
    a.all(outcome, inputs, requeue);
  }
};

struct Round {
  enum class State : std::uint8_t {
    kQueued,   // waits for admission to end; has no key
    kHeld,     // has a key; waits for a proposal to be installed
    kStakes,   // the ranks' stakes go around (wire::Stake)
    kDigests,  // sync: the state is being digested
    kClaimed,  // sync: all members claim a state, and one is elected
    kRunning,  // data flows
    kStuck,    // cannot run here; waits for the coordinator's verdict
    kDone,     // the result is in hand; waits for the commit
    kEnding,   // waits for memory to come back
  };
  std::uint64_t order = 0;  // of its launch
  CallId call;
  Request request;
  wire::Descriptor what;
  State state = State::kQueued;
  Instant deadline = kNever;    // the call's own, or that of a stop that was asked for
  Instant limit = kNever;       // the call's own
  std::optional<RoundKey> key;  // in the newest cohort that it has entered; nothing while it is queued
  Generation generation;        // of the attempt that is due
  std::optional<Attempt> attempt;
  std::uint64_t hash = 0;

  std::unique_ptr<state::Sync> sync;  // of all attempts
  std::unique_ptr<state::Sync>
      watch;  // digests the state that is watched, once, and answers for it until the round ends
  std::optional<JobPrefix> watch_jobs;  // once the watch has begun

  std::optional<StopRequest> stop;
  // It was stopped while it was queued: its call has completed, and the round ends for the others once it has a key.
  bool completed_early = false;

  std::optional<Ending> ending;  // Invariant: in kEnding, and in no other state

  std::uint32_t retries = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;

  [[nodiscard]] ring::Operation* operation() const { return attempt ? attempt->operation.get() : nullptr; }
  [[nodiscard]] bool open() const { return state != State::kQueued && !has_outcome(); }
  // The attempt that ends is the last one.
  [[nodiscard]] bool has_outcome() const { return ending && ending->outcome; }
  [[nodiscard]] bool has_committed() const { return has_outcome() && ending->outcome->status == Status::kOk; }
  // The round goes on in the next cohort once that begins.
  [[nodiscard]] bool requeues() const { return ending && ending->requeue; }
  [[nodiscard]] bool attempted() const {
    return state != State::kQueued && state != State::kHeld && state != State::kEnding;
  }
  // Whether a message that names this attempt is about the attempt that runs here.
  [[nodiscard]] bool runs(const RoundKey& named, Generation in) const;
  // The coordinator knows all that it needs of this peer: it may have committed the round.
  [[nodiscard]] bool said_all() const { return state == State::kDone || state == State::kClaimed; }
  // Something that holds memory, and has jobs.
  [[nodiscard]] bool moves() const { return operation() != nullptr || sync != nullptr; }
  // Of the watched state: digested, or there is nobody to compare it with.
  [[nodiscard]] bool knows_parity() const { return !watch || attempt->world() == 1 || watch->digested(); }
  [[nodiscard]] std::uint64_t parity() const { return watch && attempt->world() > 1 ? watch->parity() : 0; }
  // Members tell each other that they are done, and commit without waiting for the coordinator (rule 14). If one of
  // them is lost then, the others are done, too, which the coordinator can see. A round that proves less, or that ends
  // together with another group's, waits for the coordinator.
  [[nodiscard]] bool commits_among_peers() const {
    return attempt->peer_commit && request.collective == Collective::kAllReduce && what.count > 0;
  }
  [[nodiscard]] RoundPhase phase() const;

  // The rank of a broadcast's root; 0 for other collectives; nothing: the root is no member.
  [[nodiscard]] std::optional<std::uint32_t> root() const;
  // Why its operation cannot run on this peer; nothing: it can.
  [[nodiscard]] std::optional<Error> validate_operation(const Options& options) const;
  [[nodiscard]] std::unique_ptr<ring::Operation> new_operation(const Options& options) const;

 private:
  [[nodiscard]] ring::Segmenting segmenting(const Options& options) const;
};

}  // namespace lockstep::peer
