// A seed gives one plan, and a plan survives its file.
#include "sim/plan/plan.h"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/plan/plan_file.h"
#include "sim/search/simpler.h"

namespace lockstep::sim {
namespace {

TEST(Plan, ASeedGivesOnePlanAndSeedsDiffer) {
  EXPECT_EQ(to_text(plan_of(7)), to_text(plan_of(7)));
  EXPECT_NE(to_text(plan_of(7)), to_text(plan_of(8)));
}

TEST(Plan, EveryKindOfFaultIsDrawn) {
  std::vector<int> seen(kFaultCount);
  std::vector<int> by_launch(2);
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    for (const Entry& entry : plan_of(seed).entries) {
      seen[static_cast<std::size_t>(entry.fault)] += 1;
      by_launch[entry.launch > 0 ? 1 : 0] += 1;
    }
  }
  for (std::uint8_t f = 0; f < kFaultCount; ++f) EXPECT_GT(seen[f], 20) << name_of(static_cast<Fault>(f));
  EXPECT_GT(by_launch[0], 100);
  EXPECT_GT(by_launch[1], 100);
}

TEST(Plan, LeaversAreDrawnInTheMidstOfEachPhase) {
  int of_launch = 0;
  int of_commit = 0;
  int of_view = 0;
  int of_piece = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    for (const Entry& entry : plan_of(seed).entries) {
      if (entry.fault != Fault::kLeave) continue;
      of_launch += entry.launch > 0 ? 1 : 0;
      of_commit += entry.commit > 0 ? 1 : 0;
      of_view += entry.view > 0 ? 1 : 0;
      of_piece += entry.piece > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(of_launch, 200);
  EXPECT_GT(of_commit, 10);
  EXPECT_GT(of_view, 20);
  EXPECT_GT(of_piece, 20);
}

TEST(Plan, SecondGangsOfANameAndNewcomersThatAnswerLateAreDrawn) {
  int namesakes = 0;
  int late = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Plan plan = plan_of(seed);
    EXPECT_EQ(validate_plan(plan), "") << seed;
    if (plan.gangs.namesakes) {
      namesakes += 1;
      EXPECT_EQ(gang_of(plan, 1), gang_of(plan, plan.peers)) << seed;
    }
    const bool stalls =
        plan.entries.size() > 4 && plan.entries.back().fault == Fault::kStall && plan.entries.back().a > plan.founders;
    late += stalls ? 1 : 0;
  }
  EXPECT_GT(namesakes, 10);
  EXPECT_GT(late, 10);
}

TEST(Plan, IsReadBackAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Plan plan = plan_of(seed);
    const std::string text = to_text(plan);
    const Result<Plan> again = plan_from_text(text);
    ASSERT_TRUE(again.ok()) << again.error().text;
    EXPECT_EQ(to_text(*again), text);
  }
}

// The text of a plan, without [[do]] and the like: each line a field.
std::vector<std::string> fields_of(const Plan& plan) {
  std::istringstream text(to_text(plan));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line) && !line.empty();) lines.push_back(line);
  return lines;
}

TEST(Plan, ALineMayBeOfAnyHosts) {
  Plan plan;
  plan.peers = plan.founders = kMaxPeers;
  plan.network.flow.on = true;
  plan.network.flow.lines = {{.hosts = 0b0110}, {.hosts = only(2) | only(63) | only(kMaxPeers)}};
  const std::string text = to_text(plan);
  EXPECT_THAT(text, testing::HasSubstr("hosts = 6\n"));
  EXPECT_THAT(text, testing::HasSubstr("hosts = [2, 63, 1024]\n"));
  EXPECT_EQ(*plan_from_text(text), plan);
}

TEST(Plan, LeavesOutEveryDefault) {
  EXPECT_EQ(to_text(Plan{}), "seed = 0\n");
  Plan plan;
  plan.network.flow.on = true;
  plan.entries.emplace_back();
  plan.network.links.emplace_back();
  plan.network.flow.lines.emplace_back();
  EXPECT_EQ(to_text(plan), "seed = 0\nflow = true\n\n[[link]]\n\n[[line]]\n\n[[do]]\nfault = \"crash\"\n");
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Plan drawn = plan_of(seed);
    const std::vector<std::string> fields = fields_of(drawn);
    for (const std::string& field : fields) {
      if (field.starts_with("seed")) continue;
      // The same plan without that field is another plan.
      std::string text = to_text(drawn);
      text.erase(text.find("\n" + field + "\n"), field.size() + 1);
      const Result<Plan> without = plan_from_text(text);
      EXPECT_TRUE(!without.ok() || !(*without == drawn)) << field;
    }
  }
}

