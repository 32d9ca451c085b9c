#include "sim/search/story.h"

#include <algorithm>
#include <array>
#include <optional>

#include "sim/words/nearest.h"
#include "sim/words/toml_reader.h"

namespace lockstep::sim {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\t' ? ' ' : c;
  }
  return out + "\"";
}

std::optional<Error> read_text(const toml::table& table, std::string_view key, std::string& field) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return {};
  if (!node->is_string()) return bad(node->source(), "story." + std::string(key) + " must be a text");
  field = node->value_or(std::string());
  return {};
}

std::optional<Error> read_goals(const toml::node& node, Story& story) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return bad(node.source(), "story.goals must be a table such as { kills = 1, commits = 3 }");
  const std::vector<std::string> names = count_names();
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return bad(key.source(), "unknown goal \"" + name + "\"" + did_you_mean(name, names));
    }
    const auto least = value.value_exact<std::int64_t>();
    if (!least || *least < 1) return bad(value.source(), "story.goals." + name + " must be an integer, at least 1");
    story.goals.emplace_back(name, static_cast<std::uint64_t>(*least));
  }
  return {};
}

Result<Story> read_story(const toml::table& file) {
  const toml::node* node = file.get("story");
  if (node == nullptr) return bad(file.source(), "there is no story: add plans with `lockstep sim corpus add`");
  const toml::table* table = node->as_table();
  if (table == nullptr) return bad(node->source(), "story must be a table");
  Story story;
  const std::vector<std::string> keys = {"promise", "why", "fixed", "mutant", "goals"};
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) {
      return bad(key.source(), "unknown key \"story." + name + "\"" + did_you_mean(name, keys));
    }
  }
  for (const auto& [key, field] : {std::pair{"promise", &story.promise}, std::pair{"why", &story.why},
                                   std::pair{"fixed", &story.fixed}, std::pair{"mutant", &story.mutant}}) {
    if (auto error = read_text(*table, key, *field)) return *error;
  }
  if (story.promise.empty() || story.why.empty()) return bad(node->source(), "a story needs a promise and a why");
  const toml::node* goals = table->get("goals");
  if (goals == nullptr) return bad(node->source(), "a story without goals would never be stale");
  if (auto error = read_goals(*goals, story)) return *error;
  return story;
}

}  // namespace

std::string to_text(const Story& story) {
  std::string out = "story.promise = " + quoted(story.promise) + "\nstory.why = " + quoted(story.why) + "\n";
  if (!story.fixed.empty()) out += "story.fixed = " + quoted(story.fixed) + "\n";
  if (!story.mutant.empty()) out += "story.mutant = " + quoted(story.mutant) + "\n";
  std::string goals;
  for (const auto& [name, least] : story.goals) {
    goals += (goals.empty() ? " " : ", ") + name + " = " + std::to_string(least);
  }
  return out + "story.goals = {" + goals + " }\n";
}

Result<Story> story_from_text(std::string_view text) {
  try {
    return read_story(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return bad(error.source(), std::string(error.description()));
  }
}

std::vector<std::pair<std::string, std::uint64_t>> goals_of(const Counts& counts) {
  constexpr auto kFaults =
      std::to_array<std::string_view>({"kills", "stalls", "cuts", "silences", "leaves", "joins", "misuses"});
  constexpr auto kOnce = std::to_array<std::string_view>(
      {"commits", "aborts", "retries", "unknown", "resets", "lost_runs", "revoked_midway"});
  std::vector<std::pair<std::string, std::uint64_t>> goals;
  for (const std::string_view name : kFaults) {
    if (const std::uint64_t count = count_of(counts, name); count > 0) goals.emplace_back(name, count);
  }
  for (const std::string_view name : kOnce) {
    if (count_of(counts, name) > 0) goals.emplace_back(name, 1);
  }
  std::sort(goals.begin(), goals.end());  // as they are read from a file
  return goals;
}

std::vector<std::string> missed_goals(const Story& story, const Counts& counts) {
  std::vector<std::string> missed;
  for (const auto& [name, least] : story.goals) {
    const std::uint64_t count = count_of(counts, name);
    if (count < least) {
      missed.push_back(name + " " + std::to_string(count) + ", at least " + std::to_string(least) + " is wanted");
    }
  }
  return missed;
}

}  // namespace lockstep::sim
