// The algorithm of a collective, as the library chooses it, and the lower bounds of all candidates (docs/costs.md).
#include "sim/predict/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/ring/shares.h"
#include "sim/flow/topology.h"
#include "sim/predict/predict.h"
#include "sim/predict/rehearsal.h"
#include "sim/predict/shares_bound.h"
#include "sim/scenario/scenario.h"
#include "tests/sim/run_sim.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;
using wire::Algorithm;

constexpr std::uint32_t kHostsOnThinLines[] = {3, 6};

std::string far_peers(std::uint32_t peers, const std::string& work, const std::string& more = {}) {
  const std::string net = R"(net = { model = "flow", latency = "40ms", jitter = "0s", slow_start = false, )"
                          R"(up = "200Mbit/s", down = "200Mbit/s" })";
  return "name = \"far\"\npeers = " + std::to_string(peers) + "\nheartbeat = \"2s\"\n" + net + "\nwork = [\"" + work +
         "\"]\n" + more;
}

// Two of the hosts send a tenth of what the others send.
std::string thin_lines(const std::string& work) {
  std::string more;
  for (const std::uint32_t host : kHostsOnThinLines) {
    more += "[[line]]\nof = \"" + std::string(1, static_cast<char>('a' + host - 1)) + "\"\nup = \"20Mbit/s\"\n";
  }
  return far_peers(8, work, more);
}

Plan plan_from(const std::string& text) {
  const Result<Scenario> scenario = scenario_from_text(text);
  EXPECT_TRUE(scenario.ok()) << scenario.error().text << text;
  return plan_of(*scenario, 0);
}

// Rates are those of payload.
CollectiveTime collective_of(const std::string& text) {
  const Result<Prediction> prediction = predict(plan_from(text), 0);
  EXPECT_TRUE(prediction.ok()) << prediction.error().text << text;
  return prediction.ok() ? prediction->collectives.front() : CollectiveTime{};
}

const Bound& candidate_of(const CollectiveTime& collective, Algorithm algorithm) {
  const auto is_it = [&](const Bound& bound) { return bound.algorithm == algorithm; };
  const auto found = std::find_if(collective.candidates.begin(), collective.candidates.end(), is_it);
  EXPECT_NE(found, collective.candidates.end()) << name_of(algorithm);
  return found == collective.candidates.end() ? collective.candidates.front() : *found;
}

std::vector<Algorithm> algorithms_of(const CollectiveTime& collective) {
  std::vector<Algorithm> all;
  for (const Bound& bound : collective.candidates) all.push_back(bound.algorithm);
  return all;
}

TEST(Candidates, EightFarMembersGoDirectInTwoHopsAndOneOfAgreement) {
  const CollectiveTime call = collective_of(far_peers(8, "all_reduce 4KiB f32 sum"));
  EXPECT_EQ(call.algorithm, Algorithm::kDirect);
  EXPECT_EQ(call.reason, "8 far members that reach each other, at most 64");
  EXPECT_EQ(algorithms_of(call), (std::vector{Algorithm::kRing, Algorithm::kDirect, Algorithm::kGrid}));
  const Bound& direct = candidate_of(call, Algorithm::kDirect);
  EXPECT_EQ(direct.hops, 2U);
  EXPECT_EQ(direct.latencies, milliseconds(80));
  EXPECT_EQ(direct.agreement, milliseconds(40));
  EXPECT_EQ(call.bound, milliseconds(120));
  EXPECT_EQ(candidate_of(call, Algorithm::kRing).whole(), milliseconds(600));
  EXPECT_EQ(candidate_of(call, Algorithm::kGrid).whole(), milliseconds(200));
  EXPECT_LT(call.again.seconds(), 0.13);
}

