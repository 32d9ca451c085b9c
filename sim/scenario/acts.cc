#include "sim/scenario/acts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/scenario/times.h"
#include "sim/words/nearest.h"
#include "sim/words/units.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

// Not a fault of its own: cuts between all of one side and all of the other.
constexpr auto kSplit = "split";

std::vector<std::string> actions() {
  std::vector<std::string> names;
  for (std::uint8_t f = 0; f < kFaultCount; ++f) names.emplace_back(name_of(static_cast<Fault>(f)));
  names.emplace_back(kSplit);
  return names;
}

Range<Duration> duration_range(TomlReader& reader, std::string_view key) {
  Range<Duration> range;
  const toml::node* node = reader.take(key);
  if (node == nullptr) return range;
  const std::string like = std::string(key) + R"( must be like "2s", or a range such as ["1s", "3s"])";
  const auto one = [&](const toml::node& text) { return time_of(reader, text, key, like); };
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    range.lo = range.hi = one(*node);
  } else if (list->size() == 2) {
    range = {one(*list->get(0)), one(*list->get(1))};
    if (range.lo > range.hi) reader.fail(*node, std::string(key) + ": the range is empty");
  } else {
    reader.fail(*node, like);
  }
  return range;
}

bool is_slowing(std::string_view then) {
  const std::string_view action = then.substr(0, then.find(' '));
  return action == name_of(Fault::kSlow) || action == name_of(Fault::kKernels);
}

std::string two_things(const std::string& one, const std::string& other) {
  return "one [[do]] does one thing: '" + one + "' or '" + other + "'";
}

bool is_same(const Who& a, const Who& b) {  // whichever two times may be two
  return a.kind == b.kind && a.number == b.number && a.kind != Who::Kind::kAny;
}

}  // namespace

std::optional<Error> ActReader::read(const toml::table& table, std::vector<PlacedAct>& acts) {
  act_ = Act{};
  acts_.clear();
  TomlReader reader(table);
  read_when(reader);
  act_.length = duration_range(reader, "for");
  if (const Range<Duration> back = duration_range(reader, "back"); back.hi.ns > 0) act_.length = back;
  reader("factor", act_.entry.number);
  struct OwnNumber {
    const char* key = nullptr;
    Fault of = {};
    std::uint64_t value = 0;  // 0: not given
  };
  OwnNumber own_numbers[] = {{"answers", Fault::kMute}, {"one_in", Fault::kLie}, {"bytes", Fault::kDrip}};
  for (OwnNumber& own : own_numbers) reader(own.key, own.value);
  reader("times", act_.times);
  const bool repeats = read_time(reader, "every", act_.every, "500ms");
  const toml::node* const then = reader.take("then");
  const toml::node* target = then;
  std::string action = "then";
  for (const std::string& name : actions()) {
    const toml::node* node = reader.take(name);
    if (node == nullptr) continue;
    if (target != nullptr) reader.fail(*node, two_things(action, name));
    target = node;
    action = name;
  }
  known_ = reader.known();
  if (auto error = reader.finish()) return error;
  if (target == nullptr) return bad(table.source(), "a [[do]] without an action; write one, such as crash = \"c\"");
  const std::string does = then == nullptr ? action : then->value_or(std::string());
  const bool slows = is_slowing(does);
  const bool strangers = does.starts_with(name_of(Fault::kStrangers));
  if (strangers && (act_.entry.number < 1 || act_.entry.number > 1000)) {
    return bad(target->source(), "say how many strangers there are: factor = 20 (1 to 1000)");
  }
  if (slows && (act_.entry.number < 1 || act_.entry.number > 1'000'000)) {
    return bad(target->source(), "say how many times slower: factor = 100 (1 to 1000000)");
  }
  if (!slows && !strangers && act_.entry.number != 0)
    return bad(table.get("factor")->source(), "factor is for slow, kernels and strangers only");
  for (const OwnNumber& own : own_numbers) {
    if (own.value == 0) continue;
    if (!does.starts_with(name_of(own.of))) {
      return bad(table.get(own.key)->source(),
                 std::string(own.key) + " is for " + std::string(name_of(own.of)) + " only");
    }
    act_.entry.number = own.value;
  }
  if (act_.times < 1 || act_.times > 1000) return bad(table.source(), "times must be 1..1000");
  if (repeats && act_.times == 1) return bad(table.get("every")->source(), "every needs how often: times = 3");
  if (then != nullptr) {
    read_then(*then);
  } else {
    read_target(*target, action, target->value_or(std::string()));
  }
  if (error_) return std::exchange(error_, {});
  std::move(acts_.begin(), acts_.end(), std::back_inserter(acts));
  return {};
}

