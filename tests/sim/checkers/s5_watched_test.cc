// Three peers that watch a state of two tensors beside another round.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "sim/checkers/s5_one_state.h"
#include "tests/sim/checkers/calls.h"

namespace lockstep::sim {
namespace {

class S5Watched : public testing::Test {
 protected:
  S5Watched() {
    for (std::size_t i = 0; i < 3; ++i) {
      auto state = std::make_shared<state::Statement>();
      state->values = {4};
      state->revision = 7;
      statements_[i] = state;
      calls_[i].peer = ids_[i];
      calls_[i].prints.watched = {11, 12};
      calls_[i].request.watch = std::make_shared<ring::Watched>(ring::Watched{state, {}});
    }
  }

  Complaint told(const std::string& difference, std::size_t i = 0, std::uint64_t tag = 5) {
    Call call = calls_[i];
    call.outcome = committed({kA, kB, kC});
    call.outcome->round.tag = Tag{tag};
    call.outcome->state_difference = difference;
    const auto at = [&](PeerId peer) {
      return static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), peer) - ids_.begin());
    };
    return checker_.watched(
        call, [&](PeerId peer, const RoundKey&) { return &calls_[at(peer)]; },
        [&](const Call& of) { return std::string(1, static_cast<char>('a' + at(of.peer))); });
  }

  const std::string names_ = "the state of c differs from that of a (2 of 3 watch the same) in tag 5";
  std::array<PeerId, 3> ids_ = {kA, kB, kC};
  std::array<std::shared_ptr<state::Statement>, 3> statements_;
  std::array<Call, 3> calls_;
  OneState checker_;
};

TEST_F(S5Watched, EqualStatesAreNoNews) {
  EXPECT_FALSE(told(""));
  calls_[2].request.watch.reset();
  EXPECT_FALSE(told(""));
  EXPECT_TRUE(told(names_, 0, 6));
}

TEST_F(S5Watched, ADifferenceIsToldByItsNamesAndItsFirstEntry) {
  calls_[2].prints.watched = {11, 13};
  EXPECT_FALSE(told(names_ + ": first in tensor 1 (w)"));
  EXPECT_FALSE(told(names_ + ": first in tensor 1 (w)", 1));
}

TEST_F(S5Watched, ADifferenceThatIsNotToldFails) {
  calls_[2].prints.watched = {11, 13};
  EXPECT_TRUE(told(""));
}

TEST_F(S5Watched, ADifferenceMayBeToldByItsNamesAlone) {
  calls_[2].prints.watched = {11, 13};
  EXPECT_FALSE(told(names_));
}

TEST_F(S5Watched, TheWrongNamesOrTheWrongEntryFail) {
  statements_[2]->values = {5};
  for (const std::string& wrong :
       {std::string("the state of b differs from that of a (2 of 3 watch the same) in tag 5"),
        names_ + ": first in tensor 1", names_ + ": first in value 1"}) {
    checker_ = {};
    EXPECT_TRUE(told(wrong)) << wrong;
  }
  checker_ = {};
  EXPECT_FALSE(told(names_ + ": first in value 0 (step uint)"));
}

TEST_F(S5Watched, TheRevisionIsTheLastThatIsCompared) {
  statements_[2]->revision = 8;
  EXPECT_FALSE(told(names_ + ": first in the revision (8, not 7)"));
}

TEST_F(S5Watched, AllAreToldTheSame) {
  calls_[2].prints.watched = {11, 13};
  EXPECT_FALSE(told(names_));
  EXPECT_TRUE(told(names_ + ": first in tensor 1 (w)", 1));
}

TEST_F(S5Watched, TheFingerprintOfALostPeerMayNotCount) {
  calls_[2].prints.watched = {11, 13};
  checker_.lost(kC);
  EXPECT_FALSE(told(""));
}

}  // namespace
}  // namespace lockstep::sim
