// Laws of whole runs on plans of any kind.
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include "core/base/mutant.h"
#include "sim/cli/exit_code.h"
#include "sim/cli/report_json.h"
#include "sim/cli/trial.h"
#include "sim/plan/plan_file.h"
#include "sim/search/simpler.h"
#include "sim/words/words.h"
#include "sim/world/world.h"
#include "tests/properties/arbitrary_plan.h"
#include "tests/properties/plan_law.h"
#include "tests/sim/run_sim.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;

// Checks the law for one plan in kShare; the property fails with a small plan that breaks it.
void obeys(const Plan& plan, const PlanLaw& law) {
  if (*rc::gen::noShrink(rc::gen::inRange(0U, kShare)) != 0) return;
  const std::string objection = objection_to(plan, law);
  if (!objection.empty()) RC_FAIL(objection);
}

Breach breach(const std::string& law, const std::string& text) { return {{.promise = law}, text}; }

// Checks what no property can check itself: the draws reach all cases.
TEST(ArbitraryPlan, DrawsAllFaultsAloneAndCombined) {
  std::vector<int> seen(kFaultCount);
  int together = 0;
  int contrary = 0;
  int flows = 0;
  int gangs = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Plan plan = plan_of_bytes(seed, kMostPlanBytes);
    flows += plan.network.flow.on ? 1 : 0;
    gangs += plan.gangs.size > 1 ? 1 : 0;
    for (std::size_t i = 0; i < plan.entries.size(); ++i) {
      const Entry& entry = plan.entries[i];
      seen[static_cast<std::size_t>(entry.fault)] += 1;
      if (i == 0 || when_of(entry) != when_of(plan.entries[i - 1])) continue;
      together += 1;
      contrary += entry.a == plan.entries[i - 1].a ? 1 : 0;
    }
  }
  for (std::uint8_t f = 0; f < kFaultCount; ++f) EXPECT_GT(seen[f], 30) << name_of(static_cast<Fault>(f));
  EXPECT_GT(together, 300);
  EXPECT_GT(contrary, 100);
  EXPECT_GT(flows, 10);
  EXPECT_GT(gangs, 30);
}

RC_GTEST_PROP(ArbitraryPlan, IsValidAndCanSucceed, ()) {
  obeys(*arbitrary_plan(), [](const Plan& plan) -> std::optional<Breach> {
    std::string flaw = validate_plan(plan);
    for (const Entry& entry : plan.entries) flaw += validate_entry(plan, entry);
    if (!flaw.empty()) return breach("flaw", flaw);
    if (!is_lawful(plan)) return breach("unlawful", "it must end badly by itself");
    return {};
  });
}

RC_GTEST_PROP(ArbitraryPlan, BreaksNoPromise, ()) { obeys(*arbitrary_plan(), breaks_a_promise); }

// Law: a plan that is read from its file gives the same run.
RC_GTEST_PROP(ArbitraryPlan, SurvivesItsFileAndRunsEqually, ()) {
  obeys(*arbitrary_plan(), [](const Plan& plan) -> std::optional<Breach> {
    const Result<Plan> again = plan_from_text(to_text(plan));
    if (!again.ok()) return breach("text", again.error().text);
    if (!(*again == plan)) return breach("text", "read back it is\n" + to_text(*again));
    const Tried first = try_plan(plan, kRunLimit);
    if (first.given_up) return no_end();
    const Report second = run(*again);
    if (first.report.hash == second.hash && first.report.time_ns == second.time_ns) return {};
    return breach("hash", "two runs differ: " + to_json(first.report).dump() + ", " + to_json(second).dump());
  });
}

