// A peer leaves a coordinator that violates the protocol, with the reason (rule 28).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/peer/peer3.h"

namespace lockstep::peer {
namespace {

void expect_left(const Lie& lie, bool joined = true) {
  SCOPED_TRACE(lie.name);
  Peer3 run(joined);
  lie.tell(run);
  run.me.run();
  ASSERT_TRUE(run.me.run_over) << "the run continues";
  EXPECT_EQ(run.me.run_over->status, Status::kProtocolError);
  EXPECT_NE(run.me.run_over->text.find(lie.reason), std::string::npos) << run.me.run_over->text;
  EXPECT_TRUE(run.me.all_calls_over());
  EXPECT_TRUE(run.coordinator->shown_out());
  EXPECT_EQ(run.me.footprint().streams, 0U);
  EXPECT_EQ(run.me.footprint().remembered, 0U);
  EXPECT_EQ(run.me.outcome(run.launch(wire::Collective::kBarrier))->status, Status::kNotConnected);
}

Request sync_request() {
  auto state = std::make_shared<state::Statement>();
  state->manifest.tensors = {{"w", DataType::kF32, 12, false}};
  state->manifest.values = {{"step", state::ValueType::kUint}};
  state->values = {4};
  Request request;
  request.collective = wire::Collective::kSync;
  request.tag = Tag{7};
  request.type = DataType::kF32;
  request.state = std::move(state);
  return request;
}

// The peer claims its state.
void launch_sync(Peer3& run) {
  run.me.launch(sync_request(), 12);
  run.me.run();
}

TEST(Session, ThePeerReportsItsRoundTripToTheCoordinator) {
  Peer3 run(false);
  run.me.run();
  const auto* join = run.coordinator->last<wire::Join>();
  ASSERT_NE(join, nullptr);
  EXPECT_EQ(join->round_trip, fuzz::kRoundTrip);
}

// A peer that searches a coordinator.
class Seeker {
 public:
  explicit Seeker(Duration timeout = {0}) : me(options_of()) { connected = me.connect(timeout); }

  // The pause before the next search.
  Duration pause() {
    EXPECT_TRUE(me.streams.dialling().empty());
    const Duration pause = me.deadline() - me.now;
    me.pass(pause);
    me.run();
    return pause;
  }
  void refuse() { me.streams.refuse(*me.streams.dialling().front()); }
  void is_refused() {
    refuse();
    me.run();
  }
  // The coordinator's end of the stream that is being dialled, which opens.
  FarEnd& reach() {
    FarEnd& coordinator = *me.streams.dialling().front();
    me.streams.open(coordinator);
    coordinator.greet();
    return coordinator;
  }
  void is_refused_by_the_coordinator() {
    reach().say(wire::Refused{Status::kRefused, "peer id 1 is already part of this run"});
    me.run();
  }
  // A stream opens, and nothing comes on it.
  void is_not_answered() {
    me.streams.open(*me.streams.dialling().front());
    me.pass(seconds(5));
    me.run();
  }
  [[nodiscard]] std::size_t unanswered() const {
    return static_cast<std::size_t>(std::count_if(me.events.begin(), me.events.end(), [](const trace::Event& event) {
      return event.kind == trace::Kind::kUnanswered;
    }));
  }

  fuzz::PeerHost me;
  CallId connected;

