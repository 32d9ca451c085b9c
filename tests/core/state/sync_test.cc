// Which peers a sync asks, which pieces it accepts, and what it claims afterwards (rules 25, 26 and 38).
#include "core/state/sync.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "tests/core/state/sync_network.h"

namespace lockstep::state {
namespace {

const std::vector<std::uint64_t> kSizes = {3 * std::uint64_t{kStatePieceBytes} + 5, 0, 1,
                                           2 * std::uint64_t{kStatePieceBytes}, 300};

TEST(Sync, EqualStatesMoveNothing) {
  Network net(1);
  for (int i = 0; i < 3; ++i) net.add(kSizes, 7, 4);
  EXPECT_TRUE(net.attempt());
  EXPECT_EQ(net.pieces_sent, 0U);
  net.expect_alike();
}

TEST(Sync, ANewcomerTakesOverTheState) {
  Network net(2);
  net.add(kSizes, 7, 4);
  net.add(kSizes, 7, 4);
  net.add(kSizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}, {0, 2}}));
  EXPECT_EQ(net.elected.receivers, (std::vector<PeerId>{{0, 3}}));
  net.expect_alike();
}

TEST(Sync, OnlyPiecesThatDifferMove) {
  Network net(3);
  net.add(kSizes, 7, 4);
  net.add(kSizes, 7, 4);
  Host& stale = net.add(kSizes, 7, 3);
  stale.tensors[0][kStatePieceBytes] ^= std::byte{1};
  stale.tensors[4][0] ^= std::byte{1};
  EXPECT_TRUE(net.attempt());
  EXPECT_EQ(net.pieces_sent, 2U);
  net.expect_alike();
}

// Rule 55.
TEST(Sync, AReceiverNamesThePartThatItHasFetched) {
  for (const bool staged : {false, true}) {
    Network net(3);
    for (int i = 0; i < 3; ++i) net.add(kSizes, 7, 4, staged);
    Host& two = net.add(kSizes, 7, 4, staged);
    Host& one = net.add(kSizes, 7, 4, staged);
    Host& old = net.add(kSizes, 7, 3, staged);  // its value is another one, too
    two.tensors[3][kStatePieceBytes] ^= std::byte{1};
    two.tensors[4][0] ^= std::byte{1};
    one.tensors[4][0] ^= std::byte{1};
    EXPECT_EQ(one.sync->fetched(), "");
    EXPECT_TRUE(net.attempt());
    EXPECT_EQ(two.sync->fetched(), "in 't3' and 1 more (2 of 8 pieces)");
    EXPECT_EQ(one.sync->fetched(), "in 't4' (1 of 8 pieces)");
    EXPECT_EQ(old.sync->fetched(), "in its values");
    EXPECT_EQ(net.hosts[0]->sync->fetched(), "") << "a source fetches nothing";
  }
}

TEST(Sync, AReceiverNamesWhatEarlierAttemptsHaveOverwritten) {
  Network net(4);
  Host& dies = net.add(kSizes, 7, 4);
  net.add(kSizes, 7, 4);
  Host& other = net.add(kSizes, 7, 4);
  for (Bytes& tensor : other.tensors) {
    for (std::size_t at = 0; at < tensor.size(); at += kStatePieceBytes) tensor[at] ^= std::byte{1};
  }
  dies.pieces_until_death = 2;
  EXPECT_FALSE(net.attempt({{0, 1}, {0, 2}}));
  EXPECT_TRUE(net.attempt({{0, 2}}));
  EXPECT_EQ(other.sync->fetched(), "in 't0' and 3 more (8 of 8 pieces)");
}

std::size_t digests_of(Host& host) {
  std::size_t digests = 0;
  while (!host.sync->digested()) {
    std::vector<KernelJob> jobs;
    host.sync->digest_some(jobs);
    digests += jobs.size();
    for (const KernelJob& job : jobs) {
      (void)host.sync->job_done(job.token, run_job(job.work, {}, host.at(memory_of(job.work).from), {}));
    }
  }
  return digests;
}