// Files that were written before defaults were left out state every field. The list also pins the defaults: a file that
// leaves a field out keeps its meaning.
TEST(Plan, AFileWithEveryFieldReadsAsTheDefaultPlan) {
  const Result<Plan> read = plan_from_text(R"(mode = "token"
seed = 0
peers = 4
founders = 3
all_start = true
gang_size = 1
namesakes = false
groups = 1
auto_admit = false
share_state = false
state_pieces = 0
all_vote = true
staged_permille = 500
publish = false
republish_permille = 0
watch = false
minimum_world = 1
small_changes = false
stray_permille = 0
torn_permille = 0
fresh_tags = false
aged = false
kernel_delay_ns = 20000
kernel_ns_per_kib = 200
timer_delay_ns = 100000
heartbeat_ns = 200000000
stripes = 2
segment_bytes = 0
eager_segments = 64
window = 256
turns = 0
coordinator_after_ns = 0
steps_per_admit = 2
ops_per_step = 2
max_count = 4096
think_ns = 100000000
call_timeout_ns = 0
safety_ns = 5000000000
heal_after_ns = 0
commits_after = 3
latency_lo_ns = 50000
latency_hi_ns = 50000
jitter_ns = 10000
rate_bytes_per_s = 1000000000
window_bytes = 262144
short_permille = 100
pieces_permille = 50
apart_permille = 100
busy_permille = 100
host_delay_ns = 3000
revoke_delay_ns = 50000
dial_gives_up_ns = 20000000000
flow = false
up_bytes_per_s = 0
down_bytes_per_s = 0
loss_ppm = 0
cold = true
congestion = "cubic"
)");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(*read, Plan{});
}

TEST(Plan, KeepsExpectations) {
  Plan plan = plan_of(3);
  plan.expect.counts = {{Expectation::Is::kLess, "aborts", 7}, {Expectation::Is::kMore, "commits", 2}};
  plan.expect.within = milliseconds(1500);
  const Result<Plan> again = plan_from_text(to_text(plan));
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(plan_from_text("seed = 2\n[expect]\nkill = 3\n").error().text,
            "3:1: unknown key \"kill\"; did you mean 'kills'?");
}

TEST(Plan, ErrorsNameTheirPlace) {
  EXPECT_EQ(plan_from_text("peers = 4\nfoundres = 2\n").error().text,
            "2:1: unknown key \"foundres\"; did you mean 'founders'?");
  EXPECT_EQ(plan_from_text("[[do]]\nfault = \"crahs\"\n").error().text,
            "2:9: unknown fault \"crahs\"; did you mean 'crash'?");
  EXPECT_FALSE(plan_from_text("peers = \"many\"").ok());
  EXPECT_FALSE(plan_from_text("peers = 2000").ok());
  EXPECT_FALSE(plan_from_text("peers = ").ok());
}

TEST(Plan, APlanThatCannotRunIsRefused) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"peers = 1025", "peers must be 1..1024"},
      {"peers = 4\nfounders = 5", "founders must be 1..peers"},
      {"peers = 4\nfounders = 4\ngroups = 5", "groups must be 1..peers"},
      {"peers = 4\nfounders = 3\ngang_size = 2", "gang_size must divide peers and founders: gangs come and go whole"},
      {"peers = 4\nfounders = 4\ngang_size = 2\nnamesakes = true",
       "namesakes are two gangs, of which one joins later, by a call of admit"},
      {"minimum_world = 9", "minimum_world must be 1..peers"},
      {"stripes = 0", "stripes must be 1..128"},
      {"segment_bytes = 3", "segment_bytes must be 0 (chosen by size), or 16..1048576"},
      {"ops_per_step = 0", "ops_per_step must be 1..64"},
      {"max_count = 10000001", "max_count must be 0..10000000"},
      {"max_count = -1", "max_count must not be negative"},
      {"window_bytes = -1", "window_bytes must not be negative"},
      {"rate_bytes_per_s = -1", "rate_bytes_per_s must not be negative"},
      {"peers = -1", "peers must not be negative"},
      {"[[do]]\nfault = \"crash\"\na = 1\nlaunch = -1", "launch must not be negative"},
      {"heartbeat_ns = 0", "heartbeat_ns must be 1 ms..1000000 s"},
      {"think_ns = -1", "times must be 0..1000000 s, in nanoseconds"},
      {"latency_lo_ns = -1", "times must be 0..1000000 s, in nanoseconds"},
      {"latency_lo_ns = 5\nlatency_hi_ns = 4", "latency_lo_ns must be at most latency_hi_ns"},
      {"rate_bytes_per_s = 0", "rate_bytes_per_s must be at least 1"},
      {"short_permille = 1001", "short_permille must be 0..1000"},
      {"staged_permille = 1001", "staged_permille must be 0..1000"},
      {"state_pieces = 9223372036854775807", "state_pieces must be 0 (drawn) .. 1000"},
      {"steps_per_admit = 9999999999", "steps_per_admit must be 1..1000"},
      {"steps_per_admit = 4294967297", "steps_per_admit must be 1..1000"},
      {"steps_per_admit = 1.5", "steps_per_admit must be an integer"},
      {"[[do]]\nfault = \"crash\"\na = 5", "hosts are 0 (the coordinator's) .. peers"},
      {"[[do]]\nfault = \"crash\"",
       "crash needs a host of a peer, a >= 1: host 0, the coordinator's, can only be stalled or cut off"},
      {"[[do]]\nfault = \"cut\"\na = 2\nb = 2", "cut is between two hosts: a and b must differ"},
      {"[[do]]\nfault = \"reset\"\na = 0\nb = 0", "reset is between two hosts: a and b must differ"},
      {"[[do]]\nfault = \"stall\"\nlength_ns = -1", "times must be 0..1000000 s, in nanoseconds"},
      {"[[do]]\nfault = \"slow\"\na = 1\nb = 2", "slow needs a factor: number must be 1..1000000"},
      {"flow = true\n[[line]]\nhosts = [1025]", "a host must be 0..1024"},
      {"flow = true\n[[line]]\nhosts = -1", "hosts must not be negative"},
  };
  for (const auto& c : cases) {
    const Result<Plan> plan = plan_from_text(c.text);
    ASSERT_FALSE(plan.ok()) << c.text;
    EXPECT_THAT(plan.error().text, testing::EndsWith(std::string(": ") + c.says)) << c.text;
  }
}