 private:
  static PeerOptions options_of() {
    PeerOptions options = peer::options();
    options.dial_timeout = seconds(5);
    return options;
  }
};

TEST(Session, RetriesUntilTheCoordinatorStarts) {
  Seeker seeker;
  const Duration wanted[] = {milliseconds(50),  milliseconds(100), milliseconds(200), milliseconds(400),
                             milliseconds(800), seconds(1),        seconds(1),        seconds(1)};
  for (const Duration pause : wanted) {
    seeker.is_refused();
    EXPECT_EQ(seeker.pause(), pause);
  }
  EXPECT_EQ(seeker.unanswered(), 1U) << "reported once";
  FarEnd& coordinator = seeker.reach();
  coordinator.say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  seeker.me.run();
  EXPECT_NE(coordinator.last<wire::Join>(), nullptr);
  EXPECT_FALSE(seeker.me.run_over);
  EXPECT_EQ(seeker.me.outcome(seeker.connected), nullptr) << "the call waits for the admission";
}

TEST(Session, ATimeoutEndsTheSearchAndListsTheAttempts) {
  Seeker seeker(milliseconds(400));
  seeker.is_refused();
  while (!seeker.me.run_over) {
    seeker.me.pass(seeker.me.deadline() - seeker.me.now);
    seeker.me.run();
    if (!seeker.me.streams.dialling().empty()) seeker.is_refused();
  }
  EXPECT_EQ(seeker.me.now, Instant{} + milliseconds(400));
  const Outcome* const outcome = seeker.me.outcome(seeker.connected);
  ASSERT_NE(outcome, nullptr);
  EXPECT_EQ(outcome->status, Status::kUnreachable);
  EXPECT_NE(outcome->text.find(address_of(100).text() + ": connection refused), tried 4 times in 400 ms"),
            std::string::npos)
      << outcome->text;
}

// Rule 68.
class SeveralAddresses : public ::testing::Test {
 protected:
  SeveralAddresses() { seeker.me.coordinator.addresses = std::vector{address_of(100), address_of(101)}; }
  void is_rejected() {
    seeker.me.streams.refuse(*seeker.me.streams.dialling().front(), "another key", io::CloseReason::kRejected);
    seeker.me.run();
  }
  Seeker seeker{seconds(60)};
};

TEST_F(SeveralAddresses, AConnectEndsAtOnceWhenAllShowAnotherKey) {
  seeker.is_refused();  // the first answer was given before there were two
  seeker.pause();
  const Instant began = seeker.me.now;
  is_rejected();
  EXPECT_FALSE(seeker.me.run_over);
  is_rejected();
  EXPECT_EQ(seeker.me.now, began);
  const Outcome* const outcome = seeker.me.outcome(seeker.connected);
  ASSERT_NE(outcome, nullptr);
  EXPECT_EQ(outcome->status, Status::kRefused);
  for (const std::string& part :
       {address_of(100).text() + ": rejected: another key", address_of(101).text() + ": rejected: another key",
        std::string("connect as this coordinator asks for")}) {
    EXPECT_NE(outcome->text.find(part), std::string::npos) << outcome->text;
  }
}

TEST_F(SeveralAddresses, AConnectEndsAtOnceWhenAllRefuseItsCertificateAfterTheHandshake) {
  seeker.is_refused();
  seeker.pause();
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(seeker.me.run_over);
    FarEnd& end = *seeker.me.streams.dialling().front();
    seeker.me.streams.open(end);
    seeker.me.run();
    seeker.me.streams.reject(end, "certificate revoked");
    seeker.me.run();
  }
  ASSERT_TRUE(seeker.me.run_over);
  EXPECT_EQ(seeker.me.run_over->status, Status::kRefused);
  EXPECT_NE(seeker.me.run_over->text.find("certificate revoked"), std::string::npos) << seeker.me.run_over->text;
}

TEST_F(SeveralAddresses, TryingGoesOnWhileOneDoesNotAnswer) {
  seeker.is_refused();
  for (int i = 0; i < 3; ++i) {
    seeker.pause();
    is_rejected();
    seeker.is_refused();
    EXPECT_FALSE(seeker.me.run_over);
    seeker.pause();
    seeker.is_refused();
    is_rejected();
    EXPECT_FALSE(seeker.me.run_over);
  }
  seeker.pause();
  is_rejected();
  FarEnd& coordinator = seeker.reach();
  coordinator.say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  seeker.me.run();
  EXPECT_FALSE(seeker.me.run_over);
  EXPECT_EQ(seeker.me.outcome(seeker.connected), nullptr) << "the call waits for the admission";
}

TEST_F(SeveralAddresses, TryingGoesOnWhileOneHasNoAddress) {
  seeker.me.coordinator = {std::vector{address_of(100)}, {"cannot resolve 'far'"}};
  seeker.is_refused();
  seeker.pause();
  is_rejected();
  EXPECT_FALSE(seeker.me.run_over);
  seeker.me.coordinator.unresolved.clear();
  seeker.pause();
  is_rejected();
  ASSERT_TRUE(seeker.me.run_over);
  EXPECT_NE(seeker.me.run_over->text.find("cannot resolve 'far'"), std::string::npos);
}

// A port full of strangers resets new streams: the peer tries again and lists all attempts.
TEST(Session, ADisconnectedConnectRetriesAndListsTheAttempts) {
  Seeker seeker(milliseconds(400));
  bool open = false;
  while (!seeker.me.run_over) {
    if (!seeker.me.streams.dialling().empty()) {
      FarEnd& end = *seeker.me.streams.dialling().front();
      open = !open;
      if (open) {
        seeker.me.streams.open(end);
        end.hang_up();
      } else {
        seeker.me.streams.refuse(end);
      }
      seeker.me.run();
      continue;
    }
    seeker.me.pass(seeker.me.deadline() - seeker.me.now);
    seeker.me.run();
  }
  EXPECT_EQ(seeker.me.now, Instant{} + milliseconds(400));
  const std::string& text = seeker.me.run_over->text;
  EXPECT_NE(text.find("connected, but no greeting came: closed by the other side, 2 times; "), std::string::npos)
      << text;
  EXPECT_NE(text.find("connection refused, 2 times), tried 4 times in 400 ms: something listens there"),
            std::string::npos)
      << text;
}

TEST(Session, ListsSixteenKindsOfFailedAttempts) {
  Seeker seeker(seconds(60));
  for (int kind = 1; kind <= 18; ++kind) {
    seeker.me.streams.refuse(*seeker.me.streams.dialling().front(), "kind " + std::to_string(kind));
    seeker.me.run();
    seeker.pause();
  }
  while (!seeker.me.run_over) {
    seeker.me.pass(seeker.me.deadline() - seeker.me.now);
    seeker.me.run();
  }
  const std::string& text = seeker.me.run_over->text;
  EXPECT_NE(text.find("kind 15, once; "), std::string::npos) << text;
  EXPECT_NE(text.find("kind 16, "), std::string::npos) << text;
  EXPECT_EQ(text.find("kind 17"), std::string::npos) << text;
}

// After a search without a result, the error lists the attempts of the last complete search.
TEST(Session, ATimeoutDuringADialListsTheAttempts) {
  Seeker never(seconds(2));
  never.me.pass(seconds(2));
  never.me.run();
  ASSERT_TRUE(never.me.run_over);
  EXPECT_EQ(never.me.run_over->status, Status::kTimedOut);
  Seeker once(seconds(2));
  once.is_refused();
  once.me.pass(seconds(2) - once.pause());
  once.me.run();
  ASSERT_TRUE(once.me.run_over);
  EXPECT_EQ(once.me.run_over->status, Status::kUnreachable);
  EXPECT_NE(once.me.run_over->text.find("tried once in 2000 ms"), std::string::npos) << once.me.run_over->text;
}

TEST(Session, ReportsTheWaitForASilentServer) {
  Seeker seeker(seconds(6));
  seeker.is_not_answered();
  seeker.me.pass(seconds(1));
  seeker.me.run();
  ASSERT_TRUE(seeker.me.run_over);
  EXPECT_NE(seeker.me.run_over->text.find("connected, but no greeting came within 5000 ms"), std::string::npos)
      << seeker.me.run_over->text;
}

TEST(Session, AnAttemptEndsAfterTheTimeOutOfADial) {
  for (const bool opens : {false, true}) {
    Seeker seeker;
    FarEnd& attempt = *seeker.me.streams.dialling().front();
    if (opens) {
      seeker.me.pass(kTick);
      seeker.me.streams.open(attempt);
      seeker.me.run();
    }
    seeker.me.pass(seconds(5) - kTick);
    EXPECT_FALSE(attempt.shown_out());
    seeker.me.pass(kTick);
    EXPECT_TRUE(attempt.shown_out());
  }
}

// Rule 41: the coordinator has read the greeting, but its answer was lost, and so is the end of the stream: to the
// coordinator, this peer waits on that stream.
TEST(Session, ARefusalAfterAnUnansweredGreetingIsRetried) {
  Seeker seeker;
  seeker.is_not_answered();
  seeker.pause();
  seeker.is_refused_by_the_coordinator();
  ASSERT_FALSE(seeker.me.run_over);
  seeker.pause();
  FarEnd& coordinator = seeker.reach();
  coordinator.say(wire::Waiting{address_of(5), milliseconds(500), seconds(60)});
  seeker.me.run();
  EXPECT_FALSE(seeker.me.run_over);
  EXPECT_EQ(seeker.me.outcome(seeker.connected), nullptr) << "the call waits for the admission";
}

TEST(Session, ARefusalIsFinalWithoutAnUnansweredGreetingAndLongAfterOne) {
  for (const bool after_greeting : {false, true}) {
    Seeker seeker;
    std::uint32_t refusals = 0;
    if (after_greeting) seeker.is_not_answered();
    while (!seeker.me.run_over) {
      if (seeker.me.streams.dialling().empty()) seeker.pause();
      seeker.is_refused_by_the_coordinator();
      ++refusals;
    }
    EXPECT_EQ(seeker.me.run_over->status, Status::kRefused);
    EXPECT_NE(seeker.me.run_over->text.find("refused: peer id 1 is already part of this run"), std::string::npos);
    EXPECT_EQ(refusals > 1, after_greeting);
    EXPECT_GE(seeker.me.now, Instant{} + seconds(after_greeting ? 5 + 8 * 5 : 0));
    EXPECT_LE(seeker.me.now, Instant{} + seconds(5 + 8 * 5 + 1));
  }
}

TEST(Session, ATimeoutAfterARefusalListsTheRefusal) {
  Seeker seeker(seconds(6));
  seeker.is_not_answered();
  seeker.pause();
  seeker.is_refused_by_the_coordinator();
  while (!seeker.me.run_over) {
    seeker.me.pass(seeker.me.deadline() - seeker.me.now);
    seeker.me.run();
  }
  EXPECT_EQ(seeker.me.run_over->status, Status::kUnreachable);
  EXPECT_NE(seeker.me.run_over->text.find("refused: peer id 1 is already part of this run"), std::string::npos)
      << seeker.me.run_over->text;
}

TEST(Session, ALeaveEndsTheSearch) {
  Seeker seeker;
  seeker.is_refused();
  const CallId leave = seeker.me.leave();
  seeker.me.run();
  ASSERT_NE(seeker.me.outcome(leave), nullptr);
  EXPECT_EQ(seeker.me.outcome(leave)->status, Status::kOk);
  EXPECT_EQ(seeker.me.outcome(seeker.connected)->status, Status::kAborted);
  EXPECT_EQ(seeker.me.deadline(), kNever);
}

TEST(Session, AnAbortEndsTheSearch) {
  Seeker seeker;
  seeker.is_refused();
  seeker.me.stop(seeker.connected, "changed our mind");
  seeker.me.run();
  EXPECT_EQ(seeker.me.outcome(seeker.connected)->status, Status::kAborted);
  EXPECT_EQ(seeker.me.deadline(), kNever);
}

// A proposal may have no room for all verdicts: a round that must not be attempted again ends without a verdict.
TEST(Loss, EndsRoundsThatMustNotBeRetried) {
  Peer3 run;
  Request request;
  request.collective = wire::Collective::kBarrier;
  request.tag = Tag{7};
  const CallId again = run.me.launch(request, 0);
  request.tag = Tag{8};
  request.retry = false;
  const CallId once = run.me.launch(request, 0);
  run.me.run();
  run.install(run.loss_of(kHigh));
  EXPECT_EQ(run.me.outcome(again), nullptr);
  ASSERT_NE(run.me.outcome(once), nullptr);
  EXPECT_EQ(run.me.outcome(once)->status, Status::kPeerLost);
  EXPECT_FALSE(run.me.run_over);
}

// A caller whose call ends because of a loss looks who is left: it must not find the lost member.
TEST(Loss, CallsThatItEndsFindTheNewMembers) {
  for (const PeerId lost : {kLow, kHigh}) {
    Peer3 run;
    Request request;
    request.collective = wire::Collective::kBarrier;
    request.retry = false;
    std::vector<CallId> ended;
    for (const std::uint64_t tag : {std::uint64_t{7}, std::uint64_t{8}}) {
      request.tag = Tag{tag};
      ended.push_back(run.me.launch(request, 0));
    }
    ended.push_back(run.me.send(lost, Tag{7}, 8000));
    ended.push_back(run.me.receive(lost, Tag{7}, 8));
    run.me.run();
    wire::Propose change = run.loss_of(lost);  // it has room for a verdict on one of the rounds
    change.verdicts.push_back({Peer3::key(7), Generation{1}, Status::kPeerLost, 0, "lost"});
    run.install(change);
    for (const CallId call : ended) {
      ASSERT_NE(run.me.outcome(call), nullptr) << call.value;
      EXPECT_EQ(run.me.outcome(call)->status, Status::kPeerLost) << run.me.outcome(call)->text;
      EXPECT_EQ(run.me.ended_in(call), ViewNumber{2}) << call.value;
    }
  }
}

TEST(Abort, CutsALongReason) {
  const std::string why = std::string(kMaxTextBytes - 1, 'x') + "\xc3\xbc" + std::string(1U << 20U, 'x');
  const std::string kept(kMaxTextBytes - 1, 'x');
  Peer3 joins(false);
  joins.me.stop(joins.connected, why);
  EXPECT_EQ(joins.me.outcome(joins.connected)->text, "connect was aborted: " + kept);
  Peer3 admits;
  const CallId admit = admits.me.admit();
  admits.launch(wire::Collective::kBarrier);  // in the next cohort: no other member knows this call
  admits.me.stop(CallId{admit.value + 1}, why);
  admits.me.run();
  ASSERT_NE(admits.me.outcome(CallId{admit.value + 1}), nullptr);
  EXPECT_LE(admits.me.outcome(CallId{admit.value + 1})->text.size(), kMaxTextBytes + 100);
}

TEST(LyingCoordinator, EndsTheRunWithTheReason) {
  const auto proposes = [](const std::function<void(wire::Propose&)>& change) {
    return [change](Peer3& r) {
      wire::Propose propose = r.loss_of(kHigh);
      change(propose);
      r.propose(propose);
    };
  };
  const Lie lies[] = {
      {"a view without the peer", proposes([](wire::Propose& p) { p.view = view_of(2, 1, {kLow}); }),
       "without this peer"},
      {"a view that lost the peer", proposes([](wire::Propose& p) { p.lost = {kMe}; }), "without this peer"},
      {"leaving that nobody asked for", proposes([](wire::Propose& p) { p.left = {kMe}; }), "without this peer"},
      {"an admission without the peer", proposes([](wire::Propose& p) { p.view = view_of(2, 2, {kLow}); }),
       "without this peer"},
      {"twice the same member", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {kLow, kMe, kLow});
       }),
       "p1 in it twice"},
      {"a member without an id", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {PeerId{}, kMe});
       }),
       "no id"},
      {"no address", proposes([](wire::Propose& p) { p.view.members[0].address = {}; }), "listens nowhere"},
      {"no port", proposes([](wire::Propose& p) { p.view.members[0].address.port = 0; }), "listens nowhere"},
      {"groups mixed up", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {kLow, kMe, kHigh});
         p.view.members[1].group = GroupId{1};
       }),
       "groups are mixed up"},
      {"unmeshed groups out of order", proposes([](wire::Propose& p) {
         p.view.unmeshed = {GroupId{2}, GroupId{1}};
       }),
       "unmeshed groups are mixed up"},
      {"an unmeshed group twice", proposes([](wire::Propose& p) {
         p.view.unmeshed = {GroupId{1}, GroupId{1}};
       }),
       "unmeshed groups are mixed up"},
      {"the same view with other unmeshed groups", proposes([](wire::Propose& p) {
         p.lost = {};
         p.view = view_of(1, 1, {kLow, kMe, kHigh});
         p.view.unmeshed = {GroupId{}};
       }),
       "other members under the same number"},
      {"another group", proposes([](wire::Propose& p) {
         for (auto& m : p.view.members) m.group = GroupId{1};
       }),
       "another group"},
      {"a stranger in the ring", proposes([](wire::Propose& p) {
         p.view = view_of(2, 1, {kMe, PeerId{4, 4}});
       }),
       "without an admission"},
      {"an older view", proposes([](wire::Propose& p) { p.view.number.value = 0; }), "view 0 after 1"},
      {"the same view with other members", proposes([](wire::Propose& p) {
         p.lost = {};
         p.view.number.value = 1;
       }),
       "other members"},
      {"another view without a reason", proposes([](wire::Propose& p) { p.lost = {}; }), "view 2 after 1"},
      {"an older cohort", proposes([](wire::Propose& p) {
         p.view = view_of(2, 0, {kLow, kMe});
       }),
       "cohort 0 after 1"},
      {"an older proposal", proposes([](wire::Propose& p) { p.number.value = 0; }), "proposal 0 after 1"},
      {"another key", proposes([](wire::Propose& p) { p.link_key = {}; }), "changed the key"},
      {"the same proposal twice",
       [](Peer3& r) {
         const auto p = r.loss_of(kHigh);
         r.propose(p);
         r.propose(p);
       },
       "proposal 2 after 2"},
      {"installs nothing", [](Peer3& r) { r.coordinator->say(wire::Install{ProposalNumber{1}}); }, "had not proposed"},
      {"installs another",
       [](Peer3& r) {
         r.propose(r.loss_of(kHigh));
         r.coordinator->say(wire::Install{ProposalNumber{9}});
       },
       "had not proposed"},
      {"commits no round",
       [](Peer3& r) {
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 0, false, {}});
       },
       "not finished"},
      {"commits too early",
       [](Peer3& r) {
         r.launch(wire::Collective::kAllReduce);
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 0, false, {}});
       },
       "not finished"},
      {"commits twice",
       [](Peer3& r) {
         r.expect_alive(7);
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 0, false, {}});
       },
       "not finished"},
      {"commits another attempt",
       [](Peer3& r) {
         r.launch(wire::Collective::kBarrier);
         r.coordinator->say(wire::Commit{r.key(), Generation{2}, 0, false, {}});
       },
       "not finished"},
      {"commits another result",
       [](Peer3& r) {
         r.launch(wire::Collective::kBarrier);
         r.coordinator->say(wire::Commit{r.key(), Generation{1}, 77, false, {}});
       },
       "another result"},
      {"commits too early by a verdict",
       [](Peer3& r) {
         r.launch(wire::Collective::kAllReduce);
         auto p = r.loss_of(kHigh);
         p.verdicts = {{r.key(), Generation{1}, Status::kOk, 0, ""}};
         r.install(p);
       },
       "not finished"},
      {"two verdicts that contradict each other",
       [](Peer3& r) {
         r.launch(wire::Collective::kAllReduce);
         auto p = r.loss_of(kHigh);
         p.verdicts = {{r.key(), Generation{1}, Status::kOk, 0, ""},
                       {r.key(), Generation{1}, Status::kAborted, 0, "no"}};
         r.install(p);
       },
       "not finished"},
      {"asks what is in a state that is not claimed",
       [](Peer3& r) {
         r.launch(wire::Collective::kBarrier);
         r.coordinator->say(wire::AskOutline{r.key(), Generation{1}, wire::Outlined::kManifest});
       },
       "claimed none"},
      {"asks for an entry of a state that is not claimed",
       [](Peer3& r) {
         r.launch(wire::Collective::kBarrier);
         r.coordinator->say(wire::AskEntry{r.key(), Generation{1}, false, 0});
       },
       "claimed none"},
      {"asks for an entry that is not there",
       [](Peer3& r) {
         launch_sync(r);
         r.coordinator->say(wire::AskEntry{r.key(), Generation{1}, false, 1});
       },
       "does not have"},
      {"ends an admit that nobody called", [](Peer3& r) { r.coordinator->say(wire::AdmitEnded{}); },
       "has not given up"},
      {"ends an admit that waits",
       [](Peer3& r) {
         r.me.admit();
         r.coordinator->say(wire::AdmitEnded{});
       },
       "has not given up"},
      {"lets go", [](Peer3& r) { r.coordinator->say(wire::Left{}); }, "did not leave"},
      {"sends tensor data",
       [](Peer3& r) {
         r.coordinator->say_segment({r.key(), AttemptId{1}, {}, {}, 64}, std::byte{1}, 0);
       },
       "tensor data"},
      {"sends noise", [](Peer3& r) { r.coordinator->say_bytes(std::vector<std::byte>(100, std::byte{0xa5})); },
       "does not speak"},
      {"evicts with ok",
       [](Peer3& r) {  // encoded by hand: no encoder writes it
         std::vector<std::byte> frame;
         wire::encode(wire::Evicted{}, Term{1}, frame);
         frame[wire::kHeaderBytes] = std::byte{0};
         const auto body = std::span(frame).subspan(wire::kHeaderBytes);
         wire::FrameHeader header{wire::type_of(wire::Evicted{}), static_cast<std::uint32_t>(body.size()), Term{1}, 0};
         header.checksum = wire::frame_checksum(header, body);
         wire::encode(header, std::span(frame).first<wire::kHeaderBytes>());
         r.coordinator->say_bytes(frame);
       },
       "must not be ok"},
  };
  for (const Lie& lie : lies) expect_left(lie);
}

