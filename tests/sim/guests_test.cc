// Programs from outside in a world: they begin, are woken up, die and come back as the plan says.
#include "sim/world/guests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/world/world.h"

namespace lockstep::sim {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kTick = 99;  // nobody waits for it

// Writes down what it is told.
class Diary final : public Guests {
 public:
  void begins(std::uint32_t host, std::uint64_t serial) override {
    lines.push_back("h" + std::to_string(host) + " begins " + std::to_string(serial));
    serials.resize(10);
    serials[host] = serial;
  }
  void dies(std::uint32_t host) override { lines.push_back("h" + std::to_string(host) + " dies"); }
  void is_to_leave(std::uint32_t host) override { lines.push_back("h" + std::to_string(host) + " is to leave"); }
  void wakes(std::uint32_t host, std::uint64_t what) override {
    if (what != kTick) lines.push_back("h" + std::to_string(host) + " wakes for " + std::to_string(what));
  }
  void fault_begins(std::size_t) override {}
  void fault_ends(std::size_t) override {}

  std::vector<std::string> lines;
  std::vector<std::uint64_t> serials;
};

Plan plan_for_guests(std::vector<Entry> entries) {
  Plan plan;
  plan.mode = plan.network.mode = Mode::kBytes;
  plan.peers = plan.founders = 2;
  plan.entries = std::move(entries);
  return plan;
}

class GuestsOf {
 public:
  explicit GuestsOf(std::vector<Entry> entries) : world_(plan_for_guests(std::move(entries)), options()) {
    diary_.lines.clear();  // h1 and h2 begin
  }
  void until(Duration time) {
    world_.wake(2, kTick, Instant{} + time - world_.now());
    while (world_.now() < Instant{} + time) ASSERT_TRUE(world_.step_once());
  }
  World& world() { return world_; }
  Diary& diary() { return diary_; }

 private:
  WorldOptions options() {
    WorldOptions options;
    options.guests = &diary_;
    return options;
  }
  Diary diary_;
  World world_;
};

TEST(Guests, DieAndComeBackAsTheFaultSays) {
  GuestsOf guests({{.fault = Fault::kCrash, .after = seconds(1), .a = 2, .length = seconds(2)}});
  guests.world().wake(2, 7, seconds(2));  // it is dead by then
  guests.until(milliseconds(1500));
  EXPECT_EQ(guests.world().returning(), 1U);
  guests.until(seconds(4));
  EXPECT_THAT(guests.diary().lines, ElementsAre("h2 dies", "h2 begins 3"));
  EXPECT_EQ(guests.world().returning(), 0U);
}

TEST(Guests, AreNotWokenWhileTheirHostStandsStill) {
  GuestsOf guests({{.fault = Fault::kStall, .after = seconds(1), .a = 1, .length = seconds(1)}});
  guests.world().wake(1, 5, milliseconds(1200));
  guests.world().wake(2, 6, milliseconds(1300));
  EXPECT_TRUE(guests.world().fault_ahead());
  guests.until(milliseconds(1900));
  EXPECT_THAT(guests.diary().lines, ElementsAre("h2 wakes for 6"));
  EXPECT_TRUE(guests.world().fault_ahead());
  guests.until(milliseconds(2100));
  EXPECT_THAT(guests.diary().lines, ElementsAre("h2 wakes for 6", "h1 wakes for 5"));
  EXPECT_FALSE(guests.world().fault_ahead());
}

TEST(Guests, LeaveOnceAndComeBackWhenTheyHaveEnded) {
  GuestsOf guests({{.fault = Fault::kLeave, .after = seconds(1), .a = 1, .length = seconds(1)},
                   {.fault = Fault::kLeave, .after = milliseconds(1500), .a = 1, .length = seconds(1)}});
  guests.until(seconds(2));
  EXPECT_THAT(guests.diary().lines, ElementsAre("h1 is to leave"));
  guests.world().guest_ends(1, guests.diary().serials[1]);
  guests.until(milliseconds(3500));
  EXPECT_THAT(guests.diary().lines, ElementsAre("h1 is to leave", "h1 begins 3"));
}

TEST(Guests, AreQuietForAsLongAsACallMayTake) {
  GuestsOf guests({});
  const Instant until = guests.world().quiet_until();
  EXPECT_GT(until, Instant{} + seconds(10));
  EXPECT_LT(until, Instant{} + seconds(1000));
}

}  // namespace
}  // namespace lockstep::sim
