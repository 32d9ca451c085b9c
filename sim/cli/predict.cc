// `lockstep sim predict`: the algorithm and the time that a scenario's work takes on its hosts and lines.
#include "sim/predict/predict.h"

#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/ring/schedule.h"
#include "sim/cli/command.h"
#include "sim/cli/usage.h"
#include "sim/scenario/hosts.h"
#include "sim/words/units.h"

namespace lockstep::sim {
namespace {

// 3: of each collective the algorithm, the reason and the candidates with their bounds. bound_ns, the least of these,
// was lines_ns; alone_ns, of the heaviest collective, was schedule_ns of each. best_ring is null where nothing goes
// around the ring.
constexpr int kJsonVersion = 3;
constexpr double kHardlySlower = 1.005;  // in words: + 0 %

struct PredictFlags {
  std::string file;
  std::optional<std::uint64_t> seed;
  std::uint32_t mtu = kUsualMtu;
  bool json = false;
};

std::string long_text(Duration time) {
  const double s = time.seconds();
  return s >= 7200  ? fmt::format("{:.1f} h", s / 3600)
         : s >= 180 ? fmt::format("{:.1f} min", s / 60)
                    : short_text(time);
}

std::string percent_more(Duration time, Duration than) {
  return fmt::format("{:+.0f} %", (time.seconds() / than.seconds() - 1) * 100);
}

std::string ring_text(const std::vector<std::uint32_t>& ring) {
  std::string text;
  for (const std::uint32_t host : ring) text += (text.empty() ? "" : " ") + letter_of(host);
  return text;
}

// As a scenario says it, with both measures: "all_reduce 16 MiB f32 sum (4194304 elements)".
std::string work_text(const Work& work) {
  const std::string_view name = name_of(work.collective);
  if (work.collective == wire::Collective::kBarrier) return std::string(name);
  const bool reduces = ring::reduces(work.collective);
  const std::string formats = work.formats.native() ? "" : " " + to_text(work.formats);
  return fmt::format("{} {} {}{}{} ({}{})", name, short_size(work.count * size_of(work.type)), name_of(work.type),
                     reduces ? " " + std::string(name_of(work.op)) : "", formats, counted(work.count, "element"),
                     work.collective == wire::Collective::kAllGather ? " of each" : "");
}

std::string work_text(const CollectiveTime& collective) {
  return (collective.times > 1 ? std::to_string(collective.times) + "x " : "") + work_text(collective.work);
}

constexpr auto kRow = "  {:<12} {}\n";

// The meaning of the given rates.
std::string rates_text(std::uint32_t mtu) {
  return mtu == 0 ? "of payload"
                  : fmt::format("those of IP packets of {} bytes, headers and acknowledgements among them", mtu);
}

void print_algorithms(const CollectiveTime& collective) {
  if (collective.candidates.empty()) return;
  fmt::print(kRow, "algorithm", fmt::format("{}: {}", name_of(collective.algorithm), collective.reason));
  fmt::print(kRow, "lower bound",
             fmt::format("{}, by the {} algorithm", short_text(collective.bound),
                         name_of(least_of(collective.candidates).algorithm)));
  for (const Bound& bound : collective.candidates) {
    fmt::print(
        kRow, fmt::format("  {}", name_of(bound.algorithm)),
        fmt::format("at least {}: {} {}, lines {}, agreement {}", short_text(bound.whole()), counted(bound.hops, "hop"),
                    short_text(bound.latencies), short_text(bound.lines), short_text(bound.agreement)));
  }
}

void print_answer(const Plan& plan, const Prediction& p, std::uint32_t mtu) {
  const CollectiveTime& heaviest = p.collectives[p.heaviest];
  fmt::print("{}, {} each\n", counted(plan.founders, "peer"), counted(plan.links.stripes, "stream"));
  for (const CollectiveTime& each : p.collectives) {
    fmt::print("{}: {}", work_text(each), short_text(each.again));
    if (each.bus_bytes_per_s > 0) fmt::print(", bus bandwidth {}", short_rate(each.bus_bytes_per_s));
    fmt::print("\n");
    fmt::print(kRow, "at first", short_text(each.first) + ", on streams that are new");
    print_algorithms(each);
  }
  if (p.collectives.size() > 1 || heaviest.times > 1) fmt::print("a step of all: {}\n", short_text(p.step));
  if (plan.founders < 2 || p.bottleneck.what.empty()) return;
  fmt::print("of {}, by itself:\n", work_text(heaviest.work));
  fmt::print(kRow, "bottleneck",
             p.bottleneck.waits
                 ? fmt::format("none: the call waits for its hops; {} is in use {:.0f} % of the time",
                               p.bottleneck.what, p.bottleneck.busy * 100)
                 : fmt::format("{}, in use {:.0f} % of the time", p.bottleneck.what, p.bottleneck.busy * 100));
  const bool around = !p.best_ring.empty();
  if (around) fmt::print(kRow, "ring", fmt::format("{}: {}", ring_text(p.ring), short_text(p.alone)));
  if (p.lossy) {
    fmt::print(kRow, "packet loss",
               "times are those of mean losses; a real call waits for the hop that loses most at the time: around the "
               "ring 1.1 to 1.8 times as long");
  }
  if (around && plan.founders > 2) {
    const bool better = p.best_time < p.alone;
    fmt::print(kRow, p.every_ring ? "best ring" : "better ring",
               better ? fmt::format("{}: {} ({})", ring_text(p.best_ring), short_text(p.best_time),
                                    percent_more(p.best_time, p.alone))
                      : std::string(p.every_ring ? "that one" : "none was found"));
  }
  const Straggler& worst = p.stragglers.front();
  fmt::print(kRow, "straggler",
             worst.time.seconds() < p.alone.seconds() * kHardlySlower
                 ? "none: a host at half of its own line delays no other host"
                 : fmt::format("{} at half of its own line: {} ({})", letter_of(worst.host), short_text(worst.time),
                               percent_more(worst.time, p.alone)));
  if (plan.founders > 2) {
    fmt::print("losses, with heartbeats every {}:\n", words_of(plan.heartbeat, " "));
    fmt::print(kRow, "one",
               fmt::format("a machine that vanishes in mid-step costs {}; without {} a step takes {}",
                           short_text(p.loss), letter_of(p.lost), short_text(p.without)));
    fmt::print(kRow, "half time",
               fmt::format("one every {} takes half of all time: a peer that stays {} on the average",
                           long_text(p.half_time), long_text(p.half_time * plan.founders)));
  }
  fmt::print(kRow, "stops",
             fmt::format("one every {}, and 9 attempts of 10 do not finish: a peer that stays {}", long_text(p.stops),
                         long_text(p.stops * plan.founders)));
  fmt::print(
      "how: times by the core that ships, in virtual time over flows; bounds in closed form: the longer of the hops, "
      "and of\n"
      "the lines and one hop, then the agreement; rings and their stragglers by the core's ring schedule over fluid "
      "streams,\n"
      "without agreement; losses at random moments, nothing saved in between\n"
      "rates are {}\n",
      rates_text(mtu));
}

nlohmann::json hosts_json(const std::vector<std::uint32_t>& hosts) {
  nlohmann::json json = nlohmann::json::array();
  for (const std::uint32_t host : hosts) json.push_back(letter_of(host));
  return json;
}

nlohmann::json candidates_json(const CollectiveTime& collective) {
  nlohmann::json list = nlohmann::json::array();
  for (const Bound& bound : collective.candidates) {
    list.push_back({{"algorithm", name_of(bound.algorithm)},
                    {"bound_ns", bound.whole().ns},
                    {"hops", bound.hops},
                    {"hops_ns", bound.latencies.ns},
                    {"lines_ns", bound.lines.ns},
                    {"agreement_ns", bound.agreement.ns}});
  }
  return list;
}

nlohmann::json to_json(const Plan& plan, const Prediction& p, std::uint32_t mtu) {
  nlohmann::json json = {
      {"version", kJsonVersion}, {"peers", plan.founders}, {"stripes", plan.links.stripes}, {"mtu", mtu}};
  json["collectives"] = nlohmann::json::array();
  for (const CollectiveTime& each : p.collectives) {
    json["collectives"].push_back({{"work", to_text(each.work)},
                                   {"times", each.times},
                                   {"bytes", each.bytes},
                                   {"first_ns", each.first.ns},
                                   {"again_ns", each.again.ns},
                                   {"algorithm", each.candidates.empty() ? "" : name_of(each.algorithm)},
                                   {"reason", each.reason},
                                   {"bound_ns", each.bound.ns},
                                   {"candidates", candidates_json(each)},
                                   {"bus_bytes_per_s", each.bus_bytes_per_s}});
  }
  json["step_ns"] = p.step.ns;
  json["heaviest"] = p.heaviest;
  json["alone_ns"] = p.alone.ns;
  json["bottleneck"] = {{"what", p.bottleneck.what}, {"busy", p.bottleneck.busy}, {"waits", p.bottleneck.waits}};
  json["ring"] = hosts_json(p.ring);
  json["lossy"] = p.lossy;
  json["best_ring"] = nullptr;
  if (!p.best_ring.empty())
    json["best_ring"] = {{"hosts", hosts_json(p.best_ring)}, {"schedule_ns", p.best_time.ns}, {"of_all", p.every_ring}};
  json["stragglers"] = nlohmann::json::array();
  for (const Straggler& each : p.stragglers) {
    json["stragglers"].push_back({{"host", letter_of(each.host)}, {"schedule_ns", each.time.ns}});
  }
  json["losses"] = {{"heartbeat_ns", plan.heartbeat.ns},
                    {"one_costs_ns", p.loss.ns},
                    {"without_one_step_ns", p.without.ns},
                    {"half_time_ns", p.half_time.ns},
                    {"stops_ns", p.stops.ns}};
  return json;
}

int answer(const PredictFlags& flags) {
  const Plan plan = read_either(flags.file, flags.seed);
  if (!plan.network.flow.on) {
    fmt::print(stderr, "note: {} does not say net = {{ model = \"flow\" }}: each pair of hosts has a line of its own\n",
               flags.file);
  }
  const Result<Prediction> prediction = predict(plan, flags.mtu);
  if (!prediction.ok()) {
    if (prediction.error().status == Status::kInvalidArgument)
      throw UsageError(flags.file + ": " + prediction.error().text);
    fmt::print(stderr, "no answer: {}\n", prediction.error().text);
    return prediction.error().status == Status::kTimedOut ? kExitLimit : kExitGoal;
  }
  if (flags.json) {
    fmt::print("{}\n", to_json(plan, *prediction, flags.mtu).dump(2));
  } else {
    print_answer(plan, *prediction, flags.mtu);
  }
  return kExitPass;
}

}  // namespace

Run add_predict(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "predict", "predicts the algorithm and the time of a scenario's work, and names the bottleneck");
  const auto flags = std::make_shared<PredictFlags>();
  command->add_option("scenario", flags->file, "a scenario or a plan: its peers, lines and work; faults are left out")
      ->required();
  command->add_option("--seed", flags->seed, "of what the scenario draws: peers, latencies (default: 0)")
      ->check(whole_number());
  command->add_option("--mtu", flags->mtu, "rates are those of IP packets of so many bytes; 0: of payload")
      ->check(CLI::Range(kLeastMtu, 65'535U) | CLI::IsMember({0U}))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "the same facts as JSON");
  return [flags] { return answer(*flags); };
}

}  // namespace lockstep::sim
