// Hosts and the lines between them: the lines that a stream crosses, and the limit of the stream itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/flow/max_min.h"
#include "sim/flow/options.h"

namespace lockstep::sim::flow {

// From one host to another, whatever line they are at.
struct Way {
  std::int64_t latency_ns = 0;
  std::uint64_t rate_bytes_per_s = 0;  // 0, or kMostRate and more: no limit of its own
  std::uint32_t loss_ppm = 0;
};
using Ways = std::function<Way(std::uint32_t from, std::uint32_t to)>;

struct Route {
  Path path;
  std::int64_t latency_ns = 0;
  std::int64_t round_trip_ns = 0;
  std::uint64_t weight = 1;
  std::uint64_t window_cap = kMostRate;
  std::uint64_t loss_cap = kMostRate;
  std::uint64_t narrowest = kMostRate;  // capacity of the path
  std::uint32_t loss_ppm = 0;

  [[nodiscard]] std::uint64_t cap() const { return std::min(window_cap, loss_cap); }
  // The part of the sent bytes that arrives. The lost bytes occupy the line, too.
  [[nodiscard]] std::uint64_t goodput(std::uint64_t rate) const;
};

class Topology {
 public:
  // Hosts are 0 .. hosts - 1.
  Topology(const Options& options, std::uint32_t hosts, std::uint64_t window_bytes, Ways ways);

  [[nodiscard]] Route route(std::uint32_t from, std::uint32_t to);

  [[nodiscard]] const std::vector<std::uint64_t>& capacities() const { return capacities_; }
  // The name of a resource.
  struct Name {
    enum class Kind : std::uint8_t { kUp, kDown, kWay } kind = Kind::kWay;
    HostSet hosts;           // kUp, kDown: whose line
    std::uint32_t from = 0;  // kWay
    std::uint32_t to = 0;
  };
  [[nodiscard]] const std::vector<Name>& names() const { return names_; }
  [[nodiscard]] std::uint32_t hosts() const { return hosts_; }
  [[nodiscard]] const Options& options() const { return options_; }

  // Divides the capacity of the way from one host to another; 1: as before. Routes over this way are
  // replaced.
  void slow_way(std::uint32_t from, std::uint32_t to, std::uint64_t factor);

 private:
  struct Line {
    HostSet hosts;
    Resource up{};
    Resource down{};
    std::uint32_t loss_ppm = 0;
  };
  Resource add(std::uint64_t bytes_per_s, const Name& name);
  Resource add_way(std::uint32_t from, std::uint32_t to, std::uint64_t bytes_per_s);

  Options options_;
  std::uint32_t hosts_;
  std::uint64_t window_bytes_;
  Ways ways_;
  std::vector<Line> lines_;
  std::vector<std::vector<std::uint32_t>> lines_of_;  // by host: indices of its lines, in order
  std::vector<std::uint64_t> capacities_;
  std::vector<Name> names_;
  std::vector<Resource> way_resources_;  // hosts x hosts
};

}  // namespace lockstep::sim::flow
