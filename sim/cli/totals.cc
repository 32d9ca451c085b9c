#include "sim/cli/totals.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "sim/cli/report_json.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

void Totals::add(const Report& report) {
  Totals one;
  static_cast<Counts&>(one) = static_cast<const Counts&>(report);
  one.seeds = 1;
  one.bytes_seeds = report.bytes_mode ? 1 : 0;
  one.hash = hash_of_seed(report);
  one.simulated_s = static_cast<double>(report.time_ns) * 1e-9;
  add(one);
}

void Totals::add(const Totals& more) {
  visit_counts([](const char*, std::uint64_t& sum, std::uint64_t value) { sum += value; }, static_cast<Counts&>(*this),
               static_cast<const Counts&>(more));
  seeds += more.seeds;
  bytes_seeds += more.bytes_seeds;
  hash ^= more.hash;
  simulated_s += more.simulated_s;
}

std::string confidence_of(const Totals& totals) {
  return fmt::format("with 95 % confidence fewer than {:#.2g} % of seeds fail",
                     300.0 / static_cast<double>(totals.seeds));
}

nlohmann::json to_json(const Totals& totals, double seconds) {
  nlohmann::json json = to_json(static_cast<const Counts&>(totals));
  json["version"] = 1;
  json["seeds"] = totals.seeds;
  json["bytes_seeds"] = totals.bytes_seeds;
  json["hash"] = hex(totals.hash);
  json["simulated_s"] = totals.simulated_s;
  json["seconds"] = seconds;
  json["seeds_per_s"] = static_cast<double>(totals.seeds) / seconds;
  json["events_per_s"] = static_cast<double>(totals.events) / seconds;
  return json;
}

Totals totals_from(const nlohmann::json& json) {
  Totals totals;
  visit_counts([&](const char* name, std::uint64_t& count) { count = json.at(name); }, static_cast<Counts&>(totals));
  totals.seeds = json.at("seeds");
  totals.bytes_seeds = json.at("bytes_seeds");
  totals.hash = std::stoull(json.at("hash").get<std::string>(), nullptr, 16);
  totals.simulated_s = json.at("simulated_s");
  return totals;
}

void print(const Totals& totals, double seconds) {
  const auto per_second = [&](auto value) { return static_cast<double>(value) / seconds; };
  fmt::print("seeds      {} ({} in bytes mode), {:.1f} per second; {:.0f} events per second\n", totals.seeds,
             totals.bytes_seeds, per_second(totals.seeds), per_second(totals.events));
  fmt::print("simulated  {:.1f} hours, {:.0f} times real time\n", totals.simulated_s / 3600,
             per_second(totals.simulated_s));
  visit_counts([](const char* name, std::uint64_t value) { fmt::print("{:<14} {}\n", name, value); },
               static_cast<const Counts&>(totals));
  fmt::print("{:<14} {}\n", "hash", hex(totals.hash));
}

}  // namespace lockstep::sim
