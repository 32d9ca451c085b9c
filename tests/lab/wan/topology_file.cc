// Reads a topology from TOML.
#include <algorithm>
#include <optional>
#include <utility>

#include "sim/scenario/acts.h"
#include "sim/scenario/hosts.h"
#include "sim/words/toml_reader.h"
#include "sim/words/units.h"
#include "sim/words/words.h"
#include "tests/lab/wan/topology.h"

namespace lockstep::wan {
namespace {

using sim::bad;
using sim::TomlReader;

constexpr std::uint64_t kLeastQueueBytes = 64 << 10;
constexpr std::uint64_t kQueuedPackets = 8;

// A queue that nobody has spoken of holds a tenth of a second.
std::uint64_t default_queue(const LineOptions& line, std::uint32_t mtu) {
  return std::max({line.rate_bytes_per_s / 10, kLeastQueueBytes, kQueuedPackets * mtu});
}

class TopologyReader {
 public:
  Result<Topology> read(const toml::table& table) {
    TomlReader top(table);
    top("name", topology_.name);
    top("story", topology_.story);
    top("seed", topology_.seed);
    read_size(top, table);
    read_tcp(top);
    read_net(top);
    const toml::node* regions = top.take("regions");
    const toml::node* links = top.take("link");
    const toml::node* lines = top.take("line");
    const toml::node* acts = top.take("do");
    if (auto error = top.finish()) return *error;
    if (regions != nullptr) read_regions(*regions);
    each(links, "write the way between two hosts as [[link]]", [&](const toml::table& t) { read_link(t); });
    each(lines, "write the line of a host or a region as [[line]]", [&](const toml::table& t) { read_line(t); });
    each(acts, "write each action as [[do]]", [&](const toml::table& t) { read_act(t); });
    if (error_) return *error_;
    settle();
    return std::move(topology_);
  }

 private:
  template <typename R>
  void each(const toml::node* list, std::string_view how, R&& read) {
    if (error_) return;
    auto wrong_list = sim::each_table(list, how, [&](const toml::table& t) {
      read(t);
      return error_;
    });
    if (wrong_list) error_ = wrong_list;
  }

  void fail(const toml::node& node, const std::string& what) {
    if (!error_) error_ = bad(node.source(), what);
  }