TEST(LyingCoordinator, SendsMessagesThatOnlyPeersSend) {
  for (const wire::Message& message : test::sample_messages()) {
    const bool its_own =
        std::holds_alternative<wire::Heartbeat>(message) || std::holds_alternative<wire::Pending>(message) ||
        std::holds_alternative<wire::Admitting>(message) || std::holds_alternative<wire::Refused>(message) ||
        std::holds_alternative<wire::Evicted>(message) || std::holds_alternative<wire::Segment>(message) ||
        std::holds_alternative<wire::Elected>(message) || std::holds_alternative<wire::AskOutline>(message) ||
        std::holds_alternative<wire::AskEntry>(message) || std::holds_alternative<wire::Published>(message) ||
        std::holds_alternative<wire::CallAwaited>(message) || std::holds_alternative<wire::Knock>(message);
    if (its_own) continue;
    expect_left({std::string(wire::name_of_type(wire::type_of(message))),
                 [&](Peer3& r) { r.coordinator->say(message); }, "the coordinator "});
  }
}

TEST(LyingCoordinator, AnInvalidGreetingIsRefused) {
  const auto waits = [](Duration heartbeat, Duration silence) {
    return [=](Peer3& r) { r.coordinator->say(wire::Waiting{address_of(5), heartbeat, silence}); };
  };
  const Lie lies[] = {
      {"no heartbeat", waits({}, seconds(1)), "makes no sense"},
      {"a heartbeat in less than a millisecond", waits(kTick - nanoseconds(1), seconds(1)), "makes no sense"},
      {"a silence shorter than a heartbeat", waits(seconds(2), seconds(1)), "makes no sense"},
      {"a peer's greeting", [](Peer3& r) { r.coordinator->say(wire::LinkWelcome{}); }, "address of a peer"},
      {"a proposal", [](Peer3& r) { r.propose(r.proposal(view_of(1, 1, {kMe}))); }, "address of a peer"},
      {"a view of nobody",
       [](Peer3& r) {
         r.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(5)});
         r.propose(r.proposal(view_of(0, 0, {})));
       },
       "without this peer"},
      {"a view that is no admission",
       [](Peer3& r) {
         r.coordinator->say(wire::Waiting{address_of(5), milliseconds(500), seconds(5)});
         r.install(r.proposal(view_of(0, 0, {kMe})));
       },
       "other members"},
  };
  for (const Lie& lie : lies) expect_left(lie, false);
}

