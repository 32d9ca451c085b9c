#include "sim/cli/detection.h"

#include <fmt/core.h>

#include <fstream>

#include "sim/cli/command.h"
#include "sim/words/toml_reader.h"

namespace lockstep::sim {
namespace {

constexpr auto kHead =
    "# How many seeds the simulator needs to find each planted bug: `found` searches succeeded in `seeds` seeds.\n"
    "# `./run mutants` fails when a rate falls to half of what stands here. To record the rates anew:\n"
    "#   ./run mutants --record\n";

Result<Detections> detections_of(const toml::table& table) {
  Detections all;
  for (const auto& [id, node] : table) {
    const std::string name(id.str());
    const toml::table* const entry = node.as_table();
    if (entry == nullptr) return bad(node.source(), name + " must be like {found = 5, seeds = 40}");
    Detection& detection = all[name];
    TomlReader read(*entry);
    read("found", detection.found);
    read("seeds", detection.seeds);
    if (const std::optional<Error> error = read.finish()) return *error;
    if (detection.found == 0 || detection.seeds < detection.found) {
      return bad(node.source(), name + " must have 1 or more searches in found, and as many or more in seeds");
    }
  }
  return all;
}

}  // namespace

Detections read_detections(const std::string& path) {
  try {
    Result<Detections> all = detections_of(toml::parse(read_text(path), path));
    if (!all.ok()) throw UsageError(path + ":" + all.error().text);
    return *std::move(all);
  } catch (const toml::parse_error& error) {
    throw UsageError(path + ":" + bad(error.source(), std::string(error.description())).text);
  }
}

void write_detections(const Detections& detections, const std::string& path) {
  std::ofstream file(path);
  file << kHead;
  for (const auto& [id, detection] : detections) {
    file << fmt::format("{} = {{found = {}, seeds = {}}}\n", id, detection.found, detection.seeds);
  }
  file.close();
  if (!file) throw UsageError("cannot write " + path);
}

}  // namespace lockstep::sim
