// Reads a TOML table key by key, and says where a mistake is: "line:column: what".
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <toml++/toml.h>

#include "core/base/result.h"
#include "sim/words/nearest.h"

namespace lockstep::sim {

inline Error bad(const toml::source_region& where, const std::string& what) {
  return {Status::kInvalidArgument,
          std::to_string(where.begin.line) + ":" + std::to_string(where.begin.column) + ": " + what};
}

// Reads each table of a list with `read`, which returns the error in the table.
template <typename R>
std::optional<Error> each_table(const toml::node* list, std::string_view how, R&& read) {
  if (list == nullptr) return {};
  if (!list->is_array_of_tables()) return bad(list->source(), std::string(how));
  for (const toml::node& node : *list->as_array()) {
    if (std::optional<Error> error = read(*node.as_table())) return error;
  }
  return {};
}

// Takes known keys out of a table; remaining keys are errors. Keeps the first error, and then reads nothing more.
class TomlReader {
 public:
  explicit TomlReader(const toml::table& table) : table_(table) {}

  // Reads an integer, bool or std::string. A missing key keeps the value.
  template <typename T>
  void operator()(std::string_view key, T& field) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
      if (auto value = node->value_exact<T>()) {
        field = *std::move(value);
        return;
      }
      fail(*node, std::string(key) + (std::is_same_v<T, bool> ? " must be true or false" : " must be a text"));
    } else {
      const auto value = node->value_exact<std::int64_t>();
      // A seed has 64 bits; TOML integers have a sign.
      const bool may_be_negative = std::is_signed_v<T> || key == "seed";
      if (value && *value < 0 && !may_be_negative) return fail(*node, std::string(key) + " must not be negative");
      if (!value) return fail(*node, std::string(key) + " must be an integer");
      // A number that is too large for the field becomes the largest value of the field, which the caller's range check
      // refuses.
      field =
          sizeof(T) == 8 || *value <= std::int64_t{UINT32_MAX} ? static_cast<T>(*value) : static_cast<T>(UINT32_MAX);
    }
  }

  // Text with a unit, which `parse` understands; `like`: an example. Gives whether it was there.
  template <typename T, typename P>
  bool quantity(std::string_view key, T& field, P&& parse, std::string_view like) {
    const toml::node* node = take(key);
    if (node == nullptr) return false;
    const auto value = parse(node->value_or(std::string()));
    if (value) {
      field = *value;
    } else {
      fail(*node, std::string(key) + " must be like \"" + std::string(like) + "\"");
    }
    return value.has_value();
  }

  // Takes a node of any type. Null: the key is missing, or an earlier key had an error.
  const toml::node* take(std::string_view key) {
    known_.emplace_back(key);
    return error_ ? nullptr : table_.get(key);
  }

  void fail(const toml::node& node, const std::string& what) { fail(node.source(), what); }
  void fail(const toml::source_region& where, const std::string& what) {
    if (!error_) error_ = bad(where, what);
  }

  [[nodiscard]] const std::vector<std::string>& known() const { return known_; }

  // The first error; otherwise an error for a key that nobody took.
  std::optional<Error> finish() {
    if (error_) return error_;
    for (const auto& [key, node] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      return bad(key.source(), "unknown key \"" + std::string(key.str()) + "\"" + did_you_mean(key.str(), known_));
    }
    return {};
  }

 private:
  const toml::table& table_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace lockstep::sim