TEST(Sync, UnchangedPiecesAreNotDigestedAgain) {
  Host first({0, 1}, kSizes, 7, 4);
  EXPECT_EQ(digests_of(first), 8U);
  Host again({0, 1}, kSizes, 7, 4);
  again.statement.unchanged = {0, 1, 4};
  again.sync->know(first.sync->digests());
  EXPECT_EQ(digests_of(again), 3U) << "the third and the fourth tensor";
  EXPECT_EQ(again.sync->root(), first.sync->root());
  Host changed({0, 1}, kSizes, 7, 4);
  changed.tensors[3][5] ^= std::byte{1};
  changed.statement.unchanged = {0, 1, 2, 4};
  changed.sync->know(first.sync->digests());
  EXPECT_EQ(digests_of(changed), 2U);
  EXPECT_NE(changed.sync->root(), first.sync->root());
  Host at_rest({0, 1}, kSizes, 7, 4);
  at_rest.statement.unchanged = {0, 1, 2, 3, 4};
  at_rest.sync->know(first.sync->digests());
  EXPECT_EQ(digests_of(at_rest), 0U);
  EXPECT_EQ(at_rest.sync->root(), first.sync->root());
}

TEST(Sync, ABlankPeerDigestsNothingAndFetchesAllPieces) {
  Network net(5);
  net.add(kSizes, 7, 4);
  Host& blank = net.add(kSizes, 7, 9);
  blank.statement.blank = true;
  blank.sync = std::make_unique<Sync>(blank.statement, blank.memory, BufferRef{}, blank.id, seconds(1), seconds(3));
  EXPECT_TRUE(blank.sync->digested());
  EXPECT_FALSE(blank.sync->claim().defined);
  EXPECT_TRUE(net.attempt());
  EXPECT_EQ(net.pieces_sent, 8U) << "equal pieces are fetched, too";
  net.expect_alike();
}

// The tensors are equal, and the values differ.
TEST(Sync, TakingOverARevisionMovesNoBytes) {
  Network net(4);
  net.add(kSizes, 7, 4);
  net.add(kSizes, 7, 3);
  EXPECT_TRUE(net.attempt());
  EXPECT_EQ(net.pieces_sent, 0U);
  net.expect_alike();
}

TEST(Sync, SeveralNewcomersServeEachOther) {
  Network net(5);
  Host& source = net.add({20 * std::uint64_t{kStatePieceBytes}}, 7, 4);
  for (int i = 0; i < 3; ++i) net.add({20 * std::uint64_t{kStatePieceBytes}}, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
  EXPECT_LT(source.sync->bytes_sent(), 60 * std::uint64_t{kStatePieceBytes}) << "fellow receivers sent some pieces";
}

TEST(Sync, AStagedSyncKeepsTheOldStateUntilTheCommit) {
  Network net(6);
  Host& source = net.add(kSizes, 7, 4);
  Host& newcomer = net.add(kSizes, 8, 0, true);
  source.pieces_until_death = 7;
  const auto before = newcomer.tensors;
  EXPECT_FALSE(net.attempt());
  EXPECT_TRUE(newcomer.sync->defined());
  EXPECT_EQ(newcomer.tensors, before);
  EXPECT_EQ(newcomer.sync->claim().revision, 0U);

  net.add(kSizes, 7, 4);
  const std::uint64_t received = newcomer.sync->bytes_received();
  EXPECT_GT(received, 0U);
  EXPECT_TRUE(net.attempt());
  net.expect_alike();
  EXPECT_EQ(newcomer.sync->bytes_received(), std::accumulate(kSizes.begin(), kSizes.end(), std::uint64_t{0}))
      << "pieces of the first attempt are not fetched again";
}

TEST(Sync, AnInPlaceSyncLeavesAPartialStateUndefined) {
  Network net(7);
  Host& source = net.add(kSizes, 7, 4);
  Host& newcomer = net.add(kSizes, 8, 9);
  source.pieces_until_death = 3;
  EXPECT_FALSE(net.attempt({source.id}));
  EXPECT_FALSE(newcomer.sync->defined());
  EXPECT_FALSE(newcomer.sync->claim().defined);
  EXPECT_FALSE(net.attempt({source.id})) << "the newcomer alone has no state";
}

TEST(Sync, AWrongPieceIsFetchedFromAnotherSource) {
  Network net(8);
  net.add(kSizes, 7, 4).corrupts = true;
  net.add(kSizes, 7, 4);
  net.add(kSizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}, {0, 2}}));
  net.expect_alike();
}

