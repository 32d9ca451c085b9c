// A state that is published and prefetched (rule 39). The test plays the prefetcher, or the sources, which may lie: a
// lie ends the stream of the liar and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/state/pieces.h"
#include "core/wire/link_key.h"
#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

constexpr PeerId kPrefetcher{3, 3};
constexpr PeerId kOther{7, 7};
constexpr std::uint64_t kPiece = 1000;
constexpr std::uint64_t kBytes = 10 * kPiece;

// A member that publishes a state of ten pieces.
struct Source : Peer3 {
  explicit Source(std::uint64_t bytes_per_second = 0) : Peer3(options_of(bytes_per_second), {kLow, kMe, kHigh}) {
    published = me.share(true, kBytes, kPiece);
    me.run();
    said = coordinator->last<wire::Publish>();
  }
  FarEnd& dial_prefetch(PeerId who = kPrefetcher) { return dial_in(who, 0, 1, wire::prefetcher_key(kKey, who)); }
  [[nodiscard]] RoundKey share_key() const { return {CohortId{0}, {}, Tag{7}, 0}; }
  [[nodiscard]] AttemptId attempt() const { return {said->root.low}; }

  static PeerOptions options_of(std::uint64_t bytes_per_second) {
    PeerOptions of_source = options();
    of_source.sending.state_bytes_per_second = bytes_per_second;
    return of_source;
  }

  CallId published;
  const wire::Publish* said = nullptr;
};

TEST(PrefetchSource, AnswersAndServesAPrefetcher) {
  Source run;
  ASSERT_NE(run.said, nullptr);
  EXPECT_EQ(run.said->revision, 4U);
  FarEnd& prefetcher = run.dial_prefetch();
  ASSERT_NE(prefetcher.last<wire::LinkWelcome>(), nullptr);
  prefetcher.say(wire::AskDigests{run.share_key(), run.attempt(), 0});
  run.me.run();
  const auto* digests = prefetcher.last<wire::PieceDigests>();
  ASSERT_NE(digests, nullptr);
  ASSERT_EQ(digests->digests.size(), 10U);
  prefetcher.say(wire::AskPieces{run.share_key(), run.attempt(), {3, 4}});
  run.me.run();
  ASSERT_EQ(prefetcher.segments_heard(), 2U);
  EXPECT_EQ(prefetcher.last_segment()->segment.segment.index, SegmentIndex{4});
  EXPECT_EQ(digest(prefetcher.last_segment()->payload), digests->digests[4]);
  run.me.stop(run.published);
  run.me.run();
  ASSERT_NE(run.me.outcome(run.published), nullptr);
  EXPECT_EQ(run.me.outcome(run.published)->status, Status::kOk);
  EXPECT_TRUE(run.coordinator->last<wire::Publish>()->ends);
  EXPECT_TRUE(prefetcher.shown_out());
  run.expect_alive();
}

// An idle member with a rate limit sent the next piece only at its next heartbeat.
TEST(PrefetchSource, SendsPiecesAtItsRateLimit) {
  Source run(10 * kPiece);
  FarEnd& prefetcher = run.dial_prefetch();
  prefetcher.say(wire::AskPieces{run.share_key(), run.attempt(), {3, 4}});
  run.me.run();
  EXPECT_EQ(prefetcher.segments_heard(), 1U);
  const Duration rest = run.me.deadline() - run.me.now;
  EXPECT_EQ(rest.ns, milliseconds(100).ns);
  run.me.pass(rest);
  run.me.run();
  EXPECT_EQ(prefetcher.segments_heard(), 2U);
}