// The names of the differences.
std::string differences(const Report& a, const Report& b) {
  std::string names;
  const auto compare = [&](const char* name, const auto& left, const auto& right) {
    if (left != right) names += std::string(" ") + name;
  };
  visit_counts(compare, static_cast<const Counts&>(a), static_cast<const Counts&>(b));
  compare("seed", a.seed, b.seed);
  compare("hash", a.hash, b.hash);
  compare("time_ns", a.time_ns, b.time_ns);
  compare("peers", a.peers, b.peers);
  compare("bytes_mode", a.bytes_mode, b.bytes_mode);
  compare("failure", a.failure.has_value(), b.failure.has_value());
  const Failure none;
  const Failure& left = a.failure ? *a.failure : none;
  const Failure& right = b.failure ? *b.failure : none;
  compare("failure.promise", left.promise, right.promise);
  compare("failure.text", left.text, right.text);
  compare("failure.at_ns", left.at_ns, right.at_ns);
  compare("failure.event", left.event, right.event);
  return names;
}

// Law: `lockstep sim replay --json` of a plan's file prints the report of the plan, also for a failing run.
RC_GTEST_PROP(ArbitraryPlan, ItsJsonIsItsReport, ()) {
  obeys(*arbitrary_plan(), [](const Plan& plan) -> std::optional<Breach> {
    const Ran ran = run_sim({"replay", file_with(to_text(plan)), "--json", "--until", "1000"});
    WorldOptions options;
    options.until = 1000;  // a part of the run is sufficient
    std::string differ = differences(run(plan, options), report_from(nlohmann::json::parse(ran.out)));
    options.max_events = 500;
    const Report limited = run(plan, options);
    differ += differences(limited, report_from(nlohmann::json::parse(to_json(limited).dump())));
    if (!limited.failure && limited.events >= 500) differ += " no failure at the limit";
    return differ.empty() ? std::nullopt : std::optional(breach("json", "these differ:" + differ + "\n" + ran.out));
  });
}

// Law: without faults everything commits. With auto_admit a program does not know when the others leave at the end: it
// may find itself alone, or leave with a call in flight.
RC_GTEST_PROP(ArbitraryPlan, CommitsAllWorkWithoutFaults, ()) {
  Plan calm = *arbitrary_plan();
  calm.entries.clear();
  calm.program.call_timeout = {};
  calm.state.all_vote = true;  // otherwise no peer may have a state
  if (calm.auto_admit) calm.minimum_world = 1;
  obeys(calm, [](const Plan& plan) -> std::optional<Breach> {
    if (!plan.entries.empty() || plan.program.call_timeout.ns != 0 || !plan.state.all_vote) return {};
    const Report report = run(plan);
    if (report.failure) return breach(report.failure->promise, report.failure->text);
    const std::uint64_t ended =
        plan.auto_admit ? 0 : report.aborts + report.unknown;  // auto_admit: it may also wait for too many members
    const bool none = ended + report.lost_runs + report.kills + report.misuses == 0;
    if (none && report.commits > 0 && report.commits >= plan.end.commits_after) return {};
    return breach("calm", to_json(report).dump());
  });
}

// Law: the shrinker's result breaks the same promise, is valid, and is not larger. The "broken promise" is arbitrary
// here: half of all plans, by a hash of their text.
RC_GTEST_PROP(ArbitraryPlan, ShrinksToAPlanThatBreaksTheSamePromise, (std::uint64_t salt)) {
  const Plan plan = *arbitrary_plan();
  const Trial trial = [salt](const Plan& p) -> std::optional<Broken> {
    std::uint64_t bits = salt;
    for (const char c : to_text(p)) bits = mix64(bits ^ static_cast<std::uint8_t>(c));
    if (bits % 2 == 0) return {};
    return Broken{bits % 8 == 1 ? "S1" : "S2"};
  };
  const std::optional<Broken> before = trial(plan);
  ShrinkOptions options;
  options.max_runs = 60;
  const std::optional<Shrunk> shrunk = shrink(plan, trial, options);
  RC_ASSERT(shrunk.has_value() == before.has_value());
  if (!shrunk) return;
  const std::optional<Broken> after = trial(shrunk->plan);
  RC_ASSERT(after.has_value());
  RC_ASSERT(after->promise == before->promise);
  RC_ASSERT(shrunk->broken.promise == before->promise);
  RC_ASSERT(shrunk->runs <= options.max_runs);
  RC_ASSERT(is_lawful(shrunk->plan));
  RC_ASSERT(validate_plan(shrunk->plan) == "");
  RC_ASSERT(shrunk->plan.entries.size() <= plan.entries.size());
  RC_ASSERT(shrunk->plan.peers <= plan.peers);
}

