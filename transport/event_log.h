// Selects the events that become lines of a log for people. Strangers can cause some events as often as they like, and
// a program causes others with each call. Of similar events (of one kind and status), the log contains a few per
// minute, then the number of omitted ones. Consumers that must not miss an event (journals, recordings, the simulator)
// do not use this class.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/trace/event.h"
#include "transport/log.h"

namespace lockstep::transport {

class EventLog {
 public:
  // The most lines per minute for similar events. With this limit, all kinds together stay below 64 KiB.
  static constexpr std::uint64_t kLinesPerMinute = 10;

  struct LeftOut {
    trace::Kind kind = trace::Kind::kPeerRefused;
    Status status = Status::kOk;
    std::uint64_t count = 0;
  };
  struct Listener {
    std::function<void(const trace::Event&)> event;
    std::function<void(const LeftOut&)> left_out;
  };

  explicit EventLog(Listener listener) : listener_(std::move(listener)) {}
  // Writes lines of text; `log` may be empty.
  explicit EventLog(const Log& log);
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  ~EventLog() { close(); }

  void take(const trace::Event& event, Instant now);
  // Reports omitted events that were not reported yet.
  void close();

 private:
  struct Kind {
    trace::Kind kind = trace::Kind::kPeerRefused;
    Status status = Status::kOk;
    bool has_text = false;
    bool has_news = false;  // the number of members has changed
    auto operator<=>(const Kind&) const = default;
  };
  struct Minute {
    Instant began;
    std::uint64_t count = 0;
  };
  void tell_left_out(const Kind& kind, const Minute& minute);

  Listener listener_;
  std::map<Kind, Minute> minutes_;
  std::optional<std::uint64_t> members_;  // as last reported
  Instant next_sweep_;
};

// "peer-refused status='protocol error': 1234 more within a minute, not listed".
std::string to_line(const EventLog::LeftOut& left_out);

}  // namespace lockstep::transport
