// Laws of the ledgers with which the simulator judges: histories that keep a promise pass in any order, and one entry
// that breaks it is found, wherever it comes.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/base/rng.h"
#include "sim/checkers/s1_one_outcome.h"
#include "sim/checkers/s6_membership.h"

namespace lockstep::sim {
namespace {

PeerId peer_of(std::uint64_t n) { return {n + 1, mix64(n)}; }

template <typename T>
void shuffle(std::vector<T>& list, std::uint64_t seed) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(draw(seed, i), i)]);
}

std::uint32_t up_to(std::uint32_t most) { return *rc::gen::inRange<std::uint32_t>(0, most + 1); }

// The reports of all peers about some rounds; all reports agree.
std::vector<Call> agreeing_reports() {
  std::vector<Call> reports;
  for (std::uint32_t round = 1 + up_to(5); round > 0; --round) {
    peer::Outcome outcome;
    outcome.round = {CohortId{1 + up_to(2)}, GroupId{up_to(2)}, Tag{up_to(3)}, round};
    std::vector<PeerId> ring;
    for (std::uint32_t peer = 2 + up_to(4); peer > 0; --peer) ring.push_back(peer_of(peer));
    outcome.attempt = Generation{up_to(3)};
    outcome.world = static_cast<std::uint32_t>(ring.size());
    outcome.hash = *rc::gen::arbitrary<std::uint64_t>();
    outcome.contributors = std::make_shared<const std::vector<PeerId>>(ring);
    const bool committed = up_to(2) != 0;
    for (const PeerId peer : ring) {
      Call call;
      call.peer = peer;
      call.outcome = outcome;
      // The reason of an abort may differ; a peer that does not know the outcome reports nothing.
      if (!committed) call.outcome->status = *rc::gen::element(Status::kTimedOut, Status::kAborted, Status::kPeerLost);
      if (up_to(9) == 0) call.outcome->status = Status::kOutcomeUnknown;
      reports.push_back(call);
    }
  }
  return reports;
}

std::vector<bool> complaints_about(const std::vector<Call>& reports) {
  OneOutcome ledger;
  std::vector<bool> complaints;
  complaints.reserve(reports.size());
  for (const Call& call : reports) complaints.push_back(ledger.ended(call).has_value());
  return complaints;
}

RC_GTEST_PROP(OneOutcomeLedger, AcceptsEqualReportsInAnyOrder, (std::uint64_t seed)) {
  std::vector<Call> reports = agreeing_reports();
  shuffle(reports, seed);
  const std::vector<bool> complaints = complaints_about(reports);
  RC_ASSERT(std::count(complaints.begin(), complaints.end(), true) == 0);
}

// The first report defines the ledger: either the different report is rejected, or all reports after it are.
RC_GTEST_PROP(OneOutcomeLedger, FindsADifferentReportInAnyOrder, (std::uint64_t seed)) {
  std::vector<Call> reports = agreeing_reports();
  shuffle(reports, seed);
  const auto liar = *rc::gen::inRange<std::size_t>(0, reports.size());
  peer::Outcome& lie = *reports[liar].outcome;
  RC_PRE(!is_out(lie.status));
  const bool committed = lie.status == Status::kOk;
  switch (committed ? up_to(4) : 0) {
    case 0: lie.status = committed ? Status::kPeerLost : Status::kOk; break;
    case 1: lie.attempt.value += 1; break;
    case 2: lie.world += 1; break;
    case 3: lie.hash ^= std::uint64_t{1} << up_to(63); break;
    default: {
      auto ring = *lie.contributors;
      std::rotate(ring.begin(), ring.begin() + 1, ring.end());
      lie.contributors = std::make_shared<const std::vector<PeerId>>(ring);
    }
  }
  const auto of_that_round = [&](const Call& call) {
    return call.outcome->round == lie.round && !is_out(call.outcome->status);
  };
  const auto first = std::find_if(reports.begin(), reports.end(), of_that_round) - reports.begin();
  const bool lie_first = static_cast<std::size_t>(first) == liar;
  const std::vector<bool> complaints = complaints_about(reports);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const bool wrong = of_that_round(reports[i]) && (lie_first ? i != liar : i == liar);
    RC_ASSERT(complaints[i] == wrong);
  }
}

