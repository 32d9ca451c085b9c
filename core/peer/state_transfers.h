// States outside of any round: members publish a state, and a peer that waits for its admission prefetches it (rules
// 27 and 39 of docs/protocol.md). Pieces are asked for and sent as in a sync, by state::Sync; but nobody claims a
// state here, and nobody relies on it. A staged prefetch holds: it goes on until the admission, follows the newest
// revision, and its memory holds a whole state at any time (rule 49). Knows no rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/peer/context.h"
#include "core/peer/input.h"
#include "core/peer/local_states.h"
#include "core/peer/mesh_owners.h"
#include "core/peer/views.h"
#include "core/state/sync.h"
#include "core/wire/link_writer.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class StateTransfers final : public PrefetchOwner {
 public:
  StateTransfers(Context& context, LocalStates& states, const Views& views)
      : context_(context), states_(states), views_(views) {}

  // ---- calls; each completes in a later step, or at once with an error ----

  // A newer publication of a tag ends the older one.
  void publish(CallId call, Request request);
  void prefetch(CallId call, Request request);
  // Ends this call. False: it is none of these.
  [[nodiscard]] bool stop(CallId call, const std::string& why);
  void finish(Status status, const std::string& text);
  void finish_publications(Status status, const std::string& text) { finish_all(true, status, text); }
  void finish_prefetches(Status status, const std::string& text) { finish_all(false, status, text); }

  // ---- what comes ----

  // The coordinator names the members that publish a state.
  void on_published(wire::Published published);
  void on_timer();
  void on_job_done(std::uint64_t order, const JobDone& in);

  // ---- prefetch links: PrefetchOwner ----

  // A state is published here, or will be once an older publication has been replaced: prefetchers stay.
  [[nodiscard]] bool serves() const override;
  [[nodiscard]] std::optional<std::string> validate_prefetcher(PeerId peer) const override;
  void on_message(PeerId from, StreamId stream, const wire::Message& message) override;
  void on_stream_gone(PeerId peer, StreamId stream) override;
  [[nodiscard]] ring::Operation::SegmentPlace on_segment_began(PeerId from, StreamId stream,
                                                               const wire::Segment& segment) override;
  void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& ended) override;
  [[nodiscard]] bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) override;

  // ---- after every step ----

  // The standing of this peer in the run, as far as transfers depend on it.
  enum class Standing : std::uint8_t {
    kWaits,   // for an admission; none is under way
    kMember,  // and not leaving
    kOther,
  };
  // Goes on with all transfers, and completes those whose memory is back. True: other sources are to be linked now.
  [[nodiscard]] bool drive(Standing standing);
  // The sources that are to be linked, and the key that they expect.
  void add_sources(std::map<PeerId, Mesh::Wanted>& links) const;

  [[nodiscard]] bool empty() const { return transfers_.empty(); }
  [[nodiscard]] std::size_t size() const { return transfers_.size(); }
  [[nodiscard]] Instant deadline() const;
  // Pieces that could be sent now, if the pace allows it.
  [[nodiscard]] bool has_pieces() const;

  template <typename Archive>
  void archive(Archive& a);  // defined in archive.cc

 private:
  struct Transfer {
    enum class Stage : std::uint8_t {
      kQueued,     // waits for the memory of an older transfer of the same tag
      kDigesting,  // of what is in memory
      kServing,
      kFetching,  // or waiting for a member that publishes the state
      kTurning,   // a newer state is published: waits for memory to come back, then fetches that state
      kEnding,    // waits for memory to come back
      kSwapping,  // staged: the fetched state is copied into its place
      kHolding,   // staged: the whole state is in its place; waits for a newer one
    };
    // What a prefetcher asks of the digests, until it is answered: one question of each.
    struct Question {
      std::uint32_t first = 0;
      StreamId stream;
      template <typename Archive>
      void archive(Archive& a) {
        a.all(first, stream);
      }
    };
    std::uint64_t order = 0;  // of its call
    CallId call;
    Request request;
    bool serves = false;  // else it fetches
    Stage stage = Stage::kQueued;
    Instant deadline = kNever;
    bool announced = false;  // to the coordinator
    std::optional<JobPrefix> jobs;
    std::optional<AttemptId> attempt;  // the name on streams of the state that is served or fetched now
    std::unique_ptr<state::Sync> sync;
    std::map<PeerId, Question> questions;
    std::optional<wire::Published> offer;  // the newest of the coordinator's
    std::vector<wire::Source> sources;     // of the state that is fetched
    bool holds = false;                    // staged: memory holds a state that was published, or a newer one
    bool in_place = true;                  // staged: nothing has been fetched since the last copy
    Instant since;                         // staged: start of the fetch
    Instant rests_until;                   // kHolding: no newer state is fetched before
    Status status = Status::kOk;           // kEnding
    std::string text;

    [[nodiscard]] bool moves() const { return stage == Stage::kServing || stage == Stage::kFetching; }
    [[nodiscard]] bool is_staged() const { return !serves && request.state->staged; }
  };
  template <typename Archive>
  void archive_of(Archive& a, Transfer& transfer);

  [[nodiscard]] static std::optional<Error> validate(const Request& request, bool serves);
  void add(CallId call, Request request, bool serves);
  void announce(Transfer& transfer, bool ends);
  void finish(Transfer& transfer, Status status, std::string text);
  void finish_all(bool serving, Status status, const std::string& text);
  [[nodiscard]] static std::string timed_out(const Transfer& transfer);
  [[nodiscard]] bool drive(Transfer& transfer, Standing standing);  // true: it is over
  [[nodiscard]] bool begin_digesting(Transfer& transfer);
  [[nodiscard]] bool is_released(const Transfer& transfer);
  [[nodiscard]] bool end(Transfer& transfer, Standing standing);
  // Members publish a state that this one may be replaced by: a held state by a newer revision only.
  [[nodiscard]] bool is_offered(const Transfer& transfer) const;
  // The caller's own state is newer than the offer. One that is undefined has no revision.
  [[nodiscard]] bool is_ahead(const Transfer& transfer) const;
  [[nodiscard]] bool keeps_own(Transfer& transfer);  // true: the call is over, or holds
  void complete_fetch(Transfer& transfer);
  [[nodiscard]] bool swap(Transfer& transfer);  // false: it must wait
  void hold(Transfer& transfer);
  void begin_serving(Transfer& transfer);
  void answer_questions(Transfer& transfer);
  [[nodiscard]] bool follow_offer(Transfer& transfer, Standing standing);
  void ask_sources(Transfer& transfer);
  void say_all(const state::Sync::Messages& messages);
  [[nodiscard]] RoundKey key_of(const Transfer& transfer) const;
  [[nodiscard]] Transfer* find(const RoundKey& key, AttemptId attempt);

  Context& context_;
  LocalStates& states_;
  const Views& views_;
  std::map<std::uint64_t, Transfer> transfers_;  // in the order of their calls
  std::uint64_t begun_ = 0;
  bool may_fetch_ = false;  // this peer waits, as of the last step
};

}  // namespace lockstep::peer
