#include "sim/explain/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::sim {
namespace {

constexpr std::size_t kFields = 40;  // of a message, in bytes
constexpr std::size_t kWidth = 160;  // of the words of one moment
constexpr auto kNotShown = std::to_array<std::string_view>(
    {"streams", "queued bytes", "remembered outcomes", "waiting for admission", "calls"});

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

// "gets Propose{number: 2, view: {term...} from h1"
std::string brief(const std::string& text) {
  const std::size_t open = text.find('{');
  const std::size_t close = text.rfind('}');
  if (!text.starts_with("gets ") || close == std::string::npos || close - open <= kFields) return text;
  return text.substr(0, open + kFields - 3) + "..." + text.substr(close);
}

std::string who_of(const History& history, const Moment& moment) {
  return moment.lane == kNoLane ? "nemesis" : history.lanes[moment.lane].name;
}

std::string causes_of(const Moment& moment, const std::vector<MomentId>& slice) {
  std::string text;
  for (const Cause& cause : moment.causes) {
    if (!std::binary_search(slice.begin(), slice.end(), cause.moment)) continue;
    text += fmt::format("{}{}#{}", text.empty() ? "" : " ", name_of(cause.because), cause.moment);
  }
  return text;
}

}  // namespace

std::string change_of(const History& history, const Moment& moment) {
  const State& before = history.states[moment.before];
  std::string text;
  for (const auto& field : history.states[moment.after]) {
    const auto& [name, value] = field;
    const auto was =
        std::find_if(before.begin(), before.end(), [&](const auto& other) { return other.first == field.first; });
    if (was != before.end() && was->second == value) continue;
    if (std::find(kNotShown.begin(), kNotShown.end(), name) != kNotShown.end()) continue;
    if (before.empty() && (value == "0" || value == "none" || value == "nobody")) continue;
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : "; ", name, was == before.end() ? "" : was->second + " -> ",
                        value);
  }
  return text;
}

std::string listing_of(const History& history, const std::vector<MomentId>& slice) {
  std::size_t widest = 0;
  for (const MomentId id : slice) widest = std::max(widest, who_of(history, history.moments[id]).size());
  std::string out;
  for (const MomentId id : slice) {
    const Moment& moment = history.moments[id];
    const std::string head = fmt::format("{:>6} {:>11.6f} {:<{}} ", fmt::format("#{}", id),
                                         static_cast<double>(moment.at_ns) * 1e-9, who_of(history, moment), widest);
    const std::string causes = causes_of(moment, slice);
    std::string words;
    for (const std::string& text : moment.ins) words += (words.empty() ? "" : "; ") + brief(text);
    for (const std::string& text : moment.outs) words += (words.empty() ? "" : "; ") + text;
    out += head + cut(words, kWidth) + (causes.empty() ? "" : "  <- " + causes) + "\n";
    const std::string change = change_of(history, moment);
    if (!change.empty() && moment.spark != Spark::kFailure) out += fmt::format("{:{}}| {}\n", "", head.size(), change);
  }
  return out;
}

}  // namespace lockstep::sim
