// Newcomers that do not answer, or answer late: what they cost the members, and when they are admitted. The two members
// are real machines; newcomers are played by the test, or are real machines, too.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fuzz/hosts.h"

namespace lockstep::coordinator {
namespace {

using fuzz::address_of;
using fuzz::FarEnd;
using fuzz::PeerHost;

constexpr std::uint8_t kStrangeHost = 9;
// A fifth and a fiftieth of a heartbeat, and a step of the test.
constexpr Duration kFullPatience = milliseconds(110);
constexpr Duration kPatienceWithSuspects = milliseconds(20);

peer::PeerOptions named(std::uint64_t n, std::uint32_t founders = 2) {
  peer::PeerOptions options;
  options.id = {n, n};
  options.founders = founders;
  options.dial_timeout = options.link_timeout = seconds(3600);  // nobody answers their dials
  return options;
}

struct Lobby {
  explicit Lobby(const CoordinatorOptions& options = {}) : coordinator(options) {
    for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{2}}) add(n, static_cast<std::uint8_t>(n));
    settle();
    EXPECT_EQ(coordinator.status().view.members.size(), 2U);
  }

  PeerHost& add(std::uint64_t n, std::uint8_t host) {
    peers.push_back(std::make_unique<PeerHost>(named(n)));
    peers.back()->connect();
    fuzz::connect_hosts(*peers.back(), coordinator, host);
    return *peers.back();
  }
  FarEnd& add_stranger(std::uint64_t n, std::uint8_t host, std::uint64_t gang = 0, Duration round_trip = {}) {
    FarEnd& stranger = coordinator.streams.accept(address_of(host));
    wire::Join join;
    join.peer = {n, n};
    join.gang = GangId{gang};
    join.gang_size = gang == 0 ? 1 : 2;
    join.advertised = address_of(host);
    join.round_trip = round_trip;
    stranger.greet();
    stranger.say(join);
    strangers.push_back(&stranger);
    settle();
    return stranger;
  }
  void settle() {
    for (int i = 0; i < 30; ++i) {
      coordinator.run();
      for (auto& peer : peers) {
        if (peer.get() != silent) peer->run();
      }
    }
  }
  void pass(Duration time, Duration step = milliseconds(10)) {
    for (Duration left = time; left.ns > 0; left = left - step) {
      for (FarEnd* stranger : strangers) stranger->say(wire::Heartbeat{});
      coordinator.pass(step);
      for (auto& peer : peers) {
        if (peer.get() != silent) peer->pass(step);
      }
      settle();
    }
  }
  static void answer(FarEnd& stranger) { stranger.say(wire::Flush{stranger.last<wire::Propose>()->number, {}}); }

  // Both call it; within so long, and no sooner, it ends for both, with so many members.
  void expect_admission(Duration within, std::size_t members) {
    const CallId calls[] = {peers[0]->admit(), peers[1]->admit()};
    settle();
    for (Duration passed{}; peers[0]->outcome(calls[0]) == nullptr; passed = passed + milliseconds(10)) {
      ASSERT_LT(passed, within) << "they still wait";
      pass(milliseconds(10));
    }
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(peers[i]->outcome(calls[i])->status, Status::kOk);
    EXPECT_EQ(coordinator.status().view.members.size(), members);
  }

  // How long members wait in an admission for newcomers that do not answer, in milliseconds. `held_for`: a member
  // answers so late.
  std::int64_t milliseconds_of_admission(Duration held_for = {}) {
    peers[1]->admit();
    settle();
    if (held_for.ns > 0) silent = peers[1].get();
    const CallId call = peers[0]->admit();
    settle();
    for (std::int64_t passed = 0; passed < 10'000; ++passed) {
      if (peers[0]->outcome(call) != nullptr) return passed;
      if (silent != nullptr && milliseconds(passed) >= held_for) {
        silent = nullptr;
        settle();
      }
      pass(milliseconds(1), milliseconds(1));
    }
    return -1;
  }

