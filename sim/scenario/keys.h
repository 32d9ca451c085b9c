// The keys of a scenario file, each with an example and what it says: the reference that people read. A test holds it
// against what the reader takes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::sim {

struct ScenarioKey {
  std::string_view section;  // top, net, link, do, expect
  std::string_view name;
  std::string_view value;  // an example, as TOML
  std::string_view what;
};

const std::vector<ScenarioKey>& scenario_keys();

std::string scenario_reference();  // all of them, section by section, laid out as TOML with comments

// The keys that the reader takes, by section, in its order.
std::map<std::string, std::vector<std::string>> keys_that_are_read();

}  // namespace lockstep::sim
