#include "sim/plan/expect.h"

#include <algorithm>
#include <string_view>

#include "core/base/assert.h"
#include "sim/plan/expect_file.h"
#include "sim/plan/report.h"
#include "sim/words/nearest.h"
#include "sim/words/units.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kSigns[] = {"<", "<=", "==", ">=", ">"};

bool holds(Expectation::Is is, std::uint64_t left, std::uint64_t right) {
  switch (is) {
    case Expectation::Is::kLess: return left < right;
    case Expectation::Is::kAtMost: return left <= right;
    case Expectation::Is::kEqual: return left == right;
    case Expectation::Is::kAtLeast: return left >= right;
    case Expectation::Is::kMore: return left > right;
  }
  LOCKSTEP_UNREACHABLE();
}

std::string text_of(const Expectation& expected) {
  return std::string(kSigns[static_cast<std::size_t>(expected.is)]) + " " + std::to_string(expected.value);
}

}  // namespace

std::string unmet(const Expectations& expected, const Report& report) {
  std::string missing;
  const auto add = [&](const std::string& line) { missing.append(missing.empty() ? "" : "; ").append(line); };
  for (const Expectation& each : expected.counts) {
    const std::uint64_t value = count_of(report, each.count);
    if (holds(each.is, value, each.value)) continue;
    add(each.count + " " + text_of(each) + ", but " + std::to_string(value));
  }
  if (expected.within && report.time_ns > expected.within->ns) {
    add("within " + text_of(Instant{expected.within->ns}) + ", but " + text_of(Instant{report.time_ns}));
  }
  return missing;
}

std::optional<Expectations> exceeded(const Expectations& expected, const Report& report) {
  for (const Expectation& each : expected.counts) {
    const std::uint64_t value = count_of(report, each.count);
    const bool bounded_below = each.is == Expectation::Is::kAtLeast || each.is == Expectation::Is::kMore;
    if (bounded_below || value < each.value || holds(each.is, value, each.value)) continue;
    const bool less = each.is == Expectation::Is::kLess;
    return Expectations{{{less ? each.is : Expectation::Is::kAtMost, each.count, each.value}}, {}};
  }
  if (expected.within && report.time_ns > expected.within->ns) return Expectations{{}, expected.within};
  return {};
}

std::string to_text(const Expectations& expected) {
  if (expected.empty()) return {};
  std::string out = "[expect]\n";
  for (const Expectation& each : expected.counts) out += each.count + " = \"" + text_of(each) + "\"\n";
  if (expected.within) out += "within = \"" + words_of(*expected.within) + "\"\n";
  return out;
}

std::optional<Error> read_expectations(const toml::node& node, Expectations& expected) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return bad(node.source(), "write expectations as [expect]");
  std::vector<std::string> names = count_names();
  names.emplace_back("within");
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return bad(key.source(), "unknown key \"" + name + "\"" + did_you_mean(name, names));
    }
    const std::string text =
        value.is_integer() ? "== " + std::to_string(value.value_or(std::int64_t{0})) : value.value_or(std::string());
    if (name == "within") {
      expected.within = duration_of(text.substr(0, text.find(" of simulated time")));
      if (!expected.within) return bad(value.source(), "within must be like \"90s\"");
      continue;
    }
    const std::vector<std::string> words = split_words(text);
    const auto sign = std::find(std::begin(kSigns), std::end(kSigns), words.empty() ? "" : words.front());
    const auto number = words.size() == 2 ? number_of(words[1]) : std::nullopt;
    if (sign == std::end(kSigns) || !number) return bad(value.source(), name + " must be a number, or like \">= 9\"");
    expected.counts.push_back({static_cast<Expectation::Is>(sign - std::begin(kSigns)), name, *number});
  }
  return {};
}

}  // namespace lockstep::sim
