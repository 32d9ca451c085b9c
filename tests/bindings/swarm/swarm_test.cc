#include "bindings/swarm/swarm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/bindings/swarm/programs.h"
#include "tests/bindings/swarm/training.h"

namespace lockstep::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<End> ends(const Report& report) {
  std::vector<End> all;
  for (const ProgramReport& program : report.programs) all.push_back(program.end);
  return all;
}

std::string failure_of(const Report& report) {
  return report.failure ? report.failure->kind + ": " + report.failure->text : "";
}

// Runs programs that connect themselves.
Report run_training(const Conditions& conditions, const Training& training = {}) {
  return run(
      conditions, [&](Peer& peer) { train(peer, training); }, false);
}

TEST(Swarm, ThreeProgramsReduceInVirtualTime) {
  std::vector<float> results;
  const Report report = run(scenario("peers = 3"), [&](Peer& peer) {
    std::vector<float> values(1000, static_cast<float>(peer.host));
    lockstep_all_reduce_args args = sum_of(values);
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    peer.spend(seconds(100));
    peer.check(lockstep_all_reduce(peer.comm, &args, &result));
    EXPECT_EQ(result.world_size, 3U);
    EXPECT_GT(result.seconds, 0);
    EXPECT_LT(result.seconds, 0.1);
    EXPECT_GE(peer.now(), seconds(100));
    EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 6; }));
    results.push_back(values.front());
  });
  EXPECT_EQ(failure_of(report), "");
  EXPECT_THAT(results, ElementsAre(6, 6, 6));
  EXPECT_THAT(ends(report), ElementsAre(End::kReturned, End::kReturned, End::kReturned));
  EXPECT_EQ(report.commits, 1U);
  EXPECT_GE(report.time, seconds(100));
  EXPECT_LT(report.time, seconds(101));
}

TEST(Swarm, OneProgramRunsAtATime) {
  int running = 0;
  const Report report = run(scenario("peers = 4"), [&](Peer& peer) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(running++, 0);  // without the baton this is a race, which the thread sanitizer detects, too
      running -= 1;
      peer.spend(milliseconds(peer.host));
    }
  });
  EXPECT_EQ(failure_of(report), "");
}

TEST(Swarm, AsynchronousCallsInAnyOrderEnd) {
  const Report report = run(scenario("peers = 3"), [&](Peer& peer) {
    constexpr std::size_t kCalls = 8;
    std::array<std::vector<float>, kCalls> values;
    std::array<lockstep_work*, kCalls> works{};
    for (std::size_t i = 0; i < kCalls; ++i) {
      const std::size_t which = (i + peer.host) % kCalls;
      values[which].assign(100 + which, 1);
      lockstep_all_reduce_args args = sum_of(values[which], which);
      peer.check(lockstep_all_reduce_async(peer.comm, &args, &works[which]));
    }
    for (std::size_t left = kCalls; left > 0; --left) {
      std::size_t index = 0;
      peer.check(lockstep_wait_any(works.data(), kCalls, LOCKSTEP_FOREVER, &index));
      EXPECT_EQ(values[index].back(), 3);
      lockstep_work_free(works[index]);
      works[index] = nullptr;
    }
  });
  EXPECT_EQ(failure_of(report), "");
  EXPECT_EQ(report.commits, 8U);
}

