// Reads what happens in a scenario: its [[do]] tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/hosts.h"
#include "sim/scenario/scenario.h"
#include "sim/words/toml_reader.h"

namespace lockstep::sim {

// An act, and where it stands in the text.
struct PlacedAct {
  Act act;
  toml::source_region where;
};

class ActReader {
 public:
  explicit ActReader(const HostNames& hosts) : hosts_(hosts) {}

  // The keys that a [[do]] may have; once one was read.
  [[nodiscard]] const std::vector<std::string>& known() const { return known_; }

  // Appends the acts of one [[do]], which may hold several: `crash = "a b"`. Returns the error in the table.
  std::optional<Error> read(const toml::table& table, std::vector<PlacedAct>& acts);

 private:
  void read_when(TomlReader& reader);
  void read_then(const toml::node& node);
  void read_target(const toml::node& node, const std::string& action, const std::string& text);
  void read_split(const toml::node& node, std::string_view text);
  void read_pair(const toml::node& node, const std::string& action, const std::string& text);
  std::vector<Who> who(const toml::node& node, std::string_view text);
  void add(const toml::node& node) { acts_.push_back({act_, node.source()}); }
  void add_pairs(const toml::node& node, const std::vector<Who>& left, const std::vector<Who>& right);
  void fail(const toml::node& node, const std::string& what) {
    if (!error_) error_ = bad(node.source(), what);
  }

  const HostNames& hosts_;
  Act act_;
  std::vector<PlacedAct> acts_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace lockstep::sim
