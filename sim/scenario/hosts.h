// The hosts of a scenario by their names, and regions of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace lockstep::sim {

std::string letter_of(std::uint32_t host);  // as scenarios say it: "c", "h27", "coordinator"

class HostNames {
 public:
  // The mistake; empty: none.
  std::string add_region(const std::string& name, std::string_view hosts);

  // a..z are hosts 1..26, h1..h1024 by number; X, Y and Z are bound by the seed, each to another host; any: whichever;
  // a region: all of its hosts.
  [[nodiscard]] std::optional<std::vector<Who>> find(const std::string& word) const;

  // "'w' is no host", with the names of hosts.
  [[nodiscard]] std::string nobody(const std::string& word) const;

 private:
  std::map<std::string, std::vector<Who>> regions_;
};

}  // namespace lockstep::sim