TEST(PrefetchSource, DisconnectsAPrefetcherThatViolatesTheProtocol) {
  struct PrefetcherLie {
    std::string name;
    std::function<wire::Message(Source&)> says;
    bool passes = false;
  };
  const PrefetcherLie lies[] = {
      {"pieces beyond the end",
       [](Source& r) {
         return wire::AskPieces{r.share_key(), r.attempt(), {10}};
       }},
      {"digests beyond the end",
       [](Source& r) {
         return wire::AskDigests{r.share_key(), r.attempt(), 11};
       }},
      {"an answer",
       [](Source& r) {
         return wire::PieceDigests{r.share_key(), r.attempt(), 0, {}, {}};
       }},
      {"an offer",
       [](Source& r) {
         return wire::Offer{r.key(), Generation{1}, {}, true};
       }},
      {"done",
       [](Source& r) {
         return wire::Done{r.key(), Generation{1}, {}, 0};
       }},
      {"what a fellow says",
       [](Source& r) {
         return wire::HavePieces{r.share_key(), r.attempt(), {1}};
       }},
      {"of another root",
       [](Source& r) {
         return wire::AskPieces{r.share_key(), AttemptId{1}, {99}};
       },
       true},
      {"of a round",
       [](Source& r) {
         return wire::AskDigests{r.key(), AttemptId{1}, 0};
       },
       true},
  };
  for (const PrefetcherLie& lie : lies) {
    SCOPED_TRACE(lie.name);
    Source run;
    for (int i = 0; i < 20; ++i) {
      FarEnd& prefetcher = run.dial_prefetch();
      prefetcher.say(lie.says(run));
      run.me.run();
      EXPECT_EQ(prefetcher.shown_out(), !lie.passes);
      EXPECT_EQ(prefetcher.last<wire::PieceDigests>(), nullptr);
    }
    EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
    run.expect_alive();
  }
}

TEST(PrefetchSource, DisconnectsAPrefetcherThatSendsASegment) {
  Source run;
  FarEnd& prefetcher = run.dial_prefetch();
  prefetcher.say_segment({run.share_key(), run.attempt(), wire::Phase::kState, SegmentIndex{1}, kPiece}, {}, 0);
  run.me.run();
  EXPECT_TRUE(prefetcher.shown_out());
  run.expect_alive();
}

// The stream of the prefetcher holds the answers; it is closed if the prefetcher does not read.
TEST(PrefetchSource, AnswersRepeatedQuestionsOnce) {
  Source run;
  FarEnd& prefetcher = run.dial_prefetch();
  for (int i = 0; i < 1000; ++i) prefetcher.say(wire::AskDigests{run.share_key(), run.attempt(), 0});
  run.me.run();
  EXPECT_FALSE(prefetcher.shown_out());
  EXPECT_LT(prefetcher.count<wire::PieceDigests>(), 100U);
  for (int i = 0; i < 300; ++i) prefetcher.say(wire::AskPieces{run.share_key(), run.attempt(), {1}});
  run.me.run();
  run.expect_alive();
}

TEST(PrefetchSource, AcceptsAPrefetcherWithItsKeyForAPublishedStateIfAPlaceIsFree) {
  Source run;
  EXPECT_TRUE(run.dial_in(kPrefetcher, 0, 1, wire::prefetcher_key(kKey, kOther)).shown_out());
  EXPECT_TRUE(run.dial_in(kPrefetcher, 0, 2, wire::prefetcher_key(kKey, kPrefetcher)).shown_out());
  FarEnd& member = run.dial_prefetch(kHigh);
  ASSERT_NE(member.last<wire::Refused>(), nullptr);
  EXPECT_NE(member.last<wire::Refused>()->text.find("neighbour"), std::string::npos);
  std::vector<FarEnd*> prefetchers;
  for (std::uint64_t n = 0; n < kMaxPrefetchers; ++n) {
    prefetchers.push_back(&run.dial_prefetch({20 + n, 0}));
    EXPECT_NE(prefetchers.back()->last<wire::LinkWelcome>(), nullptr);
  }
  FarEnd& one_more = run.dial_prefetch();
  ASSERT_NE(one_more.last<wire::Refused>(), nullptr);
  EXPECT_NE(one_more.last<wire::Refused>()->text.find("as many prefetchers"), std::string::npos);
  prefetchers.front()->hang_up();
  run.me.run();
  EXPECT_NE(run.dial_prefetch().last<wire::LinkWelcome>(), nullptr);

  Peer3 silent;
  FarEnd& early = silent.dial_in(kPrefetcher, 0, 1, wire::prefetcher_key(kKey, kPrefetcher));
  ASSERT_NE(early.last<wire::Refused>(), nullptr);
  EXPECT_NE(early.last<wire::Refused>()->text.find("nothing is published"), std::string::npos);
}