  // A newcomer answers the question, and not the proposal of the next admission, which goes on without it.
  FarEnd& fall_silent(std::uint64_t n, std::uint8_t host, Duration within = kFullPatience) {
    FarEnd& stranger = add_stranger(n, host);
    answer(stranger);
    settle();
    expect_admission(within, 2);
    return stranger;
  }

  fuzz::CoordinatorHost coordinator;
  std::vector<std::unique_ptr<PeerHost>> peers;
  std::vector<FarEnd*> strangers;
  PeerHost* silent = nullptr;
};

bool is_question(const wire::Propose& proposal) { return proposal.view.members.empty(); }

TEST(Newcomers, ANewcomerThatNeverAnswersDelaysNoAdmission) {
  Lobby lobby;
  FarEnd& stranger = lobby.add_stranger(7, kStrangeHost);
  ASSERT_NE(stranger.last<wire::Propose>(), nullptr);
  EXPECT_TRUE(is_question(*stranger.last<wire::Propose>()));
  EXPECT_EQ(stranger.last<wire::Propose>()->link_key, LinkKey{}) << "the run's key is not for strangers";
  for (int i = 0; i < 3; ++i) lobby.expect_admission({}, 2);
  EXPECT_EQ(stranger.count<wire::Propose>(), 1U);
  lobby.pass(milliseconds(2900));
  EXPECT_EQ(stranger.last<wire::Evicted>(), nullptr);
  lobby.pass(milliseconds(200));
  ASSERT_NE(stranger.last<wire::Evicted>(), nullptr);
  EXPECT_NE(stranger.last<wire::Evicted>()->text.find("did not answer a proposal within 3000 ms"), std::string::npos);
  EXPECT_EQ(lobby.coordinator.status().lost, 0U);
}

TEST(Newcomers, ANewcomerThatAnswersOnceDelaysOneAdmissionForAFewRoundTrips) {
  Lobby lobby;
  FarEnd& stranger = lobby.fall_silent(7, kStrangeHost);
  EXPECT_EQ(stranger.count<wire::Propose>(), 2U);
  EXPECT_EQ(stranger.count<wire::Waiting>(), 2U);
  lobby.expect_admission({}, 2);  // without the newcomer, which has not answered yet
  lobby.pass(milliseconds(3000));
  EXPECT_NE(stranger.last<wire::Evicted>(), nullptr);
}

TEST(Newcomers, TheNextNewcomersOfItsHostGetLessTime) {
  Lobby lobby;
  lobby.fall_silent(7, kStrangeHost);
  for (std::uint64_t n = 8; n < 12; ++n) {
    FarEnd& again = lobby.fall_silent(n, kStrangeHost, kPatienceWithSuspects);
    EXPECT_EQ(again.count<wire::Propose>(), 2U);
  }
}

// A newcomer answers the question, and not the proposal: each part of rule 19 about the time that it costs, to the
// millisecond. Heartbeats come each 500 ms, the silence is 3 s.
TEST(Newcomers, AMemberWaitsExactlyAsLongAsTheRulesSay) {
  struct Case {
    const char* of = "";
    Duration round_trip;      // that the newcomer has measured
    bool is_suspect = false;  // somebody else on its host has not answered
    Duration held_for;        // a member answers so late
    std::int64_t ms = 0;
  };
  const Case cases[] = {
      {"a fifth of a heartbeat", {}, false, {}, 100},
      {"a fiftieth of a heartbeat, on the host of another one that was silent", {}, true, {}, 10},
      {"four round trips", milliseconds(40), false, {}, 160},
      {"two heartbeats at most, before it has missed a proposal", seconds(2), false, {}, 1000},
      {"four times as long as the slowest member takes", {}, false, milliseconds(70), 280},
      {"a silence at most", {}, false, milliseconds(900), 3000},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.of);
    Lobby lobby;
    if (one.is_suspect) lobby.fall_silent(6, kStrangeHost);
    FarEnd& stranger = lobby.add_stranger(7, kStrangeHost, 0, one.round_trip);
    Lobby::answer(stranger);
    lobby.settle();
    EXPECT_EQ(lobby.milliseconds_of_admission(one.held_for), one.ms);
  }
}

