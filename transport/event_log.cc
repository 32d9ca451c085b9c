#include "transport/event_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "transport/driver_mutant.h"

namespace lockstep::transport {

namespace {

constexpr Duration kMinute = seconds(60);
// The most bytes of a line: other hosts choose a part of the text.
constexpr std::size_t kLongestLine = 400;

std::string cut_line(std::string line) {
  if (line.size() > kLongestLine && !planted(DriverMutant::kLineUncut))
    line.replace(kLongestLine - 3, std::string::npos, "...");
  return line;
}

EventLog::Listener lines_for(const Log& log) {
  if (!log) return {};
  return {[log](const trace::Event& event) { log(cut_line(trace::to_line(event))); },
          [log](const EventLog::LeftOut& left_out) { log(to_line(left_out)); }};
}

}  // namespace

std::string to_line(const EventLog::LeftOut& left_out) {
  const std::string status =
      left_out.status == Status::kOk ? std::string() : fmt::format(" status='{}'", status_name(left_out.status));
  return fmt::format("{}{}: {} more within a minute, not listed", trace::name_of(left_out.kind), status,
                     left_out.count);
}

EventLog::EventLog(const Log& log) : EventLog(lines_for(log)) {}

void EventLog::take(const trace::Event& event, Instant now) {
  if (!listener_.event) return;
  if (now >= next_sweep_) {
    next_sweep_ = now + kMinute;
    for (auto at = minutes_.begin(); at != minutes_.end();) {
      const bool over = now - at->second.began >= kMinute;
      if (over) tell_left_out(at->first, at->second);
      if (!over) next_sweep_ = std::min(next_sweep_, at->second.began + kMinute);
      at = over ? minutes_.erase(at) : std::next(at);
    }
  }
  bool has_news = false;
  if (event.kind == trace::Kind::kInstalled || event.kind == trace::Kind::kViewChanged) {
    has_news = std::exchange(members_, event.number) != event.number;
  }
  const Kind kind{event.kind, event.status, !event.text.empty(), has_news};
  const auto [at, fresh] = minutes_.try_emplace(kind, Minute{now, 0});
  if (fresh) next_sweep_ = std::min(next_sweep_, now + kMinute);
  if (++at->second.count <= kLinesPerMinute) listener_.event(event);
}

void EventLog::close() {
  for (const auto& [kind, minute] : minutes_) tell_left_out(kind, minute);
  minutes_.clear();
}

void EventLog::tell_left_out(const Kind& kind, const Minute& minute) {
  if (minute.count <= kLinesPerMinute || planted(DriverMutant::kLeftOutUntold)) return;
  listener_.left_out({kind.kind, kind.status, minute.count - kLinesPerMinute});
}

}  // namespace lockstep::transport