// ---- the report of a broken law ----

// A failing property: rapidcheck's output, the command in it, and the plan in the command's file.
struct Told {
  std::string words;
  std::vector<std::string> command;  // after `lockstep sim`
  Plan plan;
};
Told told(const PlanLaw& law, const Expectations& expected = {}) {
  rc::detail::TestParams params;
  params.seed = 1;  // fixed, because some plans are slow to shrink
  params.maxSuccess = 1000;
  const auto property = [&] {
    Plan plan = *arbitrary_plan();
    plan.expect = expected;
    const std::string objection = objection_to(plan, law, 80);
    if (!objection.empty()) RC_FAIL(objection);
  };
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata(), params);
  std::ostringstream words;
  rc::detail::printResultMessage(result, words);
  Told told{words.str(), {}, {}};
  const std::size_t begin = told.words.find("lockstep sim run ");
  const std::size_t end = told.words.find('\n', begin);
  if (end == std::string::npos) return told;
  told.command = split_words(told.words.substr(begin, end - begin));
  told.command.erase(told.command.begin(), told.command.begin() + 2);
  const std::string text = text_in(told.command.at(1));
  EXPECT_THAT(told.words, HasSubstr("\n\n" + text)) << "the words have the plan";
  const Result<Plan> plan = plan_from_text(text);
  EXPECT_TRUE(plan.ok());
  if (plan.ok()) told.plan = *plan;
  return told;
}

// Deliberately false: no process is ever killed.
TEST(ArbitraryPlan, AFalseLawIsReportedWithASmallPlanAndACommand) {
  const Told told = sim::told(breaks_a_promise, {{{Expectation::Is::kEqual, "kills", 0}}, {}});
  EXPECT_THAT(told.words, HasSubstr("goal broken at "));
  EXPECT_THAT(told.words, HasSubstr("kills == 0, but 1"));
  EXPECT_EQ(told.plan.entries.size(), 1U);
  EXPECT_LE(told.plan.peers, 3U);
  ASSERT_EQ(told.command.size(), 2U);
  const Ran ran = run_sim(told.command);
  EXPECT_EQ(ran.code, kExitGoal) << ran.out;
  EXPECT_THAT(ran.errors, HasSubstr("kills == 0, but 1"));
}

// In a build with planted bugs (./run mutants): a peer that aborts alone when its call times out or is stopped.
// Where the coordinator's commit reaches that peer first, its answer breaks L2, which is not the promise to be shown
// here.
TEST(PlantedBugs, AreFoundByArbitraryPlans) {
  if (!kMutantsBuilt) GTEST_SKIP() << "built without LOCKSTEP_MUTANTS";
  plant(Mutant::kAbortsAlone);
  const Told told = sim::told([](const Plan& plan) {
    std::optional<Breach> breach = breaks_a_promise(plan);
    const bool named = breach && (breach->broken.promise == "S1" || breach->broken.promise == "L1");
    return named ? std::move(breach) : std::nullopt;
  });
  EXPECT_THAT(told.words, testing::AnyOf(HasSubstr("S1 broken at "), HasSubstr("L1 broken at ")));
  EXPECT_GE(told.plan.entries.size(), 1U);
  EXPECT_LE(told.plan.entries.size(), 3U);
  EXPECT_LE(told.plan.peers, 3U);
  ASSERT_EQ(told.command.size(), 4U);
  const Ran ran = run_sim(told.command);
  EXPECT_TRUE(ran.code == kExitSafety || ran.code == kExitLiveness) << ran.code;
  const std::size_t at = ran.errors.find(" broken at ");
  ASSERT_NE(at, std::string::npos) << ran.errors;
  EXPECT_THAT(told.words, HasSubstr(ran.errors.substr(at, ran.errors.find('\n', at) - at))) << "the same failure";
  plant(Mutant::kNone);
  EXPECT_FALSE(run(told.plan).failure);
}

}  // namespace
}  // namespace lockstep::sim
