// Reads the times of a scenario; the limits are those of a plan.
#pragma once

#include <string>
#include <string_view>

#include "sim/plan/plan.h"
#include "sim/words/toml_reader.h"
#include "sim/words/units.h"

namespace lockstep::sim {

// `like`: the example in the error text.
inline Duration time_of(TomlReader& reader, const toml::node& node, std::string_view key, const std::string& like) {
  const auto time = duration_of(node.value_or(std::string()));
  if (!time) {
    reader.fail(node, like);
  } else if (*time > kLongestTime) {
    reader.fail(node, std::string(key) + " must be at most " + words_of(kLongestTime));
  }
  return time.value_or(Duration{});
}

// A key that is absent leaves the value as it is. Returns whether the key was there.
inline bool read_time(TomlReader& reader, std::string_view key, Duration& field, std::string_view example) {
  const toml::node* node = reader.take(key);
  if (node == nullptr) return false;
  field = time_of(reader, *node, key, std::string(key) + " must be like \"" + std::string(example) + "\"");
  return true;
}

}  // namespace lockstep::sim