  void read_size(TomlReader& top, const toml::table& table) {
    top("peers", topology_.peers);
    if (topology_.peers < 1 || topology_.peers > 99) top.fail(*table.get("peers"), "peers must be 1..99");
    top("mtu", topology_.mtu);
    if (topology_.mtu < 576 || topology_.mtu > 65'000) top.fail(*table.get("mtu"), "mtu must be 576..65000");
    const std::size_t hosts = topology_.hosts();
    topology_.up.resize(hosts);
    topology_.down.resize(hosts);
    topology_.ways.resize(hosts * hosts);
  }

  void read_tcp(TomlReader& top) {
    const toml::node* node = top.take("tcp");
    if (node == nullptr) return;
    if (!node->is_table()) return top.fail(*node, R"(tcp must be a table such as { congestion_control = "cubic" })");
    TomlReader tcp(*node->as_table());
    tcp("congestion_control", topology_.tcp.congestion_control);
    tcp.quantity("receive_buffer", topology_.tcp.receive_buffer, sim::bytes_of, "6MiB");
    tcp.quantity("send_buffer", topology_.tcp.send_buffer, sim::bytes_of, "4MiB");
    if (auto error = tcp.finish()) error_ = error;
  }

  // 0.001 or "0.1%".
  static std::optional<double> share_of(const toml::node& node) {
    if (const auto number = node.value<double>()) return number;
    const auto text = node.value_or(std::string());
    if (!text.ends_with('%')) return {};
    double percent = 0;
    const char* const end = text.data() + text.size() - 1;
    const auto [rest, error] = std::from_chars(text.data(), end, percent);
    return error == std::errc{} && rest == end ? std::optional(percent / 100) : std::nullopt;
  }

  static void read_loss(TomlReader& reader, LineOptions& line) {
    const toml::node* node = reader.take("loss");
    if (node == nullptr) return;
    line.loss = share_of(*node).value_or(-1);
    if (!(line.loss >= 0 && line.loss <= 0.5)) reader.fail(*node, R"(loss must be like 0.001 or "0.1%", at most 0.5)");
  }

  // What [net] and [[link]] say of a way.
  static void read_way(TomlReader& reader, LineOptions& way) {
    reader.quantity("latency", way.latency, sim::duration_of, "20ms");
    reader.quantity("jitter", way.jitter, sim::duration_of, "1ms");
    reader.quantity("rate", way.rate_bytes_per_s, sim::rate_of, "100Mbit/s");
    reader.quantity("queue", way.queue_bytes, sim::bytes_of, "256KiB");
    read_loss(reader, way);
    if (const toml::node* node = reader.take("burst")) {
      way.burst = node->value<double>().value_or(-1);
      if (!(way.burst >= 1 && way.burst <= 1000))
        reader.fail(*node, "burst must be the packets that are lost in a row on the average, 1 to 1000");
    }
  }

  void read_net(TomlReader& top) {
    const toml::node* node = top.take("net");
    if (node == nullptr) return;
    if (!node->is_table()) return top.fail(*node, R"(net must be a table such as { latency = "20ms" })");
    TomlReader net(*node->as_table());
    LineOptions way;
    LineOptions up;
    LineOptions down;
    read_way(net, way);
    net.quantity("up", up.rate_bytes_per_s, sim::rate_of, "20Mbit/s");
    net.quantity("down", down.rate_bytes_per_s, sim::rate_of, "100Mbit/s");
    net("congestion", topology_.congestion);
    (void)net.take("model");  // of the simulator: which of its networks is meant
    if (auto error = net.finish()) error_ = error;
    up.queue_bytes = down.queue_bytes = way.queue_bytes;
    std::fill(topology_.ways.begin(), topology_.ways.end(), way);
    std::fill(topology_.up.begin(), topology_.up.end(), up);
    std::fill(topology_.down.begin(), topology_.down.end(), down);
  }

  // [regions]: eu = "coordinator a b"
  void read_regions(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return fail(node, "write regions as [regions], each with its hosts: eu = \"a b c\"");
    for (const auto& [name, hosts] : *table) {
      const std::string flaw = names_.add_region(std::string(name.str()), hosts.value_or(std::string()));
      if (!flaw.empty()) return fail(hosts, flaw);
    }
  }

  // The hosts that a text names, one by one or as a region.
  std::vector<std::uint32_t> hosts_in(const toml::node& node, const std::string& text) {
    std::vector<std::uint32_t> hosts;
    for (const std::string& word : sim::split_words(text)) {
      const auto found = names_.find(word);
      if (!found) {
        fail(node, names_.nobody(word));
        return {};
      }
      for (const sim::Who& who : *found) {
        if (const auto host = host_of_name(node, who)) hosts.push_back(*host);
      }
    }
    return hosts;
  }

  std::optional<std::uint32_t> host_of_name(const toml::node& node, const sim::Who& who) {
    if (who.kind != sim::Who::Kind::kHost) {
      fail(node, "a topology has no seed that binds any, X, Y and Z: name the host");
    } else if (who.number > topology_.peers) {
      fail(node,
           "there is no host " + sim::letter_of(who.number) + ": the last peer is " + sim::letter_of(topology_.peers));
    } else {
      return who.number;
    }
    return {};
  }

  // [[link]]: between = "eu us" (both ways alike) or "a -> b" (one way)
  void read_link(const toml::table& table) {
    TomlReader reader(table);
    const toml::node* between = reader.take("between");
    LineOptions said;
    read_way(reader, said);
    if (auto error = reader.finish()) error_ = error;
    if (error_) return;
    if (between == nullptr) return fail(table, "a [[link]] must say between = \"a b\", hosts or regions");
    const auto text = between->value_or(std::string());
    const std::size_t arrow = text.find("->");
    const bool one_way = arrow != std::string::npos && (arrow == 0 || text[arrow - 1] != '<');
    std::string plain = text;
    std::replace_if(
        plain.begin(), plain.end(), [](char c) { return c == '<' || c == '-' || c == '>'; }, ' ');
    const std::vector<std::string> sides = sim::split_words(arrow == std::string::npos ? text : plain);
    if (sides.size() != 2) return fail(*between, R"(between names two, hosts or regions: "a b", or "a -> b")");
    for (const std::uint32_t a : hosts_in(*between, sides[0])) {
      for (const std::uint32_t b : hosts_in(*between, sides[1])) {
        if (a == b) continue;
        amend(table, topology_.way(a, b), said);
        if (!one_way) amend(table, topology_.way(b, a), said);
      }
    }
  }

  static void amend(const toml::table& table, LineOptions& way, const LineOptions& said) {
    if (table.contains("latency")) way.latency = said.latency;
    if (table.contains("jitter")) way.jitter = said.jitter;
    if (table.contains("rate")) way.rate_bytes_per_s = said.rate_bytes_per_s;
    if (table.contains("queue")) way.queue_bytes = said.queue_bytes;
    if (table.contains("loss")) way.loss = said.loss;
    if (table.contains("burst")) way.burst = said.burst;
  }

  // [[line]]: of = "a b", up = "20Mbit/s", down = "100Mbit/s". A host's own, instead of that of [net]; or one that they
  // share.
  void read_line(const toml::table& table) {
    TomlReader reader(table);
    const toml::node* of = reader.take("of");
    SharedLine line;
    bool shared = false;
    reader.quantity("up", line.up.rate_bytes_per_s, sim::rate_of, "20Mbit/s");
    reader.quantity("down", line.down.rate_bytes_per_s, sim::rate_of, "100Mbit/s");
    reader.quantity("queue", line.up.queue_bytes, sim::bytes_of, "256KiB");
    read_loss(reader, line.up);
    reader("shared", shared);
    if (auto error = reader.finish()) error_ = error;
    if (error_) return;
    line.down.queue_bytes = line.up.queue_bytes;
    line.down.loss = line.up.loss;
    if (of == nullptr) return fail(table, "a [[line]] must say of = \"a b\", hosts or regions");
    line.name = of->value_or(std::string());
    const std::vector<std::uint32_t> hosts = hosts_in(*of, line.name);
    if (hosts.empty()) return fail(*of, "of must say which hosts: \"a b\"");
    for (const std::uint32_t host : hosts) {
      line.hosts |= std::uint64_t{1} << host;
      if (shared) continue;
      topology_.up[host] = line.up;
      topology_.down[host] = line.down;
    }
    if (shared) topology_.shared.push_back(line);
  }

  // [[do]]: what a scenario says of ways and streams: cut, cut-both, split, slow and reset, at a time.
  void read_act(const toml::table& table) {
    std::vector<sim::PlacedAct> acts;
    if (auto error = sim::ActReader(names_).read(table, acts)) error_ = error;
    for (const sim::PlacedAct& placed : acts) {
      if (!error_) add_act(table, placed.act);
    }
  }

  void add_act(const toml::table& table, const sim::Act& act) {
    const sim::Fault fault = act.entry.fault;
    if (fault == sim::Fault::kShut) return add_shut(table, act);
    const bool cuts = fault == sim::Fault::kCut || fault == sim::Fault::kCutBoth;
    if (!cuts && fault != sim::Fault::kSlow && fault != sim::Fault::kReset) {
      return fail(table, "here only ways change and streams end: cut, cut-both, split, slow, reset or shut, not " +
                             std::string(name_of(fault)));
    }
    if (!table.contains("at") || act.after.lo != act.after.hi || act.length.lo != act.length.hi) {
      return fail(table, "say one time, at = \"2s\", and one length, for = \"5s\"");
    }
    const auto a = host_of_name(table, act.a);
    const auto b = host_of_name(table, act.b);
    if (!a || !b) return;
    if (fault == sim::Fault::kReset) return add_resets(table, act, *a, *b);
    for (std::uint32_t i = 0; i < act.times; ++i) {
      const Duration at = act.after.lo + act.every * i;
      change(table, {at, cuts ? Change::Kind::kCut : Change::Kind::kSlow, *a, *b, act.entry.number}, act.length.lo);
      if (fault == sim::Fault::kCut) continue;
      change(table, {at, cuts ? Change::Kind::kCut : Change::Kind::kSlow, *b, *a, act.entry.number}, act.length.lo);
    }
  }

  // For good, from the start on.
  void add_shut(const toml::table& table, const sim::Act& act) {
    const bool for_good = act.after.hi.ns == 0 && act.length.hi.ns == 0 && act.times == 1;
    if (!for_good) return fail(table, "a host is shut for good: without at, for and times");
    if (const auto host = host_of_name(table, act.a)) topology_.shut |= std::uint64_t{1} << *host;
  }

  // What a reset ends does not come back by itself: it has no length.
  void add_resets(const toml::table& table, const sim::Act& act, std::uint32_t a, std::uint32_t b) {
    if (act.length.lo.ns != 0) {
      return fail(table, "a reset takes no time: without for; times = 3 and every = \"1s\" repeat it");
    }
    for (std::uint32_t i = 0; i < act.times; ++i) {
      topology_.changes.push_back({act.after.lo + act.every * i, Change::Kind::kReset, a, b});
    }
  }

  // One way changes, and changes back after `length`; 0: never.
  void change(const toml::table& table, Change change, Duration length) {
    const bool cuts = change.kind == Change::Kind::kCut;
    if (!cuts && topology_.way(change.from, change.to).rate_bytes_per_s == 0) {
      return fail(table, "slow needs a rate between the two, of [net] or a [[link]]");
    }
    topology_.changes.push_back(change);
    if (length.ns == 0) return;
    change.at = change.at + length;
    change.kind = cuts ? Change::Kind::kHeal : Change::Kind::kSpeedUp;
    topology_.changes.push_back(change);
  }

  void settle() {
    for (auto* lines : {&topology_.up, &topology_.down, &topology_.ways}) {
      for (LineOptions& line : *lines) {
        if (line.queue_bytes == 0) line.queue_bytes = default_queue(line, topology_.mtu);
      }
    }
    for (SharedLine& line : topology_.shared) {
      if (line.up.queue_bytes == 0) line.up.queue_bytes = default_queue(line.up, topology_.mtu);
      if (line.down.queue_bytes == 0) line.down.queue_bytes = default_queue(line.down, topology_.mtu);
    }
    std::stable_sort(topology_.changes.begin(), topology_.changes.end(),
                     [](const Change& a, const Change& b) { return a.at < b.at; });
  }

  Topology topology_;
  sim::HostNames names_;
  std::optional<Error> error_;
};

}  // namespace

Result<Topology> topology_from_text(std::string_view text) {
  try {
    const toml::table table = toml::parse(text);
    return TopologyReader().read(table);
  } catch (const toml::parse_error& error) {
    return bad(error.source(), std::string(error.description()));
  }
}

}  // namespace lockstep::wan
