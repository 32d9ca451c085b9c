#include "sim/plan/plan_file.h"

#include <algorithm>
#include <type_traits>

#include "sim/plan/expect_file.h"
#include "sim/words/nearest.h"
#include "sim/words/toml_reader.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

// One list of fields serves both directions: `v(name, field)`.
template <typename P, typename V>
void visit_plan(P& plan, V&& v) {
  v("seed", plan.seed);
  v("peers", plan.peers);
  v("founders", plan.founders);
  v("all_start", plan.all_start);
  v("gang_size", plan.gangs.size);
  v("namesakes", plan.gangs.namesakes);
  v("groups", plan.gangs.groups);
  v("auto_admit", plan.auto_admit);
  v("share_state", plan.state.shared);
  v("state_pieces", plan.state.pieces);
  v("all_vote", plan.state.all_vote);
  v("staged_permille", plan.state.staged_permille);
  v("publish", plan.state.publish);
  v("republish_permille", plan.state.republish_permille);
  v("watch", plan.state.watch);
  v("minimum_world", plan.minimum_world);
  v("stops_at_once", plan.program.stops_at_once);
  v("small_changes", plan.state.small_changes);
  v("ahead_permille", plan.state.ahead_permille);
  v("stray_permille", plan.state.stray_permille);
  v("torn_permille", plan.state.torn_permille);
  v("fresh_tags", plan.fresh_tags);
  v("aged", plan.aged);
  v("kernel_delay_ns", plan.delays.kernel.ns);
  v("kernel_ns_per_kib", plan.delays.kernel_ns_per_kib);
  v("timer_delay_ns", plan.delays.timer.ns);
  v("heartbeat_ns", plan.heartbeat.ns);
  v("stripes", plan.links.stripes);
  v("most_stripes", plan.links.most_stripes);
  v("segment_bytes", plan.links.segment_bytes);
  v("eager_segments", plan.links.eager_segments);
  v("window", plan.links.window);
  v("turns", plan.links.turns);
  v("by_rate_bytes", plan.links.by_rate_bytes);
  v("rate_window_ns", plan.links.rate_window.ns);
  v("bytes_per_second", plan.links.bytes_per_second);
  v("coordinator_after_ns", plan.coordinator_after.ns);
  v("dials_back", plan.links.dials_back);
  v("steps_per_admit", plan.program.steps_per_admit);
  v("ops_per_step", plan.program.ops_per_step);
  v("max_count", plan.program.max_count);
  v("reduces", plan.program.reduces);
  v("exchanges", plan.program.exchanges);
  v("transfers", plan.program.transfers);
  v("grids", plan.program.grids);
  v("sends_to_next", plan.program.sends_to_next);
  v("think_ns", plan.program.think.ns);
  v("call_timeout_ns", plan.program.call_timeout.ns);
  v("safety_ns", plan.end.safety.ns);
  v("heal_after_ns", plan.end.heal_after.ns);
  v("commits_after", plan.end.commits_after);
  v("latency_lo_ns", plan.network.latency_lo_ns);
  v("latency_hi_ns", plan.network.latency_hi_ns);
  v("jitter_ns", plan.network.jitter_ns);
  v("rate_bytes_per_s", plan.network.rate_bytes_per_s);
  v("window_bytes", plan.network.window_bytes);
  v("short_permille", plan.network.short_permille);
  v("resends", plan.network.resends);
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

// As a number with a bit for each host, or as a list of hosts.
void read_hosts(TomlReader& fields, HostSet& hosts) {
  const toml::node* const node = fields.take("hosts");
  if (node == nullptr) return;
  if (const auto bits = node->value_exact<std::int64_t>()) {
    if (*bits < 0) return fields.fail(*node, "hosts must not be negative");
    hosts = HostSet(static_cast<std::uint64_t>(*bits));
    return;
  }
  if (!node->is_array()) return fields.fail(*node, "hosts must be an integer, or a list of hosts");
  for (const toml::node& host : *node->as_array()) {
    const auto number = host.value_exact<std::int64_t>();
    if (!number || *number < 0 || *number >= std::int64_t{kMaxHosts}) {
      return fields.fail(host, "a host must be 0.." + std::to_string(kMaxPeers));
    }
    hosts.set(static_cast<std::size_t>(*number));
  }
}

std::optional<Error> read_line(const toml::table& table, Plan& plan) {
  flow::LineOptions line;
  TomlReader fields(table);
  read_hosts(fields, line.hosts);
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
  if (const std::string flaw = validate_entry(plan, entry); !flaw.empty()) return bad(table.source(), flaw);
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
      plan.program.work.insert(plan.program.work.end(), work->begin(), work->end());
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
  if (const std::string flaw = validate_plan(plan); !flaw.empty()) {  // the text usually begins with a key
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

template <typename T>
std::string line_of(std::string_view key, const T& value) {
  std::string line(key);
  if constexpr (std::is_same_v<T, bool>) return line += value ? " = true\n" : " = false\n";
  return line += " = " + std::to_string(static_cast<std::int64_t>(value)) + "\n";
}

std::string hosts_line(const HostSet& hosts) {
  constexpr std::size_t kBits = 63;  // of a positive integer in TOML
  if (hosts.none()) return {};
  if ((hosts >> kBits).none()) return line_of("hosts", hosts.to_ullong());
  std::string list;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (hosts.test(host)) list += (list.empty() ? "" : ", ") + std::to_string(host);
  }
  return "hosts = [" + list + "]\n";
}

// Appends the fields that differ from `defaults`, in the order in which `visit` lists them.
template <typename T, typename Visit>
void write_differences(std::string& out, const T& fields, const T& defaults, Visit&& visit) {
  std::vector<std::string> by_default;
  visit(defaults, [&](std::string_view key, const auto& value) { by_default.push_back(line_of(key, value)); });
  std::size_t n = 0;
  visit(fields, [&](std::string_view key, const auto& value) {
    const std::string line = line_of(key, value);
    if (line != by_default[n++]) out += line;
  });
}

}  // namespace

std::string to_text(const Plan& plan) {
  Plan defaults;
  defaults.seed = plan.seed;
  std::string out = line_of("seed", plan.seed);  // stated by every plan: no scenario has a seed
  if (plan.mode != defaults.mode) out += "mode = \"bytes\"\n";
  const auto add = [&](const auto& fields, const auto& fields_by_default, auto&& visit) {
    write_differences(out, fields, fields_by_default, visit);
  };
  add(plan, defaults, [](auto& fields, auto&& v) { visit_plan(fields, v); });
  const flow::Options& flow = plan.network.flow;
  add(flow, defaults.network.flow, [](auto& fields, auto&& v) { visit_flow(fields, v); });
  if (flow.congestion != defaults.network.flow.congestion) {
    out += "congestion = \"" + std::string(name_of(flow.congestion)) + "\"\n";
  }
  if (!plan.program.work.empty()) {
    out += "work = [";
    for (const Work& work : plan.program.work) out += (out.ends_with('[') ? "\"" : ", \"") + to_text(work) + "\"";
    out += "]\n";
  }
  if (!plan.expect.empty()) out += "\n" + to_text(plan.expect);
  for (const LinkOptions& link : plan.network.links) {
    out += "\n[[link]]\n";
    add(link, LinkOptions{}, [](auto& fields, auto&& v) { visit_link(fields, v); });
  }
  for (const flow::LineOptions& line : flow.lines) {
    out += "\n[[line]]\n" + hosts_line(line.hosts);
    add(line, flow::LineOptions{}, [](auto& fields, auto&& v) { visit_line(fields, v); });
  }
  for (const Entry& entry : plan.entries) {
    out += "\n[[do]]\nfault = \"" + std::string(name_of(entry.fault)) + "\"\n";
    add(entry, Entry{}, [](auto& fields, auto&& v) { visit_entry(fields, v); });
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
