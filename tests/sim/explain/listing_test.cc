#include "sim/explain/listing.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

// h1 tells the coordinator that it is done, and the coordinator commits.
History history() {
  History made;
  made.lanes.resize(2);
  made.lanes[0].name = "coordinator";
  made.lanes[1].name = "h1";
  made.states = {{}, {{"rounds", "1"}, {"streams", "2"}}, {{"rounds", "0"}, {"streams", "3"}}};
  Moment call;
  call.at_ns = 1'000;
  call.lane = 1;
  call.ins = {"call 1: barrier tag 7"};
  Moment done;
  done.at_ns = 1'500'000;
  done.lane = 0;
  done.ins = {"gets Done{round: c1.g0.t7.u0, attempt: 1, what: (barrier, retry), hash: 0} from h1"};
  done.outs = {"notes committed"};
  done.causes = {{0, Because::kMessage}};
  done.before = 1;
  done.after = 2;
  made.moments = {call, done};
  return made;
}

TEST(Listing, EachMomentIsALineWithProcessActionAndCause) {
  EXPECT_EQ(
      listing_of(history(), {0, 1}),
      "    #0    0.000001 h1          call 1: barrier tag 7\n"
      "    #1    0.001500 coordinator gets Done{round: c1.g0.t7.u0, attempt: 1, what...} from h1; notes committed  <- "
      "message#0\n"
      "                               | rounds: 1 -> 0\n");
}

TEST(Listing, CausesThatAreNotToldAreNotNamed) { EXPECT_EQ(listing_of(history(), {1}).find("<-"), std::string::npos); }

TEST(Listing, TheFirstStateOmitsEmptyValues) {
  History made = history();
  made.moments[1].before = 0;
  EXPECT_EQ(change_of(made, made.moments[1]), "");
  made.moments[1].after = 1;
  EXPECT_EQ(change_of(made, made.moments[1]), "rounds: 1");
}

}  // namespace
}  // namespace lockstep::sim
