// As many members as the limits allow, and a few more: their messages stay within the limit of a message, and the
// coordinator's cost stays within its limits. The test plays every member.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "fuzz/hosts.h"

namespace lockstep::coordinator {
namespace {

using fuzz::address_of;
using fuzz::FarEnd;

struct Crowd {
  // All of them found the run, the i-th in group `group_of(i)`, and as one gang if `gang` is not 0.
  template <typename GroupOf>
  Crowd(std::uint32_t n, GroupOf group_of, const CoordinatorOptions& options = {}, std::uint64_t gang = 0)
      : coordinator(options) {
    for (std::uint32_t i = 0; i < n; ++i) {
      wire::Join join;
      join.peer = id(i);
      join.group = GroupId{group_of(i)};
      join.gang = GangId{gang};
      join.gang_size = gang == 0 ? 1 : n;
      join.founders = n;
      join.advertised = address_of(1);
      join.name = "p" + std::to_string(i);
      join.round_trip = round_trip_of(i);
      enter(join);
    }
    answer_all();
  }
  explicit Crowd(std::uint32_t n, const CoordinatorOptions& options = {})
      : Crowd(
            n, [](std::uint32_t) { return 0U; }, options) {}

  static PeerId id(std::uint32_t i) { return {i + 1, i + 1}; }
  static Duration round_trip_of(std::uint32_t i) { return milliseconds(10 + i); }

  void enter(const wire::Join& join) {
    ends.push_back(&coordinator.streams.accept(address_of(1)));
    answered.push_back({});
    ends.back()->greet();
    ends.back()->say(join);
    coordinator.run();
  }
  // Enters, and answers the question that newcomers are asked.
  void enter_and_answer(const wire::Join& join) {
    enter(join);
    answered.back() = ends.back()->last<wire::Propose>()->number;
    ends.back()->say(wire::Flush{answered.back(), {}});
    coordinator.run();
  }
  // All members answer their newest proposals; returns whether there was one.
  bool answer() {
    bool any = false;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const auto* propose = ends[i]->last<wire::Propose>();
      if (propose == nullptr || propose->number == answered[i] || ends[i]->shown_out()) continue;
      answered[i] = propose->number;
      ends[i]->say(wire::Flush{propose->number, {}});
      any = true;
    }
    coordinator.run();
    return any;
  }
  void answer_all() {
    coordinator.run();
    while (answer()) {
    }
  }

  [[nodiscard]] CohortId cohort() const { return ends.front()->last<wire::Propose>()->view.cohort; }
  [[nodiscard]] Generation attempt() const { return {ends.front()->last<wire::Propose>()->view.number.value}; }