// The coordinator states both times.
TEST(Session, ThePeerFollowsTheHeartbeatAndTheSilenceOfItsCoordinator) {
  Peer3 run(false);
  const auto pass = [&](Duration time) {
    run.me.pass(time);
    run.me.run();
  };
  run.coordinator->say(wire::Waiting{address_of(5), milliseconds(300), milliseconds(1400)});
  run.me.run();
  for (std::size_t beats = 0; beats < 4; ++beats) {
    pass(milliseconds(300) - kTick);
    EXPECT_EQ(run.coordinator->count<wire::Heartbeat>(), beats);
    pass(kTick);
    EXPECT_EQ(run.coordinator->count<wire::Heartbeat>(), beats + 1);
  }
  pass(milliseconds(200) - kTick);
  EXPECT_FALSE(run.me.run_over);
  pass(kTick);
  ASSERT_TRUE(run.me.run_over);
  EXPECT_NE(run.me.run_over->text.find("was silent for 1400 ms"), std::string::npos) << run.me.run_over->text;
}

TEST(Session, AHeartbeatEachMillisecondIsAccepted) {
  Peer3 run(false);
  run.coordinator->say(wire::Waiting{address_of(5), kTick, seconds(1)});
  run.me.run();
  EXPECT_FALSE(run.me.run_over);
}

