// Peers that share a state, on a network of this test's own: who is asked, what lands, what is claimed afterwards.
#include "core/state/sync.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "core/base/overloaded.h"
#include "core/base/rng.h"
#include "core/kernels/run_job.h"
#include "core/wire/limits.h"

namespace lockstep::state {
namespace {

constexpr std::uint32_t kStaging = 1000;

using Bytes = std::vector<std::byte>;

Bytes filled(std::size_t size, std::uint64_t with) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i += 4096) bytes[i] = static_cast<std::byte>(mix64(with ^ i / 4096));
  return bytes;
}

// One peer: its tensors, and what it says of them.
struct Host {
  Host(PeerId peer, std::vector<std::uint64_t> sizes, std::uint64_t content, std::uint64_t revision,
       bool staged = false, Strategy strategy = Strategy::kPopular)
      : id(peer) {
    statement.revision = revision;
    statement.staged = staged;
    statement.strategy = strategy;
    statement.manifest.values = {{"step", ValueType::kUint}};
    statement.values = {revision};
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      statement.manifest.tensors.push_back({"t" + std::to_string(t), DataType::kU8, sizes[t], false});
      tensors.push_back(filled(sizes[t], mix64(content) + t));
      memory.push_back({BufferId{static_cast<std::uint32_t>(t)}, 0, sizes[t]});
    }
    BufferRef beside{};
    if (staged) {
      staging.resize(staging_bytes(statement.manifest));
      beside = {BufferId{kStaging}, 0, staging.size()};
    }
    sync = std::make_unique<Sync>(statement, memory, beside, id, seconds(1), seconds(3));
  }

  std::span<std::byte> at(BufferRef ref) {
    if (ref.length == 0) return {};
    Bytes& of = ref.id.value == kStaging ? staging : tensors.at(ref.id.value);
    return std::span(of).subspan(ref.offset, ref.length);
  }

  PeerId id;
  Statement statement;
  std::vector<Bytes> tensors;
  std::vector<BufferRef> memory;
  Bytes staging;
  std::unique_ptr<Sync> sync;
  bool dead = false;
  int pieces_until_death = -1;  // that it sends
  bool corrupts = false;        // the bytes that it sends
  int spoils = 0;               // of so many pieces; the others are good
  bool lies = false;            // about its digests
};

// Delivers in any order that streams allow, drawn from a seed.
class Network {
 public:
  explicit Network(std::uint64_t seed) : seed_(seed) {}

  Host& add(std::vector<std::uint64_t> sizes, std::uint64_t content, std::uint64_t revision, bool staged = false,
            Strategy strategy = Strategy::kPopular) {
    const PeerId id{0, hosts.size() + 1};
    return *hosts.emplace_back(std::make_unique<Host>(id, std::move(sizes), content, revision, staged, strategy));
  }

  // One attempt among those who live: whether all of them have the elected state at its end. Somebody's death ends it.
  bool attempt(const std::set<PeerId>& agreed = {}) {
    ++attempt_;
    std::vector<Claim> claims;
    for (Host* host : alive()) {
      while (!host->sync->digested()) {
        std::vector<KernelJob> jobs;
        host->sync->digest_some(jobs);
        run(*host, jobs);
      }
      claims.push_back(host->sync->claim());
    }
    const auto votes = votes_of(claims, agreed);
    if (!std::holds_alternative<Votes>(votes)) return false;
    const auto& cast = std::get<Votes>(votes);
    const Elected won = elect(claims, cast, cast.rbegin()->first);
    elected = {{}, Generation{attempt_}, won.revision, won.root, won.sources, won.receivers};
    std::vector<Host*> told = alive();  // some learn of it later than others ask them
    deaths_ = 0;
    while (!is_over()) {
      if (!told.empty() && (queues_.empty() || draw_below(8) == 0)) {
        Host* host = told.back();
        told.pop_back();
        host->sync->elected(elected);
      } else if (!queues_.empty()) {
        deliver();
      } else {
        now_ = now_ + seconds(1);  // nothing is under way: whoever waits has a deadline
        bool waits = false;
        for (Host* host : alive()) {
          waits = waits || host->sync->deadline() != kNever;
          if (host->sync->deadline() <= now_) host->sync->on_timer(now_);
        }
        if (!waits) break;
      }
      for (Host* host : alive()) {
        Sync::Messages out;
        host->sync->ask(linked(*host), now_, out);
        send(*host, out);
      }
    }
    queues_.clear();
    const bool over = deaths_ == 0 && is_over();
    stranded.clear();
    for (Host* host : alive()) {
      if (host->sync->is_stranded()) stranded.push_back(host->id);
      if (over && host->statement.staged) {
        std::vector<KernelJob> jobs;
        for (host->sync->swap_some(jobs); !jobs.empty(); host->sync->swap_some(jobs)) {
          EXPECT_LE(jobs.size(), 8U) << "its streams wait meanwhile";
          run(*host, jobs);
        }
      }
      if (over) continue;
      host->sync->stop();
      host->sync->stream_closed(StreamId{1});
      host->sync->begin_again();
    }
    return over;
  }