TEST(Sync, AReceiverIsStrandedIfAllSourcesLie) {
  Network net(8);
  net.add(kSizes, 7, 4).corrupts = true;
  net.add(kSizes, 7, 4).corrupts = true;
  Host& newcomer = net.add(kSizes, 8, 0);
  EXPECT_FALSE(net.attempt({{0, 1}, {0, 2}}));
  EXPECT_EQ(net.stranded, std::vector{newcomer.id});
  net.hosts[1]->corrupts = false;  // the next attempt trusts all sources again
  EXPECT_TRUE(net.attempt({{0, 1}, {0, 2}}));
  EXPECT_EQ(net.stranded, std::vector<PeerId>{});
  net.expect_alike();
}

TEST(Sync, WrongDigestsAreRequestedFromAnotherSource) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Network net(seed);
    net.add(kSizes, 7, 4).lies = true;
    net.add(kSizes, 7, 4);
    net.add(kSizes, 8, 0);
    net.add(kSizes, 9, 0);
    EXPECT_TRUE(net.attempt({{0, 1}, {0, 2}}));
    net.expect_alike();
  }
}

TEST(Sync, InvalidMessagesAreRefused) {
  Network net(9);
  Host& source = net.add(kSizes, 7, 4);
  Host& newcomer = net.add(kSizes, 8, 0);
  Sync& sync = *newcomer.sync;
  Sync::Messages out;
  const auto piece = [](std::uint32_t index, std::uint32_t bytes) {
    return wire::Segment{{}, {}, wire::Phase::kState, SegmentIndex{index}, bytes};
  };
  EXPECT_EQ(sync.begin(source.id, piece(8, 1), StreamId{1}, {}).landing, Sync::Landing::kNonsense);
  EXPECT_EQ(sync.begin(source.id, piece(0, 1), StreamId{1}, {}).landing, Sync::Landing::kNonsense);
  EXPECT_EQ(sync.begin(source.id, piece(0, kStatePieceBytes), StreamId{1}, {}).landing, Sync::Landing::kSink)
      << "nothing is elected";
  EXPECT_FALSE(sync.on_ask(source.id, wire::AskPieces{{}, {}, {8}}));
  EXPECT_FALSE(sync.on_ask(source.id, wire::AskPieces{{}, {}, std::vector<std::uint32_t>(257)}));
  EXPECT_FALSE(sync.on_ask(source.id, wire::AskDigests{{}, {}, 9}));
  EXPECT_FALSE(sync.on_have(source.id, wire::HavePieces{{}, {}, {8}}));
  EXPECT_TRUE(sync.on_digests(source.id, wire::PieceDigests{}, {}, out))
      << "digests that were not requested may be late";
}

