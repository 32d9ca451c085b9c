#include "sim/scenario/lines.h"

#include <algorithm>

#include "sim/flow/max_min.h"
#include "sim/words/nearest.h"
#include "sim/words/units.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kTunedWindow = 4U << 20U;  // about what Linux lets grow by itself

}  // namespace

void read_flow(TomlReader& net, NetworkOptions& options, bool rate, bool window) {
  flow::Options& flow = options.flow;
  // The index of the value in the list; a missing value has index 0.
  const auto one_of = [&](std::string_view key, const std::vector<std::string>& names) -> std::size_t {
    const toml::node* node = net.take(key);
    if (node == nullptr) return 0;
    const std::string word = node->value_or(std::string());
    const auto at = std::find(names.begin(), names.end(), word);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    net.fail(*node,
             "unknown " + std::string(key) + " '" + word + "'" + did_you_mean(word, names) + " (one of: " + all + ")");
    return 0;
  };
  flow.on = one_of("model", {"latency", "flow"}) == 1;
  const std::size_t congestion = one_of("congestion", {"cubic", "reno", "bbr"});
  flow.congestion = congestion == 1   ? flow::Congestion::kReno
                    : congestion == 2 ? flow::Congestion::kBbr
                                      : flow::Congestion::kCubic;
  net.quantity("up", flow.up_bytes_per_s, rate_of, "100Mbit/s");
  net.quantity("down", flow.down_bytes_per_s, rate_of, "100Mbit/s");
  net.quantity("loss", flow.loss_ppm, loss_of, "0.1%");
  net("slow_start", flow.cold);
  if (!flow.on) {
    for (const char* key : {"congestion", "up", "down", "loss", "slow_start"}) {
      const toml::node* node = net.take(key);
      if (node != nullptr)
        net.fail(*node, std::string(key) + " needs model = \"flow\": the other model shares no lines");
    }
    return;
  }
  if (!rate) options.rate_bytes_per_s = flow::kMostRate;  // hosts have lines; pairs have none
  if (!window) options.window_bytes = kTunedWindow;
}

std::optional<Error> read_line(const toml::table& table, const HostNames& hosts, NetworkOptions& options,
                               std::vector<std::string>& known) {
  TomlReader reader(table);
  flow::LineOptions line;
  bool shared = false;
  reader.quantity("up", line.up_bytes_per_s, rate_of, "20Mbit/s");
  reader.quantity("down", line.down_bytes_per_s, rate_of, "100Mbit/s");
  reader.quantity("loss", line.loss_ppm, loss_of, "0.1%");
  reader("shared", shared);
  const toml::node* of = reader.take("of");
  known = reader.known();
  if (auto error = reader.finish()) return error;
  if (!options.flow.on) {
    return bad(table.source(), "a [[line]] needs net = { model = \"flow\" }: the other model shares no lines");
  }
  if (of == nullptr) return bad(table.source(), "a [[line]] must say of = \"a b\", hosts or regions");
  HostSet all;
  for (const std::string& word : split_words(of->value_or(std::string()))) {
    const auto found = hosts.find(word);
    if (!found) return bad(of->source(), hosts.nobody(word));
    for (const Who& who : *found) {
      if (who.kind != Who::Kind::kHost) return bad(of->source(), "a line is of hosts by name");
      all.set(who.number);
    }
  }
  if (all.none()) return bad(of->source(), "a [[line]] must say of = \"a b\", hosts or regions");
  for (std::uint32_t host = 0; host < all.size(); ++host) {
    line.hosts = shared ? all : all & only(host);
    if (line.hosts.any()) options.flow.lines.push_back(line);
    if (shared) break;
  }
  return {};
}

}  // namespace lockstep::sim