  std::vector<Host*> alive() {
    std::vector<Host*> list;
    for (const auto& host : hosts) {
      if (!host->dead) list.push_back(host.get());
    }
    return list;
  }
  void expect_alike() {
    for (const Host* host : alive()) {
      EXPECT_TRUE(host->sync->defined());
      EXPECT_EQ(host->sync->root(), elected.root);
      EXPECT_EQ(host->sync->revision(), elected.revision);
      EXPECT_EQ(host->sync->values(), std::vector{elected.revision});
      EXPECT_EQ(host->tensors, alive().front()->tensors);
    }
  }

  std::vector<std::unique_ptr<Host>> hosts;
  wire::Elected elected;
  std::uint64_t pieces_sent = 0;
  std::vector<PeerId> stranded;  // at the end of the last attempt

 private:
  struct Parcel {
    std::optional<wire::Message> message;
    std::optional<wire::Segment> segment;
    Bytes payload;
  };

  std::uint64_t draw_below(std::uint64_t bound) { return below(draw(seed_, 1, ++draws_), bound); }
  Host& host(PeerId id) { return *hosts[id.low - 1]; }
  std::set<PeerId> linked(const Host& of) {
    std::set<PeerId> others;
    for (const Host* other : alive()) {
      if (other->id != of.id) others.insert(other->id);
    }
    return others;
  }
  bool is_over() {
    const auto all = alive();
    return deaths_ > 0 || std::all_of(all.begin(), all.end(), [](const Host* h) { return h->sync->complete(); });
  }

  void run(Host& host, std::vector<KernelJob>& jobs) {
    for (const KernelJob& job : jobs) {
      const JobResult result = run_job(job, host.at(job.into), host.at(job.from), host.at(job.own));
      (void)host.sync->job_done(job.token, result);
    }
    jobs.clear();
  }
  void send(Host& from, Sync::Messages& messages) {
    for (auto& [to, message] : messages) {
      if (auto* digests = std::get_if<wire::PieceDigests>(&message); digests != nullptr && from.lies) {
        digests->digests.back().low ^= 1U;
      }
      if (const auto* ask = std::get_if<wire::AskPieces>(&message)) {
        EXPECT_LE(ask->pieces.size(), kMaxPiecesAsked);
      }
      queues_[{from.id, to}].push_back({std::move(message), {}, {}});
    }
  }
  void send_pieces(Host& from, PeerId to) {
    while (const auto next = from.sync->next(to)) {
      const auto bytes = from.at(next->payload);
      Parcel parcel{
          {},
          wire::Segment{
              {}, {}, wire::Phase::kState, SegmentIndex{next->piece.value}, static_cast<std::uint32_t>(bytes.size())},
          Bytes(bytes.begin(), bytes.end())};
      if (from.corrupts || from.spoils-- > 0) parcel.payload.back() ^= std::byte{1};
      queues_[{from.id, to}].push_back(std::move(parcel));
      ++pieces_sent;
      if (from.pieces_until_death >= 0 && from.pieces_until_death-- == 0) return die(from);
    }
  }
  void die(Host& host) {
    host.dead = true;
    ++deaths_;
  }
  void deliver() {
    auto at = queues_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(draw_below(queues_.size())));
    const PeerId from = at->first.first;  // no binding: older clang captures none
    const PeerId to = at->first.second;
    Parcel parcel = std::move(at->second.front());
    at->second.erase(at->second.begin());
    if (at->second.empty()) queues_.erase(at);
    Host& receiver = host(to);
    if (receiver.dead) return;
    if (parcel.segment) return land(receiver, from, parcel);
    Sync::Messages out;
    const bool good = std::visit(
        overloaded{[&](const wire::AskDigests& in) { return receiver.sync->on_ask(from, in); },
                   [&](const wire::PieceDigests& in) { return receiver.sync->on_digests(from, in, now_, out); },
                   [&](const wire::AskPieces& in) { return receiver.sync->on_ask(from, in); },
                   [&](const wire::HavePieces& in) { return receiver.sync->on_have(from, in); },
                   [](const auto&) { return false; }},
        *parcel.message);
    EXPECT_TRUE(good || host(from).lies);
    if (!good) receiver.sync->distrust(from);
    send(receiver, out);
    for (Host* other : alive()) {
      if (!receiver.dead && other->id != to) send_pieces(receiver, other->id);
    }
  }
  void land(Host& receiver, PeerId from, const Parcel& parcel) {
    const auto place = receiver.sync->begin(from, *parcel.segment, StreamId{1}, now_);
    ASSERT_NE(place.landing, Sync::Landing::kNonsense);
    if (place.landing == Sync::Landing::kSink) return;
    std::copy(parcel.payload.begin(), parcel.payload.end(), receiver.at(place.into).begin());
    std::vector<KernelJob> jobs;
    receiver.sync->landed(from, *parcel.segment, false, now_, jobs);
    run(receiver, jobs);
  }

  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::uint64_t attempt_ = 0;
  int deaths_ = 0;
  Instant now_;
  std::map<std::pair<PeerId, PeerId>, std::vector<Parcel>> queues_;
};

