// One collective call, the round that it takes part in, and the attempt that runs (docs/protocol.md, "The life of a
// round"). Values and questions about them; Rounds moves a round from state to state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/cohort.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/jobs.h"
#include "core/peer/options.h"
#include "core/peer/snapshot.h"
#include "core/ring/operation.h"
#include "core/ring/shares.h"
#include "core/state/sync.h"
#include "core/wire/message.h"

namespace lockstep::peer {

// A round in one generation (rule 31). Constructed anew for each attempt, and kept until the next one begins.
struct Attempt {
  Attempt() = default;  // to be loaded into
  Attempt(const RoundKey& round, Generation its_generation, const Cohort::Roster& among, const PeerOptions& options,
          const wire::Descriptor& what);

  RoundKey key;  // on streams; that of the round differs while the attempt is given up for another cohort
  Generation generation;
  std::shared_ptr<const std::vector<PeerId>> ring;
  Rank rank;
  ring::Distance distance = ring::Distance::kFar;
  WorldSizes sizes;                                           // of the view in which its generation began
  bool peer_commit = false;                                   // rule 14 may apply
  wire::Algorithm algorithm = wire::Algorithm::kRing;         // where there is a choice
  bool direct = false;                                        // beside the ring: all ranks to all, or in a grid
  bool by_rate = false;                                       // ranks own what their lines carry (rule 58)
  bool mismatched = false;                                    // a neighbour has other arguments: its data means nothing
  bool downstream_ready = false;                              // the downstream neighbour has launched, too
  std::uint32_t eager = 0;                                    // segments that a neighbour gets without a Ready
  bool silent = false;                                        // no neighbour has heard of it (rule 43)
  bool told_wait = false;                                     // the coordinator knows that it waits (rule 54)
  std::uint64_t moved = 0;                                    // bytes, when a long wait was last looked for
  std::vector<std::optional<std::uint64_t>> rank_parameters;  // of each rank, where the collective has rank parameters

  std::unique_ptr<ring::Operation> operation;
  std::optional<JobPrefix> jobs;  // of the operation or the sync, while it is under way

  // Peer commit: the ranks that are done with one hash, a bit for each; that hash; and the fingerprint of the states
  // that some of them watch, 0 for none.
  struct Agreed {
    std::uint64_t ranks = 0;
    std::uint64_t hash = 0;
    std::uint64_t fingerprint = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(ranks, hash, fingerprint);
    }
  };
  Agreed agreed;

  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(ring->size()); }
  [[nodiscard]] Rank before() const { return Rank{(rank.value + world() - 1) % world()}; }
  [[nodiscard]] Rank after() const { return Rank{(rank.value + 1) % world()}; }
  [[nodiscard]] PeerId downstream() const { return (*ring)[after().value]; }
  [[nodiscard]] PeerId upstream() const { return (*ring)[before().value]; }
  [[nodiscard]] PeerId peer_at(Rank place) const { return (*ring)[place.value]; }
  // The peer's rank, if its segments come here, or segments go there: any other rank with the direct algorithm, one of
  // its row or column in a grid, else a neighbour.
  [[nodiscard]] std::optional<Rank> sender(PeerId peer) const { return direct ? linked(peer) : at(before(), peer); }
  [[nodiscard]] std::optional<Rank> receiver(PeerId peer) const { return direct ? linked(peer) : at(after(), peer); }
  [[nodiscard]] std::optional<Rank> linked(PeerId peer) const;
  [[nodiscard]] bool in_grid() const { return direct && algorithm == wire::Algorithm::kGrid; }
  // The next rank on the way from a rank to an owner (ring/grid.h).
  [[nodiscard]] Rank on_the_way(Rank from, Rank owner) const;
  // Ranks with links to this one.
  [[nodiscard]] std::uint32_t linked_ranks() const;
  [[nodiscard]] std::optional<Rank> other(PeerId peer) const;
  [[nodiscard]] std::optional<Rank> at(Rank place, PeerId peer) const {
    return peer_at(place) == peer ? std::optional(place) : std::nullopt;
  }
  // Counts this member's Done. The coordinator judges results that differ, and watched states that differ.
  void agree(PeerId member, const wire::Done& done);
  // Whether this member is one of them.
  [[nodiscard]] bool agrees(PeerId member) const;
  // All members of the ring are done with this hash.
  [[nodiscard]] bool all_agree(std::uint64_t hash) const;
  // Once all are known.
  [[nodiscard]] std::vector<std::uint64_t> known_rank_parameters() const;
  [[nodiscard]] bool knows_rank_parameters() const;
  // Whether a rank has told that its line loses packets.
  [[nodiscard]] bool is_lossy() const;

  // Left out: operation, which its round saves.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(key, generation, ring, rank, distance, sizes, peer_commit, algorithm, direct, by_rate, mismatched,
          downstream_ready, eager, silent, told_wait, moved, rank_parameters, jobs, agreed);
  }
};

// Why this peer asks the coordinator to end a round: a time-out, an abort or a refusal (rule 15).
struct StopRequest {
  Status status = Status::kAborted;
  std::string text;
  PeerId other{};  // whose arguments differ; nobody: something else is the reason
  template <typename Archive>
  void archive(Archive& a) {
    a.all(status, text, other);
  }
};

