#include "tests/lab/wan/statistics.h"

#include <fmt/format.h>

#include <vector>

#include <nlohmann/json.hpp>

#include "sim/scenario/hosts.h"

namespace lockstep::wan {
namespace {

struct NamedCounts {
  std::string name;
  LineCounts counts;
};

std::vector<NamedCounts> lines_in_use(const Topology& topology, const Network& network) {
  std::vector<NamedCounts> lines;
  const auto add = [&](const std::string& name, const LineCounts& counts) {
    if (counts.packets > 0) lines.push_back({name, counts});
  };
  for (std::uint32_t from = 0; from < topology.hosts(); ++from) {
    for (std::uint32_t to = 0; to < topology.hosts(); ++to) {
      add(sim::letter_of(from) + " -> " + sim::letter_of(to), network.counts(from, to));
    }
  }
  for (std::uint32_t host = 0; host < topology.hosts(); ++host) {
    add(sim::letter_of(host) + " up", network.up_counts(host));
    add(sim::letter_of(host) + " down", network.down_counts(host));
  }
  for (std::size_t n = 0; n < topology.shared.size(); ++n) {
    add(topology.shared[n].name + " shared up", network.shared_up_counts(n));
    add(topology.shared[n].name + " shared down", network.shared_down_counts(n));
  }
  return lines;
}

std::string between(const ResetRecord& r) { return sim::letter_of(r.a) + " - " + sim::letter_of(r.b); }

}  // namespace

std::string statistics_text(const Topology& topology, const Network& network) {
  std::string text = fmt::format("# {:20} {:>10} {:>14} {:>10} {:>8} {:>8} {:>14}\n", "line", "packets", "bytes",
                                 "queue full", "lost", "cut", "longest queue");
  for (const auto& [name, c] : lines_in_use(topology, network)) {
    text += fmt::format("  {:20} {:>10} {:>14} {:>10} {:>8} {:>8} {:>14}\n", name, c.packets, c.bytes, c.queue_full,
                        c.lost, c.cut, c.longest_queue_bytes);
  }
  return text;
}

nlohmann::json statistics_json(const Topology& topology, const Network& network) {
  nlohmann::json lines = nlohmann::json::array();
  for (const auto& [name, c] : lines_in_use(topology, network)) {
    lines.push_back({{"line", name},
                     {"packets", c.packets},
                     {"bytes", c.bytes},
                     {"queue_full", c.queue_full},
                     {"lost", c.lost},
                     {"cut", c.cut},
                     {"longest_queue_bytes", c.longest_queue_bytes}});
  }
  return lines;
}

std::string resets_text(const std::vector<Forwarder::Reset>& resets) {
  if (resets.empty()) return {};
  std::string text = fmt::format("# {:20} {:>10} {:>14} {:>17} {:>14}\n", "reset", "at s", "ports", "bytes till then",
                                 "back after ms");
  for (const auto& [r, at, back_after] : resets) {
    text += fmt::format("  {:20} {:>10.3f} {:>14} {:>17} {:>14}\n", between(r), at.seconds(),
                        r.hit ? fmt::format("{}, {}", r.port_a, r.port_b) : "no data flowed",
                        r.hit ? fmt::to_string(r.carried) : "-",
                        back_after ? fmt::format("{:.1f}", back_after->seconds() * 1e3) : "-");
  }
  return text;
}

nlohmann::json resets_json(const std::vector<Forwarder::Reset>& resets) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [r, at, back_after] : resets) {
    nlohmann::json j = {{"between", between(r)}, {"at_s", at.seconds()}, {"hit", r.hit}};
    if (r.hit) {
      j["ports"] = {r.port_a, r.port_b};
      j["bytes"] = r.carried;
      j["answered_late"] = r.answered_late;
      j["back_after_s"] = back_after ? nlohmann::json(back_after->seconds()) : nlohmann::json();
    }
    list.push_back(std::move(j));
  }
  return list;
}

}  // namespace lockstep::wan