TEST(LyingCoordinator, HarmlessMessagesAreIgnored) {
  const Lie passes[] = {
      {"an older term", [](Peer3& r) { r.coordinator->say(wire::Evicted{}, Term{0}); }, ""},
      {"an admit of nobody",
       [](Peer3& r) {
         for (std::uint64_t i = 0; i < 5000; ++i)
           r.coordinator->say(wire::Admitting{PeerId{77, i}, CohortId{1}, 1, false, {}});
       },
       ""},
      {"an admit in no cohort",
       [](Peer3& r) {
         r.coordinator->say(wire::Admitting{kLow, CohortId{9}, 1, false, {}});
       },
       ""},
      {"so many wait", [](Peer3& r) { r.coordinator->say(wire::Pending{UINT32_MAX}); }, ""},
      {"verdicts on rounds that nobody has",
       [](Peer3& r) {
         wire::Propose p = r.proposal(view_of(1, 1, {kLow, kMe, kHigh}));
         for (std::uint32_t i = 0; i < kMaxVerdicts; ++i)
           p.verdicts.push_back({r.key(5000, i), Generation{i}, Status::kAborted, 0, ""});
         for (std::uint32_t i = 0; i < kMaxVerdicts; ++i)
           p.kept.push_back({CohortId{i % 3}, GroupId{i % 2}, Tag{1}, i});
         r.install(p);
         for (std::uint64_t tag = 6000; tag <= 6000 + kMaxRememberedOutcomes / kMaxVerdicts; ++tag) {
           p.number.value = ++r.proposals;
           for (auto& verdict : p.verdicts) verdict.key.tag.value = tag;
           r.install(p);
         }
         EXPECT_EQ(r.me.footprint().remembered, kMaxRememberedOutcomes);
       },
       ""},
  };
  for (const Lie& lie : passes) {
    SCOPED_TRACE(lie.name);
    Peer3 run;
    lie.tell(run);
    run.me.run();
    run.expect_alive();
  }
}