// Where a round is, with what it holds there only.
namespace stage {

struct Queued {};                // waits for admission to end; has no key
struct Held {};                  // has a key; waits for a proposal to be installed
struct ExchangingParameters {};  // wire::RankParameter messages are on their way, or Ready has the parameters
struct Digesting {};             // sync: the state is being digested
struct Claimed {};               // sync: all members claim a state, and one is elected
struct Running {};               // data flows
struct Stuck {};                 // cannot run here; waits for the coordinator's verdict
struct Done {};                  // the result is in hand; waits for the commit

// The attempt is over, and its memory comes back (rule 16).
struct Ending {
  enum class Inputs : std::uint8_t { kKept, kToRestore, kRestoring };
  std::optional<Outcome> outcome;  // nothing: the next attempt follows, in the newest generation
  Inputs inputs = Inputs::kKept;
  bool requeue = false;  // a key of the next cohort comes before the next attempt
  template <typename Archive>
  void archive(Archive& a) {
    a.all(outcome, inputs, requeue);
  }
};

}  // namespace stage

// "all_reduce with tag 3".
[[nodiscard]] std::string words_of(const Request& request);

// Of all attempts.
struct Totals {
  std::uint32_t retries = 0;
  std::uint64_t sent = 0;  // bytes
  std::uint64_t received = 0;
  template <typename Archive>
  void archive(Archive& a) {
    a.all(retries, sent, received);
  }
};

struct Round {
  using Stage = std::variant<stage::Queued, stage::Held, stage::ExchangingParameters, stage::Digesting, stage::Claimed,
                             stage::Running, stage::Stuck, stage::Done, stage::Ending>;
  std::uint64_t order = 0;  // of its launch
  CallId call;
  Request request;
  wire::Descriptor what;
  Stage stage;
  Instant launched;
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
  // It was refused, or stopped while it was queued: its call has completed, and the round ends for the others once it
  // has a key.
  bool completed_early = false;

  // It has begun in the order of tags (rule 43).
  bool passing = false;

  // No admit closes the round in this generation, after so many changes of its cohort's admits (rule 21). Not saved: a
  // round without it looks at all admits.
  struct Unclosed {
    RoundKey key;
    Generation generation;
    std::uint64_t changes = 0;
  };
  std::optional<Unclosed> unclosed;

  Totals totals;

  [[nodiscard]] ring::Operation* operation() const { return attempt ? attempt->operation.get() : nullptr; }
  template <typename One>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<One>(stage);
  }
  [[nodiscard]] const stage::Ending* ending() const { return std::get_if<stage::Ending>(&stage); }
  [[nodiscard]] stage::Ending* ending() { return std::get_if<stage::Ending>(&stage); }
  [[nodiscard]] bool open() const { return !is<stage::Queued>() && !has_outcome(); }
  // The attempt that ends is the last one.
  [[nodiscard]] bool has_outcome() const { return ending() != nullptr && ending()->outcome; }
  [[nodiscard]] bool has_committed() const { return has_outcome() && ending()->outcome->status == Status::kOk; }
  // The round goes on in the next cohort once that begins.
  [[nodiscard]] bool requeues() const { return ending() != nullptr && ending()->requeue; }
  [[nodiscard]] bool attempted() const { return !is<stage::Queued>() && !is<stage::Held>() && !is<stage::Ending>(); }
  // Whether a message that names this attempt is about the attempt that runs here.
  [[nodiscard]] bool runs(const RoundKey& named, Generation in) const;
  // The coordinator knows all that it needs of this peer: it may have committed the round.
  [[nodiscard]] bool said_all() const { return is<stage::Done>() || is<stage::Claimed>(); }
  // By the attempt that runs.
  [[nodiscard]] std::uint64_t bytes_moved() const;
  // Something that holds memory, and has jobs.
  [[nodiscard]] bool moves() const { return operation() != nullptr || sync != nullptr; }
  // Streams may hold segments of the attempt: of its operation or its sync, or such as wait until it begins.
  [[nodiscard]] bool is_on_streams() const { return moves() || (attempt && attempt->by_rate); }
  // Of the watched state: digested, or there is nobody to compare it with.
  [[nodiscard]] bool knows_fingerprint() const { return !watch || attempt->world() == 1 || watch->digested(); }
  [[nodiscard]] std::uint64_t fingerprint() const { return watch && attempt->world() > 1 ? watch->fingerprint() : 0; }
  // Members tell each other that they are done, and commit without waiting for the coordinator (rule 14). If one of
  // them is lost then, the others are done, too, which the coordinator can see. A round that proves less, or that ends
  // together with another group's, waits for the coordinator.
  [[nodiscard]] bool commits_among_peers() const {
    return attempt->peer_commit && request.collective == Collective::kAllReduce && what.count > 0;
  }
  // The ranks of an attempt tell each other rank parameters before data flows: sizes of blocks, weights of
  // contributions, or reports of lines. Returns that of this rank. Not called where there is none.
  [[nodiscard]] std::uint64_t own_rank_parameter(PeerId self, ring::LineReport line) const;
  [[nodiscard]] bool has_rank_parameters() const {
    return wire::has_blocks(request.collective) || request.weight.has_value() || attempt->by_rate;
  }
  // The reason why this value cannot be the parameter of that rank, or nullopt.
  [[nodiscard]] std::optional<std::string> validate_rank_parameter(Rank of, std::uint64_t value) const;
  [[nodiscard]] RoundPhase phase() const;
  // Checked after every step.
  void assert_invariants() const;

  // The rank of the root; 0 for collectives without a root; nullopt if the root is no member.
  [[nodiscard]] std::optional<std::uint32_t> root() const;
  // A receiver of a block that is no member; nobody: there is none.
  [[nodiscard]] PeerId receiver_that_is_no_member() const;
  // The reason why its operation cannot run on this peer, or nullopt.
  [[nodiscard]] std::optional<Error> validate_operation(const PeerOptions& options) const;
  [[nodiscard]] std::unique_ptr<ring::Operation> new_operation(const PeerOptions& options) const;

 private:
  [[nodiscard]] ring::Segmenting segmenting(const PeerOptions& options) const;
};

}  // namespace lockstep::peer