// Models have hundreds of biases and norms.
TEST(Sync, DigestsOfManySmallTensorsTakeSeveralRequests) {
  Network net(11);
  const std::vector<std::uint64_t> sizes(1000, 64);
  net.add(sizes, 7, 4);
  net.add(sizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
}

TEST(Sync, AStagedBlankPeerHasAStateAfterTheCommit) {
  Network net(12);
  net.add(kSizes, 7, 4);
  Host& blank = net.add(kSizes, 7, 9, true);
  blank.statement.blank = true;
  const BufferRef beside{BufferId{kStaging}, 0, blank.staging.size()};
  blank.sync = std::make_unique<Sync>(blank.statement, blank.memory, beside, blank.id, seconds(1), seconds(3));
  EXPECT_TRUE(net.attempt());
  net.expect_alike();
}

// attempt() checks that few jobs run at a time.
TEST(Sync, StagedPiecesAreCopiedInShortSteps) {
  Network net(13);
  net.add({std::uint64_t{20} * kStatePieceBytes}, 7, 4);
  net.add({std::uint64_t{20} * kStatePieceBytes}, 8, 0, true);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
}

TEST(Sync, StagingTakesNoMoreMemoryThanTheState) {
  Host many({0, 1}, std::vector<std::uint64_t>(1000, 64), 7, 4);
  many.statement.manifest.tensors.front().may_differ = true;
  EXPECT_EQ(staging_bytes(many.statement.manifest), 999U * 64);
}

TEST(Sync, SourcesThatDoNotAnswerAreAskedInTurn) {
  Host newcomer({0, 5}, kSizes, 8, 0);
  (void)digests_of(newcomer);
  Sync::Messages out;
  newcomer.sync->elected({}, {4, {1, 1}, lineage_of({}, {1, 1}), {{0, 1}, {0, 2}, {0, 3}}, {newcomer.id}});
  std::vector<PeerId> asked;
  for (int second = 0; second < 6; ++second) {
    newcomer.sync->ask({{0, 1}, {0, 2}, {0, 3}}, Instant{} + seconds(second), out);
    asked.push_back(out.back().first);
    newcomer.sync->on_timer(Instant{} + seconds(second + 1));
  }
  EXPECT_EQ(asked, (std::vector<PeerId>{{0, 1}, {0, 2}, {0, 3}, {0, 1}, {0, 2}, {0, 3}}));
}

TEST(Sync, AReceiverWithoutALinkToASourceIsCutOff) {
  Host newcomer({0, 5}, kSizes, 8, 0);
  (void)digests_of(newcomer);
  const PeerId fellow{0, 6};
  newcomer.sync->elected({}, {4, {1, 1}, lineage_of({}, {1, 1}), {{0, 1}}, {newcomer.id, fellow}});
  Sync::Messages out;
  const auto look = [&](int second, const std::set<PeerId>& linked) {
    newcomer.sync->ask(linked, Instant{} + seconds(second), out);
    if (newcomer.sync->deadline() <= Instant{} + seconds(second)) newcomer.sync->on_timer(Instant{} + seconds(second));
    return newcomer.sync->is_cut_off();
  };
  EXPECT_FALSE(look(0, {fellow}));
  EXPECT_FALSE(look(2, {fellow}));
  EXPECT_FALSE(look(3, {{0, 1}, fellow})) << "a source is linked in time";
  EXPECT_FALSE(look(5, {{0, 1}, fellow})) << "its link lasts";
  newcomer.sync->link_lost({0, 1});
  EXPECT_FALSE(look(6, {fellow}));
  EXPECT_FALSE(look(8, {fellow}));
  EXPECT_TRUE(look(9, {fellow}));
  EXPECT_EQ(newcomer.sync->deadline(), kNever);
  newcomer.sync->stop();
  newcomer.sync->begin_again();
  EXPECT_FALSE(newcomer.sync->is_cut_off()) << "the next attempt may have other sources";
}

// A receiver that reaches no source takes the state over from another receiver; one that lies is not asked again.
TEST(Sync, AReceiverWithoutALinkToASourceTakesTheStateFromAFellow) {
  for (const bool first_lies : {false, true}) {
    Host source({0, 1}, kSizes, 7, 4);
    Host near({0, 5}, kSizes, 8, 0);
    Host far({0, 6}, kSizes, 9, 0);
    for (Host* host : {&source, &near, &far}) (void)digests_of(*host);
    const Digest root = source.sync->claim().root;
    const PeerId liar{0, 4};
    for (Host* host : {&source, &near, &far}) {
      host->sync->elected({}, {4, root, lineage_of({}, root), {source.id}, {liar, near.id, far.id}});
    }
    Sync::Messages out;
    const auto ask = [&](Host& host, const std::set<PeerId>& linked) {
      out.clear();
      host.sync->ask(linked, {}, out);
    };
    const auto last = [&]<typename Message>(Message) { return std::get<Message>(out.back().second); };
    ask(far, {near.id});
    EXPECT_TRUE(out.empty()) << "the fellow offers nothing yet";
    EXPECT_FALSE(near.sync->on_ask(far.id, wire::AskDigests{}));
    ask(near, {source.id, far.id});
    ASSERT_TRUE(source.sync->on_ask(near.id, last(wire::AskDigests{})));
    ask(source, {near.id});
    const wire::PieceDigests digests = last(wire::PieceDigests{});
    ASSERT_TRUE(near.sync->on_digests(source.id, digests, {}, out));
    ASSERT_TRUE(far.sync->on_have(near.id, {{}, {}, {0}}));
    if (first_lies) {
      ASSERT_TRUE(far.sync->on_have(liar, {{}, {}, {1}}));
    }
    ask(far, {near.id, liar});
    ASSERT_EQ(out.size(), 1U);
    if (first_lies) {
      EXPECT_EQ(out.back().first, liar);
      wire::PieceDigests lie = digests;
      lie.digests[0].low ^= 1;
      EXPECT_FALSE(far.sync->on_digests(liar, lie, {}, out));
      far.sync->distrust(liar);
      ask(far, {near.id, liar});
    }
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out.back().first, near.id);
    ASSERT_TRUE(near.sync->on_ask(far.id, last(wire::AskDigests{})));
    ask(near, {source.id, far.id});
    const auto answer =
        std::ranges::find_if(out, [](const auto& to) { return std::holds_alternative<wire::PieceDigests>(to.second); });
    ASSERT_NE(answer, out.end());
    EXPECT_EQ(answer->first, far.id);
    EXPECT_EQ(std::get<wire::PieceDigests>(answer->second).digests, digests.digests);
    Sync::Messages more;
    ASSERT_TRUE(far.sync->on_digests(near.id, std::get<wire::PieceDigests>(answer->second), {}, more));
    ask(far, {near.id});
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(last(wire::AskPieces{}).pieces, (std::vector<std::uint32_t>{0})) << "what the fellow has";
  }
}

