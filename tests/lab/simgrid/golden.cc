// Makes the golden numbers of SimGrid (3.32, libsimgrid-dev of Debian 12) that tests/sim/flow/simgrid_test.cc holds
// `predict` against: a seeded random topology, and how long one ring all-reduce takes on it under SimGrid's model CM02.
// Shares no code with Lockstep. `make.sh` builds it and writes golden.json; no build of Lockstep needs it.
//
// CM02 shares a line among its flows in inverse proportion to their latencies, and bounds each by TCP-gamma / (2
// latency). A message of SimGrid waits for its latency before its first byte flows; on a stream that costs only the
// first. So latency is paid here as a stream does: the latency factor is next to nothing, and every segment, when its
// last byte has left, sleeps for the latency of the route before it arrives. The cross-traffic of acknowledgements is
// off. Segments of one stream go one behind the other; the streams of a rank take in turn what is ready, and hold two
// at most beside what their sockets have taken.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace {

struct HostLine {
  double up = 0;  // bytes per second
  double down = 0;
  int region = -1;
};

struct Region {
  double up = 0;
  double down = 0;
};

struct Topology {
  std::vector<HostLine> hosts;
  std::vector<Region> regions;
  std::vector<std::vector<std::uint64_t>> latency_us;
  std::uint64_t elements = 0;  // of four bytes
  std::uint64_t segment = 0;   // bytes
  std::size_t stripes = 2;
};

constexpr double kWindow = 4194304;  // SimGrid's TCP-gamma

Topology drawn(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto range = [&](std::uint64_t lo, std::uint64_t hi) { return lo + random() % (hi - lo + 1); };
  Topology t;
  const std::uint64_t peers = range(2, 16);
  const std::uint64_t regions = range(1, 4);
  const auto rate = [&](std::uint64_t lo, std::uint64_t hi) { return 125000.0 * static_cast<double>(range(lo, hi)); };
  for (std::uint64_t r = 0; r < regions; ++r) t.regions.push_back({rate(40, 400), rate(40, 400)});
  for (std::uint64_t h = 0; h < peers; ++h) {
    t.hosts.push_back({rate(20, 300), rate(50, 1000), static_cast<int>(range(0, regions)) - 1});  // -1: in no region
  }
  t.latency_us.assign(peers, std::vector<std::uint64_t>(peers, 0));
  for (std::uint64_t a = 0; a < peers; ++a) {
    for (std::uint64_t b = a + 1; b < peers; ++b) {
      const bool near = t.hosts[a].region >= 0 && t.hosts[a].region == t.hosts[b].region;
      t.latency_us[a][b] = t.latency_us[b][a] = near ? range(500, 5000) : range(5000, 90000);
    }
  }
  t.elements = range(1'000'000, 12'000'000);
  t.segment = 1024 * (std::uint64_t{1} << range(4, 8));  // 16 to 256 KiB
  t.stripes = range(1, 4);
  return t;
}

struct Segment {
  std::size_t chunk = 0;
  std::size_t index = 0;
  std::size_t hops = 0;  // made so far, of 2 (n - 1)
  std::uint64_t bytes = 0;
};

// One of the streams of a rank: what it has taken to send, and what of it its socket has taken; the first of that is on
// its way.
struct Stream {
  std::deque<Segment> taken;
  std::deque<Segment> in_socket;
  s4u::SemaphorePtr some;
  std::uint64_t under_way = 0;  // bytes that the socket has taken and that have not arrived
};

// One rank: what is ready to go to the next one.
struct Rank {
  std::deque<Segment> ready;
  std::deque<Segment> own;
  int own_waiting = 0;       // of its own chunk, in `ready`
  std::uint64_t socket = 0;  // bytes that the socket of each stream takes
  std::vector<Stream> streams;
};

struct Ring {
  const Topology& topology;
  std::vector<Rank> ranks;
  std::size_t to_arrive = 0;  // segments, at any rank
  double finished = 0;
};

// Four segments of the own chunk are ready ahead.
void prepare(Rank& rank) {
  while (!rank.own.empty() && rank.own_waiting < 4) {
    rank.ready.push_back(rank.own.front());
    rank.own.pop_front();
    rank.own_waiting += 1;
  }
}

void write(const Rank& rank, Stream& stream) {
  while (!stream.taken.empty()) {
    const Segment& first = stream.taken.front();
    if (stream.under_way > 0 && stream.under_way + first.bytes > rank.socket) return;
    stream.under_way += first.bytes;
    stream.in_socket.push_back(first);
    stream.taken.pop_front();
    stream.some->release();
  }
}