TEST(Swarm, TheTimeoutOfAWaitIsVirtualAndTheCallContinues) {
  const Report report = run(scenario("peers = 2"), [&](Peer& peer) {
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    lockstep_work* work = nullptr;
    if (peer.host == 2) peer.spend(seconds(1000));
    const Duration began = peer.now();
    peer.check(lockstep_all_reduce_async(peer.comm, &args, &work));
    if (peer.host == 1) {
      EXPECT_EQ(lockstep_wait(work, 250'000, nullptr), LOCKSTEP_ERR_PENDING);
      EXPECT_EQ(peer.now() - began, seconds(250));
    }
    peer.check(lockstep_wait(work, LOCKSTEP_FOREVER, nullptr));
    lockstep_work_free(work);
    EXPECT_EQ(values.front(), 2);
  });
  EXPECT_EQ(failure_of(report), "");
}

TEST(Swarm, TheTimeoutOfACallIsVirtual) {
  const Report report = run(scenario("peers = 2"), [&](Peer& peer) {
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    args.timeout_ms = 300'000;
    if (peer.host == 2) peer.spend(seconds(600));
    const lockstep_status status = lockstep_all_reduce(peer.comm, &args, nullptr);
    EXPECT_EQ(status, LOCKSTEP_ERR_TIMED_OUT);
    EXPECT_EQ(values.front(), 1);
    const Duration expected = seconds(peer.host == 1 ? 300 : 600);
    EXPECT_GE(peer.now(), expected);
    EXPECT_LT(peer.now(), expected + seconds(1));
  });
  EXPECT_EQ(failure_of(report), "");
}

// The program has to poll repeatedly, and time must pass meanwhile.
TEST(Swarm, APollingProgramReachesTheEndOfItsCall) {
  const Report report = run(scenario("peers = 2"), [&](Peer& peer) {
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    lockstep_work* work = nullptr;
    if (peer.host == 2) peer.spend(seconds(2));
    peer.check(lockstep_all_reduce_async(peer.comm, &args, &work));
    while (lockstep_test(work, nullptr) == LOCKSTEP_ERR_PENDING) {
    }
    EXPECT_EQ(values.front(), 2);
    lockstep_work_free(work);
    std::uint32_t pending = 1;
    if (peer.host == 1) {
      while (peer.now() < seconds(3)) peer.check(lockstep_pending(peer.comm, &pending));
    }
  });
  EXPECT_EQ(failure_of(report), "");
}

constexpr auto kChurn = R"(
peers = 3
net = { latency = "20ms" }
[[do]]
at = "3s"
crash = "b"
back = "2s"
[[do]]
at = "4s"
join = "d"
[[do]]
at = "8s"
leave = "c"
)";

TEST(Swarm, CrashJoinAndLeaveHappenWhileProgramsTrain) {
  const Report report = run_training(scenario(kChurn));
  EXPECT_EQ(failure_of(report), "");
  // a, b, c; d joins; b again
  EXPECT_THAT(ends(report), ElementsAre(End::kReturned, End::kKilled, End::kLeft, End::kReturned, End::kReturned));
  EXPECT_EQ(report.programs[1].ended, seconds(3));
  EXPECT_EQ(report.programs[3].began, seconds(4));
  EXPECT_EQ(report.programs[4].began, seconds(5));
  EXPECT_EQ(report.programs[4].start, 2U);
  EXPECT_TRUE(report.never_began.empty());
  std::vector<std::string> what;
  for (const Happening& happening : report.happenings) what.push_back(happening.what);
  EXPECT_THAT(what, testing::IsSupersetOf({std::string("crash b, back after 2 s"), std::string("join d"),
                                           std::string("b starts again"), std::string("leave c")}));
}

TEST(Swarm, EqualSeedsGiveEqualRuns) {
  const auto once = [](std::uint64_t seed) { return run_training(scenario(kChurn, seed), {.steps = 20}); };
  const Report first = once(3);
  const Report second = once(3);
  const Report other = once(4);
  EXPECT_EQ(failure_of(first), "");
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_EQ(first.events, second.events);
  EXPECT_EQ(first.time, second.time);
  ASSERT_EQ(first.happenings.size(), second.happenings.size());
  for (std::size_t i = 0; i < first.happenings.size(); ++i) {
    EXPECT_EQ(first.happenings[i].at, second.happenings[i].at);
    EXPECT_EQ(first.happenings[i].what, second.happenings[i].what);
  }
  EXPECT_NE(first.hash, other.hash);
}

TEST(Swarm, ACrashEndsEveryCallOfItsProgramAtOnce) {
  bool killed = false;
  const Report report = run(scenario("peers = 2\n[[do]]\nat = \"2s\"\ncrash = \"b\"\n"), [&](Peer& peer) {
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    if (peer.host == 1) {  // this peer never launches the second call
      peer.check(lockstep_all_reduce(peer.comm, &args, nullptr));
      peer.spend(seconds(20));
      return;
    }
    peer.check(lockstep_all_reduce(peer.comm, &args, nullptr));
    EXPECT_EQ(lockstep_all_reduce(peer.comm, &args, nullptr), LOCKSTEP_ERR_OUTCOME_UNKNOWN);
    EXPECT_THAT(lockstep_last_error(), HasSubstr("its host crashed"));
    EXPECT_EQ(peer.now(), seconds(2));
    EXPECT_TRUE(peer.swarm.killed(peer.program));
    EXPECT_EQ(lockstep_admit(peer.comm, LOCKSTEP_FOREVER, nullptr), LOCKSTEP_ERR_NOT_CONNECTED);
    EXPECT_FALSE(peer.swarm.spend(peer.program, seconds(5)));
    EXPECT_EQ(peer.now(), seconds(2));
    lockstep_comm* again = nullptr;
    EXPECT_EQ(peer.swarm.open(peer.program, nullptr, &again), LOCKSTEP_ERR_NOT_CONNECTED);
    killed = true;
  });
  EXPECT_EQ(failure_of(report), "");
  EXPECT_TRUE(killed);
  EXPECT_THAT(ends(report), ElementsAre(End::kReturned, End::kKilled));
}

// The memory of a dead program is not used any more: the address sanitizer would detect it.
TEST(Swarm, TheMemoryOfAKilledProgramIsNoLongerUsed) {
  constexpr auto kText = "peers = 3\nnet = { rate = \"1Mbit/s\" }\n[[do]]\nat = \"1s\"\ncrash = \"b\"\n";
  const Report report = run(scenario(kText), [&](Peer& peer) {
    auto values = std::make_unique<std::vector<float>>(100'000, 1.0F);
    lockstep_all_reduce_args args = sum_of(*values);
    peer.check(lockstep_all_reduce(peer.comm, &args, nullptr));
    EXPECT_EQ(values->back(), 2);
  });
  EXPECT_EQ(failure_of(report), "");
  EXPECT_EQ(report.retries, 2U);
}

TEST(Swarm, ADestroyedCommunicatorEndsItsCallsFirst) {
  const Report report = run(scenario("peers = 2"), [&](Peer& peer) {
    auto values = std::make_unique<std::vector<float>>(100, 1.0F);
    lockstep_all_reduce_args args = sum_of(*values);
    lockstep_work* work = nullptr;
    if (peer.host == 2) return peer.spend(seconds(5));
    peer.check(lockstep_all_reduce_async(peer.comm, &args, &work));
    lockstep_comm_destroy(peer.comm);
    peer.comm = nullptr;
    EXPECT_EQ(lockstep_test(work, nullptr), LOCKSTEP_ERR_OUTCOME_UNKNOWN);
    lockstep_work_free(work);
  });
  EXPECT_EQ(failure_of(report), "");
}

TEST(Swarm, ARejoiningProgramOpensAnotherCommunicator) {
  const Report report = run(scenario("peers = 2"), [&](Peer& peer) {
    if (peer.host == 2) {
      lockstep_comm_destroy(peer.comm);
      peer.check(peer.swarm.open(peer.program, nullptr, &peer.comm));
      peer.check(lockstep_connect(peer.comm, "swarm:1", LOCKSTEP_FOREVER));
    } else {
      peer.spend(seconds(2));
      peer.check(lockstep_wait_for_world(peer.comm, 2, LOCKSTEP_FOREVER, nullptr));
    }
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    peer.check(lockstep_all_reduce(peer.comm, &args, nullptr));
    EXPECT_EQ(values.front(), 2);
  });
  EXPECT_EQ(failure_of(report), "");
}

TEST(Swarm, AProgramInAnotherRoundIsADeadlock) {
  const Report report = run(scenario("peers = 3"), [&](Peer& peer) {
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values, peer.host == 3 ? 8 : 9);
    args.timeout_ms = LOCKSTEP_FOREVER;
    peer.check(lockstep_all_reduce(peer.comm, &args, nullptr));
  });
  ASSERT_TRUE(report.failure);
  EXPECT_EQ(report.failure->kind, "deadlock");
  EXPECT_THAT(report.failure->text, HasSubstr("a waits for all-reduce"));
  EXPECT_THAT(report.failure->text, HasSubstr("tag 8"));
  EXPECT_THAT(report.failure->text, HasSubstr("tag 9"));
}

TEST(Swarm, AMismatchIsTheProgramsFailure) {
  const Report report = run(scenario("peers = 3"), [&](Peer& peer) {
    std::vector<float> values(peer.host == 3 ? 11 : 10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    peer.check(lockstep_all_reduce(peer.comm, &args, nullptr));
  });
  ASSERT_TRUE(report.failure);
  EXPECT_EQ(report.failure->kind, "program");
  EXPECT_THAT(report.failure->text, HasSubstr("arguments differ in all_reduce with tag 0: count 1"));
}

// A failing program ends the run: the others are killed at once, wherever they are.
TEST(Swarm, AFailureEndsTheWholeRun) {
  const Report report = run(scenario("peers = 3"), [&](Peer& peer) {
    peer.spend(seconds(1));
    if (peer.host == 2) throw std::runtime_error("step 3 is odd");
    peer.spend(seconds(100));
  });
  ASSERT_TRUE(report.failure);
  EXPECT_EQ(report.failure->kind, "program");
  EXPECT_EQ(report.failure->text, "b: step 3 is odd");
  EXPECT_LT(report.time, seconds(3));
  EXPECT_THAT(ends(report), ElementsAre(End::kRunning, End::kFailed, End::kRunning));
}

// The program changes memory that it has lent: the result is not the fold of its input.
TEST(Swarm, DetectsAProgramThatWritesToLentMemory) {
  const Report report = run(scenario("peers = 2"), [&](Peer& peer) {
    std::vector<float> values(10, 1);
    lockstep_all_reduce_args args = sum_of(values);
    lockstep_work* work = nullptr;
    peer.check(lockstep_all_reduce_async(peer.comm, &args, &work));
    const OwnedWork owned(work);
    if (peer.host == 1) values[3] = 5;
    peer.check(lockstep_wait(work, LOCKSTEP_FOREVER, nullptr));
  });
  ASSERT_TRUE(report.failure);
  EXPECT_EQ(report.failure->kind, "S2");
  EXPECT_THAT(report.failure->text, HasSubstr("changed memory that it had lent"));
}

TEST(Swarm, ANewcomerTakesOverTheState) {
  constexpr auto kText = "peers = 2\n[[do]]\nat = \"1s\"\njoin = \"c\"\n";
  std::vector<std::uint64_t> steps;
  const Report report = run(scenario(kText), [&](Peer& peer) {
    Model model;
    if (peer.host < 3) {
      model.step = 17;
      std::ranges::fill(model.weights, 4.0F);
      peer.check(model.sync(peer.comm, nullptr));
      peer.spend(seconds(3));
      peer.check(lockstep_admit(peer.comm, LOCKSTEP_FOREVER, nullptr));
    }
    peer.check(model.sync(peer.comm, nullptr));
    steps.push_back(model.step);
    EXPECT_EQ(model.weights.back(), 4.0F);
  });
  EXPECT_EQ(failure_of(report), "");
  EXPECT_THAT(steps, ElementsAre(17, 17, 17));
}

TEST(Swarm, AStalledProgramDoesNotRun) {
  constexpr auto kText = "peers = 2\n[[do]]\nat = \"1s\"\nstall = \"b\"\nfor = \"600ms\"\n";
  const Report report = run(scenario(kText), [&](Peer& peer) {
    while (peer.now() < seconds(3)) {
      const Duration before = peer.now();
      peer.spend(milliseconds(50));
      const Duration took = peer.now() - before;
      EXPECT_LT(took, milliseconds(peer.host == 2 && before < seconds(1) ? 700 : 51));
      EXPECT_FALSE(peer.host == 2 && peer.now() > milliseconds(1001) && peer.now() < milliseconds(1600));
    }
  });
  EXPECT_EQ(failure_of(report), "");
}

TEST(Swarm, ANewcomerThatWaitsAfterAllOthersReturnedIsTooLate) {
  constexpr auto kText = "peers = 2\n[[do]]\nat = \"1s\"\njoin = \"c\"\n";
  const Report report = run(scenario(kText), [](Peer& peer) { peer.spend(seconds(2)); });  // no member calls admit
  EXPECT_EQ(failure_of(report), "");
  EXPECT_THAT(ends(report), ElementsAre(End::kReturned, End::kReturned, End::kTooLate));
}

// Every kind of fault, in many drawn orders: no promise is broken, no program hangs, and each run repeats to the last
// bit.
TEST(Swarm, SurvivesAndRepeatsEveryKindOfChurn) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Conditions conditions = scenario("peers = 5\nnet = { profile = \"region\" }\n", seed);
    const Churn churn{.crashes = 2, .vanishes = 1, .leaves = 1, .joins = 1, .stalls = 2, .cuts = 2, .resets = 2};
    ASSERT_FALSE(conditions.add(churn));
    const Training training{.steps = 15,
                            .step_takes = seconds(1),
                            .up = seed % 2 == 0 ? LOCKSTEP_WIRE_NATIVE : LOCKSTEP_WIRE_INT8,
                            .watches = seed % 3 == 0};
    const Report report = run_training(conditions, training);
    EXPECT_EQ(failure_of(report), "") << "seed " << seed;
    EXPECT_GE(report.commits, 15U);
    if (seed % 8 != 0) continue;
    const Result<Conditions> again = Conditions::from_text(conditions.to_text());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(run_training(*again, training).hash, report.hash) << "seed " << seed;
  }
}

