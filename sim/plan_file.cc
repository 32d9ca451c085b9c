#include "sim/plan_file.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <toml++/toml.h>

#include "sim/nearest.h"

namespace lockstep::sim {
namespace {

// One list of fields serves both directions: `v(name, field)`.
template <typename P, typename V>
void visit_plan(P& plan, V&& v) {
  v("seed", plan.seed);
  v("peers", plan.peers);
  v("founders", plan.founders);
  v("gang_size", plan.gang_size);
  v("groups", plan.groups);
  v("auto_admit", plan.auto_admit);
  v("minimum_world", plan.minimum_world);
  v("kernel_delay_ns", plan.kernel_delay.ns);
  v("kernel_ns_per_kib", plan.kernel_ns_per_kib);
  v("timer_delay_ns", plan.timer_delay.ns);
  v("heartbeat_ns", plan.heartbeat.ns);
  v("stripes", plan.stripes);
  v("segment_bytes", plan.segment_bytes);
  v("steps_per_admit", plan.steps_per_admit);
  v("ops_per_step", plan.ops_per_step);
  v("max_count", plan.max_count);
  v("think_ns", plan.think.ns);
  v("call_timeout_ns", plan.call_timeout.ns);
  v("safety_ns", plan.safety.ns);
  v("commits_after", plan.commits_after);
  v("latency_lo_ns", plan.network.latency_lo_ns);
  v("latency_hi_ns", plan.network.latency_hi_ns);
  v("jitter_ns", plan.network.jitter_ns);
  v("rate_bytes_per_s", plan.network.rate_bytes_per_s);
  v("window_bytes", plan.network.window_bytes);
  v("short_permille", plan.network.short_permille);
  v("pieces_permille", plan.network.pieces_permille);
  v("host_delay_ns", plan.network.host_delay_ns);
  v("revoke_delay_ns", plan.network.revoke_delay_ns);
  v("dial_gives_up_ns", plan.network.dial_gives_up_ns);
}

template <typename E, typename V>
void visit_entry(E& entry, V&& v) {
  v("after_ns", entry.after.ns);
  v("launch", entry.launch);
  v("event", entry.event);
  v("a", entry.a);
  v("b", entry.b);
  v("length_ns", entry.length.ns);
  v("number", entry.number);
}

Error bad(const toml::source_region& where, const std::string& what) {
  return {Status::kInvalidArgument,
          std::to_string(where.begin.line) + ":" + std::to_string(where.begin.column) + ": " + what};
}

// Takes known keys out of a table; what is left is a mistake.
class Reader {
 public:
  explicit Reader(const toml::table& table) : table_(table) {}

  template <typename T>
  void operator()(std::string_view key, T& field) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr || error_) return;
    if constexpr (std::is_same_v<T, bool>) {
      if (const auto value = node->value_exact<bool>()) {
        field = *value;
        return;
      }
      error_ = bad(node->source(), std::string(key) + " must be true or false");
    } else {
      const auto value = node->value_exact<std::int64_t>();
      // A seed has 64 bits; TOML integers have a sign.
      if (value && (sizeof(T) == 8 || (*value >= 0 && *value <= static_cast<std::int64_t>(UINT32_MAX)))) {
        field = static_cast<T>(*value);
        return;
      }
      error_ = bad(node->source(), std::string(key) + " must be an integer");
    }
  }
  void know(std::string_view key) { known_.emplace_back(key); }

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

Result<Plan> read_plan(const toml::table& table) {
  Plan plan;
  Reader reader(table);
  visit_plan(plan, reader);
  reader.know("mode");
  reader.know("name");
  reader.know("story");  // of the corpus: story.h
  reader.know("do");
  if (auto error = reader.finish()) return *error;
  if (const toml::node* mode = table.get("mode")) {
    const auto word = mode->value_exact<std::string>();
    if (word != "token" && word != "bytes") return bad(mode->source(), "mode must be \"token\" or \"bytes\"");
    plan.mode = word == "bytes" ? Mode::kBytes : Mode::kToken;
  }
  plan.network.mode = plan.mode;
  if (const std::string flaw = flaw_of(plan); !flaw.empty()) {  // it begins with a key, as a rule
    const toml::node* culprit = table.get(flaw.substr(0, flaw.find(' ')));
    return bad(culprit != nullptr ? culprit->source() : table.source(), flaw);
  }
  const toml::node* entries = table.get("do");
  if (entries == nullptr) return plan;
  if (!entries->is_array_of_tables()) return bad(entries->source(), "write each fault as [[do]]");
  for (const toml::node& node : *entries->as_array()) {
    const toml::table& item = *node.as_table();
    Entry entry;
    Reader fields(item);
    visit_entry(entry, fields);
    fields.know("fault");
    if (auto error = fields.finish()) return *error;
    std::vector<std::string> names;
    for (std::uint8_t f = 0; f < kFaultCount; ++f) names.emplace_back(name_of(static_cast<Fault>(f)));
    const toml::node* fault = item.get("fault");
    if (fault == nullptr) return bad(node.source(), "a [[do]] without a fault");
    const std::string word = fault->value_or(std::string());
    const auto at = std::find(names.begin(), names.end(), word);
    if (at == names.end()) return bad(fault->source(), "unknown fault \"" + word + "\"" + did_you_mean(word, names));
    entry.fault = static_cast<Fault>(at - names.begin());
    if (const std::string flaw = flaw_of(plan, entry); !flaw.empty()) return bad(node.source(), flaw);
    plan.entries.push_back(entry);
  }
  return plan;
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string out;
  const auto write = [&](std::string_view key, const auto& value) {
    out += key;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
      out += value ? " = true\n" : " = false\n";
    } else {
      out += " = " + std::to_string(static_cast<std::int64_t>(value)) + "\n";
    }
  };
  out += plan.mode == Mode::kBytes ? "mode = \"bytes\"\n" : "mode = \"token\"\n";
  visit_plan(plan, write);
  for (const Entry& entry : plan.entries) {
    out += "\n[[do]]\nfault = \"" + std::string(name_of(entry.fault)) + "\"\n";
    visit_entry(entry, [&](std::string_view key, const auto& value) {
      if (value != 0) write(key, value);
    });
  }
  return out;
}

Result<Plan> plan_from_text(std::string_view text) {
  try {
    return read_plan(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return bad(error.source(), std::string(error.description()));
  }
}

}  // namespace lockstep::sim