void ActReader::read_when(TomlReader& reader) {
  act_.after = duration_range(reader, "at");
  if (const Range<Duration> delay = duration_range(reader, "delay"); delay.hi.ns > 0) act_.after = delay;
  const toml::node* node = reader.take("when");
  if (node == nullptr) return;
  const std::vector<std::string> words = split_words(node->value_or(std::string()));
  const std::vector<std::string> known = {"launch", "commit", "view", "event", "piece"};
  std::uint64_t Entry::*const fields[] = {&Entry::launch, &Entry::commit, &Entry::view, &Entry::event, &Entry::piece};
  const std::string first = words.empty() ? "" : words.front();
  const auto at = std::find(known.begin(), known.end(), first);
  const auto n = words.size() == 2 ? number_of(words[1]) : std::nullopt;
  if (at == known.end() || !n || *n == 0) {
    return reader.fail(*node, R"(when must be like "launch 20", "commit 6", "view 3", "event 1000" or "piece 4")" +
                                  (at == known.end() ? did_you_mean(first, known) : ""));
  }
  act_.entry.*fields[at - known.begin()] = *n;
}

// The same in one line: "crash c", "cut b -> c for 5s".
void ActReader::read_then(const toml::node& node) {
  const auto text = node.value_or(std::string());
  std::string rest = text;
  if (const std::size_t at = rest.rfind(" for "); at != std::string::npos) {
    const auto length = duration_of(rest.substr(at + 5));
    if (!length) return fail(node, "'" + rest.substr(at + 5) + "' is no time, such as 5s");
    act_.length = {*length, *length};
    rest.resize(at);
  }
  const std::size_t space = std::min(rest.find(' '), rest.size());
  const std::string action = rest.substr(0, space);
  const std::vector<std::string> names = actions();
  if (std::find(names.begin(), names.end(), action) == names.end()) {
    return fail(node, R"(then must be like "crash c" or "cut b -> c for 5s")" + did_you_mean(action, names));
  }
  read_target(node, action, rest.substr(space));
}

std::vector<Who> ActReader::who(const toml::node& node, std::string_view text) {
  std::vector<Who> all;
  for (const std::string& word : split_words(text)) {
    const auto found = hosts_.find(word);
    if (!found) fail(node, hosts_.nobody(word));
    if (found) all.insert(all.end(), found->begin(), found->end());
  }
  return all;
}

void ActReader::add_pairs(const toml::node& node, const std::vector<Who>& left, const std::vector<Who>& right) {
  for (const Who& a : left) {
    for (const Who& b : right) {
      if (is_same(a, b)) return fail(node, "the same host is on both sides");
      act_.a = a;
      act_.b = b;
      add(node);
    }
  }
}

void ActReader::read_target(const toml::node& node, const std::string& action, const std::string& text) {
  if (action == kSplit) return read_split(node, text);
  const std::vector<std::string> names = actions();
  act_.entry.fault = static_cast<Fault>(std::find(names.begin(), names.end(), action) - names.begin());
  if (is_of_pair(act_.entry.fault)) return read_pair(node, action, text);
  for (const Who& one : who(node, text)) {
    act_.a = one;
    add(node);
  }
  if (acts_.empty()) fail(node, action + " needs a host, such as \"c\" or \"b c\"");
}

// "a b | c d": no host on one side hears a host on the other.
void ActReader::read_split(const toml::node& node, std::string_view text) {
  const std::size_t bar = text.find('|');
  if (bar == std::string_view::npos) return fail(node, "split has two sides: \"a b | c d\"");
  act_.entry.fault = Fault::kCutBoth;
  add_pairs(node, who(node, text.substr(0, bar)), who(node, text.substr(bar + 1)));
  if (acts_.empty()) fail(node, "split has two sides with hosts on each: \"a b | c d\"");
}

// "b -> c": one way, which only a cut and a drip can be; "b <-> c" and "b c": both ways.
void ActReader::read_pair(const toml::node& node, const std::string& action, const std::string& text) {
  std::string left;
  std::string right;
  bool both = true;
  if (const std::size_t arrow = text.find("->"); arrow != std::string::npos) {
    both = arrow > 0 && text[arrow - 1] == '<';
    left = text.substr(0, arrow - (both ? 1 : 0));
    right = text.substr(arrow + 2);
  } else if (const std::vector<std::string> words = split_words(text); words.size() == 2) {
    left = words[0];
    right = words[1];
  }
  if (act_.entry.fault == Fault::kCut && both) act_.entry.fault = Fault::kCutBoth;
  add_pairs(node, who(node, left), who(node, right));
  if (act_.entry.fault == Fault::kDrip && both) add_pairs(node, who(node, right), who(node, left));
  if (acts_.empty()) fail(node, action + " is between two: \"b -> c\", \"b <-> c\" or \"b c\"");
}

}  // namespace lockstep::sim