// With auto_admit, calls move to the next cohort. A leaver moved its call, too, and failed.
TEST(LyingCoordinator, ALeaversLastRoundMayBeClosed) {
  Peer3 run(true, true);
  const CallId call = run.launch(wire::Collective::kAllReduce);
  const CallId leave = run.me.leave();
  run.me.run();
  wire::Propose cut = run.proposal(view_of(2, 1, {kLow, kHigh}));
  cut.left = {kMe};
  cut.kept = {run.key()};
  run.install(cut);
  wire::Propose admission = run.proposal(view_of(3, 3, {kLow, kHigh}));
  admission.verdicts = {{run.key(), Generation{1}, Status::kCohortClosed, 0, "closed"}};
  run.install(admission);
  ASSERT_NE(run.me.outcome(call), nullptr);
  EXPECT_EQ(run.me.outcome(call)->status, Status::kCohortClosed);
  run.coordinator->say(wire::Left{});
  run.me.run();
  EXPECT_EQ(run.me.outcome(leave)->status, Status::kOk);
}

// Rules 22 and 23. `left` names the leaver itself, too: it was told that another member had left.
TEST(Session, ALeaverIsToldWhyItsLastRoundWentOnWithoutIt) {
  for (const bool another_leaves : {false, true}) {
    Peer3 run;
    const CallId call = run.launch(wire::Collective::kAllReduce);
    run.me.leave();
    run.me.run();
    wire::Propose cut = run.proposal(view_of(2, 1, {kLow, kHigh}));
    cut.left = {kMe};
    if (another_leaves) {  // and has not launched the round
      cut.view = view_of(2, 1, {kLow});
      cut.left.push_back(kHigh);
    } else {
      cut.kept = {run.key()};
      cut.relinked = {GroupId{}};
    }
    run.install(cut);
    ASSERT_NE(run.me.outcome(call), nullptr);
    EXPECT_EQ(run.me.outcome(call)->status, Status::kOutcomeUnknown);
    const std::string why = another_leaves ? "another member left" : "the ring was laid around a broken link";
    EXPECT_EQ(run.me.outcome(call)->text, why + " while this peer was leaving");
  }
}

