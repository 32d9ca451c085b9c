// Lines together, in virtual time.
#include "tests/lab/wan/network.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/lab/wan/limits.h"

namespace lockstep::wan {
namespace {

constexpr std::uint32_t kBytes = 1500;

Topology topology_of(const std::string& text) {
  Result<Topology> topology = topology_from_text(text);
  EXPECT_TRUE(topology) << (topology ? "" : topology.error().text);
  return std::move(*topology);
}

// Packets with a number each, and when and where they have arrived.
class Traffic {
 public:
  struct Seen {
    Instant at;
    std::uint32_t to;
    int number;
    bool operator==(const Seen&) const = default;
  };

  explicit Traffic(const std::string& text) : network_(topology_of(text), Instant{}) {}

  void send(Duration at, std::uint32_t from, std::uint32_t to, int number) {
    run(Instant{} + at);
    Packet packet = pool_.take();
    packet.size = kBytes;
    std::memcpy(packet.bytes.get(), &number, sizeof number);
    network_.offer(Instant{} + at, from, to, kBytes, std::move(packet));
  }
  void run(Instant until) {
    while (network_.next() <= until) {
      const Instant now = network_.next();
      while (auto arrival = network_.take(now)) {
        int number = 0;
        std::memcpy(&number, arrival->packet.bytes.get(), sizeof number);
        seen_.push_back({now, arrival->to, number});
      }
    }
  }
  const std::vector<Seen>& all() {
    run(Instant{} + seconds(3600));
    return seen_;
  }
  Network& network() { return network_; }