TEST(Candidates, AHundredFarMembersTakeAGridAndAgreeByTheCoordinator) {
  const CollectiveTime call = collective_of(far_peers(100, "all_reduce 4KiB f32 sum"));
  EXPECT_EQ(call.algorithm, Algorithm::kGrid);
  EXPECT_EQ(call.reason, "100 far members, more than 64");
  EXPECT_EQ(algorithms_of(call), (std::vector{Algorithm::kRing, Algorithm::kGrid}));
  const Bound& grid = candidate_of(call, Algorithm::kGrid);
  EXPECT_EQ(grid.hops, 4U);
  EXPECT_EQ(grid.latencies, milliseconds(160));
  EXPECT_EQ(grid.agreement, milliseconds(80));
  EXPECT_EQ(call.bound, milliseconds(240));
  EXPECT_EQ(candidate_of(call, Algorithm::kRing).latencies, milliseconds(7920));
}

TEST(Candidates, NearMembersTakeTheRing) {
  const CollectiveTime call = collective_of(
      "name = \"near\"\npeers = 4\nnet = { model = \"flow\", latency = \"100us\", up = \"1Gbit/s\" }\n"
      "work = [\"all_reduce 16MiB f32 sum\"]\n");
  EXPECT_EQ(call.algorithm, Algorithm::kRing);
  EXPECT_EQ(call.reason, "all members are less than 1 ms from the coordinator");
  EXPECT_NEAR(call.bound.seconds(), 1.5 * (16 << 20) / 125e6, 0.001);  // all candidates have the same bytes
}

// 64 MiB through a line of 2.5 MB/s: once by rate, 7/4 times in equal parts.
TEST(Candidates, ByRateAThinLineSendsItsOwnContributionOnce) {
  const CollectiveTime by_rate = collective_of(thin_lines("all_reduce 64MiB f32 sum"));
  EXPECT_EQ(by_rate.algorithm, Algorithm::kDirect);
  const Bound& direct = candidate_of(by_rate, Algorithm::kDirect);
  EXPECT_NEAR(direct.lines.seconds(), (64 << 20) / 2.5e6, 0.001);
  EXPECT_FALSE(direct.together);
  EXPECT_NEAR(candidate_of(by_rate, Algorithm::kRing).lines.seconds(), 1.75 * (64 << 20) / 2.5e6, 0.001);
  EXPECT_EQ(by_rate.bound, direct.whole());
  EXPECT_GE(by_rate.again, direct.whole());
  EXPECT_LT(by_rate.again.seconds(), 1.02 * direct.whole().seconds());
  const CollectiveTime equal = collective_of(thin_lines("all_reduce 64MiB f32 sum direct"));
  EXPECT_EQ(equal.reason, "the work asks for it");
  EXPECT_NEAR(candidate_of(equal, Algorithm::kDirect).lines.seconds(), 1.75 * (64 << 20) / 2.5e6, 0.001);
}

// Equal lines carry 2(n-1)/n of the tensor, whatever the shares are.
TEST(Candidates, ByRateAllLinesTogetherCarryTwoOfEachContribution) {
  const CollectiveTime call = collective_of(far_peers(8, "all_reduce 16MiB f32 sum"));
  const Bound& direct = candidate_of(call, Algorithm::kDirect);
  EXPECT_TRUE(direct.together);
  EXPECT_NEAR(direct.lines.seconds(), 1.75 * (16 << 20) / 25e6, 0.001);
}

