// `lockstep evict` from a shell, in a run whose coordinator and peers are processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/shell.h"
#include "tests/transport/temporary_folder.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Duration kPatience = seconds(60);  // a passing test never waits so long
constexpr std::size_t kPeers = 3;

// Says its port. Ends with its parent.
int coordinate(Parent& parent, const std::string& token_file) {
  transport::CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.access.token_file = token_file;
  const auto server = transport::CoordinatorServer::start(std::move(options));
  if (!server.ok()) return 1;
  parent.say(std::to_string((*server)->address().port));
  while (parent.hear()) {
  }
  return 0;
}

std::unique_ptr<transport::Communicator> new_peer(const std::string& name) {
  transport::CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  options.peer.name = name;
  options.peer.founders = kPeers;
  return std::move(*transport::Communicator::create(std::move(options)));
}

transport::Outcome joins(transport::Communicator& peer, const std::string& token) {
  const transport::Work work = peer.connect(token, kPatience);
  work.wait();
  return work.outcome();
}

// Joins by the token that its parent says. Then reduces again and again, and says how many take part when that changes,
// until its run is over; and tries to join once more.
int train(Parent& parent, const std::string& name) {
  const std::string token = parent.hear().value_or("");
  const auto peer = new_peer(name);
  if (const auto joined = joins(*peer, token); joined.status != Status::kOk) return parent.say(joined.text), 1;
  const float send = 1;
  float recv = 0;
  transport::LaunchArgs sum;
  sum.collective = wire::Collective::kAllReduce;
  sum.type = DataType::kF32;
  sum.tensors.push_back({&send, &recv, 1, 0});
  for (std::uint32_t world = 0;;) {
    const auto work = peer->launch(sum);
    if (!work.ok()) return parent.say(work.error().text), 1;
    work->wait();
    const transport::Outcome outcome = work->outcome();
    if (outcome.status != Status::kOk) {
      parent.say("out: " + outcome.text);
      break;
    }
    if (std::exchange(world, outcome.world) == outcome.world) continue;
    std::string id(33, '\0');
    std::snprintf(id.data(), id.size(), "%016llx%016llx", static_cast<unsigned long long>(peer->self().high),
                  static_cast<unsigned long long>(peer->self().low));
    id.pop_back();
    std::uint32_t rank = 0;
    while (peer->view()->members[rank].id != peer->self()) ++rank;
    parent.say("world " + std::to_string(world) + " rank " + std::to_string(rank) + " id " + id);
  }
  parent.say("again: " + joins(*new_peer(name), token).text);
  return 0;
}

// A coordinator and three peers, each with a token of its own.
class EvictCommand : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  EvictCommand() : coordinator_([this](Parent& parent) { return coordinate(parent, file()); }) {
    for (std::size_t i = 0; i < kPeers; ++i) {
      peers_.push_back(std::make_unique<Process>([name = name_of(i)](Parent& parent) { return train(parent, name); }));
    }
    const auto port = coordinator_.hear(kPatience);
    EXPECT_TRUE(port);
  }

  [[nodiscard]] static std::string name_of(std::size_t peer) { return std::string("gpu-") + "abc"[peer]; }
  [[nodiscard]] std::string file() const { return folder_ / "run.tokens"; }
  [[nodiscard]] static Ran lockstep(const std::string& words) { return run_in_shell(LOCKSTEP_CLI " " + words); }

  // Makes a token, in a file that `lockstep` takes for it. Returns when the coordinator knows the token.
  std::string make(const std::string& name, const std::string& more) {
    const std::string path = folder_ / (name + ".token");
    const std::string command = "token new --tokens " + file() + " --name " + name + " " + more + " > " + path;
    const Ran made = run_in_shell("umask 077 && " LOCKSTEP_CLI " " + command);
    EXPECT_EQ(made.code, 0) << made.text;
    while (lockstep("status file:" + path).code != 0) {  // the coordinator looks at its file several times a second
    }
    return "file:" + path;
  }

  // Starts the run, by this token or each peer by one of its own, and finds the peer of this rank.
  void begin(std::uint32_t rank, const std::string& token = {}) {
    for (std::size_t i = 0; i < kPeers; ++i) peers_[i]->say(token.empty() ? make(name_of(i), "--peers 1") : token);
    for (std::size_t i = 0; i < kPeers; ++i) {
      const std::string line = next_of(i);
      ASSERT_THAT(line, HasSubstr("world 3 rank "));
      if (line.find("rank " + std::to_string(rank)) == std::string::npos) continue;
      victim = i;
      id_of_victim = line.substr(line.rfind(' ') + 1);
    }
  }
  std::string next_of(std::size_t peer) { return peers_[peer]->hear(kPatience).value_or("(nothing)"); }

  void victim_is_out() {
    const std::string out = next_of(victim);
    EXPECT_THAT(out, AllOf(HasSubstr("out: evicted by the coordinator"), HasSubstr("an administrator (token "),
                           HasSubstr("(operator)) has evicted this peer")));
    EXPECT_THAT(next_of(victim), AllOf(HasSubstr("again: "), HasSubstr(" admits nobody for another "),
                                       HasSubstr(" s, because an administrator has evicted its peer")));
    for (std::size_t i = 0; i < kPeers; ++i) {
      if (i == victim) continue;
      EXPECT_THAT(next_of(i), HasSubstr("world 2 rank ")) << name_of(i) << " goes on";
    }
  }

 private:
  const transport::TemporaryFolder folder_;
  Process coordinator_;
  std::vector<std::unique_ptr<Process>> peers_;

 protected:
  std::size_t victim = 0;
  std::string id_of_victim;
};

