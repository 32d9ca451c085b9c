// A member or a waiting peer that violates the protocol is evicted with the reason, and the others continue. Two honest
// peers are real machines; the test plays the liar.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/trace/event.h"
#include "fuzz/hosts.h"
#include "tests/support/sample_messages.h"

namespace lockstep::coordinator {
namespace {

using fuzz::address_of;
using fuzz::FarEnd;

constexpr PeerId kLiar{1, 1};
constexpr PeerId kHonest[] = {{2, 2}, {3, 3}};

peer::PeerOptions honest(std::uint8_t n, std::uint32_t founders) {
  peer::PeerOptions options;
  options.id = kHonest[n];
  options.name = n == 0 ? "ann" : "bob";
  options.founders = founders;
  options.dial_timeout = options.link_timeout = seconds(3600);  // nobody answers their dials: barriers need no links
  return options;
}

wire::Descriptor state_of(std::uint64_t layout) {
  wire::Descriptor what;
  what.collective = wire::Collective::kSync;
  what.layout = layout;
  return what;
}

struct Room {
  // Ann and bob are members; so is the liar, unless it waits.
  explicit Room(bool waits = false) : ann(honest(0, waits ? 2 : 3)), bob(honest(1, waits ? 2 : 3)) {
    if (!waits) join();
    for (fuzz::PeerHost* peer : {&ann, &bob}) {
      peer->connect();
      fuzz::connect_hosts(*peer, coordinator, peer == &ann ? 2 : 3);
    }
    settle();
    if (waits) join();
    settle();
    if (!waits) flush();
    settle();
    EXPECT_EQ(ann.views.size(), 1U);
    EXPECT_EQ(liar->count<wire::Install>(), waits ? 0U : 1U);
  }

  void join(const std::function<void(wire::Join&)>& change = {}) {
    liar = &coordinator.streams.accept(address_of(1));
    wire::Join join;
    join.peer = kLiar;
    join.founders = 3;
    join.advertised = address_of(1);
    join.name = "liar";
    if (change) change(join);
    liar->greet();
    liar->say(join);
  }
  // Runs until no machine has anything to say.
  void settle() {
    for (int i = 0; i < 30; ++i) {
      coordinator.run();
      ann.run();
      bob.run();
    }
  }
  void pass(Duration time) {
    coordinator.pass(time);
    ann.pass(time);
    bob.pass(time);
    settle();
  }

  void flush(std::vector<wire::OpenRound> open = {}) {
    liar->say(wire::Flush{liar->last<wire::Propose>()->number, std::move(open)});
  }
  // Makes a proposal that waits for the liar's answer (and, until settle(), for all answers).
  void make_proposal() {
    liar->say(wire::StopRound{key(900), attempt(), Status::kAborted, false, "because"});
    coordinator.run();
  }
  [[nodiscard]] CohortId cohort() const { return liar->last<wire::Propose>()->view.cohort; }
  [[nodiscard]] Generation attempt() const { return {liar->last<wire::Propose>()->view.number.value}; }
  [[nodiscard]] RoundKey key(std::uint64_t tag, std::uint32_t group = 0) const {
    return {cohort(), GroupId{group}, Tag{tag}, 0};
  }
  [[nodiscard]] wire::Done done(std::uint64_t tag) const { return {key(tag), attempt(), {}, 0}; }
  [[nodiscard]] wire::Claim claim(std::uint64_t tag) const {
    wire::Claim claim{key(tag), attempt(), {}, state::Strategy::kPopular, true, 0, {}, {}};
    claim.what.collective = wire::Collective::kSync;
    return claim;
  }
  [[nodiscard]] std::vector<wire::OpenRound> nonsense() const {
    std::vector<wire::OpenRound> open;
    for (std::uint32_t i = 0; i < 60; ++i) {
      open.push_back({key(7000 + i), attempt(), i % 2 == 0, i % 3 == 0, i});
      open.push_back({key(7000 + i, 9), attempt(), false, true, 0});
      open.push_back({{CohortId{77}, GroupId{i}, Tag{i}, i}, Generation{i}, true, false, i});
    }
    return open;
  }

