#include "tests/lab/wan/as_scenario.h"

#include <fmt/format.h>

#include <sstream>

#include <toml++/toml.h>

#include "sim/scenario/scenario.h"
#include "sim/words/toml_reader.h"

namespace lockstep::wan {
namespace {

void leave_out(toml::node* node, std::initializer_list<std::string_view> keys) {
  if (node == nullptr) return;
  if (toml::table* const table = node->as_table()) {
    for (const std::string_view key : keys) table->erase(key);
  } else if (toml::array* const list = node->as_array()) {
    for (toml::node& each : *list) leave_out(&each, keys);
  }
}

}  // namespace

Result<sim::Plan> as_plan(std::string_view topology, std::uint64_t bytes) {
  toml::table table;
  try {
    table = toml::parse(topology);
  } catch (const toml::parse_error& error) {
    return sim::bad(error.source(), std::string(error.description()));
  }
  const auto window = table["tcp"]["receive_buffer"].value<std::string>();
  leave_out(&table, {"mtu", "seed", "tcp"});
  leave_out(table.get("net"), {"queue", "burst"});
  leave_out(table.get("link"), {"queue", "burst", "jitter"});
  leave_out(table.get("line"), {"queue"});
  if (toml::table* const net = table["net"].as_table()) {
    if (!net->contains("jitter")) net->insert("jitter", "0s");
    if (window) net->insert("window", *window);
  }
  table.insert_or_assign("work", toml::array{fmt::format("all_reduce {} f32 sum", bytes / 4)});
  std::ostringstream text;
  text << table;
  const Result<sim::Scenario> scenario = sim::scenario_from_text(text.str());
  if (!scenario) return scenario.error();
  return sim::plan_of(*scenario, 0);
}

}  // namespace lockstep::wan
