// Reads a scenario from TOML.
#include <algorithm>
#include <map>
#include <utility>

#include "core/base/assert.h"
#include "sim/plan/expect_file.h"
#include "sim/plan/report.h"
#include "sim/scenario/acts.h"
#include "sim/scenario/hosts.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/lines.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/times.h"
#include "sim/words/nearest.h"
#include "sim/words/toml_reader.h"
#include "sim/words/units.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kNeedsState = " needs share_state = true: without it there is no state";

// Without a length nothing would come of it.
bool lasts(Fault fault) {
  switch (fault) {
    case Fault::kStall:
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kSlow:
    case Fault::kKernels:
    case Fault::kTimeout:
    case Fault::kSpoil:
    case Fault::kStrangers:
    case Fault::kLie:
    case Fault::kMute:
    case Fault::kShut:
    case Fault::kDrip: return true;
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kJoin:
    case Fault::kLeave:
    case Fault::kStop:
    case Fault::kAbandon:
    case Fault::kDrift:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kFlip:
    case Fault::kMiscompute:
    case Fault::kSkip: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

class ScenarioReader {
 public:
  Result<Scenario> read(const toml::table& table) {
    TomlReader top(table);
    top("name", scenario_.name);
    top("story", scenario_.story);
    read_people(top);
    read_times(top);
    read_net(top);
    read_work(top);
    const toml::node* regions = top.take("regions");
    const toml::node* links = top.take("link");
    const toml::node* lines = top.take("line");
    const toml::node* acts = top.take("do");
    const toml::node* expect = top.take("expect");
    known_["top"] = top.known();
    if (auto error = top.finish()) return *error;
    if (regions != nullptr) read_regions(*regions);
    if (!error_) {
      error_ = each_table(links, "write the way between two hosts as [[link]]", [&](const toml::table& t) {
        read_link(t);
        return error_;
      });
    }
    if (!error_) {
      std::vector<flow::LineOptions>& all = scenario_.base.network.flow.lines;
      error_ = each_table(lines, "write the line of a host or a region as [[line]]", [&](const toml::table& t) {
        std::optional<Error> error = read_line(t, hosts_, scenario_.base.network, known_["line"]);
        while (lines_.size() < all.size()) lines_.emplace_back(all[lines_.size()].hosts, t.get("of")->source());
        return error;
      });
    }
    ActReader reader(hosts_);
    if (!error_) {
      error_ =
          each_table(acts, "write each action as [[do]]", [&](const toml::table& t) { return reader.read(t, acts_); });
    }
    known_["do"] = reader.known();
    for (const PlacedAct& placed : acts_) scenario_.acts.push_back(placed.act);
    if (error_) return *error_;
    if (expect != nullptr) error_ = read_expectations(*expect, scenario_.base.expect);
    if (error_) return *error_;
    check(table);
    if (error_) return *error_;
    return std::move(scenario_);
  }

  // The known keys of each section of the text.
  [[nodiscard]] const std::map<std::string, std::vector<std::string>>& known() const { return known_; }

 private:
  void fail(const toml::node& node, const std::string& what) {
    if (!error_) error_ = bad(node.source(), what);
  }

  // [regions]: eu = "a b c"
  void read_regions(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return fail(node, "write regions as [regions], each with its hosts: eu = \"a b c\"");
    for (const auto& [name, hosts] : *table) {
      const std::string flaw = hosts_.add_region(std::string(name.str()), hosts.value_or(std::string()));
      if (!flaw.empty()) return fail(hosts, flaw);
    }
  }

  // [[link]]: between = "eu us", latency = "40ms", rate = "1Gbit/s"
  void read_link(const toml::table& table) {
    TomlReader reader(table);
    LinkOptions link;
    Duration latency;
    read_time(reader, "latency", latency, "40ms");
    reader.quantity("rate", link.rate_bytes_per_s, rate_of, "100Mbit/s");
    const bool loses = reader.quantity("loss", link.loss_ppm, loss_of, "0.1%");
    const toml::node* between = reader.take("between");
    known_["link"] = reader.known();
    if (auto error = reader.finish()) {
      error_ = error;
      return;
    }
    link.latency_ns = latency.ns;
    if (loses && !scenario_.base.network.flow.on) {
      return fail(table, "loss needs net = { model = \"flow\" }: the other model has no losses");
    }
    if (between == nullptr) return fail(table, "a [[link]] must say between = \"a b\", hosts or regions");
    const std::vector<std::string> sides = split_words(between->value_or(std::string()));
    if (sides.size() != 2) return fail(*between, "between names two, hosts or regions: \"a b\"");
    const auto left = hosts_.find(sides[0]);
    const auto right = hosts_.find(sides[1]);
    if (!left || !right) return fail(*between, hosts_.nobody(left ? sides[1] : sides[0]));
    for (const Who& a : *left) {
      for (const Who& b : *right) {
        if (a.kind != Who::Kind::kHost || b.kind != Who::Kind::kHost)
          return fail(*between, "a link is between hosts by name");
        link.a = a.number;
        link.b = b.number;
        if (link.a != link.b) scenario_.base.network.links.push_back(link);
      }
    }
  }

  void read_people(TomlReader& top) {
    Plan& plan = scenario_.base;
    scenario_.peers = {plan.peers, plan.peers};
    if (const toml::node* node = top.take("peers")) {
      const toml::array* range = node->as_array();
      if (const auto one = node->value_exact<std::int64_t>()) {
        scenario_.peers.lo = scenario_.peers.hi =
            static_cast<std::uint32_t>(std::clamp<std::int64_t>(*one, 0, kMaxPeers + 1));
      } else if (range != nullptr && range->size() == 2 && range->is_homogeneous<std::int64_t>()) {
        const auto at = [&](std::size_t i) {
          return static_cast<std::uint32_t>(
              std::clamp<std::int64_t>(range->get(i)->value_or(std::int64_t{0}), 0, kMaxPeers + 1));
        };
        scenario_.peers = {at(0), at(1)};
        if (scenario_.peers.lo > scenario_.peers.hi) top.fail(*node, "peers: the range is empty");
      } else {
        top.fail(*node, "peers must be a number, or a range such as [3, 8]");
      }
    }
    top("groups", plan.gangs.groups);
    top("gang_size", plan.gangs.size);
    top("namesakes", plan.gangs.namesakes);
    top("minimum_world", plan.minimum_world);
    top("auto_admit", plan.auto_admit);
    top("transfers", plan.program.transfers);
    top("dials_back", plan.links.dials_back);
    top("share_state", plan.state.shared);
    top("state_pieces", plan.state.pieces);
    top("all_vote", plan.state.all_vote);
    if (const toml::node* node = top.take("staged")) {
      const auto staged = node->value_exact<bool>();
      if (!staged) top.fail(*node, "staged must be true or false; without it some syncs are and some are not");
      plan.state.staged_permille = staged.value_or(false) ? 1000 : 0;
    }
    top("publish", plan.state.publish);
    top("republish_permille", plan.state.republish_permille);
    top("watch", plan.state.watch);
    top("small_changes", plan.state.small_changes);
    top("ahead_permille", plan.state.ahead_permille);
    top("stray_permille", plan.state.stray_permille);
    top("torn_permille", plan.state.torn_permille);
    top("fresh_tags", plan.fresh_tags);
    top("aged", plan.aged);
    top("stripes", plan.links.stripes);
    top("most_stripes", plan.links.most_stripes);
    top("segment_bytes", plan.links.segment_bytes);
    top("eager_segments", plan.links.eager_segments);
    top("window", plan.links.window);
    top("turns", plan.links.turns);
    top("by_rate_bytes", plan.links.by_rate_bytes);
    top("bytes_per_second", plan.links.bytes_per_second);
    top("steps_per_admit", plan.program.steps_per_admit);
    top("commits_after", plan.end.commits_after);
    if (const toml::node* node = top.take("mode")) {
      const auto word = node->value_or(std::string());
      if (word != "token" && word != "bytes") top.fail(*node, "mode must be \"token\" or \"bytes\"");
      plan.mode = word == "bytes" ? Mode::kBytes : Mode::kToken;
      plan.network.mode = plan.mode;
    }
  }

  void read_times(TomlReader& top) {
    Plan& plan = scenario_.base;
    read_time(top, "rate_window", plan.links.rate_window, "300ms");
    scenario_.says_heartbeat = read_time(top, "heartbeat", plan.heartbeat, "200ms");
    std::uint64_t kernel_rate = 0;
    if (top.quantity("kernel_rate", kernel_rate, rate_of, "5GB/s")) {
      plan.delays.kernel_ns_per_kib = static_cast<std::int64_t>(1'024'000'000'000 / kernel_rate);
    }
    read_time(top, "think", plan.program.think, "100ms");
    read_time(top, "call_timeout", plan.program.call_timeout, "30s");
    plan.end.safety = lockstep::seconds(10);
    plan.all_start = false;
    read_time(top, "faults_end", plan.end.safety, "10s");
    read_time(top, "coordinator_after", plan.coordinator_after, "3s");
  }

  void read_net(TomlReader& top) {
    const toml::node* node = top.take("net");
    if (node == nullptr) return;
    const toml::table* table = node->as_table();
    if (table == nullptr) return top.fail(*node, R"(net must be a table such as { profile = "region" })");
    TomlReader net(*table);
    NetworkOptions& options = scenario_.base.network;
    std::string profile = "region";
    net("profile", profile);
    const std::vector<std::string> profiles = {"rack", "region", "world"};
    const auto at = std::find(profiles.begin(), profiles.end(), profile);
    if (at == profiles.end())
      net.fail(*node, "unknown profile '" + profile + "'" + did_you_mean(profile, profiles) +
                          " (one of: rack, region, world)");
    set_profile(options, at == profiles.end() ? 1 : at - profiles.begin());
    Duration latency;
    if (read_time(net, "latency", latency, "20ms")) options.latency_lo_ns = options.latency_hi_ns = latency.ns;
    Duration jitter = nanoseconds(options.jitter_ns);
    read_time(net, "jitter", jitter, "1ms");
    options.jitter_ns = jitter.ns;
    const bool rate = net.quantity("rate", options.rate_bytes_per_s, rate_of, "100Mbit/s");
    const bool window = net.quantity("window", options.window_bytes, bytes_of, "256KiB");
    read_flow(net, options, rate, window);
    known_["net"] = net.known();
    if (auto error = net.finish()) error_ = error;
  }

  void read_work(TomlReader& top) {
    top("sends_to_next", scenario_.base.program.sends_to_next);
    const toml::node* node = top.take("work");
    if (node == nullptr) return;
    const toml::array* list = node->as_array();
    if (list == nullptr) return top.fail(*node, R"(work must be a list such as ["4x all_reduce 64KiB f32 sum"])");
    for (const toml::node& item : *list) {
      const std::vector<std::string> words = split_words(item.value_or(std::string()));
      if (words.size() == 2 && words[0] == "loop") {  // the least number of commits
        const auto times = number_of(words[1]);
        if (!times || *times < 1 || *times > 1000)
          return top.fail(item, "loop must be 1 to 1000 times, such as \"loop 10\"");
        scenario_.base.end.commits_after = static_cast<std::uint32_t>(*times);
        continue;
      }
      const Result<std::vector<Work>> work = work_from_text(item.value_or(std::string()));
      if (!work.ok()) return top.fail(item, work.error().text);
      scenario_.base.program.work.insert(scenario_.base.program.work.end(), work->begin(), work->end());
    }
  }

  // Keys of a state in a scenario that shares none.
  void check_state(const toml::table& table) {
    const Plan& plan = scenario_.base;
    if (plan.state.shared) return;
    const Plan unsaid;
    for (const auto& [key, is_said] : {std::pair{"state_pieces", plan.state.pieces != unsaid.state.pieces},
                                       {"all_vote", plan.state.all_vote != unsaid.state.all_vote},
                                       {"staged", plan.state.staged_permille != unsaid.state.staged_permille},
                                       {"publish", plan.state.publish != unsaid.state.publish},
                                       {"republish_permille", plan.state.republish_permille != 0},
                                       {"watch", plan.state.watch != unsaid.state.watch},
                                       {"small_changes", plan.state.small_changes},
                                       {"ahead_permille", plan.state.ahead_permille != 0},
                                       {"stray_permille", plan.state.stray_permille != 0},
                                       {"torn_permille", plan.state.torn_permille != 0}}) {
      if (is_said) return fail(*table.get(key), key + std::string(kNeedsState));
    }
  }

  // Invariant: every plan that a seed can draw from the scenario is valid.
  void check(const toml::table& table) {
    check_state(table);
    if (error_) return;
    for (const Act& act : scenario_.acts) {
      const bool joins = act.entry.fault == Fault::kJoin && act.a.kind == Who::Kind::kHost;
      if (joins) scenario_.last_joiner = std::max(scenario_.last_joiner, act.a.number);
    }
    const auto sample = [](Scenario scenario, std::uint32_t peers) {
      scenario.peers = {peers, peers};
      return plan_of(scenario, 0);
    };
    const auto taking_part = [&](std::uint32_t peers) {
      std::uint32_t count = 0;
      const Plan plan = sample(scenario_, peers);
      for (std::uint32_t host = 1; host <= plan.peers; ++host) count += takes_part(plan, host) ? 1 : 0;
      return count;
    };
    for (const std::uint32_t peers : {scenario_.peers.lo, scenario_.peers.hi}) {
      if (peers < 1 || peers > kMaxPeers)
        return fail(*table.get("peers"), "peers must be 1.." + std::to_string(kMaxPeers));
      if (const std::string flaw = validate_plan(sample(scenario_, peers)); !flaw.empty()) {
        const toml::node* culprit = table.get(flaw.substr(0, flaw.find(' ')));
        return fail(culprit != nullptr ? *culprit : table, flaw);
      }
      const std::uint32_t groups = scenario_.base.gangs.groups;
      if (scenario_.base.minimum_world > taking_part(peers) / groups) {
        return fail(*table.get("minimum_world"), "minimum_world must be at most the peers that take part" +
                                                     std::string(groups > 1 ? ", in each of the groups" : ""));
      }
    }
    const Plan largest = sample(scenario_, scenario_.peers.hi);
    for (const auto& [hosts, where] : lines_) {
      for (std::uint32_t host = 1; host < kMaxHosts && !error_; ++host) {
        if (hosts.test(host) && !takes_part_in(largest, host)) error_ = bad(where, no_host(host, largest));
      }
    }
    for (std::size_t i = 0; i < acts_.size() && !error_; ++i) {
      if (std::string flaw = validate_act(acts_[i].act, sample(scenario_, scenario_.peers.lo)); !flaw.empty()) {
        error_ = bad(acts_[i].where, flaw);
        return;
      }
      Scenario alone = scenario_;
      alone.acts = {scenario_.acts[i]};
      for (const std::uint32_t peers : {scenario_.peers.lo, scenario_.peers.hi}) {
        const Plan plan = sample(alone, peers);
        for (const Entry& entry : plan.entries) {
          const std::string flaw = validate_entry(plan, entry);
          if (!flaw.empty() && !error_) error_ = bad(acts_[i].where, flaw);
        }
      }
    }
  }

  // `smallest`: with as few peers as a seed can draw.
  [[nodiscard]] std::string validate_act(const Act& act, const Plan& smallest) const {
    const Entry& entry = act.entry;
    for (const Who& who : {act.a, is_of_pair(entry.fault) ? act.b : act.a}) {
      if (who.kind != Who::Kind::kHost || who.number == 0) continue;
      if (!takes_part_in(smallest, who.number)) return no_host(who.number, smallest);
    }
    if (lasts(entry.fault) && act.length.hi.ns == 0) return "say how long: for = \"5s\"";
    const bool of_state = entry.fault == Fault::kSpoil || entry.fault == Fault::kDrift;
    if (of_state && !scenario_.base.state.shared) return std::string(name_of(entry.fault)).append(kNeedsState);
    if (entry.fault == Fault::kDrift && !scenario_.base.state.watch) {
      return "drift needs watch = true: without it no peer watches the state";
    }
    const bool coordinator = act.a.kind == Who::Kind::kHost && act.a.number == 0;
    if (coordinator && !is_of_pair(entry.fault) && entry.fault != Fault::kStall) {
      return std::string(name_of(entry.fault)) + " is for peers: the coordinator can only be stalled or cut off";
    }
    const Duration latest = act.after.hi + act.every * (static_cast<std::int64_t>(act.times) - 1);
    if (counts_from_start(entry) && latest >= scenario_.base.end.safety) {
      return "at " + words_of(latest) + " is too late: faults_end is " + words_of(scenario_.base.end.safety);
    }
    const bool founder = act.a.kind != Who::Kind::kHost || act.a.number <= smallest.founders;
    if (entry.fault == Fault::kJoin && founder && !may_be_away(act.a)) {
      const bool bound = act.a.kind != Who::Kind::kHost;
      return (bound ? "a host that the seed binds" : letter_of(act.a.number)) + " runs from the start, and no action " +
             "ends it before: let another host join, such as " + letter_of(scenario_.peers.hi + 1);
    }
    return {};
  }

  [[nodiscard]] bool may_be_away(const Who& who) const {
    return std::any_of(scenario_.acts.begin(), scenario_.acts.end(), [&](const Act& act) {
      const bool ends =
          act.entry.fault == Fault::kCrash || act.entry.fault == Fault::kVanish || act.entry.fault == Fault::kLeave;
      const bool named = act.a.kind == Who::Kind::kHost && who.kind == Who::Kind::kHost;
      return ends && (!named || act.a.number == who.number || scenario_.base.gangs.size > 1);
    });
  }

  static bool takes_part_in(const Plan& plan, std::uint32_t host) {
    return host <= plan.peers && takes_part(plan, host);
  }

  static std::string no_host(std::uint32_t host, const Plan& plan) {
    return "there is no host " + letter_of(host) + ": " + who_is_there(plan);
  }

  static std::string who_is_there(const Plan& plan) {
    std::string text = plan.founders == 1 ? "there is a" : "there are a to " + letter_of(plan.founders);
    std::string joiners;
    for (std::uint32_t host = plan.founders + 1; host <= plan.peers; ++host) {
      if (takes_part(plan, host)) joiners += " " + letter_of(host);
    }
    return text + (joiners.empty() ? "" : ", and by joining" + joiners);
  }

  static void set_profile(NetworkOptions& net, std::ptrdiff_t profile) {
    net.latency_lo_ns = profile == 0 ? 20'000 : profile == 1 ? 200'000 : 2'000'000;
    net.latency_hi_ns = profile == 0 ? 60'000 : profile == 1 ? 2'000'000 : 80'000'000;
    net.jitter_ns = net.latency_lo_ns / 4;
    net.rate_bytes_per_s = profile == 0 ? 1'000'000'000 : profile == 1 ? 200'000'000 : 20'000'000;
  }

  std::map<std::string, std::vector<std::string>> known_;
  Scenario scenario_;
  HostNames hosts_;
  std::vector<PlacedAct> acts_;
  std::vector<std::pair<HostSet, toml::source_region>> lines_;  // whose each is, and where that is said
  std::optional<Error> error_;
};

}  // namespace

bool is_scenario(std::string_view text) {
  try {
    const toml::table table = toml::parse(text);
    const toml::array* acts = table.get_as<toml::array>("do");
    const toml::table* first = acts != nullptr && !acts->empty() ? acts->get(0)->as_table() : nullptr;
    if (table.contains("seed") || table.contains("founders") || (first != nullptr && first->contains("fault"))) {
      return false;
    }
    return table["story"].is_string() || table.contains("expect") || table.contains("net") || first != nullptr;
  } catch (const toml::parse_error&) {
    return false;
  }
}

std::map<std::string, std::vector<std::string>> keys_that_are_read() {
  std::map<std::string, std::vector<std::string>> keys;
  for (const char* text : {"net = {}", "[[link]]", "[[line]]", "[[do]]"}) {
    ScenarioReader reader;
    (void)reader.read(toml::parse(text));  // what is wrong with it does not matter
    for (const auto& [section, names] : reader.known()) {
      if (!names.empty()) keys[section] = names;
    }
  }
  keys["expect"] = count_names();
  keys["expect"].emplace_back("within");
  return keys;
}

Result<Scenario> scenario_from_text(std::string_view text) {
  try {
    const toml::table table = toml::parse(text);
    return ScenarioReader().read(table);
  } catch (const toml::parse_error& error) {
    return bad(error.source(), std::string(error.description()));
  }
}

}  // namespace lockstep::sim
