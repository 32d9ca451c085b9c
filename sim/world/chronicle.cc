#include "sim/world/chronicle.h"

#include <utility>

#define XXH_INLINE_ALL  // four words at a time
#include <xxhash.h>

#include "sim/workload/text.h"
#include "sim/world/witness.h"

namespace lockstep::sim {

Chronicle::Chronicle(const WorldOptions& options, std::uint64_t seed, const Instant& now)
    : options_(options), now_(now), hash_(seed) {
  report.seed = seed;
}

void Chronicle::tell(const std::string& line) {
  if (options_.trace) options_.trace(text_of(now_) + " " + line);
}

void Chronicle::mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  const std::uint64_t fields[4] = {a, b, c, d};
  hash_ = XXH3_64bits_withSeed(fields, sizeof fields, hash_);
}

void Chronicle::say(const SimProcess& process, const std::string& line) {
  if (!traces()) return;
  const std::string who =
      process.coordinator ? "coordinator" : "h" + std::to_string(process.host) + " " + text_of(process.id);
  tell(who + " " + line);
}

void Chronicle::observe(const SimProcess& process, const std::string& line) {
  if (options_.observe) options_.observe(process.host, line);
}

void Chronicle::fail(std::string promise, std::string text) {
  over_ = true;
  if (report.failure) return;
  report.failure = Failure{std::move(promise), std::move(text), now_.ns, report.events};
  if (options_.witness != nullptr) options_.witness->failed(*report.failure, judged_);
  tell(report.failure->promise + " BROKEN: " + report.failure->text);
}

void Chronicle::check(const char* promise, Complaint complaint) {
  if (complaint && !waived_.contains(promise)) fail(promise, *std::move(complaint));
}

std::string Chronicle::what_happened() const {
  std::string out;
  for (std::size_t what = 0; what < kWhatCount; ++what) {
    if (happened_[what] == 0) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(happened_[what]) + " " +
           std::string(name_of(static_cast<What>(what)));
  }
  return out;
}

}  // namespace lockstep::sim
