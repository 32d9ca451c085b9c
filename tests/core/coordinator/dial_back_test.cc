// Rule 70 of docs/protocol.md at the coordinator: newcomers are dialled back before they are admitted.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/core/coordinator/meeting.h"

namespace lockstep::coordinator {
namespace {

constexpr Duration kLimit = milliseconds(1500);
constexpr std::uint32_t kPeers = 3;

// How the address of a newcomer answers.
enum class Answer : std::uint8_t { kThePeer, kAnotherPeer, kAnotherProgram, kHangsUp, kRefused, kSilent };

CoordinatorOptions dialling() {
  CoordinatorOptions options;
  options.dial_back = kLimit;
  return options;
}

// What the peer says that was meant.
wire::Link answer_of(const wire::Link& greeting) { return {greeting.to, {}, {}, 1, {}, wire::LinkUse::kDialBack}; }

struct DialledBack : Meeting {
  DialledBack() : Meeting(kPeers, milliseconds(1), dialling()) {}

  void answer(Answer with) {
    const auto dialling = coordinator.streams.dialling();
    const auto next = std::ranges::find_if(dialling, [&](FarEnd* end) { return !std::ranges::count(silent, end); });
    ASSERT_NE(next, dialling.end());
    FarEnd& end = **next;
    EXPECT_EQ(end.dialled(), address_of(1));
    if (with == Answer::kSilent) return silent.push_back(&end);
    if (with == Answer::kRefused) {
      coordinator.streams.refuse(end, "nobody listens");
      return answer_all();
    }
    coordinator.streams.open(end);
    coordinator.run();
    const auto* const greeting = end.last<wire::Link>();
    ASSERT_NE(greeting, nullptr);
    EXPECT_EQ(greeting->use, wire::LinkUse::kDialBack);
    EXPECT_EQ(greeting->key, LinkKey{}) << "the key of the run is for members";
    if (with == Answer::kHangsUp) end.hang_up();
    if (with == Answer::kAnotherProgram) end.say_bytes(std::as_bytes(std::span("HTTP/1.0 400 Bad Request")));
    if (with == Answer::kThePeer || with == Answer::kAnotherPeer) end.greet();
    if (with == Answer::kThePeer) end.say(answer_of(*greeting));
    if (with == Answer::kAnotherPeer) end.say(wire::Refused{Status::kRefused, "another peer was meant"});
    answer_all();
    EXPECT_TRUE(end.shown_out() || with == Answer::kHangsUp);
  }
  // All have answered that will.
  void wait() {
    if (!silent.empty()) pass(kLimit + milliseconds(50));
    answer_all();
  }
  [[nodiscard]] std::vector<PeerId> callers() const {
    std::vector<PeerId> callers;
    for (const wire::Member& member : coordinator.status().view.members) {
      if (member.calls_out) callers.push_back(member.id);
    }
    return callers;
  }
  // What the log says of the peers that call out.
  [[nodiscard]] std::string said() const {
    std::string all;
    for (const trace::Event& event : coordinator.events) {
      if (event.kind == trace::Kind::kCallsOut) all += trace::short_name(event.peer) + ": " + event.text;
    }
    return all;
  }