TEST(PrefetchSource, DisconnectsAPrefetcherThatIsAdmitted) {
  Source run;
  FarEnd& prefetcher = run.dial_prefetch();
  run.propose(run.proposal(view_of(2, 2, {kLow, kMe, kHigh, kPrefetcher})));
  EXPECT_TRUE(prefetcher.shown_out());
  EXPECT_NE(run.dial_prefetch().last<wire::Refused>(), nullptr);
}

// Rule 27: the memory of a published state is lent until its publication ends.
TEST(Publisher, ANewerPublicationReplacesTheOlderAndLeavingEndsIt) {
  Source run;
  const CallId newer = run.me.share(true, kBytes, kPiece, 2);
  run.me.run();
  ASSERT_NE(run.me.outcome(run.published), nullptr);
  EXPECT_EQ(run.me.outcome(run.published)->status, Status::kOk);
  EXPECT_EQ(run.coordinator->count<wire::Publish>(), 3U);
  EXPECT_FALSE(run.coordinator->last<wire::Publish>()->ends);
  run.me.leave();
  run.me.run();
  ASSERT_NE(run.me.outcome(newer), nullptr);
  EXPECT_EQ(run.me.outcome(newer)->status, Status::kOk);
}

TEST(Publisher, IsAMember) {
  Peer3 waits(false);
  const CallId call = waits.me.share(true, kBytes, kPiece);
  ASSERT_NE(waits.me.outcome(call), nullptr);
  EXPECT_EQ(waits.me.outcome(call)->status, Status::kNotConnected);
}

TEST(Publisher, EndsWithTheRun) {
  Source run;
  run.coordinator->say(wire::Evicted{});
  run.me.run();
  ASSERT_NE(run.me.outcome(run.published), nullptr);
  EXPECT_EQ(run.me.outcome(run.published)->status, Status::kEvicted);
  EXPECT_EQ(run.me.footprint().streams, 0U);
}

// A peer that waits for its admission and fetches ten pieces from two sources.
struct Prefetcher : Peer3 {
  explicit Prefetcher(bool holds = false, std::uint64_t revision = 0, bool blank = false) : Peer3(false) {
    coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
    me.run();
    manifest = {{{"weights", DataType::kU8, kBytes, false}}, {}, kPiece};
    fill(std::byte{9});
    fetch = me.share(false, kBytes, kPiece, 1, [&](state::Statement& state) {
      state.staged = holds;
      state.revision = revision;
      state.blank = blank;
    });
    me.run();
  }
  // The state that members publish from now on.
  void fill(std::byte filling) {
    content.assign(kBytes, filling);
    digests.clear();
    for (std::size_t at = 0; at < kBytes; at += kPiece)
      digests.push_back(digest(std::span(content).subspan(at, kPiece)));
    root = state::root_of(state::Pieces(manifest), {digests, {}});
  }
  void publish(std::vector<wire::Source> sources, std::uint64_t revision = 4) {
    coordinator->say(
        wire::Published{Tag{7}, revision, root, Lineage{6}, std::move(sources), wire::prefetcher_key(kKey, kMe), {}});
    me.run();
  }
  FarEnd& answer_dial(std::size_t which = 0) {
    FarEnd& end = *me.streams.dialling().at(which);
    me.streams.open(end);
    end.greet();
    end.say(wire::LinkWelcome{});
    me.run();
    return end;
  }
  [[nodiscard]] RoundKey share_key() const { return {CohortId{0}, {}, Tag{7}, 0}; }
  [[nodiscard]] AttemptId attempt() const { return {root.low}; }
  // The sync of the same tag, once the peer is a member.
  CallId sync(bool restored) {
    auto state = std::make_shared<state::Statement>();
    state->manifest = manifest;
    state->restored = restored;
    Request request;
    request.collective = wire::Collective::kSync;
    request.tag = Tag{7};
    request.state = std::move(state);
    const CallId call = me.launch(std::move(request), kBytes);
    me.run();
    return call;
  }
  void send_digests(FarEnd& from) {
    from.say(wire::PieceDigests{share_key(), attempt(), 0, digests, {}});
    me.run();
  }
  void send_piece(FarEnd& from, std::uint32_t piece, std::byte filling = std::byte{9}) {
    from.say_segment({share_key(), attempt(), wire::Phase::kState, SegmentIndex{piece}, kPiece}, filling, 0);
    me.run();
  }