// Streams take what is ready in turn, while they hold less than two.
void deal(Rank& rank) {
  for (bool more = true; more;) {
    more = false;
    for (Stream& stream : rank.streams) {
      if (rank.ready.empty() || stream.taken.size() >= 2) continue;
      stream.taken.push_back(rank.ready.front());
      rank.ready.pop_front();
      if (stream.taken.back().hops == 0) {
        rank.own_waiting -= 1;
        prepare(rank);
      }
      write(rank, stream);
      more = true;
    }
  }
}

void arrive(Ring& ring, std::size_t to, Segment segment) {
  Rank& rank = ring.ranks[to];
  ring.to_arrive -= 1;
  ring.finished = s4u::Engine::get_clock();
  segment.hops += 1;
  if (segment.hops == 2 * (ring.ranks.size() - 1)) return;
  rank.ready.push_back(segment);
  deal(rank);
}

std::string box(std::size_t rank, std::size_t stripe) { return std::to_string(rank) + "." + std::to_string(stripe); }

void send(Ring& ring, std::size_t from, std::size_t stripe) {
  auto* mailbox = s4u::Mailbox::by_name(box(from, stripe));
  Rank& rank = ring.ranks[from];
  Stream& stream = rank.streams[stripe];
  while (true) {
    stream.some->acquire();
    auto segment = std::make_unique<Segment>(stream.in_socket.front());
    const std::uint64_t bytes = segment->bytes;
    mailbox->put(segment.release(), bytes);
    stream.in_socket.pop_front();
  }
}

struct Delayed {
  double at = 0;
  Segment segment;
};

// The other end: what has left arrives after the latency.
void receive(Ring& ring, std::size_t from, std::size_t stripe) {
  auto* mailbox = s4u::Mailbox::by_name(box(from, stripe));
  const std::size_t to = (from + 1) % ring.ranks.size();
  const double latency = 1e-6 * static_cast<double>(ring.topology.latency_us[from][to]);
  auto delayed = std::make_shared<std::deque<Delayed>>();
  auto some = s4u::Semaphore::create(0);
  auto travel = s4u::Actor::create("travel", s4u::this_actor::get_host(), [&ring, from, stripe, to, delayed, some] {
    while (true) {
      some->acquire();
      const Delayed next = delayed->front();
      delayed->pop_front();
      s4u::this_actor::sleep_until(next.at);
      Rank& sender = ring.ranks[from];
      sender.streams[stripe].under_way -= next.segment.bytes;
      write(sender, sender.streams[stripe]);
      deal(sender);
      arrive(ring, to, next.segment);
    }
  });
  travel->daemonize();
  while (true) {
    const std::unique_ptr<Segment> segment(mailbox->get<Segment>());
    delayed->push_back({s4u::Engine::get_clock() + latency, *segment});
    some->release();
  }
}

// A window, but no more than the path carries in a round trip and 100 ms.
std::uint64_t socket_of(const Topology& t, std::size_t from) {
  const std::size_t to = (from + 1) % t.hosts.size();
  double narrowest = std::min(t.hosts[from].up, t.hosts[to].down);
  const int leaves = t.hosts[from].region;
  const int enters = t.hosts[to].region;
  if (leaves != enters && leaves >= 0) narrowest = std::min(narrowest, t.regions[static_cast<std::size_t>(leaves)].up);
  if (leaves != enters && enters >= 0)
    narrowest = std::min(narrowest, t.regions[static_cast<std::size_t>(enters)].down);
  return static_cast<std::uint64_t>(
      std::min(kWindow, narrowest * (0.1 + 2e-6 * static_cast<double>(t.latency_us[from][to]))));
}