// This peer receives the state of these members.
void elect(Peer3& run, std::vector<PeerId> sources) {
  launch_sync(run);
  run.coordinator->say(wire::Elected{Peer3::key(), Generation{1}, 1, Digest{1, 2}, {}, std::move(sources), {kMe}});
  run.me.run();
}

// Rule 38: a source has as long to answer as a stripe may be silent.
TEST(Sync, AReceiverAsksAnotherSourceAfterTheSilenceOfALink) {
  Peer3 run;
  elect(run, {kLow, kHigh});
  const auto asked = [&] { return run.low->count<wire::AskDigests>() + run.high->count<wire::AskDigests>(); };
  EXPECT_EQ(asked(), 1U);
  run.pass_heartbeats(options().link_silence - kTick);
  EXPECT_EQ(asked(), 1U);
  run.pass_heartbeats(kTick);
  EXPECT_EQ(asked(), 2U);
  EXPECT_EQ(run.low->count<wire::AskDigests>(), 1U);
}

// The link may be silent before it counts as broken.
TEST(Sync, AReceiverWaitsForALinkToASourceForTheSilenceAndTheTimeOutOfALink) {
  Peer3 run;
  run.low->hang_up();
  run.me.run();
  elect(run, {kLow});
  run.pass_heartbeats(options().link_silence + options().link_timeout - kTick);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>(), nullptr);
  run.pass_heartbeats(kTick);
  const auto* const stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_NE(stop->text.find("it cannot reach p1"), std::string::npos) << stop->text;
}