// The others may miss more than the one that reaches the source.
TEST(Sync, AReceiverThatIsCompleteServesWhatItHadFromTheBeginning) {
  for (const bool far_is_first : {false, true}) {
    Network net(20);
    net.add(kSizes, 7, 4);
    Host& one = net.add(kSizes, far_is_first ? 9 : 7, 3);
    Host& other = net.add(kSizes, far_is_first ? 7 : 9, 3);
    Host& near = far_is_first ? other : one;
    Host& far = far_is_first ? one : other;
    near.tensors[0][0] ^= std::byte{1};
    net.apart = {{PeerId{0, 1}, far.id}};
    EXPECT_TRUE(net.attempt({{0, 1}}));
    net.expect_alike();
  }
}

// The other side answers on a stream that is gone already, until it notices: when another stream replaces that one.
TEST(Sync, QuestionsAreRepeatedWhenAStreamIsReplacedAndNotWhenALinkIsWidened) {
  Host source({0, 1}, kSizes, 7, 4);
  Host receiver({0, 2}, kSizes, 8, 0);
  for (Host* host : {&source, &receiver}) (void)digests_of(*host);
  const Digest root = source.sync->claim().root;
  receiver.sync->elected({}, {4, root, lineage_of({}, root), {source.id}, {receiver.id}});
  const auto asks = [&] {
    Sync::Messages out;
    receiver.sync->ask({source.id}, {}, out);
    return out.size();
  };
  EXPECT_EQ(asks(), 1U);
  receiver.sync->relinked(source.id);
  EXPECT_EQ(asks(), 0U) << "a second stream of the link";
  for (int stream = 0; stream < 2; ++stream) {
    receiver.sync->link_lost(source.id);
    EXPECT_EQ(asks(), 1U);
  }
  for (int stream = 0; stream < 2; ++stream) {
    receiver.sync->relinked(source.id);
    EXPECT_EQ(asks(), 1U);
  }
  receiver.sync->relinked(source.id);
  EXPECT_EQ(asks(), 0U);
}

