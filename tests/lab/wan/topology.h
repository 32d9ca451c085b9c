// The network of a file: hosts with their own lines, ways between them, and what happens to those. The words are those
// of the simulator's scenarios (`lockstep sim scenario keys`), with more about lines; README.md here lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "tests/lab/wan/line.h"

namespace lockstep::wan {

// Of TCP in every namespace; empty or 0: what the system has.
struct TcpOptions {
  std::string congestion_control;
  std::uint64_t receive_buffer = 0;  // the most that it grows to
  std::uint64_t send_buffer = 0;
};

struct Change {
  enum class Kind : std::uint8_t { kCut, kHeal, kSlow, kSpeedUp, kReset };
  Duration at;
  Kind kind = Kind::kCut;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t factor = 1;
};

// What leaves these hosts for others, and what comes to them from others, shares it: the uplink of a region.
struct SharedLine {
  std::string name;
  std::uint64_t hosts = 0;  // a bit for each
  LineOptions up;
  LineOptions down;

  [[nodiscard]] bool has(std::uint32_t host) const { return (hosts >> host & 1U) != 0; }
};

struct Topology {
  std::string name;
  std::string story;
  std::uint32_t peers = 2;
  std::uint64_t seed = 1;  // of losses and jitter
  std::uint32_t mtu = 1500;
  TcpOptions tcp;
  std::string congestion;         // control that all-reduces are measured with, asked for by socket; empty: by path
  std::vector<LineOptions> up;    // by host: 0 is the coordinator's, then the peers'
  std::vector<LineOptions> down;  // likewise
  std::vector<SharedLine> shared;
  std::vector<LineOptions> ways;  // from one host to another: way(from, to)
  std::vector<Change> changes;    // in order of time
  std::uint64_t shut = 0;         // a bit for each host that lets no connection in: behind a router, or a firewall

  [[nodiscard]] std::uint32_t hosts() const { return peers + 1; }
  LineOptions& way(std::uint32_t from, std::uint32_t to) { return ways[from * hosts() + to]; }
  [[nodiscard]] bool is_shut(std::uint32_t host) const { return (shut >> host & 1U) != 0; }
  [[nodiscard]] const LineOptions& way(std::uint32_t from, std::uint32_t to) const { return ways[from * hosts() + to]; }
};

// "10.77.0.1" is a's.
std::string address_of(std::uint32_t host);
// The host that has this address; hosts() or more: nobody.
std::uint32_t host_of(std::uint32_t address);

// All peers have such lines as the others, and such ways to each other; none share one.
bool has_equal_hosts(const Topology& topology);

// Errors name line and column.
Result<Topology> topology_from_text(std::string_view text);
// Errors name the file, too.
Result<Topology> read_topology(const std::string& path);

}  // namespace lockstep::wan