double all_reduce(s4u::Engine& engine, const Topology& t) {
  auto* zone = s4u::create_full_zone("all");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> ups;
  std::vector<s4u::Link*> downs;
  std::vector<s4u::Link*> region_ups;
  std::vector<s4u::Link*> region_downs;
  const std::size_t n = t.hosts.size();
  for (std::size_t h = 0; h < n; ++h) {
    hosts.push_back(zone->create_host("h" + std::to_string(h), 1e9));
    ups.push_back(zone->create_link("up" + std::to_string(h), t.hosts[h].up)->seal());
    downs.push_back(zone->create_link("down" + std::to_string(h), t.hosts[h].down)->seal());
  }
  for (std::size_t r = 0; r < t.regions.size(); ++r) {
    region_ups.push_back(zone->create_link("rup" + std::to_string(r), t.regions[r].up)->seal());
    region_downs.push_back(zone->create_link("rdown" + std::to_string(r), t.regions[r].down)->seal());
  }
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      auto* distance = zone->create_link("lat" + std::to_string(a) + "." + std::to_string(b), 1e15);
      distance->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
      distance->set_latency(1e-6 * static_cast<double>(t.latency_us[a][b]))->seal();
      std::vector<s4u::LinkInRoute> route = {s4u::LinkInRoute(distance), s4u::LinkInRoute(ups[a])};
      const int from = t.hosts[a].region;
      const int to = t.hosts[b].region;
      if (from >= 0 && from != to) route.emplace_back(region_ups[static_cast<std::size_t>(from)]);
      if (to >= 0 && from != to) route.emplace_back(region_downs[static_cast<std::size_t>(to)]);
      route.emplace_back(downs[b]);
      zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr, route, false);
    }
  }
  zone->seal();
  Ring ring{t, {}, 0, 0};
  for (std::size_t r = 0; r < n; ++r) {
    Rank& rank = ring.ranks.emplace_back();
    for (std::size_t i = 0; i < t.stripes; ++i) rank.streams.push_back({{}, {}, s4u::Semaphore::create(0), 0});
    rank.socket = socket_of(t, r);
    // A chunk starts at the rank after its owner, travels around and around again, and ends before its owner.
    const std::size_t chunk = (r + n - 1) % n;
    std::uint64_t left = 4 * (t.elements / n + (chunk < t.elements % n ? 1 : 0));
    for (std::size_t i = 0; left > 0; ++i) {
      const std::uint64_t bytes = std::min(left, t.segment);
      rank.own.push_back({chunk, i, 0, bytes});
      left -= bytes;
    }
  }
  for (const Rank& rank : ring.ranks) ring.to_arrive += rank.own.size() * 2 * (n - 1);
  for (std::size_t r = 0; r < n; ++r) {
    prepare(ring.ranks[r]);
    deal(ring.ranks[r]);
    for (std::size_t stripe = 0; stripe < t.stripes; ++stripe) {
      s4u::Actor::create("send", hosts[r], [&ring, r, stripe] { send(ring, r, stripe); })->daemonize();
      s4u::Actor::create("receive", hosts[(r + 1) % n], [&ring, r, stripe] { receive(ring, r, stripe); })->daemonize();
    }
  }
  // SimGrid ends all daemons with the last actor that is not a daemon. This actor stays until every segment has
  // arrived; its sleep is in virtual time.
  s4u::Actor::create("watch", hosts[0], [&ring] {
    while (ring.to_arrive > 0) s4u::this_actor::sleep_for(0.5);
  });
  engine.run();
  return ring.finished;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  s4u::Engine engine(&argc, argv);
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/TCP-gamma:" + std::to_string(kWindow));
  s4u::Engine::set_config("network/latency-factor:1e-9");
  const Topology t = drawn(seed);
  const double seconds = all_reduce(engine, t);
  std::printf(
      "{\"seed\": %llu, \"elements\": %llu, \"segment_bytes\": %llu, \"stripes\": %zu, \"window_bytes\": %.0f,\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(t.elements),
      static_cast<unsigned long long>(t.segment), t.stripes, kWindow);
  std::printf(" \"seconds\": %.6f,\n \"hosts\": [", seconds);
  for (std::size_t h = 0; h < t.hosts.size(); ++h) {
    std::printf("%s{\"up\": %.0f, \"down\": %.0f, \"region\": %d}", h == 0 ? "" : ", ", t.hosts[h].up, t.hosts[h].down,
                t.hosts[h].region);
  }
  std::printf("],\n \"regions\": [");
  for (std::size_t r = 0; r < t.regions.size(); ++r) {
    std::printf("%s{\"up\": %.0f, \"down\": %.0f}", r == 0 ? "" : ", ", t.regions[r].up, t.regions[r].down);
  }
  std::printf("],\n \"latency_us\": [");
  for (std::size_t a = 0; a < t.hosts.size(); ++a) {
    std::printf("%s[", a == 0 ? "" : ", ");
    for (std::size_t b = 0; b < t.hosts.size(); ++b)
      std::printf("%s%llu", b == 0 ? "" : ", ", static_cast<unsigned long long>(t.latency_us[a][b]));
    std::printf("]");
  }
  std::printf("]}\n");
  return 0;
}