// A link was opened again between a question and its answer, so that the question was repeated.
TEST(Sync, AnAnswerThatComesTwiceIsNoLie) {
  Host source({0, 1}, {kMaxDigestsPerMessage + 10}, 7, 4);
  Host receiver({0, 2}, {kMaxDigestsPerMessage + 10}, 8, 0);
  for (Host* host : {&source, &receiver}) {
    host->statement.manifest.piece_bytes = 1;
    host->sync = std::make_unique<Sync>(host->statement, host->memory, BufferRef{}, host->id, seconds(1), seconds(3));
    (void)digests_of(*host);
  }
  const Digest root = source.sync->claim().root;
  for (Host* host : {&source, &receiver}) {
    host->sync->elected({}, {4, root, lineage_of({}, root), {source.id}, {receiver.id}});
  }
  Sync::Messages out;
  const auto answer = [&] {
    out.clear();
    source.sync->ask({receiver.id}, {}, out);
    return std::get<wire::PieceDigests>(out.back().second);
  };
  for (int i = 0; i < 2; ++i) {
    out.clear();
    receiver.sync->ask({source.id}, {}, out);
    ASSERT_EQ(out.size(), 1U);
    ASSERT_TRUE(source.sync->on_ask(receiver.id, std::get<wire::AskDigests>(out[0].second)));
    receiver.sync->link_lost(source.id);
  }
  out.clear();
  receiver.sync->ask({source.id}, {}, out);
  const wire::PieceDigests first = answer();
  Sync::Messages next;
  EXPECT_TRUE(receiver.sync->on_digests(source.id, first, {}, next));
  ASSERT_EQ(next.size(), 1U);
  EXPECT_TRUE(receiver.sync->on_digests(source.id, first, {}, next));
  EXPECT_EQ(next.size(), 1U) << "nothing is asked again";
  ASSERT_TRUE(source.sync->on_ask(receiver.id, std::get<wire::AskDigests>(next[0].second)));
  EXPECT_TRUE(receiver.sync->on_digests(source.id, answer(), {}, next));
  out.clear();
  receiver.sync->ask({source.id}, {}, out);
  EXPECT_TRUE(std::holds_alternative<wire::AskPieces>(out.back().second));
}

// Two pieces are corrupted on the way.
TEST(Sync, ASourceWithOneWrongPieceIsAskedAgain) {
  Network net(8);
  net.add(kSizes, 7, 4).spoils = 2;
  net.add(kSizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
}

// The receiver is blank: it has no digests.
TEST(Sync, AReceiverAnswersNoRequestForDigests) {
  Host blank({0, 5}, kSizes, 8, 0);
  blank.statement.blank = true;
  blank.sync = std::make_unique<Sync>(blank.statement, blank.memory, BufferRef{}, blank.id, seconds(1), seconds(3));
  Sync::Messages out;
  EXPECT_TRUE(blank.sync->on_ask(PeerId{0, 1}, wire::AskDigests{})) << "no state is elected yet";
  blank.sync->elected({}, {4, {1, 1}, lineage_of({}, {1, 1}), {{0, 1}}, {blank.id}});
  blank.sync->ask({PeerId{0, 1}}, {}, out);
  for (const auto& [to, message] : out) EXPECT_FALSE(std::holds_alternative<wire::PieceDigests>(message));
}

// The source is slow and the receiver has abandoned its first requests: the source answers the later requests.
TEST(Sync, LaterRequestsReplaceAbandonedOnes) {
  Host source({0, 1}, std::vector<std::uint64_t>(300, 64), 7, 4);
  (void)digests_of(source);
  Sync::Messages out;
  source.sync->elected({}, {4, source.sync->root(), lineage_of({}, source.sync->root()), {source.id}, {{0, 2}}});
  std::vector<std::uint32_t> pieces(kMaxPiecesAsked);
  std::iota(pieces.begin(), pieces.end(), 0U);
  EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskPieces{{}, {}, pieces}));
  EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskPieces{{}, {}, {290, 291}}));
  EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskPieces{{}, {}, {254, 255}})) << "a repeated request";
  std::vector<std::uint32_t> sent;
  while (const auto next = source.sync->next(PeerId{0, 2})) sent.push_back(next->piece.value);
  EXPECT_EQ(sent.size(), kMaxPiecesAsked);
  EXPECT_NE(std::find(sent.begin(), sent.end(), 291U), sent.end());
}

