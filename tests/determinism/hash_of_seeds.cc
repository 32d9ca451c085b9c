// usage: hash_of_seeds COUNT drawn|bytes
// Prints what `lockstep sim det --seeds COUNT --mode MODE` prints, from core and sim alone: a cross compiler needs
// nothing else. Before that it encodes and decodes in every wire format, and fails where that gives other bits than
// elsewhere.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "sim/plan/plan.h"
#include "sim/world/world.h"
#include "tests/support/golden_formats.h"

namespace {

bool formats_are_as_elsewhere() {
  bool all = true;
  for (const auto format : lockstep::test::kAllFormats) {
    if (lockstep::test::hashes_of(format) == lockstep::test::golden_hashes(format)) continue;
    std::fprintf(stderr, "%s: other bits than those of tests/support/golden_formats.h\n", name_of(format).data());
    all = false;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  namespace sim = lockstep::sim;
  using Payload = sim::PlanOptions::Payload;
  const std::string_view mode = argc == 3 ? argv[2] : "";
  const std::uint64_t count = argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (count == 0 || (mode != "drawn" && mode != "bytes")) {
    std::fprintf(stderr, "usage: %s COUNT drawn|bytes\n", argv[0]);
    return 2;
  }
  if (!formats_are_as_elsewhere()) return 13;
  sim::PlanOptions options;
  options.payload = mode == "bytes" ? Payload::kBytes : Payload::kDrawn;
  std::uint64_t hash = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    hash ^= sim::hash_of_seed(sim::run(sim::plan_of(seed, options)));
  }
  std::printf("%" PRIu64 " seeds %016" PRIx64 "\n", count, hash);
  return 0;
}
