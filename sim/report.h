// What one run was: the numbers, the hash of everything that happened, and the first promise that broke.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::sim {

struct Failure {
  std::string promise;  // "S1" .. "L4"; "contract": core/io/stream.h was not kept; "limit": the run does not end
  std::string text;
  std::int64_t at_ns = 0;
  std::uint64_t event = 0;
};

struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::int64_t time_ns = 0;
  std::uint32_t peers = 0;
  bool bytes_mode = false;

  std::uint64_t launches = 0;
  std::uint64_t commits = 0;  // rounds, not calls
  std::uint64_t aborts = 0;
  std::uint64_t retries = 0;  // calls whose round was attempted again
  std::uint64_t unknown = 0;  // calls that ended with `outcome unknown`
  std::uint64_t views = 0;
  std::uint64_t kills = 0;
  std::uint64_t stalls = 0;
  std::uint64_t cuts = 0;
  std::uint64_t resets = 0;
  std::uint64_t silences = 0;
  std::uint64_t leaves = 0;
  std::uint64_t joins = 0;
  std::uint64_t misuses = 0;
  std::uint64_t lost_runs = 0;  // peers that lost the run while alive
  std::uint64_t revoked_midway = 0;

  std::vector<std::uint64_t> checkpoints;  // the hash after every 4096 events
  std::optional<Failure> failure;
};

}  // namespace lockstep::sim