// Each answer is half of the largest message: a peer that asks a thousand times at once gets one answer.
TEST(Sync, ARepeatedRequestIsAnsweredOnce) {
  Host source({0, 1}, kSizes, 7, 4);
  (void)digests_of(source);
  Sync::Messages out;
  source.sync->elected({}, {4, source.sync->root(), lineage_of({}, source.sync->root()), {source.id}, {{0, 2}}});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskDigests{}));
  source.sync->ask({PeerId{0, 2}}, {}, out);
  EXPECT_EQ(out.size(), 1U);
}

// Any peers may die at any time: the survivors end with one state, which was one of the initial states, and no survivor
// claims a mixture.
RC_GTEST_PROP(SyncLaw, SurvivorsEndWithOneState, (std::uint64_t seed)) {
  Network net(seed);
  const auto count = *rc::gen::inRange(2, 6);
  std::vector<std::uint64_t> sizes;
  for (int t = *rc::gen::inRange(0, 4); t > 0; --t)
    sizes.push_back(*rc::gen::inRange<std::uint64_t>(0, 3 * std::uint64_t{kStatePieceBytes}));
  std::set<PeerId> agreed;
  std::vector<std::vector<Bytes>> contents;
  for (int i = 0; i < count; ++i) {
    const auto content = *rc::gen::inRange<std::uint64_t>(0, 3);
    Host& host = net.add(sizes, content, *rc::gen::inRange<std::uint64_t>(0, 3), *rc::gen::arbitrary<bool>());
    if (*rc::gen::arbitrary<bool>()) agreed.insert(host.id);
    if (i > 0 && *rc::gen::inRange(0, 3) == 0) host.pieces_until_death = *rc::gen::inRange(0, 6);
    contents.push_back(host.tensors);
  }
  for (int attempts = 0; attempts < count; ++attempts) {
    if (net.attempt(agreed)) {
      net.expect_alike();
      const auto& state = net.alive().front()->tensors;
      RC_ASSERT(std::find(contents.begin(), contents.end(), state) != contents.end());
      return;
    }
    for (const Host* host : net.alive()) {
      const auto at = std::find(contents.begin(), contents.end(), host->tensors);
      RC_ASSERT(!host->sync->defined() || at != contents.end());
    }
  }
  for (const Host* host : net.alive()) RC_ASSERT(!host->sync->defined());
}

TEST(Sync, OutlinesDifferExactlyWhereStatesDiffer) {
  const auto outline = [](Host& host) {
    while (!host.sync->digested()) {
      std::vector<KernelJob> jobs;
      host.sync->digest_some(jobs);
      for (const KernelJob& job : jobs) {
        (void)host.sync->job_done(job.token, run_job(job.work, {}, host.at(memory_of(job.work).from), {}));
      }
    }
    return *host.sync->outline({{}, {}, wire::Outlined::kContents});
  };
  Host one(PeerId{0, 1}, {10, 20, 30}, 7, 4);
  Host two(PeerId{0, 2}, {10, 20, 30}, 7, 4);
  Host three(PeerId{0, 3}, {10, 20, 30}, 7, 5);
  two.tensors[1][3] ^= std::byte{1};
  const auto reference = outline(one);
  EXPECT_EQ(outline(two).tensors[0], reference.tensors[0]);
  EXPECT_NE(outline(two).tensors[1], reference.tensors[1]);
  EXPECT_EQ(outline(two).tensors[2], reference.tensors[2]);
  EXPECT_EQ(outline(two).values, reference.values);
  EXPECT_EQ(outline(three).tensors, reference.tensors);
  EXPECT_EQ(outline(three).values, std::vector<std::uint64_t>{5});
}

}  // namespace
}  // namespace lockstep::state