// The host of a silent newcomer is suspect for 200 silences.
TEST(Newcomers, ASuspectHostIsTrustedAgainAfterTwoHundredSilences) {
  for (const bool over : {false, true}) {
    CoordinatorOptions options;
    options.heartbeat = milliseconds(500);
    options.silence = milliseconds(1000);
    Lobby lobby(options);
    lobby.fall_silent(7, kStrangeHost);
    lobby.strangers.clear();  // it is gone
    lobby.pass(seconds(200) - milliseconds(over ? 0 : 500), milliseconds(250));
    FarEnd& next = lobby.add_stranger(8, kStrangeHost);
    Lobby::answer(next);
    lobby.settle();
    EXPECT_EQ(lobby.milliseconds_of_admission(), over ? 100 : 10);
  }
}

TEST(Newcomers, ANewcomerOfASuspectHostThatAnswersIsAdmitted) {
  Lobby lobby;
  lobby.fall_silent(7, kStrangeHost);
  PeerHost& honest = lobby.add(3, kStrangeHost);
  lobby.settle();
  lobby.expect_admission({}, 3);
  EXPECT_EQ(honest.views.size(), 1U);
}

TEST(Newcomers, ANewcomerThatAnswersLateIsAdmittedNextTimeAndGetsMoreTime) {
  Lobby lobby;
  FarEnd& slow = lobby.fall_silent(7, kStrangeHost);
  lobby.pass(milliseconds(700));
  Lobby::answer(slow);  // 0.8 s after it was asked
  lobby.settle();
  const CallId calls[] = {lobby.peers[0]->admit(), lobby.peers[1]->admit()};
  lobby.settle();
  lobby.pass(milliseconds(800));
  EXPECT_EQ(lobby.peers[0]->outcome(calls[0]), nullptr);
  Lobby::answer(slow);
  lobby.settle();
  ASSERT_NE(lobby.peers[0]->outcome(calls[0]), nullptr);
  EXPECT_EQ(lobby.coordinator.status().view.members.size(), 3U);
}

TEST(Newcomers, AreAdmittedInTheOrderOfTheirFirstAnswers) {
  Lobby lobby;
  FarEnd& first = lobby.add_stranger(7, kStrangeHost);
  FarEnd& second = lobby.add_stranger(8, kStrangeHost + 1);
  Lobby::answer(second);
  lobby.settle();
  Lobby::answer(first);
  lobby.settle();
  for (auto& peer : lobby.peers) peer->admit();
  lobby.settle();
  ASSERT_EQ(first.last<wire::Propose>()->view.members.size(), 4U);
  EXPECT_EQ(first.last<wire::Propose>()->view.members[2].id, (PeerId{8, 8}));
  EXPECT_EQ(first.last<wire::Propose>()->view.members[3].id, (PeerId{7, 7}));
}

TEST(Newcomers, AreAskedWhenTheRunIsFoundedWithoutThem) {
  fuzz::CoordinatorHost coordinator{CoordinatorOptions{}};
  FarEnd& half = coordinator.streams.accept(address_of(kStrangeHost));  // its gang is not whole
  wire::Join join;
  join.peer = {7, 7};
  join.gang = GangId{5};
  join.gang_size = 2;
  join.advertised = address_of(kStrangeHost);
  half.greet();
  half.say(join);
  coordinator.run();
  EXPECT_EQ(half.last<wire::Propose>(), nullptr) << "an empty run asks nobody";
  PeerHost founder(named(1, 1));
  founder.connect();
  fuzz::connect_hosts(founder, coordinator, 1);
  for (int i = 0; i < 10; ++i) {
    coordinator.run();
    founder.run();
  }
  EXPECT_EQ(coordinator.status().view.members.size(), 1U);
  ASSERT_NE(half.last<wire::Propose>(), nullptr);
  EXPECT_TRUE(is_question(*half.last<wire::Propose>()));
}

