#include "sim/plan_file.h"

#include <algorithm>
#include <type_traits>

#include "sim/expect_file.h"
#include "sim/nearest.h"
#include "sim/toml_reader.h"
#include "sim/words.h"

namespace lockstep::sim {
namespace {

// One list of fields serves both directions: `v(name, field)`.
template <typename P, typename V>
void visit_plan(P& plan, V&& v) {
  v("seed", plan.seed);
  v("peers", plan.peers);
  v("founders", plan.founders);
  v("all_start", plan.all_start);
  v("gang_size", plan.gang_size);
  v("namesakes", plan.namesakes);
  v("groups", plan.groups);
  v("auto_admit", plan.auto_admit);
  v("share_state", plan.share_state);
  v("state_pieces", plan.state_pieces);
  v("all_vote", plan.all_vote);
  v("staged_permille", plan.staged_permille);
  v("publish", plan.publish);
  v("watch", plan.watch);
  v("minimum_world", plan.minimum_world);
  v("small_changes", plan.small_changes);
  v("torn_permille", plan.torn_permille);
  v("fresh_tags", plan.fresh_tags);
  v("aged", plan.aged);
  v("kernel_delay_ns", plan.kernel_delay.ns);
  v("kernel_ns_per_kib", plan.kernel_ns_per_kib);
  v("timer_delay_ns", plan.timer_delay.ns);
  v("heartbeat_ns", plan.heartbeat.ns);
  v("stripes", plan.stripes);
  v("segment_bytes", plan.segment_bytes);
  v("unasked", plan.unasked);
  v("turns", plan.turns);
  v("coordinator_after_ns", plan.coordinator_after.ns);
  v("steps_per_admit", plan.steps_per_admit);
  v("ops_per_step", plan.ops_per_step);
  v("max_count", plan.max_count);
  v("think_ns", plan.think.ns);
  v("call_timeout_ns", plan.call_timeout.ns);
  v("safety_ns", plan.safety.ns);
  v("heal_after_ns", plan.heal_after.ns);
  v("commits_after", plan.commits_after);
  v("latency_lo_ns", plan.network.latency_lo_ns);
  v("latency_hi_ns", plan.network.latency_hi_ns);
  v("jitter_ns", plan.network.jitter_ns);
  v("rate_bytes_per_s", plan.network.rate_bytes_per_s);
  v("window_bytes", plan.network.window_bytes);
  v("short_permille", plan.network.short_permille);
  v("pieces_permille", plan.network.pieces_permille);
  v("apart_permille", plan.network.apart_permille);
  v("busy_permille", plan.network.busy_permille);
  v("host_delay_ns", plan.network.host_delay_ns);
  v("revoke_delay_ns", plan.network.revoke_delay_ns);
  v("dial_gives_up_ns", plan.network.dial_gives_up_ns);
}

template <typename E, typename V>
void visit_entry(E& entry, V&& v) {
  v("after_ns", entry.after.ns);
  v("launch", entry.launch);
  v("commit", entry.commit);
  v("view", entry.view);
  v("event", entry.event);
  v("piece", entry.piece);
  v("a", entry.a);
  v("b", entry.b);
  v("length_ns", entry.length.ns);
  v("number", entry.number);
}

template <typename L, typename V>
void visit_link(L& link, V&& v) {
  v("a", link.a);
  v("b", link.b);
  v("latency_ns", link.latency_ns);
  v("rate_bytes_per_s", link.rate_bytes_per_s);
  v("loss_ppm", link.loss_ppm);
}

// Written only where the network is one of flows.
template <typename F, typename V>
void visit_flow(F& flow, V&& v) {
  v("flow", flow.on);
  v("up_bytes_per_s", flow.up_bytes_per_s);
  v("down_bytes_per_s", flow.down_bytes_per_s);
  v("loss_ppm", flow.loss_ppm);
  v("cold", flow.cold);
}

template <typename L, typename V>
void visit_line(L& line, V&& v) {
  v("hosts", line.hosts);
  v("up_bytes_per_s", line.up_bytes_per_s);
  v("down_bytes_per_s", line.down_bytes_per_s);
  v("loss_ppm", line.loss_ppm);
}

std::optional<Error> read_link(const toml::table& table, Plan& plan) {
  LinkOptions link;
  TomlReader fields(table);
  visit_link(link, fields);
  plan.network.links.push_back(link);
  return fields.finish();
}

std::optional<Error> read_line(const toml::table& table, Plan& plan) {
  flow::LineOptions line;
  TomlReader fields(table);
  visit_line(line, fields);
  plan.network.flow.lines.push_back(line);
  return fields.finish();
}

std::optional<Error> read_entry(const toml::table& table, Plan& plan) {
  Entry entry;
  TomlReader fields(table);
  visit_entry(entry, fields);
  fields.take("fault");
  if (auto error = fields.finish()) return error;
  std::vector<std::string> names;
  for (std::uint8_t f = 0; f < kFaultCount; ++f) names.emplace_back(name_of(static_cast<Fault>(f)));
  const toml::node* fault = table.get("fault");
  if (fault == nullptr) return bad(table.source(), "a [[do]] without a fault");
  const std::string word = fault->value_or(std::string());
  const auto at = std::find(names.begin(), names.end(), word);
  if (at == names.end()) return bad(fault->source(), "unknown fault \"" + word + "\"" + did_you_mean(word, names));
  entry.fault = static_cast<Fault>(at - names.begin());
  if (const std::string flaw = flaw_of(plan, entry); !flaw.empty()) return bad(table.source(), flaw);
  plan.entries.push_back(entry);
  return {};
}

Result<Plan> read_plan(const toml::table& table) {
  Plan plan;
  if (table.empty()) {
    return bad({{1, 1}, {1, 1}, {}}, "it is empty; `lockstep sim scenario new` prints a scenario to begin with");
  }
  TomlReader reader(table);
  visit_plan(plan, reader);
  visit_flow(plan.network.flow, reader);
  reader.take("congestion");
  reader.take("mode");
  reader.take("name");
  reader.take("story");  // of the corpus: story.h
  const toml::node* entries = reader.take("do");
  const toml::node* links = reader.take("link");
  const toml::node* lines = reader.take("line");
  const toml::node* expect = reader.take("expect");
  reader.take("work");
  if (auto error = reader.finish()) return *error;
  if (const toml::node* mode = table.get("mode")) {
    const auto word = mode->value_exact<std::string>();
    if (word != "token" && word != "bytes") return bad(mode->source(), "mode must be \"token\" or \"bytes\"");
    plan.mode = word == "bytes" ? Mode::kBytes : Mode::kToken;
  }
  plan.network.mode = plan.mode;
  if (const toml::node* congestion = table.get("congestion")) {
    const auto found = named<flow::Congestion>(congestion->value_or(std::string()), flow::kCongestionCount);
    if (!found) return bad(congestion->source(), "congestion must be \"reno\", \"cubic\" or \"bbr\"");
    plan.network.flow.congestion = *found;
  }
  if (const toml::node* list = table.get("work")) {
    if (!list->is_array()) return bad(list->source(), "work must be a list of collectives");
    for (const toml::node& node : *list->as_array()) {
      const Result<std::vector<Work>> work = work_from_text(node.value_or(std::string()));
      if (!work.ok()) return bad(node.source(), work.error().text);
      plan.work.insert(plan.work.end(), work->begin(), work->end());
    }
  }
  if (auto error =
          each_table(links, "write each as [[link]]", [&](const toml::table& t) { return read_link(t, plan); })) {
    return *error;
  }
  if (auto error =
          each_table(lines, "write each as [[line]]", [&](const toml::table& t) { return read_line(t, plan); })) {
    return *error;
  }
  if (const std::string flaw = flaw_of(plan); !flaw.empty()) {  // it begins with a key, as a rule
    const toml::node* culprit = table.get(flaw.substr(0, flaw.find(' ')));
    return bad(culprit != nullptr ? culprit->source() : table.source(), flaw);
  }
  if (auto error = each_table(entries, "write each fault as [[do]]",
                              [&](const toml::table& t) { return read_entry(t, plan); })) {
    return *error;
  }
  if (expect != nullptr) {
    if (auto error = read_expectations(*expect, plan.expect)) return *error;
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
  const flow::Options& flow = plan.network.flow;
  if (flow.on) {
    visit_flow(flow, write);
    out += "congestion = \"" + std::string(name_of(flow.congestion)) + "\"\n";
  }
  if (!plan.work.empty()) {
    out += "work = [";
    for (const Work& work : plan.work) out += (out.ends_with('[') ? "\"" : ", \"") + to_text(work) + "\"";
    out += "]\n";
  }
  if (!plan.expect.empty()) out += "\n" + to_text(plan.expect);
  const auto write_unless_zero = [&](std::string_view key, const auto& value) {
    if (value != 0) write(key, value);
  };
  for (const LinkOptions& link : plan.network.links) {
    out += "\n[[link]]\n";
    visit_link(link, write_unless_zero);
  }
  for (const flow::LineOptions& line : flow.lines) {
    out += "\n[[line]]\n";
    visit_line(line, write_unless_zero);
  }
  for (const Entry& entry : plan.entries) {
    out += "\n[[do]]\nfault = \"" + std::string(name_of(entry.fault)) + "\"\n";
    visit_entry(entry, write_unless_zero);
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
