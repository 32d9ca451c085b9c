// Reads the times of a scenario: none is longer than those of a plan may be.
#pragma once

#include <string>
#include <string_view>

#include "sim/plan.h"
#include "sim/toml_reader.h"
#include "sim/units.h"

namespace lockstep::sim {

// `like`: what is said where it is no time.
inline Duration time_of(TomlReader& reader, const toml::node& node, std::string_view key, const std::string& like) {
  const auto time = duration_of(node.value_or(std::string()));
  if (!time) {
    reader.fail(node, like);
  } else if (*time > kLongestTime) {
    reader.fail(node, std::string(key) + " must be at most " + words_of(kLongestTime));
  }
  return time.value_or(Duration{});
}

// What is not said keeps its value. Gives whether it was there.
inline bool read_time(TomlReader& reader, std::string_view key, Duration& field, std::string_view example) {
  const toml::node* node = reader.take(key);
  if (node == nullptr) return false;
  field = time_of(reader, *node, key, std::string(key) + " must be like \"" + std::string(example) + "\"");
  return true;
}

}  // namespace lockstep::sim