TEST(Newcomers, AGangIsAdmittedOnceAllItsMembersHaveAnswered) {
  Lobby lobby;
  FarEnd& mute = lobby.add_stranger(7, kStrangeHost, 5);
  FarEnd& mate = lobby.add_stranger(8, kStrangeHost + 1, 5);
  lobby.add(3, 3);
  Lobby::answer(mate);
  lobby.settle();
  lobby.expect_admission({}, 3);  // of the gang nobody
  Lobby::answer(mute);
  lobby.settle();
  for (auto& peer : lobby.peers) peer->admit();
  lobby.settle();
  Lobby::answer(mute);
  Lobby::answer(mate);
  lobby.settle();
  EXPECT_EQ(lobby.coordinator.status().view.members.size(), 5U);
}

TEST(Newcomers, AGangWithASilentMemberKeepsWaiting) {
  Lobby lobby;
  FarEnd& mute = lobby.add_stranger(7, kStrangeHost, 5);
  FarEnd& mate = lobby.add_stranger(8, kStrangeHost + 1, 5);
  lobby.add(3, 3);
  Lobby::answer(mute);
  Lobby::answer(mate);
  lobby.settle();
  const CallId calls[] = {lobby.peers[0]->admit(), lobby.peers[1]->admit()};
  lobby.settle();
  Lobby::answer(mate);
  lobby.pass(milliseconds(110));
  EXPECT_NE(lobby.peers[0]->outcome(calls[0]), nullptr);
  EXPECT_EQ(lobby.coordinator.status().view.members.size(), 3U);
  EXPECT_EQ(mate.count<wire::Waiting>(), 2U);
}

// No newcomer is admitted while the coordinator waits for a silent member. As newcomers wait for that member alone, it
// is given up after two thirds of a silence (rule 50), and they are admitted at once, without another call.
TEST(Newcomers, AreAdmittedAsSoonAsASilentMemberIsEvicted) {
  Lobby lobby;
  PeerHost& third = lobby.add(3, 3);
  lobby.settle();
  lobby.expect_admission({}, 3);
  lobby.silent = &third;
  const CallId calls[] = {lobby.peers[0]->admit(), lobby.peers[1]->admit()};
  PeerHost& newcomer = lobby.add(4, 4);
  lobby.settle();
  for (int i = 0; i < 400 && newcomer.views.empty(); ++i) lobby.pass(milliseconds(10));
  ASSERT_EQ(newcomer.views.size(), 1U);
  EXPECT_GE((newcomer.now - Instant{}).ns, 1'990'000'000) << "two thirds of a silence";
  EXPECT_LE((newcomer.now - Instant{}).ns, 2'010'000'000);
  EXPECT_EQ(lobby.peers[0]->outcome(calls[0])->status, Status::kOk);
  EXPECT_EQ(newcomer.views.front().members.size(), 3U);
}

TEST(Newcomers, WaitAWholeSilenceForAMemberBesideOthersThatHaveNotCalledAdmit) {
  Lobby lobby;
  PeerHost& third = lobby.add(3, 3);
  lobby.settle();
  lobby.expect_admission({}, 3);
  lobby.silent = &third;
  (void)lobby.peers[0]->admit();
  lobby.add(4, 4);
  lobby.settle();
  lobby.pass(milliseconds(2900));
  EXPECT_EQ(lobby.coordinator.status().lost, 0U);
  lobby.pass(milliseconds(200));
  EXPECT_EQ(lobby.coordinator.status().lost, 1U);
}

TEST(Newcomers, TheNumberOfSuspectHostsIsLimited) {
  Lobby lobby;
  for (std::uint32_t n = 0; n < kMaxSuspects + 20; ++n) {
    lobby.fall_silent(100 + n, static_cast<std::uint8_t>(20 + n));
  }
  lobby.fall_silent(1000, 20 + kMaxSuspects + 19, kPatienceWithSuspects);  // still suspect
  Lobby::answer(lobby.add_stranger(1001, 20));
  lobby.settle();
  const CallId calls[] = {lobby.peers[0]->admit(), lobby.peers[1]->admit()};
  lobby.settle();
  lobby.pass(milliseconds(20));
  EXPECT_EQ(lobby.peers[0]->outcome(calls[0]), nullptr) << "the host is forgotten: its newcomers get their full time";
}

}  // namespace
}  // namespace lockstep::coordinator