TEST(Candidates, AreThoseThatACallerMayAskFor) {
  const CollectiveTime coarse = collective_of(far_peers(5, "all_reduce 1MiB f32 avg int4/int8"));
  EXPECT_EQ(algorithms_of(coarse), std::vector{Algorithm::kDirect});
  EXPECT_EQ(coarse.reason, "around the ring, a format of less than 8 bits is rounded too often");
  const CollectiveTime encoded = collective_of(far_peers(5, "all_reduce 1MiB f32 avg int8/int8"));
  EXPECT_EQ(algorithms_of(encoded), (std::vector{Algorithm::kRing, Algorithm::kDirect}));
  EXPECT_NEAR(candidate_of(encoded, Algorithm::kDirect).lines.seconds(), 1.6 * (1 << 20) / 25e6 * 260 / 1024, 0.0001);
  const CollectiveTime gathered = collective_of(far_peers(5, "all_gather 64KiB"));
  EXPECT_EQ(algorithms_of(gathered), (std::vector{Algorithm::kRing, Algorithm::kDirect, Algorithm::kGrid}));
  EXPECT_EQ(candidate_of(gathered, Algorithm::kDirect).hops, 1U);
  EXPECT_EQ(candidate_of(gathered, Algorithm::kDirect).agreement, milliseconds(80));
  const CollectiveTime three = collective_of(far_peers(3, "all_reduce 1MiB f32 sum"));  // a grid of one row
  EXPECT_EQ(algorithms_of(three), (std::vector{Algorithm::kRing, Algorithm::kDirect}));
  EXPECT_TRUE(collective_of(far_peers(3, "barrier")).candidates.empty());
}

TEST(Candidates, ABroadcastHasTwoHopsThroughOwnersAndOneStraight) {
  const CollectiveTime few = collective_of(far_peers(8, "broadcast 16KiB"));
  EXPECT_EQ(few.algorithm, Algorithm::kDirect);
  EXPECT_EQ(candidate_of(few, Algorithm::kDirect).hops, 1U);
  EXPECT_NEAR(candidate_of(few, Algorithm::kDirect).lines.seconds(), 7.0 * (16 << 10) / 25e6, 1e-6);
  const CollectiveTime more = collective_of(far_peers(8, "broadcast 4MiB"));
  EXPECT_EQ(more.algorithm, Algorithm::kDirect);
  EXPECT_EQ(candidate_of(more, Algorithm::kDirect).hops, 2U);
  EXPECT_NEAR(candidate_of(more, Algorithm::kDirect).lines.seconds(), 14.0 / 8 * (4 << 20) / 25e6, 1e-6);
  const CollectiveTime many = collective_of(far_peers(8, "broadcast 16MiB"));
  EXPECT_EQ(many.algorithm, Algorithm::kRing);
  EXPECT_EQ(many.reason, "8 far members, but so many bytes take less time around the ring");
}

TEST(Candidates, TheCoreTakesWhatItsFunctionSays) {
  const std::string works[] = {"all_reduce 1MiB f32 sum",
                               "all_reduce 1MiB f32 sum grid",
                               "all_reduce 1MiB f32 avg int4/int8",
                               "reduce_scatter 1MiB",
                               "reduce 1MiB",
                               "all_gather 4KiB",
                               "broadcast 16MiB"};
  for (const std::uint32_t peers : {2U, 5U, 66U}) {
    for (const std::string& work : works) {
      if (peers > 5 && (kSanitized || work.ends_with("int8") || work.starts_with("broadcast"))) continue;
      Plan plan = plan_from(far_peers(peers, work));
      plan.mode = plan.network.mode = Mode::kToken;
      Rehearsal rehearsal(plan);
      ASSERT_FALSE(rehearsal.begin());
      const auto times = rehearsal.step();
      ASSERT_TRUE(times.ok()) << times.error().text << work << " among " << peers;
      EXPECT_EQ(rehearsal.call_of(0).outcome->way.algorithm, choice_of(plan.program.work.front(), rehearsal.roster()))
          << work << " among " << peers;
    }
  }
}

// ---- no call is faster than the bound of its algorithm ----

constexpr auto kUnevenWays = R"(
[[link]]
between = "a c"
latency = "90ms"
[[link]]
between = "coordinator d"
latency = "70ms"
[[line]]
of = "d"
up = "20Mbit/s"
down = "100Mbit/s"
)";

constexpr auto kSharedLine = R"(
[[line]]
of = "a c e"
shared = true
up = "50Mbit/s"
down = "80Mbit/s"
)";