TEST(Plan, AnEmptyFileIsNone) {
  EXPECT_EQ(plan_from_text("# nothing\n").error().text,
            "1:1: it is empty; `lockstep sim scenario new` prints a scenario to begin with");
}

TEST(Plan, FaultsAreToldInWords) {
  const auto words = [](const char* entry) {
    return words_of(plan_from_text("seed = 1\n[[do]]\n" + std::string(entry))->entries[0]);
  };
  EXPECT_EQ(words("fault = \"cut\"\na = 2\nb = 3\nlength_ns = 5000000000"), "cut h2 -> h3 for 5 s");
  EXPECT_EQ(words("fault = \"cut-both\"\na = 0\nb = 3"), "cut coordinator <-> h3");
  EXPECT_EQ(words("fault = \"crash\"\na = 2"), "crash h2");
  EXPECT_EQ(words("fault = \"leave\"\na = 2\nlength_ns = 1500000000"), "leave h2, back after 1500 ms");
  EXPECT_EQ(words("fault = \"vanish\"\na = 2\nnumber = 1"), "vanish h2, for good");
  EXPECT_EQ(words("fault = \"slow\"\na = 1\nb = 2\nnumber = 9"), "slow h1 <-> h2 9 times slower");
  EXPECT_EQ(words("fault = \"reset\"\na = 1\nb = 1"), "reset h1 <-> all");
  EXPECT_EQ(words("fault = \"lie\"\na = 2\nlength_ns = 5000000000"), "lie h2 for 5 s, one message in 8");
  EXPECT_EQ(when_of({.after = milliseconds(3), .launch = 12}), "launch 12 + 3 ms");
  EXPECT_EQ(when_of({.after = milliseconds(12'500)}), "12500 ms");
}

TEST(Plan, AFlawIsShownWhereItIs) {
  EXPECT_EQ(plan_from_text("peers = 4\nstripes = 199\n").error().text, "2:11: stripes must be 1..128");
  EXPECT_EQ(plan_from_text("peers = 4\nstaged_permille = 1001\n").error().text,
            "2:19: staged_permille must be 0..1000");
}

// Calls that wait for each other's places in small windows end by no admit of the peer that skipped one.
TEST(Plan, ASkippedCallNeedsATimeOutUnlessItsNextAdmitTells) {
  Plan plan;
  plan.program.steps_per_admit = 1;
  EXPECT_FALSE(needs_time_out(plan));
  plan.entries.push_back({.fault = Fault::kSkip, .a = 1});
  EXPECT_FALSE(needs_time_out(plan));
  Plan other = plan;
  other.program.ops_per_step = 3;
  other.links.window = 2;
  EXPECT_TRUE(needs_time_out(other));
  other.links.window = 3;
  EXPECT_FALSE(needs_time_out(other));
  other.entries.push_back({.fault = Fault::kSkip, .a = 2});
  EXPECT_TRUE(needs_time_out(other));
  other = plan;
  other.program.steps_per_admit = 2;
  EXPECT_TRUE(needs_time_out(other));
  other = plan;
  other.gangs.groups = 2;
  EXPECT_TRUE(needs_time_out(other));
  plan.entries.front().fault = Fault::kMismatch;
  EXPECT_TRUE(needs_time_out(plan));
}

TEST(Plan, SeedsExpandToPlansThatCanRun) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Plan plan = plan_of(seed);
    EXPECT_EQ(validate_plan(plan), "") << seed;
    EXPECT_TRUE(is_lawful(plan)) << seed;
    for (const Entry& entry : plan.entries) EXPECT_EQ(validate_entry(plan, entry), "") << seed;
  }
}

}  // namespace
}  // namespace lockstep::sim