 private:
  PacketPool pool_{kBytes};
  Network network_;
  std::vector<Seen> seen_;
};

TEST(WanNetwork, APacketPassesTheLinesOfBothHostsAndTheWayBetween) {
  // 1 ms up, 2 ms for the way, 20 ms latency, 4 ms down.
  Traffic traffic(R"(peers = 2
    net = { latency = "20ms", rate = "6Mbit/s", up = "12Mbit/s", down = "3Mbit/s" })");
  traffic.send({}, 1, 2, 7);
  EXPECT_EQ(traffic.all(), (std::vector<Traffic::Seen>{{Instant{} + milliseconds(27), 2, 7}}));
}

TEST(WanNetwork, TwoSendersShareTheLineOfTheReceiverInTheOrderOfArrival) {
  Traffic traffic(R"(peers = 3
    net = { down = "12Mbit/s" }
    link = [{ between = "a c", latency = "10ms" }, { between = "b c", latency = "5ms" }])");
  for (int i = 0; i < 3; ++i) traffic.send({}, 1, 3, i);
  for (int i = 10; i < 13; ++i) traffic.send(milliseconds(1), 2, 3, i);
  // b's arrive from 6 ms on, a's at 10 ms; each takes 1 ms.
  const std::vector<Traffic::Seen> expected = {
      {Instant{} + milliseconds(7), 3, 10}, {Instant{} + milliseconds(8), 3, 11}, {Instant{} + milliseconds(9), 3, 12},
      {Instant{} + milliseconds(11), 3, 0}, {Instant{} + milliseconds(12), 3, 1}, {Instant{} + milliseconds(13), 3, 2}};
  EXPECT_EQ(traffic.all(), expected);
}

TEST(WanNetwork, ALineOfARegionIsSharedByWhatLeavesItAndNotByWhatStays) {
  Traffic traffic(R"(peers = 3
    line = [{ of = "a b", shared = true, up = "12Mbit/s" }])");
  traffic.send({}, 1, 3, 1);
  traffic.send({}, 2, 3, 2);
  traffic.send({}, 1, 2, 3);
  traffic.send({}, 3, 1, 4);
  const Instant start;
  const std::vector<Traffic::Seen> expected = {
      {start, 2, 3}, {start, 1, 4}, {start + milliseconds(1), 3, 1}, {start + milliseconds(2), 3, 2}};
  EXPECT_EQ(traffic.all(), expected);
}

TEST(WanNetwork, NothingIsReorderedBetweenTwoHosts) {
  Traffic traffic(R"(peers = 2
    net = { latency = "20ms", jitter = "15ms", rate = "100Mbit/s", down = "50Mbit/s", loss = 0.1, burst = 3 })");
  for (int i = 0; i < 2000; ++i) traffic.send(microseconds(200) * i, 1, 2, i);
  int last = -1;
  for (const Traffic::Seen& seen : traffic.all()) {
    EXPECT_GT(seen.number, last);
    last = seen.number;
  }
  const LineCounts& way = traffic.network().counts(1, 2);
  const LineCounts& down = traffic.network().down_counts(2);
  EXPECT_EQ(way.packets, 2000U);
  EXPECT_EQ(traffic.all().size(), 2000 - way.lost - way.queue_full - down.queue_full);
  EXPECT_GT(way.lost, 100U);
}

TEST(WanNetwork, ChangesComeAtTheirTimesAndPass) {
  Traffic traffic(R"(peers = 2
    net = { latency = "1ms", rate = "12Mbit/s" }
    [[do]]
    at = "10ms"
    cut = "a -> b"
    for = "20ms"
    [[do]]
    at = "50ms"
    slow = "a b"
    factor = 5
    for = "20ms")");
  for (int i = 0; i < 8; ++i) {
    traffic.send(milliseconds(10) * i, 1, 2, i);
    if (i == 1) traffic.send(milliseconds(15), 2, 1, 100);  // the other way is not cut
  }
  const auto ms = [](std::int64_t n) { return Instant{} + milliseconds(n); };
  // The packet of 0 ms takes 1 ms and 1 ms; those of 10 and 20 are cut off, 30 and 40 pass; 50 and 60 take 5 ms and 1
  // ms.
  const std::vector<Traffic::Seen> expected = {{ms(2), 2, 0},  {ms(17), 1, 100}, {ms(32), 2, 3}, {ms(42), 2, 4},
                                               {ms(56), 2, 5}, {ms(66), 2, 6},   {ms(72), 2, 7}};
  EXPECT_EQ(traffic.all(), expected);
  EXPECT_EQ(traffic.network().counts(1, 2).cut, 2U);
}

TEST(WanNetwork, WhatIsUnderWayIsLostWhenItsLineIsCut) {
  Traffic traffic("peers = 2\nnet = { latency = \"50ms\" }");
  traffic.send({}, 1, 2, 1);
  traffic.network().way(1, 2).cut();
  EXPECT_TRUE(traffic.all().empty());
  EXPECT_EQ(traffic.network().counts(1, 2).cut, 1U);
}

TEST(WanNetwork, TheLimitOfARingIsItsSlowestLineAndItsLatencies) {
  const Topology topology = topology_of(R"(peers = 4
    net = { latency = "10ms", up = "100Mbit/s", down = "100Mbit/s" }
    link = [{ between = "d a", latency = "30ms" }, { between = "a c", rate = "1kbit/s" }]
    line = [{ of = "b", up = "50Mbit/s" }])");
  const sim::Bound ring = limits(topology, 10'000'000).front();
  EXPECT_EQ(ring.algorithm, wire::Algorithm::kRing);
  // a and c are no neighbours. 1.5 times 10 MB through b's line.
  EXPECT_NEAR(ring.lines.seconds(), 15e6 / 6.25e6 * 1500 / 1448, 1e-6);
  EXPECT_EQ(ring.latencies, milliseconds(2 * 60 - 2 * 10));
  const Topology shared = topology_of(R"(peers = 4
    line = [{ of = "a c", shared = true, down = "80Mbit/s" }])");
  EXPECT_NEAR(limits(shared, 10'000'000).front().lines.seconds(), 2 * 15e6 / 10e6 * 1500 / 1448, 1e-6);
}

TEST(WanNetwork, TheLimitIsThatOfTheBestAlgorithm) {
  const Topology far = topology_of(R"(peers = 8
    net = { latency = "40ms", up = "200Mbit/s", down = "200Mbit/s" })");
  const std::vector<sim::Bound> small = limits(far, 4096);
  ASSERT_EQ(small.size(), 3U);
  EXPECT_EQ(sim::least_of(small).algorithm, wire::Algorithm::kDirect);
  EXPECT_EQ(sim::least_of(small).whole(), milliseconds(120));
  const Topology thin = topology_of(R"(peers = 8
    net = { latency = "40ms", up = "200Mbit/s", down = "200Mbit/s" }
    line = [{ of = "c", up = "20Mbit/s" }, { of = "f", up = "20Mbit/s" }])");
  // By rate a thin line sends its own contribution once.
  EXPECT_NEAR(sim::least_of(limits(thin, 64'000'000)).lines.seconds(), 64e6 / 2.5e6 * 1500 / 1448, 1e-5);
  const Topology many = topology_of("peers = 66\nnet = { latency = \"40ms\", up = \"200Mbit/s\" }");
  EXPECT_EQ(sim::least_of(limits(many, 4096)).algorithm, wire::Algorithm::kGrid);
  EXPECT_EQ(sim::least_of(limits(many, 4096)).whole(), milliseconds(240));
}

}  // namespace
}  // namespace lockstep::wan