constexpr auto kThinWay = R"(
[[link]]
between = "a b"
rate = "2Mbit/s"
)";

TEST(Candidates, NoCallIsFasterThanItsBound) {
  const std::string works[] = {
      "all_reduce 4KiB f32 sum",
      "all_reduce 1MiB f32 sum",
      "all_reduce 12MiB f32 sum",
      "all_reduce 40 f32 sum",
      "all_reduce 2MiB f32 avg int8/bf16",
      "reduce_scatter 1MiB",
      "all_gather 100KiB",
      "broadcast 4KiB",
      "broadcast 2MiB",
      "broadcast 12MiB",
      "reduce 4KiB",
      "reduce 2MiB",
      "reduce 12MiB",
  };
  for (const std::string& more :
       {std::string(), std::string(kUnevenWays), std::string(kSharedLine), std::string(kThinWay)}) {
    for (const std::string& work : works) {
      const bool plain = work.starts_with("all_reduce") && work.ends_with("sum");
      for (const std::string asked : {"", " ring", " direct", " grid"}) {
        const bool can_ask = asked == " direct" ? plain : plain || !work.starts_with("all_reduce");
        if (!asked.empty() && !can_ask) continue;
        const std::string text = far_peers(6, work + asked, more);
        const CollectiveTime call = collective_of(text);
        ASSERT_NE(bound_of(call), nullptr) << text;
        const Bound& bound = *bound_of(call);
        EXPECT_LE(bound.whole().seconds(), call.again.seconds() * 1.0001) << text;
        EXPECT_LE(bound.whole().seconds(), call.first.seconds() * 1.0001) << text;
        EXPECT_LE(call.bound, bound.whole()) << text;
        EXPECT_GT(call.bound.ns, 0) << text;
        EXPECT_TRUE(std::all_of(call.candidates.begin(), call.candidates.end(), [&](const Bound& each) {
          return call.bound <= each.whole();
        })) << text;
      }
    }
  }
}