  // Ann and bob finish a round, together with the liar if it is still a member.
  void expect_commits(std::uint32_t world) {
    ring::Request barrier;
    barrier.tag = Tag{5};
    const CallId at_ann = ann.launch(barrier, 0);
    const CallId at_bob = bob.launch(barrier, 0);
    settle();
    if (world == 3) {
      wire::Done same = done(5);
      same.what.retry = true;
      liar->say(same);
      settle();
    }
    for (const auto& [host, call] : {std::pair{&ann, at_ann}, std::pair{&bob, at_bob}}) {
      const peer::Outcome* outcome = host->outcome(call);
      ASSERT_NE(outcome, nullptr) << "it hangs";
      EXPECT_EQ(outcome->status, Status::kOk) << outcome->text;
      EXPECT_EQ(outcome->world, world);
    }
    EXPECT_FALSE(ann.run_over || bob.run_over);
  }

  fuzz::CoordinatorHost coordinator{CoordinatorOptions{}};
  fuzz::PeerHost ann;
  fuzz::PeerHost bob;
  FarEnd* liar = nullptr;
};

struct Lie {
  std::string name;
  std::function<void(Room&)> tell;
  std::string reason;  // empty: it is let pass
};

void expect_out(Room& run, const Lie& lie) {
  SCOPED_TRACE(lie.name);
  lie.tell(run);
  run.settle();
  if (lie.reason.empty()) {
    EXPECT_EQ(run.liar->last<wire::Evicted>(), nullptr) << run.liar->last<wire::Evicted>()->text;
    return;
  }
  const auto* evicted = run.liar->last<wire::Evicted>();
  ASSERT_NE(evicted, nullptr) << "it is still in";
  EXPECT_NE(evicted->text.find(lie.reason), std::string::npos) << evicted->text;
  EXPECT_TRUE(run.liar->shown_out());
}

// Rules 2, 3 and 12: a frame of a future term, more of anything than its limit, a second Done for a round.
// Rule 68.
TEST(Strangers, AClientWithTlsLearnsThatTheCoordinatorHasNone) {
  fuzz::CoordinatorHost coordinator{CoordinatorOptions{}};
  FarEnd& stranger = coordinator.streams.accept(address_of(1));
  constexpr std::byte kHello[] = {std::byte{22}, std::byte{3}, std::byte{1}, std::byte{2},   std::byte{0},
                                  std::byte{1},  std::byte{0}, std::byte{1}, std::byte{0xfc}};
  stranger.say_bytes(kHello);
  coordinator.run();
  const auto* const refused = stranger.last<wire::Refused>();
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->status, Status::kRefused);
  EXPECT_NE(refused->text.find("this coordinator speaks no TLS"), std::string::npos);
  FarEnd& other = coordinator.streams.accept(address_of(2));
  constexpr std::byte kNothing[16] = {};
  other.say_bytes(kNothing);
  coordinator.run();
  EXPECT_EQ(other.last<wire::Refused>(), nullptr) << "any other stranger gets no answer";
}

TEST(BadInput, EvictsAMemberThatViolatesTheProtocol) {
  const Lie lies[] = {
      {"done in no cohort",
       [](Room& r) {
         wire::Done d = r.done(1);
         d.key.cohort.value = 9;
         r.liar->say(d);
       },
       "does not exist"},
      {"done in no group",
       [](Room& r) {
         wire::Done d = r.done(1);
         d.key.group.value = 9;
         r.liar->say(d);
       },
       "does not exist"},
      {"done in an attempt to come",
       [](Room& r) {
         wire::Done d = r.done(1);
         ++d.attempt.value;
         r.liar->say(d);
       },
       "not part of"},
      {"done twice",
       [](Room& r) {
         r.liar->say(r.done(1));
         r.liar->say(r.done(1));
       },
       "done twice"},
      {"done with everything",
       [](Room& r) {
         for (unsigned i = 0; i <= kMaxUndecided; ++i) r.liar->say(r.done(1000U + i));
       },
       "more rounds than can be undecided"},
      {"stops everything",
       [](Room& r) {
         r.make_proposal();  // so that no stop is decided
         for (unsigned i = 0; i <= kMaxRoundsInFlight; ++i)
           r.liar->say(wire::StopRound{r.key(1000 + i), r.attempt(), Status::kAborted, false, std::string(1000, 'x')});
       },
       "stop more rounds than can be in flight"},
      {"tells of its state before it is asked",
       [](Room& r) {
         r.liar->say(r.claim(1));
         r.liar->say(wire::StateOutline{r.key(1), r.attempt(), 64, {1}, {}});
       },
       "that it was not asked"},
      {"names a tensor before it is asked",
       [](Room& r) {
         r.liar->say(r.claim(1));
         r.liar->say(wire::StateEntry{r.key(1), r.attempt(), "w"});
       },
       "that it was not asked"},
      {"answers what was not asked",
       [](Room& r) {
         r.liar->say(wire::Flush{ProposalNumber{99}, {}});
       },
       "never made"},
      {"answers twice",
       [](Room& r) {
         r.make_proposal();
         r.flush();
         r.flush();
       },
       "twice"},
      {"leaves twice",
       [](Room& r) {
         r.liar->say(wire::Leave{});
         r.liar->say(wire::Leave{});
       },
       "left twice"},
      {"leaves twice, the second time while it finishes a round",
       [](Room& r) {
         r.liar->say(wire::Leave{{{r.key(5), r.attempt(), false, true, 0}}});
         r.settle();
         r.flush();
         r.settle();
         r.liar->say(wire::Leave{});
       },
       "left twice"},
      {"admits in another cohort",
       [](Room& r) {
         r.liar->say(wire::Admit{CohortId{9}, 1, false, {}});
       },
       "out of turn"},
      {"admits twice",
       [](Room& r) {
         r.liar->say(wire::Admit{r.cohort(), 1, false, {}});
         r.liar->say(wire::Admit{r.cohort(), 1, false, {}});
       },
       "out of turn"},
      {"admits and leaves",
       [](Room& r) {
         r.liar->say(wire::Leave{});
         r.liar->say(wire::Admit{r.cohort(), 1, false, {}});
       },
       "out of turn"},
      {"waits for too many",
       [](Room& r) {
         r.liar->say(wire::Admit{r.cohort(), kMaxMembers + 1, false, {}});
       },
       "more members than"},
      {"admits by itself without auto_admit",
       [](Room& r) {
         r.liar->say(wire::Admit{r.cohort(), 1, true, {}});
       },
       "without auto_admit"},
      {"cannot reach itself",
       [](Room& r) {
         r.liar->say(wire::LinkBroken{kLiar, "?"});
       },
       "cannot reach itself"},
      {"speaks of a term to come", [](Room& r) { r.liar->say(wire::Heartbeat{}, Term{99}); }, "term"},
      {"sends tensor data",
       [](Room& r) {
         r.liar->say_segment({r.key(1), attempt_id(r.attempt()), {}, {}, 64}, std::byte{1}, 0);
       },
       "tensor data"},
      {"sends noise", [](Room& r) { r.liar->say_bytes(std::vector<std::byte>(100, std::byte{0xa5})); }, "header"},
      {"takes back what it has not published",
       [](Room& r) {
         r.liar->say(wire::Publish{Tag{1}, state_of(1), 1, {}, {}, true});
       },
       "has not published"},
      {"publishes what is no state",
       [](Room& r) {
         r.liar->say(wire::Publish{Tag{1}, {}, 1, {}, {}, false});
       },
       "no state"},
      {"publishes without end",
       [](Room& r) {
         for (std::uint64_t tag = 0; tag <= kMaxShares; ++tag) {
           r.liar->say(wire::Publish{Tag{tag}, state_of(1), 1, {}, {}, false});
         }
       },
       "more states than one peer may"},
      {"joins again",
       [](Room& r) {
         wire::Join join;
         join.peer = kLiar;
         r.liar->say(join);
       },
       "only a coordinator or a neighbour"},
      {"is another peer",
       [](Room& r) {
         wire::Join join;
         join.peer = kHonest[0];
         r.liar->say(join);
       },
       "only a coordinator or a neighbour"},
  };
  for (const Lie& lie : lies) {
    Room run;
    expect_out(run, lie);
    run.expect_commits(2);
    EXPECT_EQ(run.coordinator.status().view.members.size(), 2U) << lie.name;
  }
}

TEST(BadInput, AMemberMayNotSendTheCoordinatorsMessages) {
  for (const wire::Message& message : test::sample_messages()) {
    const auto* refused = std::get_if<wire::Segment>(&message);
    const bool peers_say =
        std::holds_alternative<wire::Heartbeat>(message) || std::holds_alternative<wire::Done>(message) ||
        std::holds_alternative<wire::Admit>(message) || std::holds_alternative<wire::AdmitCancel>(message) ||
        std::holds_alternative<wire::Leave>(message) || std::holds_alternative<wire::StopRound>(message) ||
        std::holds_alternative<wire::LinkBroken>(message) || std::holds_alternative<wire::Flush>(message) ||
        std::holds_alternative<wire::Claim>(message) || std::holds_alternative<wire::StateOutline>(message) ||
        std::holds_alternative<wire::StateEntry>(message) || std::holds_alternative<wire::Publish>(message) ||
        std::holds_alternative<wire::WantState>(message) || std::holds_alternative<wire::CallWaits>(message) ||
        std::holds_alternative<wire::TransfersWait>(message) || std::holds_alternative<wire::Knock>(message);
    if (peers_say || refused != nullptr) continue;
    Room run;
    expect_out(run, {std::string(wire::name_of_type(wire::type_of(message))), [&](Room& r) { r.liar->say(message); },
                     "only a coordinator or a neighbour"});
    run.expect_commits(2);
  }
}

TEST(BadInput, IgnoresMessagesThatCrossedOnTheWay) {
  const Lie passes[] = {
      {"a broken link to nobody",
       [](Room& r) {
         r.liar->say(wire::LinkBroken{PeerId{8, 8}, "?"});
       },
       ""},
      {"done in an older attempt",
       [](Room& r) {
         wire::Done d = r.done(1);
         d.attempt.value = 0;
         r.liar->say(d);
       },
       ""},
      {"an old answer",
       [](Room& r) {
         r.liar->say(wire::Flush{ProposalNumber{0}, {}});
       },
       ""},
      {"tells of a state that is not compared any more",
       [](Room& r) {
         r.liar->say(wire::StateOutline{r.key(5), r.attempt(), 64, {1}, {}});
         r.liar->say(wire::StateEntry{{CohortId{9}, {}, Tag{5}, 0}, r.attempt(), "w"});
       },
       ""},
      {"stops a round of another attempt",
       [](Room& r) {
         r.liar->say(wire::StopRound{r.key(5), Generation{99}, Status::kAborted, false, ""});
       },
       ""},
      {"stops a round of no cohort",
       [](Room& r) {
         r.liar->say(wire::StopRound{{CohortId{9}, {}, Tag{5}, 0}, r.attempt(), Status::kAborted, false, ""});
       },
       ""},
      {"gives up an admit that it has not called", [](Room& r) { r.liar->say(wire::AdmitCancel{}); }, ""},
      {"nonsense in an answer",
       [](Room& r) {
         r.make_proposal();
         r.flush(r.nonsense());
       },
       ""},
      {"nonsense in an admit",
       [](Room& r) {
         r.liar->say(wire::Admit{r.cohort(), 1, false, r.nonsense()});
       },
       ""},
  };
  for (const Lie& lie : passes) {
    Room run;
    expect_out(run, lie);
    if (lie.name == "nonsense in an admit") continue;  // the others now wait for it to launch what it says is open
    run.expect_commits(3);
  }
}

// No list keeps an entry of the message.
TEST(BadInput, AnInvalidListEntryLeavesNoState) {
  Room run;
  run.liar->say(wire::Admit{run.cohort(), 1, false, run.nonsense()});
  run.settle();
  run.liar->hang_up();
  run.settle();
  run.expect_commits(2);
  for (int i = 0; i < 3; ++i) {  // cohorts end one after the other
    const CallId a = run.ann.admit();
    const CallId b = run.bob.admit();
    run.settle();
    EXPECT_EQ(run.ann.outcome(a)->status, Status::kOk);
    EXPECT_EQ(run.bob.outcome(b)->status, Status::kOk);
  }
  EXPECT_EQ(run.coordinator.footprint().rounds, 0U);
}

// The liar sends heartbeats and nothing else. A member that is heard has half a silence, and 2 ms for each entry.
TEST(BadInput, AMemberThatAnswersNoProposalDelaysNobody) {
  Room run;
  run.make_proposal();
  for (int i = 0; i < 20 && run.liar->last<wire::Evicted>() == nullptr; ++i) {
    run.liar->say(wire::Heartbeat{});
    run.pass(milliseconds(100));
  }
  ASSERT_NE(run.liar->last<wire::Evicted>(), nullptr);
  EXPECT_EQ(run.liar->last<wire::Evicted>()->text, "did not answer a proposal within 1508 ms");
  run.expect_commits(2);
}

// All members are done, and the liar has reported another fingerprint than ann. The coordinator asks for the
// difference, and the liar never answers.
TEST(BadInput, AMissingOutlineDelaysACommitForALimitedTime) {
  Room run;
  auto state = std::make_shared<state::Statement>();
  state->manifest.tensors = {{"w", DataType::kU8, 4, false}};
  ring::Request barrier;
  barrier.tag = Tag{5};
  barrier.watch = std::make_shared<ring::Watched>(ring::Watched{state, {run.ann.hold(4, 1)}});
  const CallId call = run.ann.launch(barrier, 0);
  barrier.watch.reset();
  (void)run.bob.launch(barrier, 0);
  run.settle();
  wire::Done same = run.done(5);
  same.what.retry = true;
  same.state_fingerprint = 77;
  run.liar->say(same);
  run.settle();
  EXPECT_NE(run.liar->last<wire::AskOutline>(), nullptr);
  EXPECT_EQ(run.ann.outcome(call), nullptr);
  for (int i = 0; i < 8; ++i) {
    run.pass(milliseconds(500));
    run.liar->say(wire::Heartbeat{});
    run.settle();
  }
  ASSERT_NE(run.ann.outcome(call), nullptr);
  EXPECT_EQ(run.ann.outcome(call)->status, Status::kOk);
  EXPECT_EQ(run.ann.outcome(call)->state_difference,
            "the state of ann differs from that of liar (1 of 2 watch the same) in tag 5");
  EXPECT_EQ(run.coordinator.status().lost, 0U);
}

TEST(BadInput, AWaitingPeerMaySendFewMessages) {
  const Lie lies[] = {
      {"done",
       [](Room& r) {
         r.liar->say(wire::Done{{CohortId{1}, {}, Tag{5}, 0}, Generation{1}, {}, 0});
       },
       "not part of"},
      {"admit",
       [](Room& r) {
         r.liar->say(wire::Admit{CohortId{1}, 1, false, {}});
       },
       "out of turn"},
      {"stop",
       [](Room& r) {
         r.liar->say(wire::StopRound{{CohortId{1}, {}, Tag{5}, 0}, Generation{1}, Status::kAborted, false, ""});
       },
       ""},
      {"a state that is published",
       [](Room& r) {
         r.liar->say(wire::Publish{Tag{1}, state_of(1), 1, {}, {}, false});
       },
       "before it is a member"},
      {"more wishes than one may have",
       [](Room& r) {
         for (std::uint64_t tag = 0; tag <= kMaxShares; ++tag)
           r.liar->say(wire::WantState{Tag{tag}, state_of(1), false});
       },
       "more states than one peer may"},
      {"a wish that it gives up before it has it",
       [](Room& r) {
         r.liar->say(wire::WantState{Tag{1}, state_of(1), true});
       },
       "has not wanted"},
      {"a broken link",
       [](Room& r) {
         r.liar->say(wire::LinkBroken{kHonest[0], "?"});
       },
       ""},
      {"flush of what it has no part in",
       [](Room& r) {
         ring::Request barrier;
         barrier.tag = Tag{8};
         const CallId call = r.ann.launch(barrier, 0);
         r.ann.stop(call);
         r.ann.run();
         r.coordinator.run();  // proposed, and nobody has answered
         const ProposalNumber theirs{r.liar->last<wire::Propose>()->number.value + 1};  // the one after its question
         r.liar->say(wire::Flush{theirs, {{{CohortId{1}, {}, Tag{5}, 0}, Generation{1}, false, false, 0}}});
         r.coordinator.run();
       },
       "no part in"},
  };
  for (const Lie& lie : lies) {
    Room run(true);
    expect_out(run, lie);
    run.expect_commits(2);
  }
}

// Found by reading: any waiting peer could make the coordinator reserve memory for the largest message.
TEST(BadInput, AWaitingPeerMaySendOnlySmallMessages) {
  Room waits(true);
  waits.liar->say(wire::LinkBroken{kHonest[0], std::string(kMaxTextBytes, 'x')});
  waits.settle();
  EXPECT_EQ(waits.liar->last<wire::Evicted>(), nullptr);
  std::vector<std::byte> long_one;
  wire::encode(wire::Flush{{}, std::vector<wire::OpenRound>(kMaxRoundsInFlight)}, Term{1}, long_one);
  waits.liar->say_bytes(std::span(long_one).first<wire::kHeaderBytes>());  // the header is enough
  waits.settle();
  ASSERT_NE(waits.liar->last<wire::Evicted>(), nullptr);
  EXPECT_NE(waits.liar->last<wire::Evicted>()->text.find("the limit for this peer is 2048"), std::string::npos);
  waits.expect_commits(2);

  Room member;  // it may answer at length
  member.make_proposal();
  member.flush(member.nonsense());
  member.settle();
  EXPECT_EQ(member.liar->last<wire::Evicted>(), nullptr);
}

// Found by reading: any waiting peer could have a leaver evicted that was still finishing its rounds.
TEST(BadInput, AWaitingPeerCannotReportALeaver) {
  Room run(true);
  ring::Request barrier;
  barrier.tag = Tag{5};
  const CallId call = run.ann.launch(barrier, 0);
  run.settle();
  const CallId leave = run.ann.leave();
  run.settle();
  EXPECT_EQ(run.ann.outcome(leave), nullptr);  // it finishes its round with bob
  run.liar->say(wire::LinkBroken{kHonest[0], "?"});
  run.settle();
  run.bob.launch(barrier, 0);
  run.settle();
  ASSERT_NE(run.ann.outcome(call), nullptr);
  EXPECT_EQ(run.ann.outcome(call)->status, Status::kOk) << run.ann.outcome(call)->text;
  EXPECT_EQ(run.ann.outcome(leave)->status, Status::kOk);
}

TEST(BadInput, RefusesAJoinThatCanNeverBeAdmitted) {
  const std::pair<std::function<void(wire::Join&)>, const char*> cases[] = {
      {[](wire::Join& join) { join.peer = {}; }, "needs an id"},
      {[](wire::Join& join) { join.peer = kHonest[0]; }, "never reused"},
      {[](wire::Join& join) { join.founders = 2000; }, "at most 1024"},
      {[](wire::Join& join) {
         join.gang = GangId{1};
         join.gang_size = 2000;
       },
       "at most 1024"},
      {[](wire::Join& join) { join.gang_size = 0; }, "gang size"},
      {[](wire::Join& join) { join.gang_size = 2; }, "gang size"},
      {[](wire::Join& join) { join.auto_admit = true; }, "auto_admit"},
      {[](wire::Join& join) { join.advertised.port = 0; }, "port"},
  };
  Room run(true);
  for (const auto& [change, reason] : cases) {
    SCOPED_TRACE(reason);
    run.join([&change = change](wire::Join& join) {  // named again, because clang 14 captures no structured binding
      join.peer = PeerId{4, 4};
      change(join);
    });
    run.settle();
    const auto* refused = run.liar->last<wire::Refused>();
    ASSERT_NE(refused, nullptr);
    EXPECT_NE(refused->text.find(reason), std::string::npos) << refused->text;
    EXPECT_TRUE(run.liar->shown_out());
  }
  run.expect_commits(2);
}

}  // namespace
}  // namespace lockstep::coordinator
