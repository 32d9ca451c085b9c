// Topology files: what they come to, and what is said of mistakes.
#include "tests/lab/wan/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace lockstep::wan {
namespace {

using ::testing::HasSubstr;

Topology good(const std::string& text) {
  Result<Topology> topology = topology_from_text(text);
  EXPECT_TRUE(topology) << topology.error().text;
  return *topology;
}

std::string error_of(const std::string& text) {
  const Result<Topology> topology = topology_from_text(text);
  return topology ? "no error" : topology.error().text;
}

TEST(WanTopology, LinksAndLinesChangeWhatNetSays) {
  const Topology t = good(R"(
peers = 4
net = { latency = "10ms", rate = "80Mbit/s", loss = "0.5%", up = "40Mbit/s", down = "160Mbit/s" }
[regions]
eu = "coordinator a b"
us = "c d"
[[link]]
between = "eu us"
latency = "45ms"
[[link]]
between = "c -> d"
rate = "8Mbit/s"
jitter = "3ms"
[[line]]
of = "us"
up = "16Mbit/s"
queue = "1MiB"
[[line]]
of = "eu"
shared = true
down = "24Mbit/s"
loss = 0.01)");
  EXPECT_EQ(t.way(1, 2).latency, milliseconds(10));
  EXPECT_EQ(t.way(0, 4).latency, milliseconds(45));
  EXPECT_EQ(t.way(4, 0).latency, milliseconds(45));
  EXPECT_EQ(t.way(4, 0).rate_bytes_per_s, 10'000'000U);
  EXPECT_EQ(t.way(3, 4).rate_bytes_per_s, 1'000'000U);
  EXPECT_EQ(t.way(3, 4).jitter, milliseconds(3));
  EXPECT_EQ(t.way(4, 3).rate_bytes_per_s, 10'000'000U);
  EXPECT_DOUBLE_EQ(t.way(3, 4).loss, 0.005);
  EXPECT_EQ(t.up[2].rate_bytes_per_s, 5'000'000U);
  EXPECT_EQ(t.up[3].rate_bytes_per_s, 2'000'000U);
  EXPECT_EQ(t.up[3].queue_bytes, 1U << 20U);
  EXPECT_EQ(t.down[3].rate_bytes_per_s, 0U);  // its own line says nothing of it
  EXPECT_EQ(t.down[2].rate_bytes_per_s, 20'000'000U);
  ASSERT_EQ(t.shared.size(), 1U);
  EXPECT_EQ(t.shared[0].hosts, 0b111U);
  EXPECT_EQ(t.shared[0].down.rate_bytes_per_s, 3'000'000U);
  EXPECT_DOUBLE_EQ(t.shared[0].up.loss, 0.01);
  EXPECT_EQ(t.up[1].queue_bytes, 500'000U);  // a tenth of a second
}

TEST(WanTopology, ActsBecomeChangesInOrder) {
  const Topology t = good(R"(
peers = 3
net = { rate = "1Mbit/s" }
[[do]]
at = "5s"
slow = "a b"
factor = 10
[[do]]
at = "1s"
split = "a | b c"
for = "2s"
times = 2
every = "3s")");
  ASSERT_EQ(t.changes.size(), 18U);  // two for the slow pair; twice two pairs both ways, each with its end
  EXPECT_EQ(t.changes.front().at, seconds(1));
  EXPECT_EQ(t.changes.front().kind, Change::Kind::kCut);
  EXPECT_EQ(t.changes.back().at, seconds(6));
  EXPECT_EQ(t.changes.back().kind, Change::Kind::kHeal);
}

TEST(WanTopology, AResetIsAChangeOfItsOwnAndIsRepeated) {
  const Topology t = good(R"(
peers = 3
[[do]]
at = "1s"
reset = "a -> c"
times = 3
every = "2s"
[[do]]
at = "2s"
cut = "a -> c")");
  ASSERT_EQ(t.changes.size(), 4U);
  for (const std::size_t i : {0U, 2U, 3U}) {
    EXPECT_EQ(t.changes[i].kind, Change::Kind::kReset);
    EXPECT_EQ(t.changes[i].from, 1U);
    EXPECT_EQ(t.changes[i].to, 3U);
  }
  EXPECT_EQ(t.changes[0].at, seconds(1));
  EXPECT_EQ(t.changes[1].kind, Change::Kind::kCut);
  EXPECT_EQ(t.changes[3].at, seconds(5));
}

TEST(TopologyFile, AHostThatIsShutLetsNobodyIn) {
  const auto topology = topology_from_text("peers = 3\n[[do]]\nshut = \"a c\"");
  ASSERT_TRUE(topology.ok()) << topology.error().text;
  for (std::uint32_t host = 0; host < topology->hosts(); ++host) {
    EXPECT_EQ(topology->is_shut(host), host == 1 || host == 3) << host;
  }
  EXPECT_THAT(error_of("peers = 2\n[[do]]\nat = \"1s\"\nshut = \"a\""), HasSubstr("for good"));
  EXPECT_THAT(error_of("peers = 2\n[[do]]\nfor = \"1s\"\nshut = \"a\""), HasSubstr("for good"));
}

TEST(WanTopology, ErrorsNameTheirPlace) {
  EXPECT_THAT(error_of("peers = 100"), HasSubstr("1:9: peers must be 1..99"));
  EXPECT_THAT(error_of("peers = 2\nnet = { latncy = \"1ms\" }"),
              HasSubstr("2:9: unknown key \"latncy\"; did you mean 'latency'?"));
  EXPECT_THAT(error_of("peers = 2\nnet = { rate = \"fast\" }"), HasSubstr("2:16: rate must be like \"100Mbit/s\""));
  EXPECT_THAT(error_of("peers = 2\nnet = { loss = 2 }"), HasSubstr("2:16: loss must be like 0.001 or \"0.1%\""));
  EXPECT_THAT(error_of("mtu = 100"), HasSubstr("1:7: mtu must be 576..65000"));
  EXPECT_THAT(error_of("peers = 2\n[[link]]\nbetween = \"a c\""),
              HasSubstr("3:11: there is no host c: the last peer is b"));
  EXPECT_THAT(error_of("peers = 2\n[[link]]\nbetween = \"a eu\""), HasSubstr("3:11: 'eu' is no host"));
  EXPECT_THAT(error_of("peers = 2\n[[link]]\nbetween = \"a\""), HasSubstr("3:11: between names two"));
  EXPECT_THAT(error_of("peers = 2\n[[link]]\nlatency = \"1ms\""), HasSubstr("2:1: a [[link]] must say between"));
  EXPECT_THAT(error_of("peers = 2\n[[line]]\nup = \"1Mbit/s\""), HasSubstr("2:1: a [[line]] must say of"));
  EXPECT_THAT(error_of("peers = 2\n[[do]]\nat = \"1s\"\ncrash = \"a\""), HasSubstr("2:1: here only ways change"));
  EXPECT_THAT(error_of("peers = 2\n[[do]]\ncut = \"a b\""), HasSubstr("2:1: say one time"));
  EXPECT_THAT(error_of("peers = 2\n[[do]]\nat = \"1s\"\nslow = \"a b\"\nfactor = 2"),
              HasSubstr("2:1: slow needs a rate"));
  EXPECT_THAT(error_of("peers = 2\n[[do]]\nat = \"1s\"\ncut = \"a any\""), HasSubstr("name the host"));
  const std::string reset = "peers = 2\n[[do]]\nat = \"1s\"\nreset = ";
  EXPECT_THAT(error_of(reset + "\"a\""), HasSubstr("4:9: reset is between two"));
  EXPECT_THAT(error_of(reset + "\"a -> a\""), HasSubstr("4:9: the same host is on both sides"));
  EXPECT_THAT(error_of(reset + "\"a -> d\""), HasSubstr("there is no host d: the last peer is b"));
  EXPECT_THAT(error_of(reset + "\"a -> b\"\nfor = \"1s\""), HasSubstr("2:1: a reset takes no time"));
  EXPECT_THAT(error_of(reset + "\"a -> b\"\nevery = \"1s\""), HasSubstr("every needs how often"));
  EXPECT_THAT(error_of(reset + "\"a -> b\"\nfactor = 2"), HasSubstr("factor is for slow"));
  EXPECT_THAT(error_of("peers = 2\n[[do]]\nreset = \"a b\""), HasSubstr("2:1: say one time"));
  EXPECT_THAT(error_of("peers = "), HasSubstr("1:"));
}

TEST(WanTopology, TheFileIsNamedToo) {
  const auto missing = read_topology("no/such/file.toml");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text, HasSubstr("no/such/file.toml"));
}

TEST(WanTopology, OursAreRight) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/tests/lab/wan/topologies")) {
    const auto topology = read_topology(entry.path());
    EXPECT_TRUE(topology) << topology.error().text;
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(WanTopology, AnAddressNamesItsHost) {
  EXPECT_EQ(address_of(0), "10.77.0.100");
  EXPECT_EQ(address_of(3), "10.77.0.3");
  EXPECT_EQ(host_of(0x0a4d0003), 3U);
  EXPECT_EQ(host_of(0x0a4d0064), 0U);
  EXPECT_GT(host_of(0x0a4d0000), 99U);
  EXPECT_GT(host_of(0x0a4d0065), 99U);
  EXPECT_GT(host_of(0x7f000001), 99U);
}

TEST(WanTopology, HostsAreEqualWhenPeersHaveTheSameLinesAndWays) {
  const std::string three = "peers = 3\nnet = { latency = \"9ms\", up = \"8Mbit/s\" }\n";
  EXPECT_TRUE(has_equal_hosts(good(three)));
  EXPECT_TRUE(has_equal_hosts(good(three + "line = [{ of = \"coordinator\", up = \"1Mbit/s\" }]")));
  EXPECT_FALSE(has_equal_hosts(good(three + "line = [{ of = \"c\", up = \"1Mbit/s\" }]")));
  EXPECT_FALSE(has_equal_hosts(good(three + "link = [{ between = \"c -> b\", latency = \"8ms\" }]")));
  EXPECT_FALSE(has_equal_hosts(good(three + "line = [{ of = \"a b c\", shared = true, up = \"1Gbit/s\" }]")));
}

}  // namespace
}  // namespace lockstep::wan