// Whatever the lines are: the shares that the library would deal out take no less.
TEST(SharesBound, NoSharesTakeLess) {
  constexpr std::uint32_t kHosts = 6;
  constexpr std::uint64_t kTensor = 60'000'000;
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    flow::Options options{.on = true};
    std::vector<std::uint32_t> hosts;
    std::vector<ring::Rate> rates;
    for (std::uint32_t host = 1; host <= kHosts; ++host) {
      hosts.push_back(host);
      rates.push_back(static_cast<ring::Rate>(1000 + mix64(seed * kHosts + host) % 30'000));
      options.lines.push_back({.hosts = only(host), .up_bytes_per_s = std::uint64_t{rates.back()} * 1024});
    }
    flow::Topology topology(options, kHosts + 1, UINT64_MAX, [](auto, auto) { return flow::Way{1'000'000, 0, 0}; });
    const SharesBound bound = shares_bound(topology, hosts, kTensor, 2);
    const std::vector<std::uint32_t> shares = ring::shares_of(rates);
    double slowest = 0;
    for (std::uint32_t rank = 0; rank < kHosts; ++rank) {
      const double share = shares.empty() ? 1.0 / kHosts : static_cast<double>(shares[rank]) / ring::kAllShares;
      slowest = std::max(slowest, (1 + (kHosts - 2) * share) * kTensor / (rates[rank] * 1024.0));
    }
    EXPECT_LE(static_cast<double>(bound.ns) * 1e-9, slowest * 1.0001) << seed;
    EXPECT_GE(static_cast<double>(bound.ns) * 1e-9, slowest * 0.6) << seed;  // the library rounds rates down
  }
}

// Three hosts send and receive the whole tensor over the line that they share, once for each of them.
TEST(SharesBound, ALineOfARoomCarriesTheContributionsOfTheRoom) {
  flow::Options options{.on = true};
  options.lines.push_back({.hosts = only(1) | only(2) | only(3), .up_bytes_per_s = 1'000'000});
  flow::Topology topology(options, 7, UINT64_MAX, [](auto, auto) { return flow::Way{1'000'000, 0, 0}; });
  const std::vector<std::uint32_t> hosts = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(shares_bound(topology, hosts, 10'000'000, 2).ns, seconds(30).ns);
  const std::vector<std::uint32_t> fewer = {1, 2, 3, 4, 5};
  EXPECT_EQ(shares_bound(topology, fewer, 10'000'000, 2).ns, seconds(20).ns);  // if one of the room owns all
}

// ---- as a shell sees it ----

TEST(PredictCommand, NamesTheAlgorithmItsReasonAndTheBoundsOfAllCandidates) {
  const std::string file = file_with(far_peers(8, "all_reduce 4KiB f32 sum"));
  const Ran words = run_sim({"predict", file});
  EXPECT_EQ(words.code, 0) << words.errors;
  EXPECT_THAT(words.out, HasSubstr("\n  algorithm    direct: 8 far members that reach each other, at most 64\n"
                                   "  lower bound  120 ms, by the direct algorithm\n"
                                   "    ring       at least 600 ms: 14 hops 560 ms, lines "));
  EXPECT_THAT(words.out, HasSubstr("\n    direct     at least 120 ms: 2 hops 80 ms, lines "));
  EXPECT_THAT(words.out, testing::Not(HasSubstr("best ring")));
  const Ran ran = run_sim({"predict", file, "--json"});
  const auto json = nlohmann::json::parse(ran.out);
  const auto& call = json.at("collectives").at(0);
  EXPECT_EQ(call.at("algorithm"), "direct");
  EXPECT_EQ(call.at("reason"), "8 far members that reach each other, at most 64");
  EXPECT_EQ(call.at("bound_ns"), 120'000'000);
  EXPECT_EQ(call.at("candidates").size(), 3U);
  EXPECT_EQ(call.at("candidates").at(1).at("algorithm"), "direct");
  EXPECT_EQ(call.at("candidates").at(1).at("hops"), 2);
  EXPECT_EQ(call.at("candidates").at(1).at("agreement_ns"), 40'000'000);
  EXPECT_TRUE(json.at("best_ring").is_null());
  EXPECT_EQ(json.at("stragglers").size(), 1U);
}

TEST(PredictCommand, KnowsNoExchanges) {
  const Ran ran = run_sim({"predict", file_with(far_peers(3, "all_to_all 64KiB"))});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("some of its work is a gather, a scatter or an all_to_all"));
}

// P4, in time: hops, bytes and agreement of the best candidate, and one hop until its receivers are ready.
TEST(Candidates, WhatTheLibraryChoosesTakesAtMostAQuarterMoreThanTheBest) {
  if (kSanitized) GTEST_SKIP() << "many runs, of what shorter ones do, too";
  const char* const works[] = {"all_reduce 4KiB f32 sum",     "all_reduce 64KiB f32 sum", "all_reduce 1MiB f32 sum",
                               "all_reduce 16MiB f32 sum",    "reduce 4KiB f32 sum",      "reduce 16MiB f32 sum",
                               "reduce_scatter 1MiB f32 sum", "all_gather 256KiB f32",    "broadcast 4KiB f32"};
  for (const std::uint32_t peers : {2U, 4U, 8U, 16U}) {
    for (const char* const work : works) {
      const CollectiveTime call = collective_of(far_peers(peers, work));
      double best = 1e9;
      for (const Bound& bound : call.candidates)
        best = std::min(best, (bound.latencies + bound.lines + bound.agreement).seconds() + 0.04);
      EXPECT_LE(call.again.seconds(), 1.25 * best) << peers << ' ' << work << ' ' << name_of(call.algorithm);
    }
  }
}

}  // namespace
}  // namespace lockstep::sim