TEST_P(EvictCommand, TakesOutAPeerOfAnyRankAndTheOthersGoOn) {
  const std::string admin = make("operator", "--role admin");
  begin(GetParam());
  const bool by_name = GetParam() != 1;
  const std::string which = by_name ? name_of(victim) : id_of_victim.substr(0, 12);
  const Ran ran = lockstep("evict " + admin + " " + which);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr(name_of(victim) + " is out of the run"));
  victim_is_out();
  const Ran again = lockstep("evict " + admin + " " + which);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.text, HasSubstr("no peer in the run, or waiting, is '" + which + "'"));
}
INSTANTIATE_TEST_SUITE_P(Ranks, EvictCommand, ::testing::Range(0U, static_cast<std::uint32_t>(kPeers)));

using SharedTokenEvictCommand = EvictCommand;

TEST_P(SharedTokenEvictCommand, SaysHowThePeerCanReturnAndHowToKeepItOut) {
  const std::string admin = make("operator", "--role admin");
  begin(GetParam(), make("team", ""));
  const Ran status = lockstep("status " + admin);
  EXPECT_THAT(status.text, AllOf(HasSubstr("identity"), HasSubstr(" (team)")));
  const Ran ran = lockstep("evict " + admin + " " + name_of(victim));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr(name_of(victim) + " is out of the run: token "),
                              HasSubstr(" (team) is for several peers, so its program can join again at once")));
  const std::string before = "`lockstep token revoke --tokens FILE ";
  const auto at = ran.text.find(before);
  ASSERT_NE(at, std::string::npos) << ran.text;
  const std::string id = ran.text.substr(at + before.size(), 16);
  EXPECT_EQ(lockstep("token revoke --tokens " + file() + " " + id).code, 0) << "the command works as it is printed";
}
INSTANTIATE_TEST_SUITE_P(Ranks, SharedTokenEvictCommand, ::testing::Range(0U, static_cast<std::uint32_t>(kPeers)));

using RefusedEvictCommand = EvictCommand;

TEST_P(RefusedEvictCommand, NobodyIsTakenOut) {
  const std::string admin = make("operator", "--role admin");
  const std::string observer = make("dashboard", "--role observer");
  begin(0);
  for (const auto& [token, whose] : {std::pair(make("member", ""), "members"), std::pair(observer, "observers")}) {
    const Ran ran = lockstep("evict " + token + " " + name_of(victim));
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, AllOf(HasSubstr("is for " + std::string(whose) + ", which may not evict peers"),
                                HasSubstr("lockstep token new --role admin")));
  }
  for (const char* nobody : {"gpu-d", "ffffffffffffffff", "gpu", "''"}) {
    const Ran ran = lockstep("evict " + admin + " " + nobody);
    EXPECT_EQ(ran.code, 1) << nobody;
    EXPECT_THAT(ran.text, AllOf(HasSubstr("no peer in the run, or waiting, is"), HasSubstr("lockstep status")));
  }
  EXPECT_EQ(lockstep("token revoke operator --tokens " + file()).code, 0);
  Ran ran = lockstep("evict " + admin + " gpu-d");
  while (ran.text.find("revoked") == std::string::npos) ran = lockstep("evict " + admin + " gpu-d");
  EXPECT_EQ(ran.code, 1) << ran.text;
  const std::string next = make("next", "--role admin");
  EXPECT_EQ(lockstep("evict " + next + " " + name_of(victim)).code, 0) << "the peer was in the run until now";
}
INSTANTIATE_TEST_SUITE_P(Once, RefusedEvictCommand, ::testing::Values(0U));

}  // namespace
}  // namespace lockstep::testing
