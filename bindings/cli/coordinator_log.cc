#include "bindings/cli/coordinator_log.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "transport/clock.h"

namespace lockstep::cli {

namespace {

// "2026-03-01T12:00:00.123Z"
std::string wall_clock() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
}

void write(const nlohmann::json& line) {
  fmt::print(stderr, "{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));  // must not throw
}

// The fields of an event that are set; the names are those of its text form.
nlohmann::json json_of(const trace::Event& event) {
  nlohmann::json line = {{"time", wall_clock()}, {"event", trace::name_of(event.kind)}};
  if (event.view.value != 0) line["view"] = event.view.value;
  if (!event.peer.is_nobody()) line["peer"] = fmt::format("{:016x}{:016x}", event.peer.high, event.peer.low);
  if (event.round.cohort.value != 0) {
    line["tag"] = event.round.tag.value;
    line["use"] = event.round.use;
    line["cohort"] = event.round.cohort.value;
    line["group"] = event.round.group.value;
  }
  if (const std::string_view number = trace::number_name_of(event.kind); !number.empty()) line[number] = event.number;
  if (event.status != Status::kOk) line["status"] = status_name(event.status);
  if (!event.text.empty()) line["text"] = event.text;
  return line;
}

}  // namespace

void CoordinatorLog::event(const trace::Event& event) {
  if (!lists(event)) return;
  if (event.kind == trace::Kind::kCommitted) return list(event);
  calm_.take(event, transport::now());
}

void CoordinatorLog::list(const trace::Event& event) const {
  if (json_) {
    write(json_of(event));
  } else {
    fmt::print(stderr, "{} {}\n", wall_clock(), trace::to_line(event));
  }
}

void CoordinatorLog::list(const transport::EventLog::LeftOut& left_out) const {
  if (json_) {
    nlohmann::json line = {{"time", wall_clock()},
                           {"event", "left-out"},
                           {"of", trace::name_of(left_out.kind)},
                           {"count", left_out.count}};
    if (left_out.status != Status::kOk) line["status"] = status_name(left_out.status);
    write(line);
  } else {
    fmt::print(stderr, "{} {}\n", wall_clock(), transport::to_line(left_out));
  }
}

bool CoordinatorLog::lists(const trace::Event& event) {
  if (event.kind != trace::Kind::kCommitted || commits_) return true;
  return !event.text.empty() && std::exchange(differ_[event.round.group], event.text) != event.text;
}

void CoordinatorLog::note(std::string_view text) {
  if (json_) {
    write({{"time", wall_clock()}, {"event", "note"}, {"text", text}});
  } else {
    fmt::print(stderr, "{} {}\n", wall_clock(), text);
  }
}

}  // namespace lockstep::cli