  fuzz::CoordinatorHost coordinator;
  std::vector<FarEnd*> ends;
  std::vector<ProposalNumber> answered;
};

// Found by an attack: the stops and the closed rounds each fitted one message, but together they made the coordinator
// abort.
TEST(Crowd, ClosedAndStoppedRoundsFitOneProposalOrWaitForTheNext) {
  constexpr std::uint32_t kMembers = kMaxVerdicts / kMaxRoundsInFlight + 1;
  Crowd crowd(kMembers);
  const CohortId cohort = crowd.cohort();
  const Generation attempt = crowd.attempt();
  std::set<RoundKey> open;
  for (std::uint32_t i = 0; i < kMembers; ++i) {  // each has launched what nobody else has
    wire::Admit admit{cohort, 1, false, {}};
    for (std::uint32_t j = 0; j < kMaxRoundsInFlight; ++j) {
      admit.open.push_back({{cohort, {}, Tag{i * 1000ULL + j}, 0}, attempt, false, true, 0});
      open.insert(admit.open.back().key);
    }
    crowd.ends[i]->say(admit);
  }
  crowd.coordinator.run();
  const RoundKey stopped{cohort, {}, Tag{999'999}, 0};
  crowd.ends[0]->say(wire::StopRound{stopped, attempt, Status::kAborted, false, "enough"});
  open.insert(stopped);
  crowd.coordinator.run();
  crowd.answer_all();
  EXPECT_EQ(crowd.coordinator.status().view.members.size(), kMembers);
  for (const wire::Message& message : crowd.ends[0]->heard()) {
    const auto* propose = std::get_if<wire::Propose>(&message);
    if (propose == nullptr) continue;
    EXPECT_LE(propose->verdicts.size(), kMaxVerdicts);
    for (const wire::Verdict& verdict : propose->verdicts) open.erase(verdict.key);
  }
  EXPECT_TRUE(open.empty()) << open.size() << " rounds are open for ever";
}

wire::Join newcomer(std::uint32_t i) {
  wire::Join join;
  join.peer = Crowd::id(1000 + i);
  join.advertised = address_of(1);
  return join;
}

// Found by an attack: a newcomer joined and disconnected repeatedly. Each time, the admission was withdrawn and drafted
// again with the newcomers that had arrived meanwhile, and members waited for half a minute.
TEST(Crowd, NewcomersThatJoinAndLeaveDelayAnAdmissionOnce) {
  Crowd crowd(3);
  crowd.enter_and_answer(newcomer(0));
  for (std::size_t i = 0; i < 3; ++i) crowd.ends[i]->say(wire::Admit{crowd.cohort(), 1, false, {}});
  crowd.coordinator.run();
  ASSERT_EQ(crowd.ends[0]->last<wire::Propose>()->view.members.size(), 4U);
  for (std::uint32_t n = 1; n < 20; ++n) {  // there is always one, and none stays
    crowd.enter_and_answer(newcomer(n));
    crowd.ends[2 + n]->hang_up();
    crowd.coordinator.run();
    EXPECT_EQ(crowd.ends[0]->last<wire::Propose>()->view.members.size(), 3U) << n;
  }
  crowd.answer_all();
  EXPECT_EQ(crowd.coordinator.status().view.members.size(), 3U);
  // The next admission admits all peers that have waited meanwhile.
  for (std::size_t i = 0; i < 3; ++i) crowd.ends[i]->say(wire::Admit{crowd.cohort(), 1, false, {}});
  crowd.answer_all();
  EXPECT_EQ(crowd.coordinator.status().view.members.size(), 4U);
}

TEST(Crowd, OneAddressCannotTakeEveryPlace) {
  CoordinatorOptions options;
  options.waiting_of_one = 10;
  Crowd crowd(3, options);
  for (std::uint32_t n = 0; n < 11; ++n) crowd.enter(newcomer(n));
  EXPECT_EQ(crowd.coordinator.status().waiting.size(), 10U);
  ASSERT_NE(crowd.ends.back()->last<wire::Refused>(), nullptr);
  EXPECT_NE(crowd.ends.back()->last<wire::Refused>()->text.find("10 peers of your address wait already"),
            std::string::npos)
      << crowd.ends.back()->last<wire::Refused>()->text;
}

// Found by an attack: 256 silent connections kept all other peers out.
TEST(Crowd, ANewConnectionToAFullPortIsServed) {
  Crowd crowd(3);
  for (std::uint32_t i = 0; i < 2 * kMaxStrangers; ++i) {
    crowd.coordinator.streams.accept(address_of(1));
    crowd.coordinator.run();
    EXPECT_LE(crowd.coordinator.footprint().strangers, kMaxStrangers);
  }
  crowd.enter(newcomer(0));
  EXPECT_NE(crowd.ends.back()->last<wire::Waiting>(), nullptr);
}

// Found by an attack: while any pair was broken, every byte of every member made the coordinator draft a view (n * n
// look-ups) until it could not keep up and all peers seemed silent.
TEST(Crowd, AStillBrokenLinkCostsOneDraftOfAView) {
  Crowd crowd(400);
  const std::uint64_t founding = crowd.coordinator.footprint().drafts;
  crowd.ends[7]->say(wire::LinkBroken{Crowd::id(8), "?"});
  crowd.answer_all();
  EXPECT_EQ(crowd.coordinator.status().view.number.value, 2U);  // the ring goes around it
  const std::uint64_t relinked = crowd.coordinator.footprint().drafts;
  EXPECT_LE(relinked, founding + 2);
  for (int i = 0; i < 3; ++i) {
    for (FarEnd* end : crowd.ends) end->say(wire::Heartbeat{});
    crowd.coordinator.run();
  }
  EXPECT_EQ(crowd.coordinator.footprint().drafts, relinked);
}

TEST(Crowd, AnEvictionForABrokenLinkQuotesBothReports) {
  Crowd crowd(3);  // no ring of three avoids a link
  crowd.ends[0]->say(wire::LinkBroken{Crowd::id(1), "no stream: Too many open files"});
  crowd.coordinator.run();
  crowd.coordinator.pass(CoordinatorOptions{}.heartbeat / 2);  // reports of other links would have come
  crowd.coordinator.run();
  const FarEnd& victim = crowd.ends[0]->last<wire::Evicted>() != nullptr ? *crowd.ends[0] : *crowd.ends[1];
  ASSERT_NE(victim.last<wire::Evicted>(), nullptr);
  const std::string& text = victim.last<wire::Evicted>()->text;
  EXPECT_NE(text.find("cannot reach each other, and no ring avoids that link"), std::string::npos) << text;
  EXPECT_NE(text.find(" says: no stream: Too many open files"), std::string::npos) << text;
}

// Rule 4. Found by reading: a loss replaced the proposal that avoided the link, and the next proposal did not know the
// link. Rounds in flight waited for the link until they timed out.
TEST(Crowd, ALossDoesNotDiscardABrokenLink) {
  Crowd crowd(8, [](std::uint32_t i) { return i / 4; });
  crowd.ends[0]->say(wire::LinkBroken{Crowd::id(1), "?"});
  crowd.coordinator.run();
  const std::vector<GroupId> first{GroupId{0}};
  EXPECT_EQ(crowd.ends[0]->last<wire::Propose>()->relinked, first);
  crowd.ends[7]->hang_up();
  crowd.coordinator.run();
  EXPECT_EQ(crowd.ends[0]->last<wire::Propose>()->lost, std::vector<PeerId>{Crowd::id(7)});
  EXPECT_EQ(crowd.ends[0]->last<wire::Propose>()->relinked, first);
  crowd.answer_all();
  EXPECT_EQ(crowd.coordinator.status().view.members.size(), 7U);
  crowd.ends[6]->hang_up();  // and it is done with
  crowd.coordinator.run();
  EXPECT_TRUE(crowd.ends[0]->last<wire::Propose>()->relinked.empty());
}

// The same while a leaver finishes its last round.
TEST(Crowd, ASlowLeaverCostsNoDraftPerInput) {
  Crowd crowd(4);
  const RoundKey open{crowd.cohort(), {}, Tag{5}, 0};
  crowd.ends[1]->say(wire::Leave{{{open, crowd.attempt(), false, true, 0}}});
  crowd.answer_all();
  EXPECT_EQ(crowd.coordinator.status().view.members.size(), 3U);
  const std::uint64_t cut = crowd.coordinator.footprint().drafts;
  for (FarEnd* end : crowd.ends) end->say(wire::Heartbeat{});
  crowd.coordinator.run();
  EXPECT_EQ(crowd.coordinator.footprint().drafts, cut);
}

// Found by an attack: the outcome of each round was computed once for each bound group, and each time for all rounds.
// With these numbers it took minutes; now the cost is that of reading the answers.
TEST(Crowd, ManyBoundGroupsWithManyRoundsAreDecidedQuickly) {
  constexpr std::uint32_t kMembers = 120;
  Crowd crowd(
      kMembers, [](std::uint32_t i) { return i; }, {}, 5);
  const CohortId cohort = crowd.cohort();
  const Generation attempt = crowd.attempt();
  const auto open_of = [&](std::uint32_t i, std::uint32_t rounds) {
    std::vector<wire::OpenRound> open;
    for (std::uint32_t j = 0; j < rounds; ++j) {
      open.push_back({{cohort, GroupId{i}, Tag{i * 1000ULL + j}, 0}, attempt, false, true, 0});
    }
    return open;
  };
  const auto settle = [&](std::uint32_t rounds) {
    crowd.coordinator.run();
    for (std::uint32_t i = 0; i < kMembers; ++i) {
      crowd.answered[i] = crowd.ends[i]->last<wire::Propose>()->number;
      crowd.ends[i]->say(wire::Flush{crowd.answered[i], open_of(i, rounds)});
    }
    crowd.answer_all();
  };
  crowd.ends[0]->say(wire::StopRound{{cohort, GroupId{}, Tag{1}, 0}, attempt, Status::kAborted, false, "enough"});
  settle(kMaxRoundsInFlight);
  // One verdict for all bound rounds.
  const std::size_t bound = crowd.ends[0]->last<wire::Propose>()->verdicts.size();
  EXPECT_EQ(bound, kMembers);
  for (std::uint32_t i = 0; i < kMembers; ++i) crowd.ends[i]->say(wire::Admit{cohort, 1, false, open_of(i, 10)});
  settle(10);
  EXPECT_EQ(crowd.coordinator.status().view.members.size(), kMembers);
  EXPECT_GT(crowd.coordinator.status().view.cohort, cohort);
}

// Found by an attack: the wishes of a peer that had left were never removed.
TEST(Crowd, AWaitingPeerThatLeavesLeavesNoWishBehind) {
  Crowd crowd(2);
  wire::Join join;
  join.peer = Crowd::id(2);
  join.advertised = address_of(1);
  crowd.enter_and_answer(join);
  wire::WantState want{Tag{3}, {}, false};
  want.what.collective = wire::Collective::kSync;
  crowd.ends.back()->say(want);
  crowd.coordinator.run();
  EXPECT_EQ(crowd.coordinator.footprint().published, 1U);
  ASSERT_NE(crowd.ends.front()->last<wire::Pending>(), nullptr);
  EXPECT_EQ(*crowd.ends.front()->last<wire::Pending>(), (wire::Pending{1, 1}));
  want.ends = true;
  crowd.ends.back()->say(want);
  crowd.coordinator.run();
  EXPECT_EQ(*crowd.ends.front()->last<wire::Pending>(), (wire::Pending{1, 0})) << "it has it";
  want.ends = false;
  crowd.ends.back()->say(want);
  crowd.ends.back()->say(wire::Leave{});
  crowd.coordinator.run();
  EXPECT_EQ(crowd.coordinator.footprint().published, 0U);
  EXPECT_EQ(*crowd.ends.front()->last<wire::Pending>(), (wire::Pending{0, 0}));
}

TEST(Crowd, MembersLearnTheRoundTripsOfAllMembers) {
  Crowd crowd(3);
  for (FarEnd* end : crowd.ends) {
    const auto& members = end->last<wire::Propose>()->view.members;
    ASSERT_EQ(members.size(), 3U);
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(members[i].round_trip, Crowd::round_trip_of(i));
  }
}

}  // namespace
}  // namespace lockstep::coordinator