TEST(Swarm, DetectsALoopThatForgetsToSync) {
  std::optional<Failure> found;
  for (std::uint64_t seed = 1; seed <= 20 && !found; ++seed) {
    Conditions conditions = scenario("peers = 4", seed);
    ASSERT_FALSE(conditions.add({.crashes = 1, .joins = 1, .until = seconds(6)}));
    found = run_training(conditions, {.newcomers_sync = false, .watches = true}).failure;
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "program");
  EXPECT_THAT(found->text, HasSubstr("differs from that of"));
}

TEST(Swarm, AStalledHostLeavesWhenItWakes) {
  constexpr auto kText = R"(
peers = 3
[[do]]
at = "2s"
stall = "b"
for = "800ms"
[[do]]
at = "2500ms"
leave = "b"
back = "1s"
)";
  const Report report = run_training(scenario(kText));
  EXPECT_EQ(failure_of(report), "");
  ASSERT_EQ(report.programs.size(), 4U);
  EXPECT_EQ(report.programs[1].end, End::kLeft);
  EXPECT_GE(report.programs[1].ended, milliseconds(2800));
  EXPECT_EQ(report.programs[3].start, 2U);
  EXPECT_EQ(report.programs[3].began - report.programs[1].ended, seconds(1));
}

TEST(Swarm, AProgramThatLosesTheRunWhileLeavingEnds) {
  constexpr auto kText = R"(
peers = 3
[[do]]
at = "2s"
split = "b | coordinator a c"
for = "5s"
[[do]]
at = "2100ms"
leave = "b"
)";
  const Report report = run_training(scenario(kText));
  EXPECT_EQ(failure_of(report), "");
  EXPECT_THAT(ends(report), ElementsAre(End::kReturned, End::kLeft, End::kReturned));
}