// Law: groups share one outcome exactly if gangs bind them, directly or through other groups.
RC_GTEST_PROP(OneOutcomeLedger, GangsBindGroupsThroughOthers, ()) {
  constexpr std::uint32_t kGroups = 6;
  wire::View cohort;
  std::vector<std::uint32_t> bound(kGroups);  // by group: the smallest group that it is bound to
  std::iota(bound.begin(), bound.end(), 0U);
  std::vector<std::vector<std::uint32_t>> gangs(1 + up_to(4));
  for (std::uint32_t n = 4 + up_to(8); n > 0; --n) {
    const std::uint32_t group = up_to(kGroups - 1);
    const std::uint32_t gang = up_to(static_cast<std::uint32_t>(gangs.size()));
    cohort.members.push_back({peer_of(n), GroupId{group}, GangId{gang}, {}, {}});
    if (gang != 0) gangs[gang - 1].push_back(group);
  }
  for (const auto& groups : gangs) {
    for (const std::uint32_t group : groups) {
      const std::uint32_t from = std::max(bound[group], bound[groups.front()]);
      const std::uint32_t to = std::min(bound[group], bound[groups.front()]);
      std::replace(bound.begin(), bound.end(), from, to);
    }
  }
  const std::uint32_t one = up_to(kGroups - 1);
  const std::uint32_t other = up_to(kGroups - 1);
  RC_PRE(one != other);
  const auto report = [&](std::uint32_t group, Status status) {
    Call call;
    call.peer = peer_of(100 + group);
    call.outcome = peer::Outcome{};
    call.outcome->status = status;
    call.outcome->round = {CohortId{1}, GroupId{group}, Tag{7}, 0};
    call.outcome->contributors = std::make_shared<const std::vector<PeerId>>(std::vector{call.peer});
    return call;
  };
  OneOutcome ledger;
  RC_ASSERT(!ledger.ended(report(one, Status::kOk), &cohort));
  const bool complains = ledger.ended(report(other, Status::kAborted), &cohort).has_value();
  RC_ASSERT(complains == (bound[one] == bound[other]));
}

// Law: views pass if each peer installs them in order and all install the same; one different member is found.
RC_GTEST_PROP(MembershipLedger, AcceptsOneViewPerNumberInAnyOrder, (std::uint64_t seed)) {
  struct Installed {
    PeerId by;
    std::shared_ptr<const wire::View> view;
  };
  std::vector<std::shared_ptr<const wire::View>> views;
  const std::uint64_t newest = 1 + up_to(5);
  for (std::uint64_t number = 1; number <= newest; ++number) {
    auto view = std::make_shared<wire::View>();
    view->number = ViewNumber{number};
    view->cohort = CohortId{1 + up_to(static_cast<std::uint32_t>(number) - 1)};
    for (std::uint64_t peer = 2 + up_to(4); peer > 0; --peer) view->members.push_back({peer_of(peer), {}, {}, {}, {}});
    views.push_back(view);
  }
  // Each member has its own pace.
  std::vector<std::vector<Installed>> todo(8);  // by peer
  std::vector<std::size_t> turns;
  for (const auto& view : views) {
    for (const wire::Member& member : view->members) {
      todo[member.id.high].push_back({member.id, view});
      turns.push_back(member.id.high);
    }
  }
  shuffle(turns, seed);
  std::vector<std::size_t> at(todo.size());
  std::vector<Installed> history;
  history.reserve(turns.size());
  for (const std::size_t peer : turns) history.push_back(todo[peer][at[peer]++]);
  const auto complaints = [&] {
    OneMembership ledger;
    return std::count_if(history.begin(), history.end(),
                         [&](const Installed& i) { return ledger.installed(i.by, i.view).has_value(); });
  };
  RC_ASSERT(complaints() == 0);
  Installed& changed = history[below(draw(seed, 1), history.size())];
  auto other = std::make_shared<wire::View>(*changed.view);
  other->members.push_back({peer_of(99), {}, {}, {}, {}});
  changed.view = other;
  RC_ASSERT(complaints() >= 1);  // every view has at least two members
}

}  // namespace
}  // namespace lockstep::sim
