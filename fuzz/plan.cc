// A whole run in the simulator, told by bytes: no promise may break, whatever the faults.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/chosen_plan.h"
#include "fuzz/door.h"
#include "sim/plan/plan_file.h"
#include "sim/world/world.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace sim = lockstep::sim;
  lockstep::fuzz::Choices choices({data, size});
  const sim::Plan plan = lockstep::fuzz::chosen_plan(choices);
  const sim::Report report = sim::run(plan);
  if (!report.failure) return 0;
  std::fprintf(stderr, "%s broken: %s\nthe plan, for `lockstep sim replay` and `shrink`:\n%s",
               report.failure->promise.c_str(), report.failure->text.c_str(), sim::to_text(plan).c_str());
  std::abort();
}