const std::vector<std::uint64_t> kSizes = {3 * std::uint64_t{kStatePieceBytes} + 5, 0, 1,
                                           2 * std::uint64_t{kStatePieceBytes}, 300};

TEST(Sync, EqualStatesMoveNothing) {
  Network net(1);
  for (int i = 0; i < 3; ++i) net.add(kSizes, 7, 4);
  EXPECT_TRUE(net.attempt());
  EXPECT_EQ(net.pieces_sent, 0U);
  net.expect_alike();
}

TEST(Sync, ANewcomerTakesTheStateOver) {
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

std::size_t digests_of(Host& host) {
  std::size_t digests = 0;
  while (!host.sync->digested()) {
    std::vector<KernelJob> jobs;
    host.sync->digest_some(jobs);
    digests += jobs.size();
    for (const KernelJob& job : jobs) {
      (void)host.sync->job_done(job.token, run_job(job, host.at(job.into), host.at(job.from), {}));
    }
  }
  return digests;
}

TEST(Sync, WhatIsUnchangedIsNotDigestedAgain) {
  Host first({0, 1}, kSizes, 7, 4);
  EXPECT_EQ(digests_of(first), 8U);
  Host again({0, 1}, kSizes, 7, 4);
  again.statement.unchanged = {0, 1, 4};
  again.sync->know(first.sync->digests());
  EXPECT_EQ(digests_of(again), 3U) << "the third and the fourth";
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

TEST(Sync, ABlankPeerDigestsNothingAndTakesAllOver) {
  Network net(5);
  net.add(kSizes, 7, 4);
  Host& blank = net.add(kSizes, 7, 9);
  blank.statement.blank = true;
  blank.sync = std::make_unique<Sync>(blank.statement, blank.memory, BufferRef{}, blank.id, seconds(1), seconds(3));
  EXPECT_TRUE(blank.sync->digested());
  EXPECT_FALSE(blank.sync->claim().defined);
  EXPECT_TRUE(net.attempt());
  EXPECT_EQ(net.pieces_sent, 8U) << "also what happens to be equal";
  net.expect_alike();
}

// The bytes are the same, the counters are not.
TEST(Sync, ARevisionAloneIsTakenOverWithoutAByte) {
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
  EXPECT_LT(source.sync->bytes_sent(), 60 * std::uint64_t{kStatePieceBytes}) << "some came from fellows";
}

TEST(Sync, StagedTheOldStateStaysUntilTheCommit) {
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
      << "what was fetched before is not fetched again";
}

TEST(Sync, InPlaceAStateThatWasPartlyTakenOverIsNone) {
  Network net(7);
  Host& source = net.add(kSizes, 7, 4);
  Host& newcomer = net.add(kSizes, 8, 9);
  source.pieces_until_death = 3;
  EXPECT_FALSE(net.attempt({source.id}));
  EXPECT_FALSE(newcomer.sync->defined());
  EXPECT_FALSE(newcomer.sync->claim().defined);
  EXPECT_FALSE(net.attempt({source.id})) << "alone it has nothing to go on with";
}

TEST(Sync, APieceThatIsNotWhatItShouldBeIsTakenFromAnother) {
  Network net(8);
  net.add(kSizes, 7, 4).corrupts = true;
  net.add(kSizes, 7, 4);
  net.add(kSizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}, {0, 2}}));
  net.expect_alike();
}

