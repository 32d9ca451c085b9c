// The report of one run: its counts, the hash of everything that happened, and the first broken promise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rng.h"

namespace lockstep::sim {

struct Failure {
  std::string promise;  // "S1" .. "L6"; "contract": core/io/stream.h was not kept; "limit": the run does not
                        // end; "goal": what the plan expects did not come
  std::string text;
  std::int64_t at_ns = 0;
  std::uint64_t event = 0;
};

// How often something happened: in one run, or in many.
struct Counts {
  std::uint64_t events = 0;
  std::uint64_t launches = 0;
  std::uint64_t commits = 0;  // rounds, not calls
  std::uint64_t aborts = 0;
  std::uint64_t retries = 0;           // calls whose round was attempted again
  std::uint64_t unknown = 0;           // calls that ended with `outcome unknown`
  std::uint64_t received = 0;          // point-to-point transfers that their receiver has
  std::uint64_t failed_transfers = 0;  // sends and receives that ended otherwise
  std::uint64_t views = 0;
  std::uint64_t kills = 0;
  std::uint64_t stalls = 0;
  std::uint64_t cuts = 0;
  std::uint64_t resets = 0;
  std::uint64_t silences = 0;
  std::uint64_t leaves = 0;
  std::uint64_t joins = 0;
  std::uint64_t misuses = 0;
  std::uint64_t lost_runs = 0;       // peers that lost the run while alive
  std::uint64_t revoked_midway = 0;  // loans taken back while bytes were under way into them
};

// The one list of the counts: `v(name, field)`, or `v(name, left, right)` for two of them.
template <typename V, typename... C>
void visit_counts(V&& v, C&... counts) {
  v("events", counts.events...);
  v("launches", counts.launches...);
  v("commits", counts.commits...);
  v("aborts", counts.aborts...);
  v("retries", counts.retries...);
  v("unknown", counts.unknown...);
  v("received", counts.received...);
  v("failed_transfers", counts.failed_transfers...);
  v("views", counts.views...);
  v("kills", counts.kills...);
  v("stalls", counts.stalls...);
  v("cuts", counts.cuts...);
  v("resets", counts.resets...);
  v("silences", counts.silences...);
  v("leaves", counts.leaves...);
  v("joins", counts.joins...);
  v("misuses", counts.misuses...);
  v("lost_runs", counts.lost_runs...);
  v("revoked_midway", counts.revoked_midway...);
}

// Whether a Failure can have this promise.
inline bool is_promise(std::string_view name) {
  for (const std::string_view other : {"P1", "P2", "P3", "P4", "contract", "limit", "crash"}) {
    if (name == other) return true;
  }
  const std::string_view number = name.empty() ? name : name.substr(1);
  const bool digits = number.size() == 1 ? number >= "1" && number <= "9" : number == "10" || number == "11";
  const auto up_to = [&](char kind, std::string_view last) {
    return name.starts_with(kind) && number <= last && number.size() == 1;
  };
  return digits && (name.starts_with('S') || up_to('L', "6") || up_to('A', "5"));
}

inline std::vector<std::string> count_names() {
  std::vector<std::string> names;
  const Counts none;
  visit_counts([&](const char* name, std::uint64_t) { names.emplace_back(name); }, none);
  return names;
}

inline std::uint64_t count_of(const Counts& counts, std::string_view name) {
  std::uint64_t found = 0;
  visit_counts([&](std::string_view candidate, std::uint64_t value) { found = candidate == name ? value : found; },
               counts);
  return found;
}

struct Report : Counts {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::int64_t time_ns = 0;
  std::uint32_t peers = 0;  // that take part
  bool bytes_mode = false;
  std::uint64_t healed_at_event = 0;       // when faults stop; 0: the run ended before
  std::vector<std::uint64_t> checkpoints;  // the hash after every 4096 events
  std::vector<std::uint64_t> never_began;  // of the plan's entries: what they wait for did not come, or came too late
  std::optional<Failure> failure;
  std::uint64_t renewals = 0;  // machines that were saved, and replaced by one that loaded it
};

// The hash of one run. The hash of many runs is the exclusive or of these, whatever their order.
inline std::uint64_t hash_of_seed(const Report& report) { return mix64(report.hash ^ mix64(report.seed)); }

}  // namespace lockstep::sim