// The program has no communicator left that could leave on its behalf.
TEST(Swarm, AClosedProgramCanBeMadeToLeave) {
  constexpr auto kText = "peers = 2\n[[do]]\nat = \"2s\"\nleave = \"b\"\n";
  const Report report = run(scenario(kText), [](Peer& peer) {
    if (peer.host == 2) {
      lockstep_comm_destroy(peer.comm);
      peer.comm = nullptr;
    }
    peer.spend(seconds(4));
  });
  EXPECT_EQ(failure_of(report), "");
  EXPECT_THAT(ends(report), ElementsAre(End::kReturned, End::kLeft));
  EXPECT_EQ(report.programs[1].ended, seconds(2));
}

TEST(Swarm, APublishedStateIsFetchedWhileANewcomerWaits) {
  constexpr auto kText = "peers = 2\n[[do]]\nat = \"1s\"\njoin = \"c\"\n";
  bool fetched = false;
  const Report report = run(
      scenario(kText),
      [&](Peer& peer) {
        Model model;
        lockstep_sync_state_args state = model.args();
        lockstep_result result = LOCKSTEP_RESULT_INIT;
        if (peer.host == 3) {
          lockstep_work* connecting = nullptr;
          peer.check(lockstep_connect_async(peer.comm, "swarm:1", LOCKSTEP_FOREVER, &connecting));
          peer.check(lockstep_prefetch_state(peer.comm, &state, &result));
          EXPECT_EQ(result.bytes_received, 400U);
          EXPECT_EQ(model.step, 5U);
          EXPECT_EQ(lockstep_test(connecting, nullptr), LOCKSTEP_ERR_PENDING);
          fetched = true;
          peer.check(lockstep_wait(connecting, LOCKSTEP_FOREVER, nullptr));
          lockstep_work_free(connecting);
        } else {
          peer.check(lockstep_connect(peer.comm, "swarm:1", LOCKSTEP_FOREVER));
          model.step = 5;
          model.weights.assign(100, 3);
          state = model.args();
          peer.check(lockstep_publish_state(peer.comm, &state));
          peer.check(lockstep_wait_for_world(peer.comm, 2, LOCKSTEP_FOREVER, nullptr));
          peer.spend(seconds(2));
          peer.check(lockstep_unpublish_state(peer.comm, state.tag));
          peer.check(lockstep_admit(peer.comm, LOCKSTEP_FOREVER, nullptr));
        }
        state = model.args();
        peer.check(lockstep_sync_state(peer.comm, &state, &result));
        EXPECT_EQ(result.bytes_received, 0U);
        EXPECT_EQ(model.weights.back(), 3);
      },
      false);
  EXPECT_EQ(failure_of(report), "");
  EXPECT_TRUE(fetched);
}

TEST(Swarm, CanBeInterrupted) {
  int asked = 0;
  const Report report = run(
      scenario("peers = 2"),
      [&](Peer& peer) {
        for (;;) peer.spend(seconds(1));
      },
      true, [&] { return ++asked > 1; });
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(failure_of(report), "");
  EXPECT_THAT(ends(report), ElementsAre(End::kRunning, End::kRunning));
}

TEST(Swarm, CallsFromAnotherThreadAreRefused) {
  const Report report = run(scenario("peers = 1"), [&](Peer& peer) {
    std::thread other([&] {
      EXPECT_EQ(lockstep_admit(peer.comm, LOCKSTEP_FOREVER, nullptr), LOCKSTEP_ERR_INVALID_ARGUMENT);
      EXPECT_THAT(lockstep_last_error(), HasSubstr("its own thread only"));
    });
    other.join();
  });
  EXPECT_EQ(failure_of(report), "");
}

TEST(Swarm, AnExceptionOfStartLeavesRun) {
  Swarm swarm(scenario("peers = 2"));
  EXPECT_THROW(swarm.run([](ProgramId) { throw std::runtime_error("no threads left"); }), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::swarm