TEST(Sync, AnswersForAClaimedState) {
  Peer3 run;
  launch_sync(run);
  const auto* claim = run.coordinator->last<wire::Claim>();
  ASSERT_NE(claim, nullptr);
  run.coordinator->say(wire::AskOutline{{CohortId{1}, {}, Tag{8}, 0}, Generation{1}, wire::Outlined::kManifest});
  run.coordinator->say(wire::AskOutline{run.key(), Generation{0}, wire::Outlined::kManifest});
  run.coordinator->say(wire::AskEntry{run.key(), Generation{0}, false, 0});
  run.me.run();
  EXPECT_EQ(run.coordinator->last<wire::StateOutline>(), nullptr);  // these rounds are over
  EXPECT_EQ(run.coordinator->last<wire::StateEntry>(), nullptr);
  const state::Manifest manifest = sync_request().state->manifest;
  run.coordinator->say(wire::AskOutline{run.key(), Generation{1}, wire::Outlined::kManifest});
  run.me.run();
  const auto* outline = run.coordinator->last<wire::StateOutline>();
  ASSERT_NE(outline, nullptr);
  EXPECT_EQ(outline->piece_bytes, manifest.piece_bytes);
  EXPECT_EQ(outline->tensors, std::vector{hash_of(manifest.tensors[0])});
  EXPECT_EQ(outline->values, std::vector{hash_of(manifest.values[0])});
  run.coordinator->say(wire::AskEntry{run.key(), Generation{1}, false, 0});
  run.me.run();
  EXPECT_EQ(run.coordinator->last<wire::StateEntry>()->text, "w f32 [12]");
  run.coordinator->say(wire::AskEntry{run.key(), Generation{1}, true, 0});
  run.me.run();
  EXPECT_EQ(run.coordinator->last<wire::StateEntry>()->text, "step uint");
  run.expect_alive();
}

}  // namespace
}  // namespace lockstep::peer