  std::vector<FarEnd*> silent;
};

TEST(DialBack, NobodyIsAdmittedBeforeItIsKnownWhoCanBeDialled) {
  DialledBack run;
  for (std::uint32_t i = 0; i < kPeers; ++i) {
    EXPECT_EQ(run.members(), 0U);
    run.answer(Answer::kThePeer);
  }
  EXPECT_EQ(run.members(), kPeers);
  EXPECT_TRUE(run.callers().empty());
  EXPECT_EQ(run.said(), "");
}

TEST(DialBack, WhoIsNotReachedCallsOutAndTheLogSaysWhy) {
  struct Case {
    Answer answer;
    std::string why;
  };
  const std::vector<Case> cases = {{Answer::kRefused, "(no stream (nobody listens))"},
                                   {Answer::kAnotherPeer, "(another peer was meant)"},
                                   {Answer::kAnotherProgram, "(what answers there is no peer: "},
                                   {Answer::kHangsUp, "(the stream ended)"},
                                   {Answer::kSilent, "(no stream in time)"}};
  for (const Case& each : cases) {
    for (std::uint32_t victim = 0; victim < kPeers; ++victim) {
      DialledBack run;
      for (std::uint32_t i = 0; i < kPeers; ++i) run.answer(i == victim ? each.answer : Answer::kThePeer);
      run.wait();
      ASSERT_EQ(run.members(), kPeers) << each.why;
      EXPECT_EQ(run.callers(), std::vector{Meeting::id(victim)}) << each.why;
      EXPECT_NE(run.said().find("nobody can dial it at 10.0.0.1:4000 " + each.why), std::string::npos) << run.said();
    }
  }
}

TEST(DialBack, TheAnswerNamesThePeer) {
  const PeerId me = Meeting::id(0);
  const std::vector<wire::Message> wrong = {wire::Link{Meeting::id(1), {}, {}, 1, {}, wire::LinkUse::kDialBack},
                                            wire::Link{me, {}, {}, 1, {}, wire::LinkUse::kRing}, wire::LinkWelcome{},
                                            wire::Heartbeat{}};
  for (const wire::Message& answer : wrong) {
    DialledBack run;
    FarEnd& end = *run.coordinator.streams.dialling().front();
    run.coordinator.streams.open(end);
    end.greet();
    end.say(answer);
    run.coordinator.run();
    EXPECT_NE(run.said().find("another program answers there"), std::string::npos) << run.said();
  }
}

TEST(DialBack, AnotherKeyIsAnotherProgram) {
  DialledBack run;
  FarEnd& end = *run.coordinator.streams.dialling().front();
  io::Identity other;
  other.key.bytes[0] = 1;
  run.coordinator.streams.open(end, fuzz::kRoundTrip, other);
  run.coordinator.run();
  EXPECT_EQ(end.last<wire::Link>(), nullptr) << "nothing is said to whoever proves another key";
  EXPECT_TRUE(end.shown_out());
  EXPECT_NE(run.said().find("another key than the peer's"), std::string::npos);
}

TEST(DialBack, APeerThatGoesIsDialledNoMore) {
  for (std::uint32_t leaver = 0; leaver < kPeers; ++leaver) {
    DialledBack run;
    run.ends[leaver]->hang_up();
    run.coordinator.run();
    EXPECT_EQ(run.coordinator.streams.dialling().size(), kPeers - 1);
    EXPECT_EQ(run.coordinator.status().waiting.size(), kPeers - 1);
  }
}

// Found by an attack: after a pause of the coordinator, nobody could be dialled.
TEST(DialBack, ACoordinatorThatStoodStillGivesNewcomersTheirTimeBack) {
  DialledBack run;
  run.coordinator.pass(kLimit * 10);
  for (std::uint32_t i = 0; i < kPeers; ++i) run.answer(Answer::kThePeer);
  EXPECT_EQ(run.members(), kPeers);
  EXPECT_TRUE(run.callers().empty()) << run.said();
}

// Found by an attack: a run was founded without the state that a newcomer held.
TEST(DialBack, AFoundingWaitsForANewcomerThatHoldsAState) {
  for (std::uint32_t holder = 0; holder <= kPeers; ++holder) {
    DialledBack run;
    wire::Join join;
    join.peer = Meeting::id(kPeers);
    join.advertised = address_of(1);
    run.ends.push_back(&run.coordinator.streams.accept(address_of(1)));
    run.answered.push_back({});
    run.ends.back()->greet();
    run.ends.back()->say(join);
    wire::WantState want{.tag = Tag{3}, .what = {}, .ends = false, .holds = true};
    want.what.collective = wire::Collective::kSync;
    run.ends[holder]->say(want);
    run.coordinator.run();
    for (std::uint32_t i = 0; i <= kPeers; ++i) run.answer(i == holder ? Answer::kSilent : Answer::kThePeer);
    EXPECT_EQ(run.members(), 0U) << "as many wait as the founders ask for, and one of them has the state to begin with";
    run.wait();
    EXPECT_EQ(run.members(), kPeers + 1U);
  }
}

TEST(DialBack, ACoordinatorThatDoesNotDialTakesAllForOpen) {
  Meeting run(kPeers);
  EXPECT_TRUE(run.coordinator.streams.dialling().empty());
  EXPECT_EQ(run.members(), kPeers);
}

// Seen in a run in which four of six members called out: the text named a link, and not what to do.
TEST(DialBack, WhoIsEvictedForALinkThatNobodyCanDialIsToldToForwardAPort) {
  for (std::uint32_t reporter = 0; reporter < kPeers; ++reporter) {
    for (const bool can_dial : {false, true}) {
      Meeting run(kPeers, milliseconds(1), dialling(), can_dial ? Places::kOneHost : Places::kHostsOfTheirOwn);
      for (FarEnd* end : run.coordinator.streams.dialling()) run.coordinator.streams.refuse(*end, "nobody listens");
      run.answer_all();
      ASSERT_EQ(run.members(), kPeers);
      const std::uint32_t other = (reporter + 1) % kPeers;
      run.ends[reporter]->say(wire::LinkBroken{Meeting::id(other), "no stream for 8000 ms"});
      run.pass(CoordinatorOptions{}.heartbeat);
      const std::string remedy = "nobody can dial either of them; forward the port of one to it";
      const std::string text = run.evicted(reporter) + run.evicted(other);
      EXPECT_NE(text.find("no ring avoids that link"), std::string::npos) << text;
      EXPECT_EQ(text.find("no ring avoids that link: " + remedy + "; ") == std::string::npos, can_dial) << text;
      const std::string trouble = run.coordinator.status().troubles.front().text;
      EXPECT_EQ(trouble.ends_with("no stream for 8000 ms; " + remedy), !can_dial) << trouble;
    }
  }
}

TEST(DialBack, AKnockIsPassedOnBetweenMembers) {
  for (std::uint32_t from = 0; from < kPeers; ++from) {
    Meeting run(kPeers);
    const std::uint32_t to = (from + 1) % kPeers;
    run.ends[from]->say(wire::Knock{Meeting::id(to)});
    run.ends[from]->say(wire::Knock{Meeting::id(from)});
    run.ends[from]->say(wire::Knock{{77, 77}});
    run.coordinator.run();
    for (std::uint32_t i = 0; i < kPeers; ++i) EXPECT_EQ(run.ends[i]->count<wire::Knock>(), i == to ? 1U : 0U);
    EXPECT_EQ(run.ends[to]->last<wire::Knock>()->other, Meeting::id(from));
    EXPECT_EQ(run.members(), kPeers);
  }
}

// Found by an attack: a member that knocked without end cost a slow reader the run.
TEST(DialBack, KnocksCostNoMemberTheRun) {
  constexpr std::size_t kKnocks = 16'384;
  for (std::uint32_t from = 0; from < kPeers; ++from) {
    Meeting run(kPeers);
    const std::uint32_t to = (from + 1) % kPeers;
    run.ends[to]->stop_reading();
    for (std::size_t i = 0; i < kKnocks; ++i) run.ends[from]->say(wire::Knock{Meeting::id(to)});
    run.coordinator.run();
    EXPECT_EQ(run.members(), kPeers);
    EXPECT_LT(run.coordinator.footprint().queued_bytes, kKnocks * sizeof(PeerId) / 2);
  }
}

}  // namespace
}  // namespace lockstep::coordinator
