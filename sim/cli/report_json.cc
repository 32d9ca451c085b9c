#include "sim/cli/report_json.h"

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "sim/workload/text.h"

namespace lockstep::sim {

nlohmann::json to_json(const Counts& counts) {
  nlohmann::json json = nlohmann::json::object();
  visit_counts([&](const char* name, std::uint64_t value) { json[name] = value; }, counts);
  return json;
}

nlohmann::json to_json(const Report& report) {
  nlohmann::json json = to_json(static_cast<const Counts&>(report));
  json["seed"] = report.seed;
  json["hash"] = hex(report.hash);
  json["time_ns"] = report.time_ns;
  json["peers"] = report.peers;
  json["bytes_mode"] = report.bytes_mode;
  if (report.failure) {
    json["failure"] = {{"promise", report.failure->promise},
                       {"text", report.failure->text},
                       {"at_ns", report.failure->at_ns},
                       {"event", report.failure->event}};
  }
  return json;
}

Report report_from(const nlohmann::json& json) {
  Report report;
  visit_counts([&](const char* name, std::uint64_t& value) { value = json.at(name); }, report);
  report.seed = json.at("seed");
  report.hash = std::strtoull(json.at("hash").get<std::string>().c_str(), nullptr, 16);
  report.time_ns = json.at("time_ns");
  report.peers = json.at("peers");
  report.bytes_mode = json.at("bytes_mode");
  if (json.contains("failure")) {
    const nlohmann::json& failure = json.at("failure");
    report.failure = Failure{failure.at("promise"), failure.at("text"), failure.at("at_ns"), failure.at("event")};
  }
  return report;
}

}  // namespace lockstep::sim