TEST(Sync, WhoIsLiedToByAllHasNobodyLeftToAsk) {
  Network net(8);
  net.add(kSizes, 7, 4).corrupts = true;
  net.add(kSizes, 7, 4).corrupts = true;
  Host& newcomer = net.add(kSizes, 8, 0);
  EXPECT_FALSE(net.attempt({{0, 1}, {0, 2}}));
  EXPECT_EQ(net.stranded, std::vector{newcomer.id});
  net.hosts[1]->corrupts = false;  // the next attempt believes them again
  EXPECT_TRUE(net.attempt({{0, 1}, {0, 2}}));
  EXPECT_EQ(net.stranded, std::vector<PeerId>{});
  net.expect_alike();
}

TEST(Sync, DigestsThatAreNotOfTheElectedStateAreTakenFromAnother) {
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

TEST(Sync, NonsenseIsRefused) {
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
  EXPECT_TRUE(sync.on_digests(source.id, wire::PieceDigests{}, {}, out)) << "was not asked for: late, maybe";
}

// As models have: biases and norms by the hundred.
TEST(Sync, ManySmallTensorsAreAskedForInSeveralQuestions) {
  Network net(11);
  const std::vector<std::uint64_t> sizes(1000, 64);
  net.add(sizes, 7, 4);
  net.add(sizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
}

TEST(Sync, ABlankPeerThatStagesHasAStateAtTheEnd) {
  Network net(12);
  net.add(kSizes, 7, 4);
  Host& blank = net.add(kSizes, 7, 9, true);
  blank.statement.blank = true;
  const BufferRef beside{BufferId{kStaging}, 0, blank.staging.size()};
  blank.sync = std::make_unique<Sync>(blank.statement, blank.memory, beside, blank.id, seconds(1), seconds(3));
  EXPECT_TRUE(net.attempt());
  net.expect_alike();
}

// attempt() sees that they are few at a time.
TEST(Sync, WhatIsStagedIsCopiedInLittlePiecesOfTime) {
  Network net(13);
  net.add({std::uint64_t{20} * kStatePieceBytes}, 7, 4);
  net.add({std::uint64_t{20} * kStatePieceBytes}, 8, 0, true);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
}

TEST(Sync, WhatIsStagedTakesNoMoreThanTheStateHas) {
  Host many({0, 1}, std::vector<std::uint64_t>(1000, 64), 7, 4);
  many.statement.manifest.tensors.front().may_differ = true;
  EXPECT_EQ(staging_bytes(many.statement.manifest), 999U * 64);
}

TEST(Sync, SourcesThatDoNotAnswerAreAskedInTurn) {
  Host newcomer({0, 5}, kSizes, 8, 0);
  (void)digests_of(newcomer);
  Sync::Messages out;
  newcomer.sync->elected({{}, {}, 4, {1, 1}, {{0, 1}, {0, 2}, {0, 3}}, {newcomer.id}});
  std::vector<PeerId> asked;
  for (int second = 0; second < 6; ++second) {
    newcomer.sync->ask({{0, 1}, {0, 2}, {0, 3}}, Instant{} + seconds(second), out);
    asked.push_back(out.back().first);
    newcomer.sync->on_timer(Instant{} + seconds(second + 1));
  }
  EXPECT_EQ(asked, (std::vector<PeerId>{{0, 1}, {0, 2}, {0, 3}, {0, 1}, {0, 2}, {0, 3}}));
}

TEST(Sync, WhoReachesNoSourceForLongIsCutOff) {
  Host newcomer({0, 5}, kSizes, 8, 0);
  (void)digests_of(newcomer);
  const PeerId fellow{0, 6};
  newcomer.sync->elected({{}, {}, 4, {1, 1}, {{0, 1}}, {newcomer.id, fellow}});
  Sync::Messages out;
  const auto look = [&](int second, const std::set<PeerId>& linked) {
    newcomer.sync->ask(linked, Instant{} + seconds(second), out);
    if (newcomer.sync->deadline() <= Instant{} + seconds(second)) newcomer.sync->on_timer(Instant{} + seconds(second));
    return newcomer.sync->is_cut_off();
  };
  EXPECT_FALSE(look(0, {fellow}));
  EXPECT_FALSE(look(2, {fellow}));
  EXPECT_FALSE(look(3, {{0, 1}, fellow})) << "in time";
  newcomer.sync->relinked({0, 1});
  EXPECT_FALSE(look(4, {fellow}));
  EXPECT_FALSE(look(6, {fellow}));
  EXPECT_TRUE(look(7, {fellow}));
  EXPECT_EQ(newcomer.sync->deadline(), kNever);
  newcomer.sync->stop();
  newcomer.sync->begin_again();
  EXPECT_FALSE(newcomer.sync->is_cut_off()) << "in the next attempt it may be others who have the state";
}

// Bits are flipped on the way.
TEST(Sync, ASourceWhosePieceIsWrongOnceIsAskedAgain) {
  Network net(8);
  net.add(kSizes, 7, 4).spoils = 2;
  net.add(kSizes, 8, 0);
  EXPECT_TRUE(net.attempt({{0, 1}}));
  net.expect_alike();
}

// It is blank: there are no digests to tell.
TEST(Sync, WhoReceivesTellsNobodyItsDigests) {
  Host blank({0, 5}, kSizes, 8, 0);
  blank.statement.blank = true;
  blank.sync = std::make_unique<Sync>(blank.statement, blank.memory, BufferRef{}, blank.id, seconds(1), seconds(3));
  Sync::Messages out;
  EXPECT_TRUE(blank.sync->on_ask(PeerId{0, 1}, wire::AskDigests{})) << "nobody is elected yet";
  blank.sync->elected({{}, {}, 4, {1, 1}, {{0, 1}}, {blank.id}});
  blank.sync->ask({PeerId{0, 1}}, {}, out);
  for (const auto& [to, message] : out) EXPECT_FALSE(std::holds_alternative<wire::PieceDigests>(message));
}

// It is slow, and was given up for a while: what it was asked for since then goes out, and what it was asked for first does not.
TEST(Sync, WhatIsAskedForLaterTakesThePlaceOfWhatWasGivenUp) {
  Host source({0, 1}, std::vector<std::uint64_t>(300, 64), 7, 4);
  (void)digests_of(source);
  Sync::Messages out;
  source.sync->elected({{}, {}, 4, source.sync->root(), {source.id}, {{0, 2}}});
  std::vector<std::uint32_t> pieces(kMaxPiecesAsked);
  std::iota(pieces.begin(), pieces.end(), 0U);
  EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskPieces{{}, {}, pieces}));
  EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskPieces{{}, {}, {290, 291}}));
  EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskPieces{{}, {}, {254, 255}})) << "once more";
  std::vector<std::uint32_t> sent;
  while (const auto next = source.sync->next(PeerId{0, 2})) sent.push_back(next->piece.value);
  EXPECT_EQ(sent.size(), kMaxPiecesAsked);
  EXPECT_NE(std::find(sent.begin(), sent.end(), 291U), sent.end());
}

// Each answer is half a message: who asks a thousand times in one breath gets one.
TEST(Sync, AQuestionThatIsRepeatedIsAnsweredOnce) {
  Host source({0, 1}, kSizes, 7, 4);
  (void)digests_of(source);
  Sync::Messages out;
  source.sync->elected({{}, {}, 4, source.sync->root(), {source.id}, {{0, 2}}});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(source.sync->on_ask(PeerId{0, 2}, wire::AskDigests{}));
  source.sync->ask({PeerId{0, 2}}, {}, out);
  EXPECT_EQ(out.size(), 1U);
}

// Whoever dies when: those who live end with one state, which was one of those at the beginning, and nobody is left with a mixture
// that it claims.
RC_GTEST_PROP(SyncLaw, OneStateWhoeverDies, (std::uint64_t seed)) {
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

TEST(Sync, OutlinesDifferWhereStatesDo) {
  const auto outline = [](Host& host) {
    while (!host.sync->digested()) {
      std::vector<KernelJob> jobs;
      host.sync->digest_some(jobs);
      for (const KernelJob& job : jobs) {
        (void)host.sync->job_done(job.token, run_job(job, host.at(job.into), host.at(job.from), host.at(job.own)));
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