  FarEnd& fetches_a_piece() {
    publish({{kLow, address_of(1)}});
    FarEnd& source = answer_dial();
    send_digests(source);
    send_piece(source, 0);
    return source;
  }
  void is_let_in_with_a_piece() {
    fetches_a_piece();
    install(proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  }

  std::vector<std::byte> content;
  std::vector<Digest> digests;
  state::Manifest manifest;
  Digest root;
  CallId fetch;
};

TEST(Prefetcher, FetchesFromMembersWithItsOwnKey) {
  Prefetcher run;
  ASSERT_NE(run.coordinator->last<wire::WantState>(), nullptr);
  EXPECT_FALSE(run.coordinator->last<wire::WantState>()->ends);
  run.publish({{kLow, address_of(1)}});
  FarEnd& source = run.answer_dial();
  ASSERT_NE(source.last<wire::Link>(), nullptr);
  EXPECT_EQ(source.last<wire::Link>()->key, wire::prefetcher_key(kKey, kMe));
  ASSERT_NE(source.last<wire::AskDigests>(), nullptr);
  run.send_digests(source);
  ASSERT_NE(source.last<wire::AskPieces>(), nullptr);
  for (std::uint32_t piece = 0; piece < 10; ++piece) run.send_piece(source, piece);
  ASSERT_NE(run.me.outcome(run.fetch), nullptr);
  EXPECT_EQ(run.me.outcome(run.fetch)->status, Status::kOk);
  EXPECT_EQ(run.me.outcome(run.fetch)->revision, 4U);
  EXPECT_EQ(run.me.outcome(run.fetch)->root, run.root);
  EXPECT_EQ(run.me.outcome(run.fetch)->lineage, Lineage{6});
  EXPECT_TRUE(std::ranges::equal(run.me.received(run.fetch), run.content));
  EXPECT_TRUE(run.coordinator->last<wire::WantState>()->ends);
  EXPECT_TRUE(source.shown_out());
}

// Rule 53: it was trained elsewhere, and the members have not come so far.
TEST(Prefetcher, IsNotOverwrittenByAnOlderRevision) {
  for (const bool holds : {false, true}) {
    Prefetcher run(holds, 5);
    run.publish({{kLow, address_of(1)}}, 4);
    EXPECT_TRUE(run.me.streams.dialling().empty());
    if (!holds) {
      ASSERT_NE(run.me.outcome(run.fetch), nullptr);  // it has a newer state
      EXPECT_EQ(run.me.outcome(run.fetch)->status, Status::kOk);
      EXPECT_EQ(run.me.outcome(run.fetch)->revision, 5U);
      EXPECT_EQ(run.me.outcome(run.fetch)->lineage, Lineage{});
      continue;
    }
    EXPECT_EQ(run.me.outcome(run.fetch), nullptr);
    EXPECT_TRUE(run.coordinator->last<wire::WantState>()->holds) << "members do not wait for it";
    run.me.pass(seconds(30));
    run.publish({{kLow, address_of(1)}}, 5);
    EXPECT_TRUE(run.me.streams.dialling().empty());
    run.publish({{kLow, address_of(1)}}, 6);
    EXPECT_EQ(run.me.streams.dialling().size(), 1U);
  }
}

TEST(Prefetcher, TakesAnyRevisionIfItHoldsNoState) {
  Prefetcher run(false, 5, true);
  run.publish({{kLow, address_of(1)}}, 4);
  EXPECT_EQ(run.me.streams.dialling().size(), 1U);
}

// A fetch that was stopped half-way left parts of two states in memory: their revision is none. The next one waited for
// a newer revision for ever.
TEST(Prefetcher, TakesAnyRevisionIfItsStateIsTorn) {
  for (const bool holds : {false, true}) {
    Prefetcher run;
    run.fetches_a_piece();
    run.me.stop(run.fetch);
    run.me.run();
    ASSERT_NE(run.me.outcome(run.fetch), nullptr);
    ASSERT_FALSE(run.me.outcome(run.fetch)->state_defined);
    const std::size_t dialled = run.me.streams.dialling().size();
    (void)run.me.share(false, kBytes, kPiece, 1, [&](state::Statement& state) {
      state.staged = holds;
      state.revision = 5;
    });
    run.me.run();
    run.publish({{kLow, address_of(1)}}, 4);
    EXPECT_EQ(run.me.streams.dialling().size(), dialled + 1);
  }
}

// Rule 49.
TEST(Holder, HoldsTheNewestWholeStateUntilItsAdmission) {
  Prefetcher run(true);
  run.publish({{kLow, address_of(1)}});
  FarEnd& source = run.answer_dial();
  run.send_digests(source);
  for (std::uint32_t piece = 0; piece < 9; ++piece) run.send_piece(source, piece);
  EXPECT_FALSE(std::ranges::equal(run.me.received(run.fetch).first(kPiece), std::span(run.content).first(kPiece)));
  EXPECT_FALSE(run.coordinator->last<wire::WantState>()->holds);
  run.send_piece(source, 9);
  EXPECT_EQ(run.me.outcome(run.fetch), nullptr) << "it goes on until the admission";
  EXPECT_TRUE(run.coordinator->last<wire::WantState>()->holds);
  EXPECT_FALSE(run.coordinator->last<wire::WantState>()->ends);
  EXPECT_TRUE(std::ranges::equal(run.me.received(run.fetch), run.content));
  EXPECT_TRUE(source.shown_out()) << "it needs no source while it rests";

  const std::vector<std::byte> held = run.content;
  run.fill(std::byte{8});
  run.publish({{kHigh, address_of(9)}}, 3);  // a member that is late
  run.me.pass(seconds(2));
  run.me.run();
  EXPECT_EQ(run.me.streams.dialling().size(), 0U) << "an older revision than that it holds";
  run.publish({{kHigh, address_of(9)}}, 5);
  FarEnd& next = run.answer_dial();
  run.send_digests(next);
  for (std::uint32_t piece = 0; piece < 5; ++piece) run.send_piece(next, piece, std::byte{8});
  run.install(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  ASSERT_NE(run.me.outcome(run.fetch), nullptr);
  EXPECT_EQ(run.me.outcome(run.fetch)->status, Status::kOk);
  EXPECT_TRUE(run.me.outcome(run.fetch)->state_defined);
  EXPECT_EQ(run.me.outcome(run.fetch)->revision, 4U);
  EXPECT_TRUE(std::ranges::equal(run.me.received(run.fetch), held));
}

TEST(Holder, RestsBeforeItFetchesANewerRevision) {
  Prefetcher run(true);
  run.publish({{kLow, address_of(1)}});
  FarEnd& source = run.answer_dial();
  run.send_digests(source);
  for (std::uint32_t piece = 0; piece < 10; ++piece) run.send_piece(source, piece);
  run.fill(std::byte{8});
  run.publish({{kHigh, address_of(9)}}, 5);
  EXPECT_EQ(run.me.streams.dialling().size(), 0U);
  run.me.pass(milliseconds(990));
  EXPECT_EQ(run.me.streams.dialling().size(), 0U) << "two heartbeats";
  run.me.pass(milliseconds(20));
  run.me.run();
  FarEnd& next = run.answer_dial();
  run.send_digests(next);
  for (std::uint32_t piece = 0; piece < 10; ++piece) run.send_piece(next, piece, std::byte{8});
  EXPECT_TRUE(std::ranges::equal(run.me.received(run.fetch), run.content));
}

TEST(Holder, CompletesACopyThatHasBegunWhenItIsAdmitted) {
  Prefetcher run(true);
  run.publish({{kLow, address_of(1)}});
  FarEnd& source = run.answer_dial();
  run.send_digests(source);
  for (std::uint32_t piece = 0; piece < 9; ++piece) run.send_piece(source, piece);
  run.me.jobs_held = true;
  run.send_piece(source, 9);
  run.install(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  EXPECT_EQ(run.me.outcome(run.fetch), nullptr);
  run.me.jobs_held = false;
  run.me.run();
  ASSERT_NE(run.me.outcome(run.fetch), nullptr);
  EXPECT_TRUE(run.me.outcome(run.fetch)->state_defined);
  const std::uint64_t revision = run.me.outcome(run.fetch)->revision;
  EXPECT_EQ(std::ranges::equal(run.me.received(run.fetch), run.content), revision == 4);
}

TEST(Prefetcher, FetchesTheRestFromAnotherSourceAfterALie) {
  Prefetcher run;
  run.publish({{kLow, address_of(1)}, {kHigh, address_of(9)}});
  FarEnd& liar = run.answer_dial();
  FarEnd& honest = run.answer_dial();
  FarEnd& asked = liar.last<wire::AskDigests>() != nullptr ? liar : honest;
  run.send_digests(asked);
  run.send_piece(liar, liar.last<wire::AskPieces>()->pieces.front(), std::byte{1});
  EXPECT_TRUE(liar.shown_out());
  for (std::uint32_t piece = 0; piece < 10; ++piece) run.send_piece(honest, piece);
  ASSERT_NE(run.me.outcome(run.fetch), nullptr);
  EXPECT_EQ(run.me.outcome(run.fetch)->status, Status::kOk);
  EXPECT_TRUE(std::ranges::equal(run.me.received(run.fetch), run.content));
  EXPECT_EQ(run.coordinator->last<wire::LinkBroken>(), nullptr);
}

TEST(Prefetcher, DisconnectsASourceThatSendsInvalidMessages) {
  const std::function<void(Prefetcher&, FarEnd&)> lies[] = {
      [](Prefetcher& r, FarEnd& source) {
        auto digests = r.digests;
        digests.front().low += 1;
        source.say(wire::PieceDigests{r.share_key(), r.attempt(), 0, digests, {}});
      },
      [](Prefetcher& r, FarEnd& source) {
        source.say(wire::PieceDigests{r.share_key(), r.attempt(), 0, {}, {}});
      },
      [](Prefetcher& r, FarEnd& source) {
        source.say(wire::AskPieces{r.share_key(), r.attempt(), {1}});
      },
      [](Prefetcher&, FarEnd& source) { source.say(wire::Done{}); },
      [](Prefetcher& r, FarEnd& source) {
        source.say_segment({r.share_key(), r.attempt(), wire::Phase::kAllGather, SegmentIndex{1}, kPiece}, {}, 0);
      },
      [](Prefetcher& r, FarEnd& source) {
        source.say_segment({r.share_key(), r.attempt(), wire::Phase::kState, SegmentIndex{10}, kPiece}, {}, 0);
      },
  };
  for (const auto& lie : lies) {
    Prefetcher run;
    run.publish({{kLow, address_of(1)}});
    FarEnd& source = run.answer_dial();
    lie(run, source);
    run.me.run();
    EXPECT_TRUE(source.shown_out()) << &lie - lies;
    EXPECT_EQ(run.me.outcome(run.fetch), nullptr);
    EXPECT_FALSE(run.me.run_over);
  }
}

TEST(Prefetcher, EndsItsPrefetchWhenItIsAdmitted) {
  Prefetcher run;
  FarEnd& source = run.fetches_a_piece();
  run.propose(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  EXPECT_TRUE(source.shown_out());  // the peer is linked with its neighbours now, with the key of the run
  EXPECT_EQ(run.me.outcome(run.fetch), nullptr);
  run.coordinator->say(wire::Install{ProposalNumber{1}});
  run.me.run();
  ASSERT_NE(run.me.outcome(run.fetch), nullptr);
  EXPECT_EQ(run.me.outcome(run.fetch)->status, Status::kOk);
  EXPECT_FALSE(run.me.outcome(run.fetch)->state_defined);
}

// Only the caller knows whether the memory of the next sync holds a whole state.
TEST(Prefetcher, WithAPartOfAStateHasNoVoteUntilItIsRestored) {
  for (const bool restored : {false, true}) {
    Prefetcher run;
    run.is_let_in_with_a_piece();
    EXPECT_FALSE(run.me.outcome(run.fetch)->state_defined);
    const CallId published = run.me.share(true, kBytes, kPiece);
    run.me.run();
    ASSERT_NE(run.me.outcome(published), nullptr);
    EXPECT_EQ(run.me.outcome(published)->status, Status::kInvalidArgument);
    run.sync(restored);
    const auto* claim = run.coordinator->last<wire::Claim>();
    ASSERT_NE(claim, nullptr);
    EXPECT_EQ(claim->defined, restored);
    EXPECT_EQ(claim->root == Digest{}, !restored);
  }
}

// A partial state was recognized only after its memory was back.
TEST(Prefetcher, DoesNotPublishAPartOfAState) {
  Prefetcher run;
  run.publish({{kLow, address_of(1)}});
  FarEnd& source = run.answer_dial();
  run.send_digests(source);
  run.me.jobs_held = true;
  run.send_piece(source, 0);
  run.install(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  EXPECT_EQ(run.me.outcome(run.fetch), nullptr);
  const CallId published = run.me.share(true, kBytes, kPiece);
  run.me.run();
  EXPECT_EQ(run.me.outcome(published), nullptr);
  run.me.jobs_held = false;
  run.me.run();
  ASSERT_NE(run.me.outcome(run.fetch), nullptr);
  ASSERT_NE(run.me.outcome(published), nullptr);
  EXPECT_EQ(run.me.outcome(published)->status, Status::kInvalidArgument);
  EXPECT_EQ(run.coordinator->count<wire::Publish>(), 0U);
}

TEST(Prefetcher, WithAFailedSyncStillHasNoState) {
  Prefetcher run;
  run.is_let_in_with_a_piece();
  const CallId first = run.sync(false);
  run.me.stop(first);
  run.me.run();
  run.stopped({7});
  ASSERT_NE(run.me.outcome(first), nullptr);
  EXPECT_FALSE(run.me.outcome(first)->state_defined);
  run.coordinator->forget_heard();
  run.sync(false);
  ASSERT_NE(run.coordinator->last<wire::Claim>(), nullptr);
  EXPECT_FALSE(run.coordinator->last<wire::Claim>()->defined);
}

TEST(Prefetcher, ReportsItsProgress) {
  Prefetcher run;
  run.fetches_a_piece();
  EXPECT_EQ(run.me.progress(run.fetch), std::pair(std::uint64_t{kPiece}, std::uint64_t{kBytes}));
}

TEST(Prefetcher, OnlyASyncHasAStrategyAndOnlyAStateIsPublished) {
  Prefetcher run;
  run.install(run.proposal(view_of(1, 1, {kLow, kMe, kHigh})));
  const std::pair<std::function<void(state::Statement&)>, const char*> cases[] = {
      {[](state::Statement& state) { state.blank = true; }, "blank"},
      {[](state::Statement& state) { state.strategy = state::Strategy::kSendOnly; }, "strategy"},
  };
  for (const auto& [change, reason] : cases) {
    const CallId call = run.me.share(true, kBytes, kPiece, 1, change);
    run.me.run();
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kInvalidArgument);
    EXPECT_NE(run.me.outcome(call)->text.find(reason), std::string::npos) << run.me.outcome(call)->text;
  }
}

TEST(Prefetcher, ContinuesWhenItsAdmissionIsWithdrawn) {
  Prefetcher run;
  run.publish({{kLow, address_of(1)}});
  run.answer_dial();
  run.propose(run.proposal(view_of(1, 1, {kMe, kHigh})));
  run.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  run.me.run();
  FarEnd& source = *run.me.streams.dialling().back();
  EXPECT_EQ(source.dialled(), address_of(1));
  EXPECT_EQ(run.me.outcome(run.fetch), nullptr);
}

}  // namespace
}  // namespace lockstep::peer
